"""Orders of training nodes by nearness and by cluster: searches equal plain twins; batches are near, and mixed."""

from __future__ import annotations

from collections import deque
from itertools import islice

import numpy as np
import pytest

from any2vec.kernels.graph.traversal import deal_in_turn
from any2vec.plan.order.clusters import ClusterOrder
from any2vec.plan.order.proximity import (
    LOOKED_AT,
    SEQUENCES,
    TOLERANCE,
    ProximityOrder,
    breadth_first_sequences,
    spread,
)
from any2vec.plan.order.shuffle import random_order
from any2vec.types import Csr

NUM = 400


def ring(num: int = NUM) -> Csr:
    """Each node beside the two nodes next to it."""
    near = np.stack([np.arange(num) - 1, np.arange(num) + 1], axis=1) % num
    indices = np.sort(near, axis=1).reshape(-1).astype(np.int32)
    return Csr(np.arange(0, 2 * num + 1, 2), indices, np.empty(0, np.float32))


def random_graph(seed: int) -> Csr:
    rng = np.random.default_rng(seed)
    degree_N = rng.integers(0, 4, 120)
    indptr = np.concatenate([[0], np.cumsum(degree_N)])
    return Csr(indptr, rng.integers(0, 120, indptr[-1]).astype(np.int32), np.empty(0, np.float32))


def searched(csr: Csr, train: list[int], roots: list[int]) -> list[int]:
    """Places of training nodes as a plain breadth-first search finds them."""
    seen: set[int] = set()
    found = []
    for root in roots:
        waiting = deque([root] if root not in seen else [])
        seen.add(root)
        while waiting:
            node = waiting.popleft()
            found += [train.index(node)] if node in train else []
            for neighbor in csr.indices[csr.indptr[node] : csr.indptr[node + 1]].tolist():
                if neighbor not in seen:
                    seen.add(neighbor)
                    waiting.append(neighbor)
    return found


@pytest.mark.parametrize("seed", [0, 1])
def test_sequences_are_those_of_a_plain_search(seed: int) -> None:
    csr, train = random_graph(seed), np.arange(1, 120, 3)
    found_ST = islice(breadth_first_sequences(csr, train, seed), 3)
    for s, found_T in enumerate(map(np.ndarray.tolist, found_ST)):
        roots = train[random_order(len(train), seed, s)].tolist()
        assert found_T == searched(csr, train.tolist(), roots)


def test_each_sequence_gives_in_turn_what_was_not_given_yet() -> None:
    sequence_ST = np.array([[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]], np.int32)
    found_T = np.empty(5, np.int64)
    deal_in_turn(sequence_ST, np.array([1, 0]), np.zeros(5, np.uint8), found_T)
    assert found_T.tolist() == [1, 4, 2, 3, 0]  # 3 and 4 are gone when the first sequence comes to them: round its end


def test_batches_of_a_ring_are_neighbors_and_every_epoch_has_every_node_once() -> None:
    train = np.arange(0, NUM, 2)
    order = ProximityOrder(ring(), train, np.arange(len(train)) % 2, 20, seed=3)
    assert order.num_sequences == 1  # classes alternate around the ring: any piece of it is mixed
    epochs = [order.order(epoch) for epoch in range(3)]
    for found_T in epochs:
        assert np.array_equal(np.sort(found_T), np.arange(len(train)))
    assert not np.array_equal(epochs[0], epochs[1])
    first = np.sort(train[epochs[0][:20]])
    gaps = np.diff(np.concatenate([first, first[:1] + NUM]))
    assert np.count_nonzero(gaps > 2) <= 3  # two arms of a search, and where it began: three pieces at most


def mixed(orders: list[np.ndarray], labels: np.ndarray, size: int) -> float:
    return float(np.mean([spread(found, labels, size) for found in orders]))


def test_classes_that_lie_together_ask_for_more_sequences() -> None:
    train = np.arange(NUM)
    labels = train * 20 // NUM % 2
    order = ProximityOrder(ring(), train, labels, 10, seed=1)
    assert order.num_sequences in SEQUENCES[1:]
    random = [random_order(NUM, 1, epoch) for epoch in range(LOOKED_AT)]
    near = [order.order(epoch) for epoch in range(LOOKED_AT)]
    assert mixed(near, labels, 10) <= (1 + TOLERANCE) * mixed(random, labels, 10)


def test_the_order_is_random_where_no_number_of_sequences_suffices() -> None:
    labels = np.arange(NUM) * 2 // NUM
    order = ProximityOrder(ring(), np.arange(NUM), labels, 50, seed=1)
    assert order.num_sequences == 0
    assert np.array_equal(order.order(7), random_order(NUM, 1, 7))


def test_spread_of_classes() -> None:
    labels = np.array([0, 0, 1, 1])
    assert spread(np.array([0, 1, 2, 3]), labels, 2) == 0.5
    assert spread(np.array([0, 2, 1, 3]), labels, 2) == 0
    several = np.array([[1, 1], [1, 1], [0, 1], [1, 0]], np.uint8)
    assert spread(np.array([0, 1, 2, 3]), several, 2) == 0
    assert spread(np.array([0, 2, 1, 3]), several, 2) == 0.25


def test_nodes_of_a_cluster_come_together_and_every_epoch_is_another() -> None:
    part_T = np.random.default_rng(0).integers(0, 6, 50)
    part_T[part_T == 2] = 3
    order = ClusterOrder(part_T, 6, seed=4, about="6 parts")
    orders = [order.order(epoch) for epoch in range(4)]
    turns = set()
    for found_T in orders:
        assert np.array_equal(np.sort(found_T), np.arange(50))
        parts = part_T[found_T]
        starts = np.flatnonzero(parts != np.roll(parts, 1))  # round the end
        assert len(starts) == 5  # one is empty
        turns.add(tuple(parts[starts].tolist()))
    assert len(turns) == 4 and not np.array_equal(orders[0], orders[1])
    assert any(part_T[found_T[0]] == part_T[found_T[-1]] for found_T in orders)  # cut within a cluster, by rotation
    again = ClusterOrder(part_T, 6, seed=4, about="")
    assert np.array_equal(again.order(2), orders[2])
    inner = [found_T[part_T[found_T] == 0].tolist() for found_T in orders]
    assert len({tuple(one) for one in inner}) == 4

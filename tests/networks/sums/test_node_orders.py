"""Orders of nodes: each finds what was planted, and the reordered graph is the same graph."""

from __future__ import annotations

import numpy as np
import pytest

from any2vec.kernels.graph.partitioning import propagate_labels
from any2vec.plan.sharding import node_orders as nodes
from any2vec.plan.sharding.node_orders import NODE_ORDERS, communities, node_order, places_of, reordered
from any2vec.types import Csr
from marks import needs_metis, uint64_wraps
from naive.models.labels import propagated

pytestmark = uint64_wraps
CLIQUES, SIZE = 12, 20


def csr_of(matrix: np.ndarray) -> Csr:
    """Row i of it are the in-neighbors of node i."""
    rows, columns = np.nonzero(matrix)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(matrix)))])
    return Csr(indptr, columns.astype(np.int32), np.empty(0, np.float32))


def dense(csr: Csr) -> np.ndarray:
    num = len(csr.indptr) - 1
    found = np.zeros((num, num))
    values = csr.weights if len(csr.weights) else 1
    found[np.repeat(np.arange(num), np.diff(csr.indptr)), csr.indices] = values
    return found


def cliques(seed: int = 0) -> tuple[Csr, np.ndarray]:
    """Shuffled cliques on a ring of single edges, and the clique of each node."""
    num = CLIQUES * SIZE
    matrix = np.kron(np.eye(CLIQUES), np.ones((SIZE, SIZE))) - np.eye(num)
    ends = np.arange(0, num, SIZE)
    matrix[ends, (ends + SIZE + 1) % num] = matrix[(ends + SIZE + 1) % num, ends] = 1
    order = np.random.default_rng(seed).permutation(num)
    return csr_of(matrix[order][:, order]), order // SIZE


def random_matrix(seed: int, num: int = 40) -> np.ndarray:
    return (np.random.default_rng(seed).random((num, num)) < 0.1).astype(float)


@pytest.mark.parametrize("method", [name for name in NODE_ORDERS if name not in ("metis", "gcod")])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_reordered_graph_is_the_same_graph(method: str, seed: int) -> None:
    """Of directed graphs with loops, with weights and without."""
    matrix = random_matrix(seed)
    plain = csr_of(matrix)
    order = node_order(plain, method)
    assert sorted(order.tolist()) == list(range(40))
    assert np.array_equal(order, node_order(plain, method))
    found = reordered(plain, order)
    assert np.array_equal(dense(found), matrix[order][:, order])
    assert all((np.diff(found.indices[a:b]) > 0).all() for a, b in zip(found.indptr, found.indptr[1:], strict=False))
    assert np.array_equal(order[places_of(order)], np.arange(40))
    weights = np.random.default_rng(seed).random(len(plain.indices)).astype(np.float32)
    weighted = plain._replace(weights=weights)
    assert np.array_equal(dense(reordered(weighted, order)), dense(weighted)[order][:, order])


def test_degree_puts_hubs_first_and_leaves_ties() -> None:
    csr = csr_of(np.array([[0, 0, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [1, 0, 1, 0]]))
    assert node_order(csr, "degree").tolist() == [1, 3, 2, 0]
    assert node_order(csr, "none").tolist() == [0, 1, 2, 3]


def test_cuthill_mckee_finds_the_way_round_a_path() -> None:
    """Of a shuffled path neighbors stand side by side; of a directed one, too."""
    num = 200
    for is_directed in (False, True):
        matrix = np.diag(np.ones(num - 1), 1)
        matrix = matrix if is_directed else matrix + matrix.T
        order = np.random.default_rng(3).permutation(num)
        csr = csr_of(matrix[order][:, order])
        rows, columns = np.nonzero(dense(reordered(csr, node_order(csr, "rcm"))))
        assert np.abs(rows - columns).max() == 1


@pytest.mark.parametrize("method", ["communities", pytest.param("metis", marks=needs_metis)])
def test_cliques_come_to_stand_together(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "BLOCK", SIZE)
    csr, clique_N = cliques()
    in_order = clique_N[node_order(csr, method)]
    assert np.count_nonzero(np.diff(in_order)) == CLIQUES - 1


@pytest.mark.parametrize("most", [1, 7, 400])
def test_labels_equal_the_twin_and_keep_the_bound(most: int) -> None:
    matrix = random_matrix(5, 60) + np.eye(60)
    csr = csr_of(np.maximum(matrix, matrix.T))
    edges = [csr.indices[a:b].tolist() for a, b in zip(csr.indptr, csr.indptr[1:], strict=False)]
    label, sizes, expected = np.arange(60, dtype=np.int32), np.ones(60, np.int64), list(range(60))
    count, room = np.zeros(60, np.int32), np.empty(60, np.int32)
    for number in range(4):
        turns = np.random.default_rng(number).permutation(60)
        moved = propagate_labels(csr.indptr, csr.indices, turns, most, label, sizes, count, room)
        assert moved == propagated(edges, turns.tolist(), most, expected)
        assert label.tolist() == expected and not count.any()
        assert np.array_equal(sizes, np.bincount(label, minlength=60)) and sizes.max() <= most
    assert np.bincount(communities(csr, most)).max() <= most
    assert (most == 1) == (len(np.unique(label)) == 60)


def test_a_graph_without_edges_has_orders() -> None:
    csr = Csr(np.zeros(4, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))
    for method in ("degree", "rcm", "communities"):
        assert sorted(node_order(csr, method).tolist()) == [0, 1, 2]

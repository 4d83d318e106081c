"""Subgraphs: equal to plain twins, the same for any threads, each cluster once an epoch; counts that are chances."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from any2vec.data.graph.reader import read_graph
from any2vec.data.options import GraphOptions
from any2vec.errors import InputError
from any2vec.kernels.common.rng import PURPOSE_SUBGRAPH, stream_key
from any2vec.plan.order.proximity import breadth_first_sequences
from any2vec.plan.sharding.clusters import PASSES, Clusters, find_clusters, greedy_parts
from any2vec.sampling.subgraphs import ClusterSampler, Presampled, Subgraph, SubgraphSampler, WalkSampler
from any2vec.types import Csr
from marks import uint64_wraps, with_metis
from naive.models import subgraphs as naive

pytestmark = uint64_wraps
NODES = 90


def random_csr(seed: int = 0, num_edges: int = 400) -> Csr:
    """Directed; some nodes have no neighbors."""
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, NODES - 5, num_edges), rng.integers(0, NODES, num_edges)
    edges[0][:1], edges[1][:1] = NODES - 6, NODES - 1
    return read_graph(edges, GraphOptions(directed=True)).csr


def rows_of(csr: Csr) -> list[list[int]]:
    return [csr.indices[a:b].tolist() for a, b in pairwise(csr.indptr.tolist())]


def clusters_of(csr: Csr, num: int, seed: int = 0) -> Clusters:
    part_N = np.random.default_rng(seed).integers(0, num, len(csr.indptr) - 1).astype(np.int32)
    part_N[part_N == 1] = 0  # one is empty
    return Clusters(part_N, num, "metis", 0.5)


def check_edges(csr: Csr, found: Subgraph) -> None:
    """They are those of a plain twin."""
    expected = naive.induce(rows_of(csr), found.node_M.tolist())
    for m, (a, b) in enumerate(pairwise(found.stop_M1.tolist())):
        first = csr.indptr[found.node_M[m]]
        assert found.neighbor_S[a:b].tolist() == [number for number, _ in expected[m]]
        assert found.edge_S[a:b].tolist() == [first + place for _, place in expected[m]]
    assert len(found.stop_M1) == len(found.node_M) + 1 and found.stop_M1[-1] == len(found.edge_S)


@pytest.mark.parametrize("halo", [0, 1, 2])
def test_batches_of_clusters_are_those_of_a_plain_twin(halo: int) -> None:
    csr = random_csr()
    clusters, rows = clusters_of(csr, 7), rows_of(csr)
    sampler = ClusterSampler(csr, clusters, 2, halo, seed=3)
    assert sampler.num_batches == 4
    orders = []
    for epoch in range(3):
        seen: list[int] = []
        for batch in range(4):
            found = sampler.sample(epoch, batch, with_edges=True)
            own = found.node_M[found.is_own_M].tolist()
            around = set(own)
            for _ in range(halo):
                around |= {neighbor for node in around for neighbor in rows[node]}
            assert found.node_M.tolist() == sorted(around) and own == sorted(own)
            assert len(set(clusters.part_N[own].tolist())) <= 2
            check_edges(csr, found)
            seen += own
        assert sorted(seen) == list(range(len(rows)))
        orders.append(seen)
    assert orders[0] != orders[1]


def test_walks_are_those_of_a_plain_twin() -> None:
    csr, roots = random_csr(num_edges=150), np.array([3, 8, 11, 40, 41, 89])
    sampler, rows = WalkSampler(csr, roots, 4, 5, seed=9), rows_of(csr)
    assert sampler.num_batches == 2 and any(not row for row in rows)
    ended = 0
    for epoch, batch in ((0, 0), (0, 1), (5, 1)):
        key = int(stream_key(int(stream_key(9, PURPOSE_SUBGRAPH, epoch)), batch))
        walks = naive.walk_from(rows, roots.tolist(), key, 4, 5)
        ended += sum(len(walk) < 5 for walk in walks)
        found = sampler.sample(epoch, batch, with_edges=True)
        assert found.node_M.tolist() == sorted({node for walk in walks for node in walk}) and found.is_own_M.all()
        check_edges(csr, found)
    assert ended
    assert WalkSampler(csr, roots, 100, 1, seed=9).num_batches == 1


@pytest.mark.parametrize("kind", ["cluster", "halo", "walks"])
def test_any_number_of_threads_gives_the_same_batches(kind: str) -> None:
    csr = random_csr(1)

    def made() -> SubgraphSampler:
        if kind == "walks":
            return WalkSampler(csr, np.arange(0, NODES, 3), 8, 4, seed=2)
        return ClusterSampler(csr, clusters_of(csr, 12), 3, int(kind == "halo"), seed=2)

    asked = [(epoch, batch) for epoch in range(6) for batch in range(4)]
    one = made()
    expected = [one.sample(*pair) for pair in asked]
    other = made()
    with ThreadPoolExecutor(4) as pool:
        for found, known in zip(pool.map(lambda pair: other.sample(*pair), asked[::-1]), expected[::-1], strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(found, known, strict=True))


def test_a_thread_that_runs_out_of_numbers_begins_anew() -> None:
    csr = random_csr()
    sampler = ClusterSampler(csr, clusters_of(csr, 5), 2, 0, seed=1)
    expected = sampler.sample(0, 0)
    scratch = sampler._scratch.of_thread()
    scratch.base = (1 << 31) - 1 - 10
    for found in (sampler.sample(0, 0), sampler.sample(0, 0)):
        assert np.array_equal(found.neighbor_S, expected.neighbor_S)
    assert scratch.base < 10 * NODES


def test_counts_are_chances() -> None:
    """A path 0 - 1 - 2 - 3 whose walks of two nodes begin at 0 or 3: chances can be said by heart.

    A walk from 0 has 0 and 1, one from 3 has 3 and 2; a batch of one walk has one of these pairs, each half the time.
    """
    csr = read_graph((np.array([0, 1, 2]), np.array([1, 2, 3]))).csr
    one = WalkSampler(csr, np.array([0, 3]), 1, 2, seed=4).presample(500)
    assert one.num == 1000 and one.node_N[0] + one.node_N[3] == 1000
    assert one.node_N[0] == one.node_N[1] == pytest.approx(500, abs=5 * np.sqrt(250))
    rows = np.repeat(np.arange(4), np.diff(csr.indptr))
    for row, column, count in zip(rows, csr.indices, one.edge_E, strict=True):
        assert count == (0 if {row, column} == {1, 2} else one.node_N[row])
    two = WalkSampler(csr, np.array([0, 3]), 2, 2, seed=4).presample(2000)
    among = two.edge_E[(rows == 1) & (csr.indices == 2)]
    assert two.num == 2000 and among == pytest.approx(1000, abs=5 * np.sqrt(500))
    assert two.node_N[1] == pytest.approx(1500, abs=5 * np.sqrt(375))


def test_weights_are_one_over_chances() -> None:
    seen = Presampled(100, np.array([50, 10, 0], np.int32), np.array([25, 0, 10], np.int32))
    np.testing.assert_allclose(seen.loss_weights(np.array([0, 1, 2]), 4), [0.5, 2.5, 25])
    found = Subgraph(np.array([0, 1], np.int32), np.ones(2, bool), np.array([0, 2, 3]), np.zeros(3, np.int32),
                     np.array([0, 1, 2]))  # fmt: skip
    np.testing.assert_allclose(seen.edge_shares(found), [2, 50, 1])


def test_normalized_losses_are_right_in_the_mean() -> None:
    """Over many batches the mean of weighted losses is the mean over the training nodes."""
    csr, roots = random_csr(2), np.arange(0, NODES, 4)
    sampler = WalkSampler(csr, roots, 6, 3, seed=5)
    seen, value_N = sampler.presample(400), np.random.default_rng(0).normal(size=NODES)
    is_root, losses = np.isin(np.arange(NODES), roots), []
    for batch in range(3000):
        node_M = sampler.nodes(7, batch)[0]
        node_K = node_M[is_root[node_M]]
        losses.append(float((value_N[node_K] * seen.loss_weights(node_K, len(roots))).sum()))
    error = np.std(losses) / np.sqrt(len(losses)) + np.abs(value_N[roots]).mean() / np.sqrt(seen.num)
    assert abs(np.mean(losses) - value_N[roots].mean()) < 4 * error


@pytest.mark.parametrize("method", [with_metis("metis"), "ldg"])
def test_clusters_are_found(method: Any) -> None:
    """Ten cliques of eight in a ring: either way cuts few edges, blocks are even, and the same seed gives the same."""
    edges = [(b * 8 + i, b * 8 + j) for b in range(10) for i in range(8) for j in range(i)]
    edges += [(b * 8, (b + 1) % 10 * 8 + 1) for b in range(10)]
    csr = read_graph(tuple(np.array(edges).T)).csr
    found = find_clusters(csr, 10, method, seed=2)
    assert found.part_N.dtype == np.int32 and found.num == 10 and found.method == method
    sizes = np.bincount(found.part_N, minlength=10)
    rows = np.repeat(np.arange(80), np.diff(csr.indptr))
    assert found.cut_share == (found.part_N[rows] != found.part_N[csr.indices]).mean() < 0.45
    assert method == "metis" or sizes.max() <= 8
    member_N, start_P1 = found.members()
    for part in range(10):
        assert member_N[start_P1[part] : start_P1[part + 1]].tolist() == np.flatnonzero(found.part_N == part).tolist()
    assert np.array_equal(found.part_N, find_clusters(csr, 10, method, seed=2).part_N)
    assert "10 parts by " + method in found.sentence()
    with pytest.raises(InputError, match="num_parts must be a whole number from 1 to 80"):
        find_clusters(csr, 81, method, seed=2)


@pytest.mark.parametrize("seed", [0, 1])
def test_greedy_parts_are_those_of_a_plain_twin(seed: int) -> None:
    csr = random_csr(seed)
    order_N = next(breadth_first_sequences(csr, np.arange(NODES), seed))
    part: list[int] = [-1] * NODES
    for _ in range(PASSES):
        part = naive.assign_greedily(rows_of(csr), order_N.tolist(), 7, part)
    found = greedy_parts(csr, 7, seed)
    assert found.tolist() == part and max(np.bincount(found)) <= 13


def test_clusters_without_metis_are_greedy(monkeypatch: pytest.MonkeyPatch) -> None:
    csr = random_csr()
    monkeypatch.setattr("any2vec.plan.sharding.clusters.has_metis", lambda: False)
    assert find_clusters(csr, 3, None, seed=2).method == "ldg"

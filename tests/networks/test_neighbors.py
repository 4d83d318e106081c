"""Sampled neighborhoods: equal to the plain twin, the same for any threads and company, of the laws that they state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations, pairwise, permutations
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from any2vec.data.graph.reader import read_graph
from any2vec.data.options import GraphOptions
from any2vec.errors import InputError
from any2vec.kernels.common.rng import PURPOSE_NEIGHBOR, stream_key
from any2vec.kernels.graph.neighbors import CHUNK
from any2vec.sampling.neighbors import Neighborhood, NeighborOptions, NeighborSampler
from any2vec.types import Csr
from marks import uint64_wraps
from naive.models import neighbors as naive
from naive.models.walks import build_alias


def random_csr(num_nodes: int = 300, num_edges: int = 4000, seed: int = 1) -> Csr:
    """Directed, weighted; low ids are hubs."""
    rng = np.random.default_rng(seed)
    src = np.minimum(*rng.integers(0, num_nodes, (2, num_edges)))
    edges = (src, rng.integers(0, num_nodes, num_edges), rng.random(num_edges) ** 4 + 1e-4)
    return read_graph(edges, GraphOptions(directed=True)).csr


def rows_of(csr: Csr) -> list[list[tuple[int, float]]]:
    indptr, indices, weights = (array.tolist() for array in csr)
    return [list(zip(indices[a:b], weights[a:b], strict=True)) for a, b in pairwise(indptr)]


def star(degree: int, weights: Any = None) -> Csr:
    """Node 0 has neighbors 1 to `degree`, none of which has any."""
    indptr = np.full(degree + 2, degree, np.int64)
    indptr[0] = 0
    weight = np.ones(degree) if weights is None else weights
    return Csr(indptr, np.arange(1, degree + 1, dtype=np.int32), np.asarray(weight, np.float32))


def keys_of(seed: int, epoch: int, number: int, hops: int) -> list[int]:
    key = int(stream_key(seed, PURPOSE_NEIGHBOR, epoch))
    return [int(stream_key(key, hop, number)) for hop in range(hops)]


pytestmark = uint64_wraps
CASES = [("uniform", False), ("uniform", True), ("labor", False), ("weighted", False), ("weighted", True)]


@pytest.mark.parametrize("fanouts", [(5, 3), (1,), (-1, 4), (70, 2, -1)])
@pytest.mark.parametrize(("law", "replace"), CASES)
def test_equal_to_plain_twin(law: Any, replace: bool, fanouts: tuple[int, ...]) -> None:
    csr = random_csr()
    sampler = NeighborSampler(csr, NeighborOptions(fanouts=fanouts, law=law, replace=replace, seed=7))
    rows = rows_of(csr)
    tables = [build_alias([weight for _, weight in row]) if row else ([], []) for row in rows]
    seeds = np.random.default_rng(2).permutation(len(rows))[:40]
    for epoch in (0, 3):
        got = sampler.sample(seeds, epoch, with_edges=True)
        keys = keys_of(7, epoch, 0, len(fanouts))
        found, sampled = naive.sample(rows, seeds.tolist(), fanouts, law, replace, keys, tables)
        for i, (start, stop) in enumerate(pairwise(got.stop_D1.tolist())):
            mine = got.node_M[got.neighbor_S[start:stop]].tolist()
            expected = sampled[int(got.node_M[i])]
            assert sorted(mine) == sorted(expected), i
            assert law == "labor" or mine == expected
        assert sorted(got.node_M.tolist()) == sorted(found)
        assert law == "labor" or got.node_M.tolist() == found
        check_form(csr, got, seeds)


def check_form(csr: Csr, got: Neighborhood, seeds: np.ndarray) -> None:
    """What holds of every neighborhood."""
    assert got.node_M[: len(seeds)].tolist() == seeds.tolist()
    assert len(set(got.node_M.tolist())) == len(got.node_M) == sum(got.nodes_by_hop)
    assert len(got.neighbor_S) == sum(got.edges_by_hop) == got.stop_D1[-1]
    assert len(got.stop_D1) - 1 == sum(got.nodes_by_hop[:-1])
    src, dst = got.edge_index()
    assert (csr.indices[got.edge_S] == got.node_M[src]).all()
    row = np.searchsorted(csr.indptr, got.edge_S, side="right") - 1
    assert (row == got.node_M[dst]).all()
    seen = np.cumsum(got.nodes_by_hop)
    for hop, stop in enumerate(np.cumsum(got.edges_by_hop)):
        assert (src[:stop] < seen[hop + 1]).all() and (dst[:stop] < seen[hop]).all()


def test_rows_longer_than_a_chunk_are_whole() -> None:
    csr = star(3 * CHUNK + 5)
    for fanout, size in ((-1, 3 * CHUNK + 5), (2 * CHUNK, 2 * CHUNK)):
        got = NeighborSampler(csr, NeighborOptions(fanouts=(fanout,))).sample(np.array([0, 7]), with_edges=True)
        assert got.edges_by_hop == (size,) and len(set(got.edge_S.tolist())) == size
        check_form(csr, got, np.array([0, 7]))


def test_a_node_keeps_its_sample_whoever_is_beside_it() -> None:
    csr = random_csr(2000, 60_000)

    def own(got: Neighborhood) -> list[int]:
        return sorted(got.edge_S[: got.stop_D1[1]].tolist())

    def of(key: Any, seeds: Any, epoch: int, batch: int) -> list[int]:
        sampler = NeighborSampler(csr, NeighborOptions(fanouts=(5, 5), key=key, seed=3))
        return own(sampler.sample(np.asarray(seeds), epoch, batch, with_edges=True))

    hub = int(np.argmax(np.diff(csr.indptr)))
    alone = of("epoch", [hub], 1, 0)
    assert of("epoch", [hub, 900, 901], 1, 5) == alone != of("epoch", [hub], 2, 0)
    batch = of("batch", [hub], 1, 0)
    assert of("batch", [hub, 900], 1, 0) == batch != of("batch", [hub], 1, 1)


@pytest.mark.parametrize("law", ["uniform", "labor", "weighted"])
def test_the_same_for_any_number_of_threads(law: Any) -> None:
    csr = random_csr(3000, 90_000)
    options = NeighborOptions(fanouts=(7, 5), law=law, key="batch")
    batches = np.random.default_rng(1).permutation(3000).reshape(30, 100)

    def run(threads: int) -> list[Neighborhood]:
        sampler = NeighborSampler(csr, options)
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(lambda b: sampler.sample(batches[b], 2, b), range(30)))

    for one, other in zip(run(1), run(4), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def counts(csr: Csr, size: int, draws: int, law: Any, replace: bool, form: Callable[[list[int]], Any]) -> Counter[Any]:
    """How often each sample of node 0 came, in the form that the law speaks of."""
    sampler = NeighborSampler(csr, NeighborOptions(fanouts=(size,), law=law, replace=replace, seed=11))
    samples = (sampler.sample(np.array([0]), epoch, with_edges=True).edge_S.tolist() for epoch in range(draws))
    return Counter(form(sample) for sample in samples)


def check_law(found: Counter[Any], expected: dict[Any, float], draws: int) -> None:
    assert set(found) <= set(expected) and sum(expected.values()) == pytest.approx(1)
    square = sum((found[what] - draws * share) ** 2 / (draws * share) for what, share in expected.items())
    assert square < chi2.isf(1e-4, len(expected) - 1), (square, len(expected))


def sets(sample: list[int]) -> tuple[int, ...]:
    return tuple(sorted(sample))


@pytest.mark.parametrize("law", ["uniform", "labor"])
def test_every_set_is_drawn_alike(law: Any) -> None:
    choices = list(combinations(range(7), 3))
    found = counts(star(7), 3, 20_000, law, False, sets)
    check_law(found, {choice: 1 / len(choices) for choice in choices}, 20_000)


def test_hubs_are_drawn_alike_beyond_the_bits() -> None:
    """Rows longer than 64 share bits of the set of taken places."""
    sampler = NeighborSampler(star(1000), NeighborOptions(fanouts=(50,)))
    found = np.zeros(1000)
    for epoch in range(4000):
        found[sampler.sample(np.array([0]), epoch, with_edges=True).edge_S] += 1
    share = 50 / 1000
    square = ((found - 4000 * share) ** 2 / (4000 * share * (1 - share))).sum() * 999 / 1000
    assert chi2.isf(1 - 1e-4, 999) < square < chi2.isf(1e-4, 999)


def test_with_replacement_every_list_is_drawn_by_its_weights() -> None:
    weights = np.array([1.0, 2.0, 5.0])
    share = weights / weights.sum()
    expected = {(i, j): share[i] * share[j] for i in range(3) for j in range(3)}
    check_law(counts(star(3, weights), 2, 20_000, "weighted", True, tuple), expected, 20_000)
    alike = {(i, j): 1 / 9 for i in range(3) for j in range(3)}
    check_law(counts(star(3), 2, 20_000, "uniform", True, tuple), alike, 20_000)


@pytest.mark.parametrize("weights", [(1, 2, 5, 3), (1, 2, 4000, 1)])
def test_without_replacement_each_is_drawn_by_its_weight_among_those_left(weights: tuple[int, ...]) -> None:
    """With 4000 most draws fall on a taken one, so that the rest of the row is drawn in the other way."""
    total = sum(weights)
    expected = {}
    for a, b, c in permutations(range(4), 3):
        left = total - weights[a]
        expected[a, b, c] = weights[a] / total * weights[b] / left * weights[c] / (left - weights[b])
    common = {what: share for what, share in expected.items() if share > 1e-3}
    found = counts(star(4, weights), 3, 30_000, "weighted", False, tuple)
    rare = {"rare": 1 - sum(common.values())} if len(common) < len(expected) else {}
    merged = Counter({what if what in common else "rare": 0 for what in found})
    for what, count in found.items():
        merged[what if what in common else "rare"] += count
    check_law(merged, common | rare, 30_000)


def test_labor_finds_fewer_nodes() -> None:
    rng = np.random.default_rng(4)
    csr = read_graph((rng.integers(0, 400, 20_000), rng.integers(0, 400, 20_000)), GraphOptions(directed=True)).csr
    rows = {}
    for law in ("uniform", "labor"):
        sampler = NeighborSampler(csr, NeighborOptions(fanouts=(5,), law=law))
        rows[law] = len(sampler.sample(np.arange(60)).node_M)
    assert rows["labor"] < 0.6 * rows["uniform"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"fanouts": ()}, "fanouts .* must be"), ({"fanouts": (0,)}, "got \\(0,\\)"), ({"fanouts": "15"}, "fanouts"),
        ({"fanouts": (3.5,)}, "fanouts"), ({"fanouts": (-2,)}, "fanouts"), ({"law": "fair"}, "law must be one of"),
        ({"key": "day"}, "key must be one of epoch, batch"), ({"law": "labor", "replace": True}, "without replacement"),
        ({"seed": -1}, "seed must be"),
    ],
)  # fmt: skip
def test_options_that_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        NeighborOptions(**options)


@pytest.mark.parametrize(
    ("seeds", "said"),
    [([0, 3, 0], "twice"), ([8], "Seed 8 is no node; nodes are 0 to 7"), ([-1], "Seed -1"), ([], "one or more"),
     ([0.5], "whole numbers"), ([[1]], "in a row")],
)  # fmt: skip
def test_seeds_that_are_refused_leave_no_trace(seeds: Any, said: str) -> None:
    sampler = NeighborSampler(star(7), NeighborOptions(fanouts=(2,)))
    before = sampler.sample(np.array([0, 3]))
    with pytest.raises(InputError, match=said):
        sampler.sample(np.array(seeds))
    assert all(np.array_equal(a, b) for a, b in zip(before, sampler.sample(np.array([0, 3])), strict=True))


def test_weights_are_needed_for_the_law_of_weights() -> None:
    with pytest.raises(InputError, match="no weights"):
        NeighborSampler(star(3)._replace(weights=np.empty(0, np.float32)), NeighborOptions(law="weighted"))

"""Walks: equal to the plain twin, the same for any cut and threads, and of the law that node2vec states."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from any2vec.data.graph.graph import Graph
from any2vec.data.graph.reader import read_graph
from any2vec.data.options import GraphOptions
from any2vec.data.text.corpus import Corpus
from any2vec.errors import FormatError, InputError, StorageError
from any2vec.kernels.common.alias import build_alias, build_row_alias
from any2vec.kernels.common.rng import PURPOSE_ORDER, PURPOSE_WALK, stream_key
from any2vec.kernels.graph import walk as kernels
from any2vec.sampling.walks import Walker, WalkOptions, count_visits, is_symmetric, write_walks
from any2vec.train.fit import fit
from naive.models import walks as naive

PQ = [(1, 1), (0.25, 0.25), (4, 0.5), (0.5, 2), (0.25, 4), (2, 1), (1e-6, 1), (1e6, 1e-6), (1e-6, 1e6), (1e6, 1e6)]


def random_graph(num_nodes: int, num_edges: int, seed: int, *, weighted: bool = False, directed: bool = False) -> Graph:
    rng = np.random.default_rng(seed)
    src, dst = (rng.integers(0, num_nodes, num_edges) for _ in range(2))
    src, dst = np.minimum(src, rng.integers(0, num_nodes, num_edges)), dst  # low ids are hubs
    weights = (rng.random(num_edges) ** 3 * 5 + 0.01,) if weighted else ()
    return read_graph((src, dst, *weights), GraphOptions(directed=directed))


def neighbors_of(graph: Graph) -> list[list[tuple[int, float]]]:
    indptr, indices, weights = (array.tolist() for array in graph.csr)
    weights = weights or [1.0] * len(indices)
    return [list(zip(indices[a:b], weights[a:b], strict=True)) for a, b in pairwise(indptr)]


def sampled(walker: Walker, start: int = 0, stop: int | None = None, epoch: int = 0) -> np.ndarray:
    stop = walker.num_walks if stop is None else stop
    out = np.full((stop - start) * walker.stride, -7, np.int32)
    walker.sample(start, stop, epoch, out)
    return out.reshape(-1, walker.stride)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(("p", "q"), PQ)
def test_equal_to_plain_twin(p: float, q: float, weighted: bool, directed: bool) -> None:
    graph = random_graph(90, 260, 3, weighted=weighted, directed=directed)
    options = WalkOptions(walks_per_node=2, walk_length=9, p=p, q=q)
    walks = sampled(Walker(graph.csr, options, seed=5, is_directed=directed), epoch=2)
    keys = [int(stream_key(5, purpose, 2)) for purpose in (PURPOSE_WALK, PURPOSE_ORDER)]
    neighbors = neighbors_of(graph)
    for number, row in enumerate(walks.tolist()):
        plain = naive.walk(neighbors, weighted, number, 9, p, q, *keys)
        assert row == plain + [-1] * (10 - len(plain)), number


def test_rows_with_short_bit_sets_equal_plain_twin() -> None:
    graph = random_graph(6000, 20_000, 4)  # 2**13 places: only hubs have exact bit sets
    walker = Walker(graph.csr, WalkOptions(walks_per_node=1, walk_length=12, p=0.5, q=4), seed=1)
    keys = [int(stream_key(1, purpose)) for purpose in (PURPOSE_WALK, PURPOSE_ORDER)]
    neighbors = neighbors_of(graph)
    for number, row in enumerate(sampled(walker, 100, 700).tolist()):
        plain = naive.walk(neighbors, False, 100 + number, 12, 0.5, 4, *keys)
        assert row[: len(plain)] == plain


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("p", [1, 0.5])
def test_shortest_walks(length: int, p: float) -> None:
    graph = read_graph([(0, 1), (1, 2), (2, 3)], GraphOptions(directed=True))
    walks = sampled(Walker(graph.csr, WalkOptions(walks_per_node=1, walk_length=length, p=p), seed=1))
    for row in walks.tolist():
        expected = list(range(row[0], min(4, row[0] + length)))
        assert row == expected + [-1] * (length + 1 - len(expected))


@pytest.mark.parametrize(("p", "q"), [(1, 1), (0.25, 4)])
def test_any_cut_and_threads_give_the_same(p: float, q: float) -> None:
    graph = random_graph(200, 900, 1, weighted=True)
    walker = Walker(graph.csr, WalkOptions(walks_per_node=3, walk_length=15, p=p, q=q), seed=9)
    whole = sampled(walker)
    for step in (1, 7, 100, 450):
        cuts = [(start, min(walker.num_walks, start + step)) for start in range(0, walker.num_walks, step)]
        with ThreadPoolExecutor(3) as pool:
            parts = list(pool.map(lambda cut: sampled(walker, *cut), cuts))
        assert np.array_equal(np.concatenate(parts), whole)
    assert not np.array_equal(sampled(walker, epoch=1), whole)
    assert not np.array_equal(sampled(Walker(graph.csr, walker.options, seed=10)), whole)
    counts = [count_visits(walker, 0, threads) for threads in (1, 2, 0)]
    assert all(np.array_equal(count, np.bincount(whole[whole >= 0], minlength=200)) for count in counts)


@pytest.mark.parametrize("num_nodes", [1, 2, 3, 5, 64, 65, 1000])
def test_every_pass_is_a_permutation_of_its_own(num_nodes: int) -> None:
    ring = np.arange(num_nodes)
    csr = read_graph((ring, (ring + 1) % num_nodes)).csr
    starts = sampled(Walker(csr, WalkOptions(walks_per_node=4, walk_length=1), seed=2))[:, 0].reshape(4, num_nodes)
    assert (np.sort(starts, axis=1) == ring).all()
    if num_nodes > 10:
        assert len({tuple(row) for row in starts.tolist()}) == 4


def test_order_is_uniform() -> None:
    csr = read_graph((np.arange(6), (np.arange(6) + 1) % 6)).csr
    starts = sampled(Walker(csr, WalkOptions(walks_per_node=6000, walk_length=1), seed=2))[:, 0].reshape(-1, 6)
    for place in range(6):
        counts = np.bincount(starts[:, place], minlength=6)
        assert ((counts - 1000) ** 2 / 1000).sum() < chi2.ppf(1 - 1e-5, 5)


def chi_square(graph: Graph, walks: np.ndarray, p: float, q: float) -> tuple[float, int]:
    """Of all steps after the first against the enumerated probabilities, by (last, node)."""
    neighbors = neighbors_of(graph)
    size = len(neighbors)
    triples = np.concatenate([walks[:, i : i + 3] for i in range(walks.shape[1] - 2)]).astype(np.int64)
    triples = triples[(triples >= 0).all(axis=1)]
    counts = np.bincount(triples @ [size * size, size, 1], minlength=size**3).reshape(size, size, size)
    statistic, freedom = 0.0, 0
    for last in range(size):
        near = {node for node, _ in neighbors[last]}
        for node in near:
            row = neighbors[node]
            if not row:
                continue
            masses = np.array(naive.transition_masses(row, near, last, p, q))
            seen = counts[last, node, [found for found, _ in row]]
            expected = masses / masses.sum() * seen.sum()
            assert seen.sum() == counts[last, node].sum()
            common = expected >= 5
            if common.sum() > 1:
                rest = [seen[~common].sum()], [expected[~common].sum()]
                joined = np.append(seen[common], rest[0]), np.append(expected[common], rest[1])
                kept = joined[1] > 1e-3
                statistic += ((joined[0] - joined[1])[kept] ** 2 / joined[1][kept]).sum()
                freedom += int(kept.sum()) - 1
    return statistic, freedom


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(("p", "q"), [(0.25, 0.25), (4, 0.5), (0.5, 2), (0.1, 4), (50, 30), (0.01, 0.02)])
def test_law_of_second_order_steps(p: float, q: float, weighted: bool, directed: bool) -> None:
    graph = random_graph(12, 34, 8, weighted=weighted, directed=directed)
    walker = Walker(graph.csr, WalkOptions(walks_per_node=4000, walk_length=12, p=p, q=q), seed=3)
    statistic, freedom = chi_square(graph, sampled(walker), p, q)
    assert freedom > 30
    assert statistic < chi2.ppf(1 - 1e-6, freedom)


@pytest.mark.parametrize("weighted", [False, True])
def test_law_where_steps_are_enumerated(weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "PATIENCE", -1000)  # every rejection is followed by the enumerated step
    graph = random_graph(12, 34, 8, weighted=weighted)
    walker = Walker(graph.csr, WalkOptions(walks_per_node=4000, walk_length=12, p=5, q=0.3), seed=3)
    statistic, freedom = chi_square(graph, sampled(walker), 5, 0.3)
    assert statistic < chi2.ppf(1 - 1e-6, freedom)


def test_law_of_first_order_steps() -> None:
    graph = random_graph(12, 34, 8, weighted=True)
    walker = Walker(graph.csr, WalkOptions(walks_per_node=4000, walk_length=12), seed=3)
    statistic, freedom = chi_square(graph, sampled(walker), 1, 1)
    assert statistic < chi2.ppf(1 - 1e-6, freedom)


def test_extreme_biases_end_soon() -> None:
    clique = [(a, b) for a in range(60) for b in range(a)]
    for p, q in [(1e-6, 1e6), (1e6, 1e-6), (1e6, 1e6), (1e-6, 1e-6), (1e30, 1e-30), (1e-30, 1e30)]:
        walks = sampled(Walker(read_graph(clique).csr, WalkOptions(walks_per_node=5, walk_length=40, p=p, q=q), seed=1))
        assert (walks[:, :40] >= 0).all()
        returns = (walks[:, 2:40] == walks[:, :38]).mean()
        assert returns > 0.9 if p < 1 else returns < 0.001


def test_permuted_ids_keep_the_law() -> None:
    graph, rng = random_graph(40, 200, 6), np.random.default_rng(0)
    src = np.repeat(np.arange(len(graph)), np.diff(graph.csr.indptr))
    names = rng.permutation(len(graph))
    other = read_graph((names[src], names[graph.csr.indices]))
    options = WalkOptions(walks_per_node=3000, walk_length=10, p=0.25, q=0.5)
    visits = [count_visits(Walker(one.csr, options, seed)) for seed, one in ((1, graph), (2, other))]
    assert np.allclose(visits[0], visits[1][names], rtol=0.05)


@pytest.mark.parametrize(
    "wrong",
    [
        {"p": 0}, {"p": -1}, {"q": float("nan")}, {"q": float("inf")}, {"p": "1"}, {"p": True}, {"q": 1e-200},
        {"walk_length": 0}, {"walk_length": 2.5}, {"walks_per_node": 0}, {"walks_per_node": True},
    ],
)  # fmt: skip
def test_illegal_options(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        WalkOptions(**wrong)


def test_illegal_interval_and_array() -> None:
    walker = Walker(random_graph(10, 30, 1).csr, WalkOptions(), seed=1)
    with pytest.raises(InputError, match="walks must lie"):
        sampled(walker, 0, walker.num_walks + 1)
    with pytest.raises(InputError, match="out must be"):
        walker.sample(0, 2, 0, np.empty(3, np.int32))
    with pytest.raises(InputError, match="out must be"):
        walker.sample(0, 1, 0, np.empty(walker.stride))


def test_alias_tables_equal_plain_twin() -> None:
    rng = np.random.default_rng(0)
    for size in (1, 2, 3, 50, 500):
        weights = rng.random(size) ** 6 + 1e-9
        threshold, alias = build_alias(weights)
        plain = naive.build_alias(weights.tolist())
        assert (threshold.tolist(), alias.tolist()) == (plain[0], plain[1])
        mass = np.where(alias == np.arange(size), 1.0, threshold / 2**32)
        law = mass + np.bincount(alias, 1.0 - mass, minlength=size)
        assert np.allclose(law / size, weights / weights.sum(), atol=1e-9)
    indptr, weights = np.array([0, 2, 2, 5]), np.array([1, 3, 2, 2, 9], np.float32)
    threshold, alias = build_row_alias(indptr, weights)
    assert (threshold[2:].tolist(), alias[2:].tolist()) == naive.build_alias([2.0, 2.0, 9.0])


def test_zero_weights_are_never_drawn() -> None:
    threshold, alias = build_alias(np.array([0.0, 1.0, 0.0, 2.0]))
    assert threshold[0] == threshold[2] == 0
    assert {alias[0], alias[2]} <= {1, 3}


def test_symmetric() -> None:
    assert is_symmetric(random_graph(50, 100, 1).csr)
    assert not is_symmetric(random_graph(50, 100, 1, directed=True).csr)


@pytest.mark.parametrize("directed", [False, True])
def test_stored_walks(directed: bool, tmp_path: Path) -> None:
    graph = random_graph(100, 300, 2, weighted=True, directed=directed)
    options = WalkOptions(walks_per_node=3, walk_length=8, p=0.5, q=2)
    reported: list[tuple[int, int | None]] = []
    stored = [
        write_walks(
            graph, options, 4, tmp_path / f"walks{threads}", threads=threads, progress=lambda *at: reported.append(at)
        )
        for threads in (1, 2)
    ]
    walker = Walker(graph.csr, options, seed=4)
    whole = sampled(walker)
    for corpus in stored:
        assert np.array_equal(np.asarray(corpus.tokens), whole.ravel())
    corpus = Corpus.open(tmp_path / "walks1")
    assert corpus.kind == "walks"
    assert corpus.num_sentences == walker.num_walks
    assert corpus.num_tokens == (whole >= 0).sum()
    assert list(corpus.vocabulary.keys) == list(graph.keys)
    assert np.array_equal(corpus.vocabulary.counts, count_visits(walker, 0))
    assert corpus.meta["options"]["walk_length"] == 8
    assert reported[-1] == (walker.num_walks, walker.num_walks)
    with pytest.raises(StorageError, match="exists"):
        write_walks(graph, options, 4, tmp_path / "walks1")
    write_walks(graph, options, 4, tmp_path / "walks1", overwrite=True)


def test_stored_walks_with_counts_below_zero_are_refused(tmp_path: Path) -> None:
    write_walks(random_graph(20, 40, 2), WalkOptions(walks_per_node=1, walk_length=40), 4, tmp_path / "walks")
    counts = np.load(tmp_path / "walks" / "counts.npy")
    counts[7] = -1
    np.save(tmp_path / "walks" / "counts.npy", counts)
    with pytest.raises(FormatError, match=r"counts\.npy has a count below 0; write the walks again"):
        fit("deepwalk", tmp_path / "walks", epochs=1, threads=1)


def test_stored_walks_of_one_node_are_refused(tmp_path: Path) -> None:
    """They make no pairs, so that the vectors were as they started."""
    write_walks(random_graph(20, 40, 2), WalkOptions(walks_per_node=2, walk_length=1), 4, tmp_path / "walks")
    for model in ("skipgram", "deepwalk"):
        with pytest.raises(InputError, match="holds walks of one node, which make no pairs; walk with --walk-length 2"):
            fit(model, tmp_path / "walks", epochs=1, threads=1)

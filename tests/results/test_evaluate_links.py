"""Splits that keep test edges away from training, and link scores on planted rows."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from any2vec.data.graph.reader import read_graph
from any2vec.embeddings import Embeddings
from any2vec.errors import Any2VecError, FormatError, InputError, StorageError
from any2vec.evaluate import evaluate_links, split_graph
from any2vec.evaluate.graph.split import Split
from any2vec.evaluate.graph.train_edges import edge_lines, read_train_pairs
from any2vec.types import Csr


@dataclass
class PlainGraph:
    """What a split needs of a graph."""

    csr: Csr
    keys: list[str]
    is_directed: bool


def graph_of(pairs: np.ndarray, nodes: int, directed: bool = False, weighted: bool = False) -> PlainGraph:
    pairs = np.asarray(pairs)
    if not directed:
        pairs = np.concatenate([pairs, pairs[:, ::-1]])
    pairs = np.unique(pairs, axis=0)
    matrix = coo_array((np.ones(len(pairs)), pairs.T), shape=(nodes, nodes)).tocsr()
    weights = (
        (np.minimum(*pairs.T) + np.maximum(*pairs.T) * 10 + 1).astype(np.float32)
        if weighted
        else np.empty(0, np.float32)
    )
    csr = Csr(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), weights)
    return PlainGraph(csr, [f"n{node}" for node in range(nodes)], directed)


def cliques(directed: bool = False) -> PlainGraph:
    """Two cliques of 12 nodes joined by one edge, an isolated node, a self-loop."""
    pairs = [(a + s, b + s) for s in (0, 12) for a in range(12) for b in range(12) if a < b]
    return graph_of(np.array([*pairs, (0, 12), (3, 3)]), 25, directed)


def as_set(pairs: np.ndarray, directed: bool) -> set[tuple[int, int]]:
    return {(int(a), int(b)) if directed else (int(min(a, b)), int(max(a, b))) for a, b in pairs}


def edges_of(graph: PlainGraph) -> set[tuple[int, int]]:
    src = np.repeat(np.arange(len(graph.keys)), np.diff(graph.csr.indptr))
    return as_set(np.stack([src, graph.csr.indices], axis=1), graph.is_directed)


def check(split: Split, graph: PlainGraph) -> None:
    """Every promise of a split."""
    directed, edges = graph.is_directed, edges_of(graph)
    train, test = as_set(read_train_pairs(split), directed), as_set(split.test, directed)
    assert len(train) == split.meta["num_train_edges"] and len(test) == split.meta["num_test_edges"] > 0
    assert not train & test, "trained on test edges"
    assert not train & {edge[::-1] for edge in test}, "trained on reverses of test edges"
    assert train | test == edges
    negatives = as_set(split.negatives, directed)
    assert len(negatives) == len(test) and not negatives & edges
    assert all(a != b for a, b in [*negatives, *test])
    assert split.ranking.shape == (len(test), split.meta["num_ranking_negatives"])
    for (src, _), partners in zip(split.test, split.ranking, strict=True):
        assert not as_set(np.array([(src, w) for w in partners]), directed) & edges
        assert src not in partners
    accessed = {node for pair in edges for node in pair}
    assert {node for pair in train for node in pair} == accessed


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_split_keeps_its_promises(tmp_path: Path, directed: bool, seed: int) -> None:
    graph = cliques(directed)
    split = split_graph(graph, tmp_path / "s", test_share=0.25, negatives=7, seed=seed)  # type: ignore[arg-type]
    check(split, graph)
    assert split.meta["num_test_edges"] == round(0.25 * 133)
    pairs = read_train_pairs(split)
    ones = coo_array((np.ones(len(pairs)), pairs.T), shape=(25, 25)).tocsr()
    assert connected_components(ones, directed=False)[0] == 2  # as before: the cliques, and the isolated node


@given(st.integers(0, 2**31), st.integers(4, 30), st.booleans(), st.floats(0.05, 0.9))
@settings(max_examples=40, deadline=None)
def test_property_any_graph(tmp_path_factory, seed: int, nodes: int, directed: bool, share: float) -> None:
    rng = np.random.default_rng(seed)
    graph = graph_of(rng.integers(0, nodes, (int(rng.integers(1, nodes * 2)), 2)), nodes, directed)
    folder = tmp_path_factory.mktemp("split") / "s"
    try:
        split = split_graph(graph, folder, test_share=share, negatives=3, seed=seed)  # type: ignore[arg-type]
    except InputError:
        assert not folder.exists()
        return
    check(split, graph)


def test_edges_of_a_source_that_leads_to_all_nodes_stay_in_train(tmp_path: Path) -> None:
    """Before, one such source refused the whole graph; a graph of nothing else is refused still."""
    pairs = [(0, b) for b in range(1, 12)] + [
        (a, b) for a in range(1, 12) for b in range(1, 12) if (a + b) % 3 and a < b
    ]
    graph = graph_of(np.array(pairs), 12, directed=True)
    split = split_graph(graph, tmp_path / "s", test_share=0.6, negatives=3, seed=1)  # type: ignore[arg-type]
    check(split, graph)
    assert 0 not in split.test[:, 0] and (split.ranking >= 0).all()
    assert split.meta["num_without_negatives"] > 0
    held_out = split.meta["num_test_edges"] + split.meta["num_without_negatives"]
    assert held_out <= split.meta["num_test_edges_wanted"]
    full = np.array([(a, b) for a in range(6) for b in range(6) if a != b])
    with pytest.raises(InputError, match="too dense"):
        split_graph(graph_of(full, 6, directed=True), tmp_path / "full", negatives=3)  # type: ignore[arg-type]
    assert not (tmp_path / "full").exists()


def test_same_seed_same_split(tmp_path: Path) -> None:
    one, again, other = (
        split_graph(cliques(), tmp_path / name, seed=seed)  # type: ignore[arg-type]
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    for name in ("train.edges", "test.npy", "negatives.npy", "ranking.npy", "nodes.tsv"):
        assert (one.path / name).read_bytes() == (again.path / name).read_bytes()
    assert (one.path / "test.npy").read_bytes() != (other.path / "test.npy").read_bytes()


def test_weights_stay_with_their_edges(tmp_path: Path) -> None:
    graph = graph_of(np.array([(a, b) for a in range(6) for b in range(a + 1, 6)]), 12, weighted=True)
    split = split_graph(graph, tmp_path / "s", negatives=2, test_share=0.2)  # type: ignore[arg-type]
    for line in split.train_edges.read_text().splitlines():
        src, dst, weight = line.split("\t")
        low, high = sorted((int(src[1:]), int(dst[1:])))
        assert float(weight) == low + 10 * high + 1


def test_hubs_and_dense_graphs(tmp_path: Path) -> None:
    star = [(0, b) for b in range(1, 20)] + [(a, a + 1) for a in range(1, 19)]  # node 0 is everyone's neighbor
    graph = graph_of(np.array(star), 20)
    check(split_graph(graph, tmp_path / "s", test_share=0.4, negatives=5), graph)  # type: ignore[arg-type]
    complete = graph_of(np.argwhere(np.triu(np.ones((6, 6)), 1)), 6)
    with pytest.raises(InputError, match=r"dense|no edge"):
        split_graph(complete, tmp_path / "c")  # type: ignore[arg-type]
    tree = graph_of(np.array([(0, 1), (1, 2)]), 3)
    with pytest.raises(InputError, match="none can be held out"):
        split_graph(tree, tmp_path / "t")  # type: ignore[arg-type]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s"]


def test_options_and_places_are_checked(tmp_path: Path) -> None:
    for options in ({"test_share": 0.0}, {"test_share": 1.0}, {"negatives": 0}):
        with pytest.raises(InputError):
            split_graph(cliques(), tmp_path / "s", **options)  # type: ignore[arg-type]
    split_graph(cliques(), tmp_path / "s")  # type: ignore[arg-type]
    with pytest.raises(StorageError, match="exists"):
        split_graph(cliques(), tmp_path / "s")  # type: ignore[arg-type]
    split_graph(cliques(), tmp_path / "s", overwrite=True, seed=3)  # type: ignore[arg-type]
    assert Split.open(tmp_path / "s").meta["seed"] == 3
    for key in ("tab\there", '"quoted"', '"opened', "#tag"):
        odd = cliques()
        odd.keys[4] = key
        with pytest.raises(InputError, match="rename"):
            split_graph(odd, tmp_path / "odd")  # type: ignore[arg-type]
        assert not (tmp_path / "odd").exists()


@pytest.mark.parametrize(
    "edges",
    [
        [("hub", "x"), *((a, b) for a in range(9) for b in range(a))],
        [("hub", "x", 2.0), *((a, b, 3.0) for a in range(9) for b in range(a))],
        [("source", "target"), *((f"n{a}", f"n{b}") for a in range(9) for b in range(a))],
        [("To", "from", 2.0), *((f"n{a}", f"n{b}", 3.0) for a in range(9) for b in range(a))],
    ],
)
def test_no_edge_of_training_is_taken_for_a_header(edges: list[tuple[Any, ...]], tmp_path: Path) -> None:
    split = split_graph(read_graph(edges), tmp_path / "split", test_share=0.1, negatives=2)
    again = read_graph(split.train_edges, cache_dir=tmp_path / "cache")
    assert again.report.header == "" and again.report.num_edges == split.meta["num_train_edges"]
    assert set(again.keys) == set(split.keys)


def test_edges_that_are_all_headers_are_refused(tmp_path: Path) -> None:
    odd = graph_of(np.array([(a, b) for a in range(4) for b in range(4) if a < b]), 4)
    odd.keys[:] = ["src", "dst", "source", "to"]
    with pytest.raises(InputError, match="all named as columns are"):
        list(edge_lines(odd.keys, np.array([0]), np.array([1]), None))


def test_damaged_splits_are_format_errors(tmp_path: Path) -> None:
    split = split_graph(cliques(), tmp_path / "s")  # type: ignore[arg-type]
    meta = (split.path / "meta.json").read_text()
    for change in ({"version": 2}, {"format": "x"}, {"num_test_edges": 1}):
        (split.path / "meta.json").write_text(json.dumps(json.loads(meta) | change))
        with pytest.raises(FormatError):
            Split.open(split.path)
    (split.path / "meta.json").write_text(meta)
    data = (split.path / "ranking.npy").read_bytes()
    for cut in range(0, len(data), 97):
        (split.path / "ranking.npy").write_bytes(data[:cut])
        with pytest.raises(FormatError):
            Split.open(split.path)
    for at in range(10, 70):  # the header, which NumPy parses as Python
        for sign in b"(\0'\\9#":
            (split.path / "ranking.npy").write_bytes(data[:at] + bytes([sign]) + data[at + 1 :])
            with suppress(FormatError):
                Split.open(split.path)
    (split.path / "ranking.npy").write_bytes(b"PK\5\6" + bytes(18))  # an empty zip
    with pytest.raises(FormatError, match="zip"):
        Split.open(split.path)
    with pytest.raises(FormatError):
        Split.open(tmp_path)


# ---- scoring


@pytest.fixture
def split(tmp_path: Path) -> Split:
    return split_graph(cliques(), tmp_path / "s", test_share=0.2, negatives=60)  # type: ignore[arg-type]


def clique_rows(noise: float = 0.0) -> np.ndarray:
    """Rows that know the clique: within 1, across -1; the isolated node orthogonal."""
    rows = np.zeros((25, 4))
    rows[:12, 0], rows[12:24, 0], rows[24, 1] = 1, -1, 1
    return rows + noise * np.random.default_rng(0).standard_normal(rows.shape)


@pytest.mark.parametrize("score", ["dot", "cosine", "hadamard"])
def test_separable_is_one(split: Split, score: str) -> None:
    embeddings = Embeddings([f"n{node}" for node in range(25)], clique_rows())
    result = evaluate_links(embeddings, split.path, score=score)
    assert result.auc == 1.0 and result.average_precision == 1.0
    assert result.mrr == result.hits_at_1 == result.hits_at_10 == result.hits_at_50 == 1.0
    assert result.num_missing == 0 and result.num_test_edges == len(split.test)
    assert json.loads(json.dumps(result.as_dict()))["score"] == score


def test_turned_round_is_zero(split: Split) -> None:
    embeddings = Embeddings([f"n{node}" for node in range(25)], clique_rows(), output=-clique_rows())
    result = evaluate_links(embeddings, split, score="output")
    assert result.auc == 0.0 and result.hits_at_50 == 0.0
    assert result.mrr == pytest.approx(1 / 61)  # behind all of the 60


def test_constant_rows_are_chance(split: Split) -> None:
    result = evaluate_links(Embeddings([f"n{node}" for node in range(25)], np.ones((25, 3))), split)
    assert result.auc == 0.5 and result.average_precision == 0.5
    assert result.mrr == pytest.approx(1 / 31)  # a tie with 60 costs half of them: rank 1 + 30
    assert result.hits_at_10 == 0.0 and result.hits_at_50 == 1.0


def test_scores_by_plain_loops(split: Split) -> None:
    rows = clique_rows(noise=1.0)
    order = np.random.default_rng(1).permutation(25)  # the embeddings' rows stand in another order than the split's
    result = evaluate_links(Embeddings([f"n{node}" for node in order], rows[order]), split)
    dot = rows.astype(np.float32) @ rows.astype(np.float32).T
    positive = [dot[a, b] for a, b in split.test]
    negative = [dot[a, b] for a, b in split.negatives]
    wins = [(p > n) + 0.5 * (p == n) for p in positive for n in negative]
    assert result.auc == pytest.approx(np.mean(wins))
    ranks = [1 + sum(dot[a, w] > dot[a, b] for w in ws) for (a, b), ws in zip(split.test, split.ranking, strict=True)]
    assert result.mrr == pytest.approx(np.mean([1 / rank for rank in ranks]))
    assert result.hits_at_10 == pytest.approx(np.mean([rank <= 10 for rank in ranks]))


def test_nodes_without_a_row_are_scored_lowest(split: Split) -> None:
    kept = [node for node in range(25) if node not in split.test[:3]]
    result = evaluate_links(Embeddings([f"n{node}" for node in kept], clique_rows()[kept]), split)
    assert result.num_missing == 25 - len(kept) and result.auc < 1.0
    with pytest.raises(InputError, match="none"):
        evaluate_links(Embeddings(["x"], np.ones((1, 2))), split)


def test_unknown_scores_and_missing_outputs(split: Split) -> None:
    embeddings = Embeddings([f"n{node}" for node in range(25)], clique_rows())
    for score in ("euclid", "output"):
        with pytest.raises(InputError):
            evaluate_links(embeddings, split, score=score)


def test_hadamard_never_reads_the_test_edges(split: Split, monkeypatch) -> None:
    from any2vec.evaluate.graph import links

    seen = []
    monkeypatch.setattr(links, "read_train_pairs", lambda split: seen.append(read_train_pairs(split)) or seen[-1])
    blind = Split(split.path, split.meta, split.keys, split.test[:0], split.negatives[:0], split.ranking[:0])
    links._hadamard_weights(clique_rows(0.3).astype(np.float32), np.ones(25, bool), blind)
    assert not as_set(seen[0], False) & as_set(split.test, False)


def test_a_graph_from_a_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = {tuple(sorted(pair)) for pair in rng.integers(0, 40, (200, 2)).tolist() if pair[0] != pair[1]}
    (tmp_path / "g.txt").write_text("".join(f"v{a} v{b}\n" for a, b in sorted(lines)))
    split = split_graph(tmp_path / "g.txt", tmp_path / "s", negatives=5)
    assert split.meta["num_edges"] == len(lines)
    again = read_graph(split.train_edges)
    assert again.report.num_edges == split.meta["num_train_edges"] and len(again.keys) == len(split.keys)


def test_a_graph_from_memory(tmp_path: Path) -> None:
    graph = nx.karate_club_graph()
    src, dst = zip(*graph.edges(), strict=True)
    table = pa.table({"src": src, "dst": dst})
    expected = split_graph(read_graph(table), tmp_path / "s", negatives=5)
    for number, given_graph in enumerate(
        (table, list(zip(src, dst, strict=True)), nx.Graph(zip(src, dst, strict=True)))
    ):
        found = split_graph(given_graph, tmp_path / str(number), negatives=5)
        assert found.meta == expected.meta and np.array_equal(found.test, expected.test)
    with pytest.raises(InputError, match="A graph cannot be made of int"):
        split_graph(5, tmp_path / "none")
    with pytest.raises(InputError, match=r"split_dir is a Split.* by split_graph\(edges, folder\), got Table\.$"):
        evaluate_links(Embeddings(range(34), np.eye(34)), table)  # type: ignore[arg-type]


def test_every_error_is_ours() -> None:
    assert issubclass(FormatError, Any2VecError)

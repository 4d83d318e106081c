"""A graph cut for link prediction: edges to train on, edges to find again, and non-edges fixed for every method.

The folder `any2vec-split`, version 1:
    meta.json       {"format", "version", counts, options, the rules in words}
    train.edges     `src<TAB>dst[<TAB>weight]` a line: what methods are trained on
    nodes.tsv       the keys of all nodes; row numbers below are lines of this file
    test.npy        int32 (T, 2) edges held out
    negatives.npy   int32 (T, 2) pairs that are no edge of the whole graph, one a test edge: AUC, AP
    ranking.npy     int32 (T, K) nodes w with no edge from the test edge's source: MRR, Hits@k

Letters: N nodes, E edges, T test edges, K ranking negatives a test edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.checks import MAX_SEED, check_whole
from any2vec.data.io.npy import load_npy
from any2vec.data.io.storage import atomic_folder, check_folder_free, read_meta, write_json
from any2vec.errors import FormatError, InputError
from any2vec.evaluate.graph.train_edges import edge_lines
from any2vec.formats.vocabulary import LineKeys, read_vocabulary, write_vocabulary
from any2vec.sampling.links import CANDIDATES, RANKED, LinkData
from any2vec.types import Csr

FORMAT = "any2vec-split"
VERSION = 1
RULE = (
    "test edges are drawn uniformly from the edges outside a random spanning forest, so that every node with an edge "
    "keeps one in train; two edges of opposite directions are drawn as one, so that neither tells of the other; "
    "negatives are no edge of the whole graph and no self-loop; self-loops stay in train"
)
_TRIES = 50


@dataclass(frozen=True)
class Split:
    """An opened split folder."""

    path: Path
    meta: dict[str, Any]
    keys: LineKeys
    test: np.ndarray
    """int32 (T, 2)"""
    negatives: np.ndarray
    """int32 (T, 2)"""
    ranking: np.ndarray
    """int32 (T, K)"""

    @property
    def train_edges(self) -> Path:
        """The edge list to train on."""
        return self.path / "train.edges"

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready: the meta and where the training edges stand."""
        return {**self.meta, "path": str(self.path), "train_edges": str(self.train_edges)}

    @classmethod
    def open(cls, path: str | Path) -> Split:
        """Open the folder `path` that `split_graph` wrote. FormatError when it is another thing, newer or damaged."""
        path = Path(path)
        meta = read_meta(path, FORMAT, VERSION, "a folder of `any2vec split`")
        try:
            keys, _ = read_vocabulary(path / "nodes.tsv")
            arrays = [load_npy(path / f"{name}.npy") for name in ("test", "negatives", "ranking")]
        except FormatError:
            raise
        except (OSError, ValueError) as error:
            raise FormatError(f"{path.name}: not a split folder, or damaged ({error}).") from None
        tests = meta.get("num_test_edges")
        for array, width in zip(arrays, (2, 2, meta.get("num_ranking_negatives")), strict=True):
            if array.shape != (tests, width) or array.dtype != np.int32:
                raise FormatError(
                    f"{path.name}: an array has shape {array.shape} where ({tests}, {width}) belongs; damaged."
                )
            if array.size and not 0 <= array.min() <= array.max() < len(keys):
                raise FormatError(f"{path.name}: a row number is beyond the {len(keys):,} nodes; damaged.")
        return cls(path, meta, keys, *arrays)


class _NonEdges:
    """Answers whether pairs are edges, and draws pairs that are none."""

    def __init__(self, csr: Csr, is_directed: bool) -> None:
        self.num_nodes = len(csr.indptr) - 1
        self._csr, self.is_directed = csr, is_directed
        src = np.repeat(np.arange(self.num_nodes, dtype=np.int64), np.diff(csr.indptr))
        self._codes = np.sort(src * self.num_nodes + csr.indices)

    def are_free(self, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
        """bool: neither an edge nor a self-loop."""
        codes = src.astype(np.int64) * self.num_nodes + dst
        at = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        return (self._codes[at] != codes) & (src != dst)

    def pairs(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """`count` distinct pairs, uniform, int32 (count, 2), undirected ones with src < dst."""
        n = self.num_nodes
        off_diagonal = n * (n - 1) // (1 if self.is_directed else 2)
        loops = int((self._codes // n == self._codes % n).sum())
        edges = (len(self._codes) - loops) // (1 if self.is_directed else 2)
        if off_diagonal - edges < count:
            raise InputError(f"the graph has {off_diagonal - edges:,} pairs that are no edge; {count:,} are needed.")
        found = np.empty(0, dtype=np.int64)
        if (off_diagonal - edges) < 4 * count and n <= 5000:  # so dense that drawing would miss: list them all
            src, dst = np.divmod(np.arange(n * n, dtype=np.int64), n)
            free = self.are_free(src, dst) & (self.is_directed | (src < dst))
            found = rng.permutation(np.flatnonzero(free))[:count]
        while len(found) < count:
            src, dst = rng.integers(0, n, (2, 2 * (count - len(found)) + 64))
            if not self.is_directed:
                src, dst = np.minimum(src, dst), np.maximum(src, dst)
            codes = (src * n + dst)[self.are_free(src, dst)]
            joined = np.concatenate([found, codes])
            _, first = np.unique(joined, return_index=True)
            found = joined[np.sort(first)][:count]  # in the order drawn: sorted order would favor low rows
        return np.stack(np.divmod(found, n), axis=1).astype(np.int32)

    def partners(self, src_T: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
        """For each source k nodes without an edge from it, int32 (T, K); drawn with replacement. -1 where none is."""
        partners = rng.integers(0, self.num_nodes, (len(src_T), k))
        row_X, column_X = np.indices(partners.shape).reshape(2, -1)  # places that are not known to be free
        for _ in range(_TRIES):
            is_bad_X = ~self.are_free(src_T[row_X], partners[row_X, column_X])
            row_X, column_X = row_X[is_bad_X], column_X[is_bad_X]
            if len(row_X) == 0:
                return partners.astype(np.int32)
            partners[row_X, column_X] = rng.integers(0, self.num_nodes, len(row_X))
        for row in np.unique(row_X):  # a source with hardly a non-neighbor: choose among those there are
            src = int(src_T[row])
            taken = self._csr.indices[self._csr.indptr[src] : self._csr.indptr[src + 1]]
            free = np.setdiff1d(np.arange(self.num_nodes), np.append(taken, src))
            partners[row] = rng.choice(free, k) if len(free) else -1
        return partners.astype(np.int32)


def _edges(csr: Csr, is_directed: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(src, dst, position in the CSR) of every edge once: of an undirected one the direction src <= dst."""
    src = np.repeat(np.arange(len(csr.indptr) - 1, dtype=np.int32), np.diff(csr.indptr))
    at = np.arange(len(csr.indices))
    if not is_directed:
        at = at[src <= csr.indices]
    return src[at], csr.indices[at], at


def _forest(src: np.ndarray, dst: np.ndarray, num_nodes: int, rng: np.random.Generator) -> np.ndarray:
    """bool (E,): edges of a random spanning forest (directions ignored): the lightest one under random weights."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    low, high = np.minimum(src, dst).astype(np.int64), np.maximum(src, dst)
    codes, first = np.unique(low * num_nodes + high, return_index=True)  # u → v and v → u are one edge here
    proper = codes // num_nodes != codes % num_nodes
    codes, first = codes[proper], first[proper]
    weights = rng.permutation(len(codes)).astype(np.float64) + 1
    graph = coo_array((weights, np.divmod(codes, num_nodes)), shape=(num_nodes, num_nodes)).tocsr()
    tree = minimum_spanning_tree(graph).tocoo()
    kept = np.zeros(len(src), dtype=bool)
    tree_codes = tree.coords[0].astype(np.int64) * num_nodes + tree.coords[1]
    kept[first[np.searchsorted(codes, tree_codes)]] = True
    return kept


def _mates(src: np.ndarray, dst: np.ndarray, num_nodes: int, is_directed: bool) -> np.ndarray:
    """int64 (E,): the place of each edge's opposite direction; its own place where there is none."""
    own_E = np.arange(len(src))
    if not is_directed:
        return own_E
    code_E, back_E = src.astype(np.int64) * num_nodes + dst, dst.astype(np.int64) * num_nodes + src
    order_E = np.argsort(code_E, kind="stable")
    found_E = order_E[np.minimum(np.searchsorted(code_E, back_E, sorter=order_E), len(src) - 1)]
    return np.where(code_E[found_E] == back_E, found_E, own_E)


def _spare(
    src: np.ndarray, dst: np.ndarray, mate_E: np.ndarray, num_nodes: int, rng: np.random.Generator
) -> tuple[np.ndarray, int]:
    """(places of edges that no random spanning forest needs, edges that there are), self-loops apart, and of two
    opposite directions one each."""
    is_one_E = (src != dst) & (np.arange(len(src)) <= mate_E)
    is_needed_E = _forest(src, dst, num_nodes, rng)
    return np.flatnonzero(is_one_E & ~is_needed_E & ~is_needed_E[mate_E]), int(is_one_E.sum())


def split_graph(
    graph: Any,
    out: str | Path,
    *,
    test_share: float = 0.1,
    negatives: int = 100,
    seed: int = 1,
    overwrite: bool = False,
    graph_options: Any = None,
) -> Split:
    """Cut a graph into training edges, test edges and fixed negatives, and write them to the folder `out`.

    Edges of a random spanning forest stay in train, so that every node with an edge keeps one; where that leaves too
    few, fewer are held out and the meta says so. Of a directed graph an edge and its reverse are held out together,
    and `test_share` is that of such pairs and single edges. An edge whose source has an edge to every node stays in
    train, too, with its reverse, for there is nothing to rank its target among; `num_without_negatives` of the meta
    counts them. Of an undirected test edge a random end is the source to rank from.

    Args:
        graph: a Graph, or what `read_graph` reads: a file, a table, SciPy, NetworkX, pairs.
        out: the folder to make.
        test_share: share of the edges (self-loops apart) to hold out, in (0, 1).
        negatives: non-neighbors to rank each test edge's target among, >= 1.
        seed: same graph, options and seed, same split.
        overwrite: whether an older split at `out` may be replaced.
        graph_options: a GraphOptions for `read_graph`.

    Raises:
        InputError: an option is not legal, no edge can be held out, or the graph has too few non-edges.
        StorageError: `out` exists or cannot be written.
    """
    if not 0 < test_share < 1:
        raise InputError(f"test_share must lie within (0, 1), got {test_share}.")
    if negatives < 1:
        raise InputError(f"negatives must be at least 1, got {negatives}.")
    check_whole("seed", seed, 0, MAX_SEED)
    check_folder_free(Path(out), overwrite, FORMAT)
    from any2vec.data.graph.reader import read_graph

    if not hasattr(graph, "csr"):
        graph = read_graph(graph, graph_options)
    rng = np.random.default_rng(seed)
    src, dst, at = _edges(graph.csr, graph.is_directed)
    mate_E = _mates(src, dst, len(graph.keys), graph.is_directed)
    spare, num_single = _spare(src, dst, mate_E, len(graph.keys), rng)
    if len(spare) == 0:
        raise InputError("every edge of the graph is needed to keep its nodes connected; none can be held out.")
    wanted = rng.permutation(spare)[: max(1, round(test_share * num_single))]
    chosen = np.union1d(wanted, mate_E[wanted])
    in_train = np.ones(len(src), dtype=bool)
    in_train[chosen] = False
    free = _NonEdges(graph.csr, graph.is_directed)
    test, ranking = _sources(np.stack([src[chosen], dst[chosen]], axis=1), free, graph.is_directed, negatives, rng)
    is_ranked = ranking[:, 0] >= 0
    is_ranked &= is_ranked[np.searchsorted(chosen, mate_E[chosen])]
    in_train[chosen[~is_ranked]] = True
    test, ranking = test[is_ranked], ranking[is_ranked]
    if not len(test):
        raise InputError("the graph is too dense: each test edge has a node that is a neighbor of every other node.")
    pairs = free.pairs(len(test), rng)
    weights = graph.csr.weights[at][in_train] if len(graph.csr.weights) else None
    meta = {
        "format": FORMAT,
        "version": VERSION,
        "num_nodes": len(graph.keys),
        "num_edges": len(src),
        "num_train_edges": int(in_train.sum()),
        "num_test_edges": len(test),
        "num_test_edges_wanted": max(1, round(test_share * int((src != dst).sum()))),
        **({} if is_ranked.all() else {"num_without_negatives": int((~is_ranked).sum())}),
        "num_ranking_negatives": negatives,
        "is_directed": graph.is_directed,
        "is_weighted": weights is not None,
        "test_share": test_share,
        "seed": seed,
        "rule": RULE,
    }
    with atomic_folder(Path(out), overwrite, FORMAT) as folder:
        with (folder / "train.edges").open("wb") as file:
            file.writelines(edge_lines(graph.keys, src[in_train], dst[in_train], weights))
        with (folder / "nodes.tsv").open("wb") as file:
            write_vocabulary(file, graph.keys, None)
        for name, array in (("test", test), ("negatives", pairs), ("ranking", ranking)):
            np.save(folder / f"{name}.npy", array)
        write_json(folder / "meta.json", meta)
    return Split.open(out)


def hold_out(csr: Csr, is_directed: bool, val_share: float, test_share: float, seed: int) -> tuple[LinkData, Csr]:
    """(edges cut into train, val and test, by the rule of `split_graph`; the graph without those of val and test).

    A pure function of its arguments. Equal edges, as those of several types are, become one, so that none says that
    another was held out; for the same end an edge and its reverse are in one part. Self-loops stay in the graph, and
    are in no part. Where a spanning forest needs too many edges, val and test share what is left as they share the
    edges.

    Of each part 20,000 edges at most, drawn by the seed, are to be ranked, each among 100 nodes that have no edge from
    its source; of an undirected edge a random end is the source, as `split_graph` has it. A source with an edge to
    every node has none, and is left out.

    Args:
        csr: in-neighbors, rows ascending. val_share, test_share: of the edges, an edge and its reverse counted once
            and self-loops not at all, in [0, 1).

    Raises:
        InputError: no edge can be held out, or the graph has too few pairs that are no edge.
    """
    rng, csr = np.random.default_rng(seed), _once(csr)
    dst, src, at = _edges(csr, is_directed)  # rows are targets
    num_nodes = len(csr.indptr) - 1
    mate_E, part_E = _mates(src, dst, num_nodes, is_directed), np.where(src != dst, 0, -1)
    if val_share or test_share:
        spare, num_single = _spare(src, dst, mate_E, num_nodes, rng)
        counts = np.array([round(share * num_single) for share in (val_share, test_share)])
        counts = np.where(np.array([val_share, test_share]) > 0, np.maximum(counts, 1), 0)
        if len(spare) < np.count_nonzero(counts):
            raise InputError(
                "every edge of the graph is needed to keep its nodes connected; none can be held out for validation "
                "and test: give val_share 0 and test_share 0."
            )
        if counts.sum() > len(spare):
            counts[0] = max(min(1, counts[0]), counts[0] * len(spare) // counts.sum()) if counts[1] else len(spare)
            counts[1] = len(spare) - counts[0] if counts[1] else 0
        chosen = rng.permutation(spare)
        part_E[chosen[: counts[0]]], part_E[chosen[counts[0] : counts.sum()]] = 1, 2
        part_E = np.maximum(part_E, part_E[mate_E])
    free, num_out = _NonEdges(csr, is_directed), int((part_E > 0).sum())
    pairs_T2 = free.pairs(num_out, rng) if num_out else np.empty((0, 2), np.int32)
    negative_2T = np.ascontiguousarray(pairs_T2.T[::-1] if is_directed else pairs_T2.T)
    train, val, test = (np.stack([src[part_E == part], dst[part_E == part]]).astype(np.int32) for part in range(3))
    negatives = negative_2T[:, : val.shape[1]], negative_2T[:, val.shape[1] :]
    from_source = _NonEdges(_reversed(csr), is_directed) if is_directed else free
    rankings = (_ranking(from_source, edge_2T, (seed, part)) for part, edge_2T in ((1, val), (2, test)))
    (val_ranking, test_ranking), left = rankings, _without(csr, at[part_E > 0], is_directed)
    return LinkData(train, val, negatives[0], val_ranking, test, negatives[1], test_ranking), left


def _ranking(from_source: _NonEdges, edge_2T: np.ndarray, seed: tuple[int, int]) -> np.ndarray:
    """int32 (2 + CANDIDATES, R): source, target and candidates of some edges, ascending by their place.

    from_source: of a graph whose rows are sources; what has no direction is turned by chance.
    """
    rng, num = np.random.default_rng(seed), edge_2T.shape[1]
    if not num:
        return np.empty((2 + CANDIDATES, 0), np.int32)
    src, dst = edge_2T if num <= RANKED else edge_2T[:, np.sort(rng.choice(num, RANKED, replace=False))]
    if not from_source.is_directed:
        is_turned = rng.integers(0, 2, len(src)) > 0
        src, dst = np.where(is_turned, dst, src), np.where(is_turned, src, dst)
    candidate_RK = from_source.partners(src, CANDIDATES, rng)
    found = np.concatenate([src[None], dst[None], candidate_RK.T])
    return np.ascontiguousarray(found[:, candidate_RK[:, 0] >= 0])


def _reversed(csr: Csr) -> Csr:
    """The graph whose rows are the other ends; ascending."""
    num = len(csr.indptr) - 1
    row_E = np.repeat(np.arange(num, dtype=np.int32), np.diff(csr.indptr))
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(csr.indices, minlength=num))])
    return Csr(indptr, row_E[np.argsort(csr.indices, kind="stable")], csr.weights[:0])


def _once(csr: Csr) -> Csr:
    """The graph with one of equal entries, which stand beside each other."""
    row_E = np.repeat(np.arange(len(csr.indptr) - 1, dtype=np.int64), np.diff(csr.indptr))
    again = 1 + np.flatnonzero((row_E[1:] == row_E[:-1]) & (csr.indices[1:] == csr.indices[:-1]))
    return _without(csr, again, is_directed=True) if len(again) else csr


def _without(csr: Csr, at: np.ndarray, is_directed: bool) -> Csr:
    """The graph without some entries; undirected: without their other directions, too."""
    row_E = np.repeat(np.arange(len(csr.indptr) - 1, dtype=np.int64), np.diff(csr.indptr))
    is_kept_E = np.ones(len(csr.indices), bool)
    is_kept_E[at] = False
    if not is_directed:
        num = len(csr.indptr) - 1
        back = np.searchsorted(row_E * num + csr.indices, csr.indices[at].astype(np.int64) * num + row_E[at])
        is_kept_E[back] = False
    kept = np.concatenate([np.zeros(1, np.int64), np.cumsum(is_kept_E)])
    weights = csr.weights[is_kept_E] if len(csr.weights) else csr.weights
    return Csr(kept[csr.indptr], np.asarray(csr.indices[is_kept_E]), weights)


def _sources(
    test_T2: np.ndarray, free: _NonEdges, is_directed: bool, negatives: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Test edges as (source, target) and their ranking negatives; a source that is everyone's neighbor is turned, and
    where that does not help has -1."""
    test = test_T2.astype(np.int32)
    if not is_directed:
        turned = rng.integers(0, 2, len(test)).astype(bool)
        test[turned] = test[turned, ::-1]
    ranking = free.partners(test[:, 0], negatives, rng)
    stuck = ranking[:, 0] < 0
    if stuck.any() and not is_directed:
        test[stuck] = test[stuck, ::-1]
        ranking[stuck] = free.partners(test[stuck, 0], negatives, rng)
    return test, ranking

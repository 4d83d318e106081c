"""Random walks of DeepWalk and node2vec: any walk of any epoch, by its number, on any thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from any2vec.checks import Number, Whole, check_fields
from any2vec.data.io.ahead import made_ahead
from any2vec.errors import InputError
from any2vec.machine import usable_cores
from any2vec.types import Csr

if TYPE_CHECKING:
    from any2vec.data.graph.graph import Graph
    from any2vec.data.text.corpus import Corpus

_BLOCK_SLOTS = 1 << 20
_BIAS_LIMIT = 1e30


@dataclass(frozen=True, kw_only=True)
class WalkOptions:
    """How to walk a graph.

    Raises:
        InputError: a value is not legal.
    """

    walks_per_node: Annotated[int, Whole(1, (1 << 30) - 1)] = 10
    """walks that start at each node, >= 1"""
    walk_length: Annotated[int, Whole(1, (1 << 30) - 1)] = 40
    """nodes of a walk, the first one included, >= 1"""
    p: Annotated[float, Number(1 / _BIAS_LIMIT, _BIAS_LIMIT)] = 1.0
    """node2vec's return parameter, > 0: below 1 walks turn back more often"""
    q: Annotated[float, Number(1 / _BIAS_LIMIT, _BIAS_LIMIT)] = 1.0
    """node2vec's in-out parameter, > 0: below 1 walks move away more often"""

    def __post_init__(self) -> None:
        check_fields(self)


class Walker:
    """The walks of a graph. Pure: a walk depends on (seed, epoch, its number) alone; `sample` may run in any thread.

    p and q follow node2vec (Grover and Leskovec 2016, section 3.2.1): from `last` over `node`, a candidate x has the
    edge's weight times 1/p when x is `last`, times 1 when the edge last -> x exists, and times 1/q otherwise.
    A walk ends early where a node has no edge out. Memory O(E): alias tables of the rows of a weighted graph, and for
    p or q other than 1 a bit set a row; never a table over pairs of edges.
    """

    def __init__(self, csr: Csr, options: WalkOptions, seed: int, *, is_directed: bool | None = None) -> None:
        """csr: each row ascending; is_directed: whether an edge may lack its reverse (None: look)."""
        self.csr = csr
        self.options = options
        self.seed = seed
        self.num_nodes = len(csr.indptr) - 1
        self.num_walks = self.num_nodes * options.walks_per_node
        self.stride = options.walk_length + 1
        """slots of a walk: its nodes and at least one -1"""
        self._is_directed = is_directed
        self._tables: dict[str, Any] | None = None
        self._lock = threading.Lock()

    def sample(self, start: int, stop: int, epoch: int, out: np.ndarray) -> None:
        """Write the walks [start, stop) of `epoch` to out, int32 ((stop - start) * stride,), -1 behind each.

        Walk i starts at the i-th node of DeepWalk's order: pass by pass over all nodes, shuffled anew in each pass. A
        node without edges gives a walk of one node.

        Raises:
            InputError: the interval or the array's size is not legal.
        """
        from any2vec.kernels.common.rng import PURPOSE_ORDER, PURPOSE_WALK, stream_key
        from any2vec.kernels.graph import walk

        if not 0 <= start <= stop <= self.num_walks:
            raise InputError(f"walks must lie within [0, {self.num_walks}], got [{start}, {stop}).")
        if out.dtype != np.int32 or out.shape != ((stop - start) * self.stride,):
            raise InputError(f"out must be int32 ({(stop - start) * self.stride},), got {out.dtype} {out.shape}.")
        if start == stop:
            return
        tables = self._tables or self._prepare()
        keys = np.array([stream_key(self.seed, purpose, epoch) for purpose in (PURPOSE_WALK, PURPOSE_ORDER)])
        length = self.options.walk_length
        rows, threshold, alias = tables["rows"], tables["threshold"], tables["alias"]
        if not self.is_second_order:
            walk.first_order_walks(rows, self.csr.indices, threshold, alias, keys, start, stop, length, out)
            return
        walk.second_order_walks(
            rows, self.csr.indices, tables["words"], tables["bits_log"], threshold, alias, self.csr.weights,
            tables["row_weight"], tables["is_directed"], tables["biases"], tables["accept"], keys, start, stop, length,
            walk.PATIENCE, out,
        )  # fmt: skip

    @property
    def is_second_order(self) -> bool:
        """Whether the last node matters: p or q is not 1."""
        return self.options.p != 1 or self.options.q != 1

    def _prepare(self) -> dict[str, Any]:
        """The tables, built by the first call; other threads wait for them."""
        from any2vec.kernels.common.alias import build_row_alias
        from any2vec.kernels.graph import walk

        with self._lock:
            if self._tables is not None:
                return self._tables
            indptr, weights = self.csr.indptr, self.csr.weights
            bits_log = max(6, int(self.num_nodes - 1).bit_length())
            rows = np.empty((self.num_nodes, 4), np.int64)
            tables: dict[str, Any] = {"rows": rows, "bits_log": bits_log}
            num_words = walk.lay_out_rows(indptr, bits_log, rows)
            tables["threshold"], tables["alias"] = (
                build_row_alias(indptr, weights) if len(weights) else (np.empty(0, np.uint32), np.empty(0, np.int32))
            )
            if self.is_second_order:
                words = np.zeros(num_words, np.uint64)
                walk.fill_bit_sets(rows, self.csr.indices, bits_log, words)
                tables |= {"words": words, "row_weight": row_sums(self.csr), **biases_of(self.options)}
                is_directed = not is_symmetric(self.csr) if self._is_directed is None else self._is_directed
                tables["is_directed"] = is_directed
            self._tables = tables
            return tables


def biases_of(options: WalkOptions) -> dict[str, np.ndarray]:
    """Second-order biases, and 2**32 times the chance to keep a far node, a near node and (twice) the last node."""
    biases = np.array([1.0 / options.p, 1.0, 1.0 / options.q])
    ceiling = max(1.0, biases[2])
    shares = [biases[2] / ceiling, 1.0 / ceiling, min(1.0, biases[0] / ceiling)]
    far, near, back = (np.uint64(round(share * 2.0**32)) for share in shares)
    return {"biases": biases, "accept": np.array([far, near, back, back], np.uint64)}


def row_sums(csr: Csr) -> np.ndarray:
    """float64 (N,) sums of weights; (0,) when unweighted."""
    if len(csr.weights) == 0:
        return np.empty(0)
    sums = np.zeros(len(csr.indptr) - 1)
    filled = np.flatnonzero(np.diff(csr.indptr))
    sums[filled] = np.add.reduceat(csr.weights, csr.indptr[filled], dtype=np.float64)
    return sums


def is_symmetric(csr: Csr) -> bool:
    """Whether every edge has its reverse (weights apart). O(E) time and memory."""
    from any2vec.kernels.graph.csr import transpose_pattern

    indptr, indices = transpose_pattern(csr.indptr, csr.indices)
    return bool(np.array_equal(indptr, csr.indptr) and np.array_equal(indices, csr.indices))


def _blocks(walker: Walker) -> Iterator[tuple[int, int]]:
    step = max(1, _BLOCK_SLOTS // walker.stride)
    for start in range(0, walker.num_walks, step):
        yield start, min(walker.num_walks, start + step)


def count_visits(walker: Walker, epoch: int = 0, threads: int = 1) -> np.ndarray:
    """How often the walks of `epoch` visit each node: int64 (num_nodes,). threads: 0 = all usable cores.

    The same for any number of threads. Memory O(num_nodes) + 4 MB a thread.
    """
    from any2vec.kernels.graph.walk import count_rows

    local = threading.local()
    parts: list[np.ndarray] = []

    def work(block: tuple[int, int]) -> None:
        if not hasattr(local, "counts"):
            local.counts = np.zeros(walker.num_nodes, np.int64)
            parts.append(local.counts)
        count_rows(_walks(walker, block, epoch), local.counts)

    with ThreadPoolExecutor(threads or usable_cores()) as pool:
        for _ in pool.map(work, _blocks(walker)):
            pass
    counts = np.zeros(walker.num_nodes, np.int64)
    for part in parts:
        counts += part
    return counts


def _walks(walker: Walker, block: tuple[int, int], epoch: int) -> np.ndarray:
    out = np.empty((block[1] - block[0]) * walker.stride, np.int32)
    walker.sample(*block, epoch, out)
    return out


def write_walks(
    graph: Graph,
    options: WalkOptions,
    seed: int,
    out: Path | str,
    *,
    threads: int = 0,
    overwrite: bool = False,
    progress: Callable[[int, int | None], None] | None = None,
) -> Corpus:
    """Write the walks of epoch 0 to the corpus folder `out` (kind "walks"); id = row of the graph.

    Every walk takes walk_length + 1 slots, -1 behind its nodes. threads: 0 = all usable cores; the walks are the same
    for any number. progress: called with (walks done, walks in all). Memory O(E) + some MB.

    Raises:
        StorageError: `out` exists and `overwrite` is False, or it cannot be written.
    """
    from any2vec.data.io.storage import check_folder_free
    from any2vec.data.text.corpus import FORMAT, CorpusWriter
    from any2vec.kernels.graph.walk import count_rows

    check_folder_free(out, overwrite, FORMAT)
    walker = Walker(graph.csr, options, seed, is_directed=graph.is_directed)
    threads = threads or usable_cores()
    counts = np.zeros(walker.num_nodes, np.int64)

    def walked(block: Any) -> tuple[int, np.ndarray]:
        return block[1], _walks(walker, block, 0)

    with CorpusWriter(out, overwrite) as writer:
        for stop, tokens in made_ahead(walked, _blocks(walker), threads, "walks"):
            writer.append(tokens)
            count_rows(tokens, counts)
            if progress is not None:
                progress(stop, walker.num_walks)
        meta = {"kind": "walks", "options": asdict(options), "seed": seed, "is_directed": graph.is_directed}
        return writer.finish(graph.keys, counts, meta)

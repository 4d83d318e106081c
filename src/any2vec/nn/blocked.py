"""`dense_blocks`: sums over neighbors where some of the graph's blocks are multiplied as dense matrices.

Source: GCoD (You et al., HPCA 2022), whose denser and sparser branches are two parts of a chip; here they are matrix
products and the kernels of `aggregate`. Ours: a block is dense where that was measured to be faster.

Legend: N nodes, P blocks, D columns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from any2vec.checks import check_whole
from any2vec.errors import InputError
from any2vec.nn.aggregate import Neighbors, aggregate, check_range, check_tensors, spread
from any2vec.plan.sharding.degree_blocks import diagonal_blocks, entries_within
from any2vec.plan.sharding.graph import MAX_PARTS
from any2vec.plan.sharding.node_orders import reordered
from any2vec.types import Csr

_TRIES = 7
_GAIN = 0.97
"""of the time without dense blocks, that with them must be below"""
_TRIED = 16
"""blocks whose products are timed"""
_NO_EDGES = torch.empty(2, 0, dtype=torch.int64)


class DenseBlock(NamedTuple):
    """Entries among the nodes [start, stop)."""

    start: int
    stop: int
    matrix: torch.Tensor
    """float32 (stop - start, stop - start): 1 from row i's node to its neighbor j, else 0"""


class BlockedGraph:
    """A graph as dense blocks on its diagonal and the other entries; each neighbor counts as 1.

    Args:
        csr: in-neighbors, nodes in the order of the blocks.
        stop_P1: integers (P + 1,): where blocks end, ascending from 0 to N.
        is_dense_P: which are kept as dense matrices, 4 bytes times the square of their nodes.
    """

    def __init__(self, csr: Csr, stop_P1: np.ndarray, is_dense_P: np.ndarray) -> None:
        block_N = np.repeat(np.where(is_dense_P, np.arange(len(is_dense_P)), -1), np.diff(stop_P1))
        row_M = np.repeat(np.arange(len(csr.indptr) - 1), np.diff(csr.indptr))
        within_M = (block_N[row_M] == block_N[csr.indices]) & (block_N[row_M] >= 0)
        self.dense: list[DenseBlock] = []
        ends = np.searchsorted(row_M[within_M], stop_P1)
        rows, columns = row_M[within_M], csr.indices[within_M]
        for block in np.flatnonzero(is_dense_P).tolist():
            start, stop = int(stop_P1[block]), int(stop_P1[block + 1])
            matrix, part = torch.zeros(stop - start, stop - start), slice(ends[block], ends[block + 1])
            matrix.numpy()[rows[part] - start, columns[part] - start] = 1
            self.dense.append(DenseBlock(start, stop, matrix))
        kept = np.bincount(row_M[~within_M], minlength=len(csr.indptr) - 1)
        self.rest = Neighbors(np.concatenate([[0], np.cumsum(kept)]), csr.indices[~within_M])
        """entries of no dense block"""
        self.share = float(within_M.mean()) if len(within_M) else 0.0
        """of the entries, those in dense blocks"""

    def sum(self, x: torch.Tensor) -> torch.Tensor:
        """float32 (N, D): for each node the sum of its in-neighbors' rows x, float32 (N, D); with its gradient.

        Raises:
            InputError: x is of another kind, or not a row a node.
        """
        num = len(self.rest.stop_F1) - 1
        if not (isinstance(x, torch.Tensor) and x.dtype == torch.float32 and x.ndim == 2 and len(x) == num):
            check_tensors(x, _NO_EDGES)
            raise InputError(f"x must be float32, {num:,} rows, one a node; got {x.dtype} {tuple(x.shape)}.")
        if not self.dense:
            return aggregate(x, self.rest, reduce="sum")
        found: torch.Tensor = _Sum.apply(x, self)
        return found


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, graph: BlockedGraph) -> torch.Tensor:
        ctx.graph = graph
        out = aggregate(x, graph.rest, reduce="sum")
        for start, stop, matrix in graph.dense:
            out[start:stop].addmm_(matrix, x[start:stop])
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        grad, out = grad.contiguous(), torch.zeros_like(grad, memory_format=torch.contiguous_format)
        spread(ctx.graph.rest, grad.numpy(), False, out.numpy())
        for start, stop, matrix in ctx.graph.dense:
            out[start:stop].addmm_(matrix.T, grad[start:stop])
        return out, None


def dense_blocks(
    edge_index: torch.Tensor, num_nodes: int, columns: int, block_nodes: int = 128,
    thresholds: Sequence[int] | None = None,
) -> tuple[BlockedGraph, torch.Tensor]:  # fmt: skip
    """(the graph in GCoD's order, blocks on its diagonal dense where that is faster here; int64 (N,): its node p is
    order[p]). So `graph.sum(x[order])` are sums over in-neighbors, row p that of node order[p].

    Blocks and all edges are timed for rows of `columns` numbers, with as many threads as torch has now: which blocks
    are dense, and so how sums are rounded, depends on the machine, and may change from call to call.

    Args:
        edge_index: int64 (2, S), from node to node; an edge that is there twice counts once. num_nodes: N, 1 or more.
        block_nodes: about so many are in a block, 1 or more.
        thresholds: ascending; of degrees, which cut the nodes into classes, a block being of one; []: one class. By
            default the mean degree, rounded up.

    Raises:
        InputError: an edge leads outside, an argument is not legal, or METIS is not installed.
    """
    check_whole("num_nodes", num_nodes, 1, 1 << 31)
    check_whole("columns", columns, 1, 1 << 20)
    check_whole("block_nodes", block_nodes, 1, 1 << 31)
    check_tensors(torch.empty(0, 0), edge_index)
    check_range(edge_index, num_nodes, num_nodes)
    src, dst = np.unique(edge_index.numpy().astype(np.int64), axis=1)
    by_target = np.argsort(dst, kind="stable")
    csr = Csr(np.searchsorted(dst[by_target], np.arange(num_nodes + 1)), src[by_target].astype(np.int32), np.empty(0))
    found = diagonal_blocks(csr, max(1, min(MAX_PARTS, num_nodes // block_nodes)), thresholds)
    return tuned(reordered(csr, found.order_N), found.stop_P1, columns), torch.from_numpy(found.order_N)


def tuned(csr: Csr, stop_P1: np.ndarray, columns: int) -> BlockedGraph:
    """The graph with those blocks dense for which that is faster on this machine, for rows of so many columns.

    Sums along entries, and products of some sizes of blocks, are timed with as many threads as torch has now; a block
    is dense where its product is expected to take less time than its entries. Where the whole is then not 3 % faster
    than sums along entries, none is.
    """
    num_nodes, num_blocks = len(csr.indptr) - 1, len(stop_P1) - 1
    plain = BlockedGraph(csr, stop_P1, np.zeros(num_blocks, bool))
    x = torch.ones(num_nodes, columns)
    (entries_seconds,) = _seconds(lambda: plain.sum(x))
    size_P = np.diff(stop_P1)
    expected_P = entries_within(csr, stop_P1) * (entries_seconds / max(1, len(csr.indices)))
    is_dense_P = expected_P > _product_seconds(size_P, columns)
    if not is_dense_P.any():
        return plain
    found = BlockedGraph(csr, stop_P1, is_dense_P)
    ours, theirs = _seconds(lambda: found.sum(x), lambda: plain.sum(x))
    return found if ours < _GAIN * theirs else plain


def _product_seconds(size_P: np.ndarray, columns: int) -> np.ndarray:
    """Of each block, by those of `_TRIED` sizes between the least and the largest."""
    tried = np.unique(np.linspace(size_P.min(), size_P.max(), _TRIED).astype(np.int64))
    seconds = []
    for size in tried.tolist():
        matrix, x, out = torch.ones(size, size), torch.ones(size, columns), torch.zeros(size, columns)
        seconds += _seconds(lambda out=out, matrix=matrix, x=x: out.addmm_(matrix, x))  # type: ignore[misc]
    return np.interp(size_P, tried, seconds)


def _seconds(*works: Callable[[], object]) -> list[float]:
    """Of each the least of several times, taken in turn."""
    found = [float("inf")] * len(works)
    for _ in range(_TRIES):
        for place, work in enumerate(works):
            started = time.perf_counter()
            work()
            found[place] = min(found[place], time.perf_counter() - started)
    return found

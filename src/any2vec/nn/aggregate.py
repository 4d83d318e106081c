"""`aggregate`: sums, means and maxima over the edges of a batch or a whole graph, with gradients, on the processor.

Legend: F nodes that aggregate, S edges, M nodes that have rows, D columns.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from any2vec.checks import check_choice
from any2vec.errors import InputError
from any2vec.nn.rounded import RoundedRows
from any2vec.nn.threads import in_parts, over_nodes, threads_for

REDUCTIONS = ("mean", "sum", "max")
_EMPTY = torch.empty(0, 0)


class Neighbors(NamedTuple):
    """Edges by the node that aggregates, taken as they are: nothing is checked."""

    stop_F1: np.ndarray
    """int64: the neighbors of node i are [stop[i], stop[i + 1])"""
    neighbor_S: np.ndarray
    """integers: rows"""
    reverse: Neighbors | None = None
    """the same edges by the row that they lead from, for gradients; where they are many batches'"""
    weight_S: np.ndarray | None = None
    """float32: of rows in a mean, which then is the sum of rows times them; None: they count alike"""


def aggregate(
    x: torch.Tensor | RoundedRows, edge_index: torch.Tensor | Neighbors, num_nodes: int | None = None,
    reduce: str = "mean",
) -> torch.Tensor:  # fmt: skip
    """For each node the mean, sum, or maximum by column, of its in-neighbors' rows, (F, D); 0 without any.

    Args:
        x: float32 or float64 (M, D), on the processor; or what `round_rows` makes of such, whose sums and means are
            float32 and have no gradient.
        edge_index: int64 (2, S): from row edge_index[0] of x to node edge_index[1]. Sorted by target, as
            `NeighborLoader` gives it, it is used as it is; else it is grouped, O(S). Or `Neighbors`, of F nodes.
        num_nodes: F; by default M.
        reduce: mean, sum or max.

    The gradient of x is exact, and the same from run to run: edges are added up in their order; rows that
    are equally large share it.

    Raises:
        InputError: a tensor is of another kind, or an edge leads outside.
    """
    check_choice("reduce", reduce, REDUCTIONS)
    if not isinstance(edge_index, Neighbors):
        check_tensors(_EMPTY if isinstance(x, RoundedRows) else x, edge_index)
        edge_index = neighbors_of(edge_index, len(x), len(x) if num_nodes is None else num_nodes)
    if isinstance(x, RoundedRows):
        if reduce == "max":
            raise InputError("Rounded rows have sums and means; take max of the rows themselves.")
        return _of_rounded(x, edge_index, reduce == "mean")
    if reduce == "max":
        largest: torch.Tensor = _Maximum.apply(x, edge_index.stop_F1, edge_index.neighbor_S)
        return largest
    if reduce == "mean" and edge_index.weight_S is not None:
        return weighted_mean(x, edge_index)
    found: torch.Tensor = _Aggregate.apply(x, edge_index, reduce == "mean")
    return found


def weighted_mean(x_MD: torch.Tensor, neighbors: Neighbors) -> torch.Tensor:
    """The sums of rows times their weights, (F, D)."""
    assert neighbors.weight_S is not None
    return weighted_sum(x_MD, neighbors, torch.from_numpy(neighbors.weight_S[:, None]).to(x_MD.dtype))


def weighted_sum(x_MD: torch.Tensor, neighbors: Neighbors, weight_SH: torch.Tensor) -> torch.Tensor:
    """For each node the sum of its in-neighbors' rows, each times its edge's weight, head by head, (F, D)."""
    found: torch.Tensor = _WeightedSum.apply(x_MD, weight_SH, *neighbors[:2])
    return found


def check_tensors(x: torch.Tensor, edge_index: torch.Tensor) -> None:
    """Raise InputError unless x can be aggregated along these edges, wherever they lead."""
    for name, value in (("x", x), ("edge_index", edge_index)):
        if not isinstance(value, torch.Tensor):
            raise InputError(f"{name} must be a torch tensor, got {type(value).__name__}; torch.as_tensor makes one.")
    if x.device.type != "cpu" or x.dtype not in (torch.float32, torch.float64) or x.ndim != 2:
        raise InputError(
            f"x must be float32 or float64 (nodes, columns) on cpu, got {x.dtype} {tuple(x.shape)} on {x.device}."
        )
    if (
        edge_index.device.type != "cpu"
        or edge_index.ndim != 2
        or len(edge_index) != 2
        or edge_index.is_floating_point()
        or edge_index.dtype == torch.bool
    ):
        raise InputError(
            f"edge_index must be whole numbers (2, edges) on cpu, got {edge_index.dtype} {tuple(edge_index.shape)}."
        )


def neighbors_of(edge_index: torch.Tensor, num_sources: int, num_nodes: int) -> Neighbors:
    """The edges by target. InputError where one leads outside."""
    from any2vec.kernels.graph.neighbors import group_by_target

    check_range(edge_index, num_sources, num_nodes)
    src, dst = edge_index.numpy()
    if (dst[1:] >= dst[:-1]).all():
        return Neighbors(np.searchsorted(dst, np.arange(num_nodes + 1)), np.ascontiguousarray(src))
    stop_F1, neighbor_S = np.zeros(num_nodes + 1, np.int64), np.empty(len(src), np.int32)
    group_by_target(src, dst, stop_F1, neighbor_S, np.empty(len(src), np.int64))
    return Neighbors(stop_F1, neighbor_S)


def check_range(edge_index: torch.Tensor, num_sources: int, num_nodes: int) -> None:
    """Raise InputError where an edge leads outside."""
    src, dst = edge_index.numpy()
    for ends, size, row in ((src, num_sources, 0), (dst, num_nodes, 1)):
        if len(ends) and not 0 <= int(ends.min()) <= int(ends.max()) < size:
            raise InputError(f"edge_index[{row}] must be from 0 to {size - 1:,}, got {ends.min()} to {ends.max()}.")


class _Aggregate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, neighbors: Neighbors, mean: bool) -> torch.Tensor:
        ctx.known, ctx.size = (neighbors, mean), len(x)
        out = x.new_empty(len(neighbors.stop_F1) - 1, x.shape[1])
        _gather(neighbors, x.detach().contiguous().numpy(), mean, out.numpy())
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        neighbors, mean = ctx.known
        if neighbors.reverse is None:
            out = grad.new_zeros(ctx.size, grad.shape[1])
            spread(neighbors, grad.contiguous().numpy(), mean, out.numpy())
            return out, None, None
        out = grad.new_empty(ctx.size, grad.shape[1])
        if mean:
            counts = torch.from_numpy(np.diff(neighbors.stop_F1).astype(np.float32)).clamp_(min=1)
            grad = grad / counts.to(grad.dtype)[:, None]
        _gather(neighbors.reverse, grad.contiguous().numpy(), False, out.numpy())
        return out, None, None


def _gather(neighbors: Neighbors, x_MD: np.ndarray, mean: bool, out_FD: np.ndarray) -> None:
    from any2vec.kernels.graph.aggregate import aggregate_rows

    def work(first: int, stop: int) -> None:
        aggregate_rows(neighbors.stop_F1[first : stop + 1], neighbors.neighbor_S, x_MD, mean, out_FD[first:stop])

    over_nodes(work, neighbors.stop_F1, x_MD.shape[1])


def _of_rounded(x: RoundedRows, neighbors: Neighbors, mean: bool) -> torch.Tensor:
    from any2vec.kernels.graph.rounded import aggregate_codes, aggregate_halves

    out = torch.empty(len(neighbors.stop_F1) - 1, x.row_MD.shape[1])
    out_FD = out.numpy()

    def work(first: int, stop: int) -> None:
        edges, part = (neighbors.stop_F1[first : stop + 1], neighbors.neighbor_S), out_FD[first:stop]
        if len(x.scale_M):
            aggregate_codes(*edges, x.row_MD, x.scale_M, mean, part)
        else:
            aggregate_halves(*edges, x.row_MD, mean, part)

    over_nodes(work, neighbors.stop_F1, out_FD.shape[1])
    return out


def spread(neighbors: Neighbors, grad_FD: np.ndarray, mean: bool, out_MD: np.ndarray) -> None:
    """Add to out what each row gets of the sums, or means, that it is part of; C order, of one float type."""
    from any2vec.kernels.graph.aggregate import spread_rows

    def work(part: int, parts: int) -> None:
        spread_rows(neighbors.stop_F1, neighbors.neighbor_S, grad_FD, mean, part, parts, out_MD)

    in_parts(work, threads_for(len(neighbors.neighbor_S) * grad_FD.shape[1]))


class _Maximum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, stop_F1: np.ndarray, neighbor_S: np.ndarray) -> torch.Tensor:
        from any2vec.kernels.graph.aggregate import max_rows

        rows, out = x.detach().contiguous(), x.new_empty(len(stop_F1) - 1, x.shape[1])
        x_MD, out_FD = rows.numpy(), out.numpy()

        def work(first: int, stop: int) -> None:
            max_rows(stop_F1[first : stop + 1], neighbor_S, x_MD, out_FD[first:stop])

        over_nodes(work, stop_F1, x.shape[1])
        ctx.edges = (stop_F1, neighbor_S)
        ctx.save_for_backward(rows, out)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        from any2vec.kernels.graph.aggregate import spread_max

        rows, largest = ctx.saved_tensors
        out = grad.new_zeros(rows.shape)
        spread_max(*ctx.edges, rows.numpy(), largest.detach().numpy(), grad.contiguous().numpy(), out.numpy())
        return out, None, None


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x_MD: torch.Tensor, weight_SH: torch.Tensor, stop_F1: np.ndarray, neighbor_S: np.ndarray
    ) -> torch.Tensor:
        from any2vec.kernels.graph.attention import sum_weighted

        weight, rows = weight_SH.detach().contiguous(), x_MD.detach().contiguous()
        out_FD = x_MD.new_empty(len(stop_F1) - 1, x_MD.shape[1])
        sum_weighted(stop_F1, neighbor_S, weight.numpy(), rows.numpy(), out_FD.numpy())
        ctx.edges = (stop_F1, neighbor_S)
        ctx.save_for_backward(weight, rows)  # which refuses them where they were changed in place since
        return out_FD

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_FD: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        from any2vec.kernels.graph.attention import sum_weighted_gradient

        weight_SH, x_MD = (one.numpy() for one in ctx.saved_tensors)
        weight, x = grad_FD.new_empty(weight_SH.shape), grad_FD.new_zeros(x_MD.shape)
        sum_weighted_gradient(*ctx.edges, weight_SH, x_MD, grad_FD.contiguous().numpy(), weight.numpy(), x.numpy())
        return x, weight, None, None

"""Attention over edges, with gradients, on the processor: weights by softmax at each target.

Legend: F nodes that aggregate, S edges, M nodes that have rows, H heads, C columns of a head, D = H C, K features of an
edge.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from any2vec.nn.aggregate import Neighbors, aggregate


def with_self_loops(neighbors: Neighbors, num_sources: int) -> Neighbors:
    """The edges without self-loops, and one of each node that has a row of its own: number i is row i."""
    from any2vec.kernels.graph.attention import add_self_loops

    num = min(num_sources, len(neighbors.stop_F1) - 1)
    stop_F1 = np.empty(len(neighbors.stop_F1), np.int64)
    neighbor = np.empty(len(neighbors.neighbor_S) + num, neighbors.neighbor_S.dtype)
    add_self_loops(*neighbors[:2], num, stop_F1, neighbor)
    return Neighbors(stop_F1, neighbor[: stop_F1[-1]])


def with_edge_loops(
    neighbors: Neighbors, num_sources: int, edge_SK: torch.Tensor
) -> tuple[Neighbors, torch.Tensor]:  # fmt: skip
    """As `with_self_loops`, and the features of these edges: of a node's loop the mean of its other in-edges'."""
    from any2vec.kernels.graph.attention import add_edge_loops

    num, size = min(num_sources, len(neighbors.stop_F1) - 1), len(neighbors.neighbor_S)
    stop_F1 = np.empty(len(neighbors.stop_F1), np.int64)
    neighbor, place = np.empty(size + num, neighbors.neighbor_S.dtype), np.empty(size + num, np.int64)
    add_edge_loops(*neighbors[:2], num, stop_F1, neighbor, place)
    place = place[: stop_F1[-1]]
    others = Neighbors((stop_F1 - np.minimum(np.arange(len(stop_F1)), num))[: num + 1], place[place < size])
    rows = torch.cat([edge_SK, aggregate(edge_SK, others)])
    return Neighbors(stop_F1, neighbor[: stop_F1[-1]]), rows.index_select(0, torch.from_numpy(place))


class SumWeights(torch.autograd.Function):
    """Softmax of leaky(source + target), (S, H); source (M, H), target (F, H); share: of nodes (F,), or (0,)."""

    @staticmethod
    def forward(
        ctx: Any, source_MH: torch.Tensor, target_FH: torch.Tensor, neighbors: Neighbors, share_F: np.ndarray,
        slope: float,
    ) -> torch.Tensor:  # fmt: skip
        from any2vec.kernels.graph.attention import weigh_sums

        rows = _array(source_MH), _array(target_FH)
        weight_SH = source_MH.new_empty(len(neighbors.neighbor_S), source_MH.shape[1])
        weigh_sums(*neighbors[:2], share_F.astype(rows[0].dtype), *rows, slope, weight_SH.numpy())
        ctx.known = (*neighbors[:2], *rows, slope, weight_SH.numpy())
        return weight_SH

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_SH: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        from any2vec.kernels.graph.attention import weigh_sums_gradient

        _, _, source_MH, target_FH, _, _ = ctx.known
        source, target = grad_SH.new_zeros(source_MH.shape), grad_SH.new_zeros(target_FH.shape)
        weigh_sums_gradient(*ctx.known, _array(grad_SH), source.numpy(), target.numpy())
        return source, target, None, None, None


class PairWeights(torch.autograd.Function):
    """Softmax of attention . leaky(source + target) by head, (S, H); source (M, D), target (F, D), attention (D,)."""

    @staticmethod
    def forward(
        ctx: Any, source_MD: torch.Tensor, target_FD: torch.Tensor, attention_D: torch.Tensor, heads: int,
        neighbors: Neighbors, share_F: np.ndarray, slope: float,
    ) -> torch.Tensor:  # fmt: skip
        from any2vec.kernels.graph.attention import weigh_pairs

        rows = _array(source_MD), _array(target_FD), _array(attention_D)
        weight_SH = source_MD.new_empty(len(neighbors.neighbor_S), heads)
        weigh_pairs(*neighbors[:2], share_F.astype(rows[0].dtype), *rows, slope, weight_SH.numpy())
        ctx.known = (*neighbors[:2], *rows, slope, weight_SH.numpy())
        return weight_SH

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_SH: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        from any2vec.kernels.graph.attention import weigh_pairs_gradient

        _, _, source_MD, target_FD, attention_D, _, _ = ctx.known
        source, target = grad_SH.new_zeros(source_MD.shape), grad_SH.new_zeros(target_FD.shape)
        attention = np.zeros(attention_D.shape, np.float64)
        weigh_pairs_gradient(*ctx.known, _array(grad_SH), source.numpy(), target.numpy(), attention)
        return source, target, torch.from_numpy(attention.astype(attention_D.dtype)), None, None, None, None


class EdgeSumWeights(torch.autograd.Function):
    """Softmax of leaky(source + target + edge), (S, H); edge (S, H); else as `SumWeights`."""

    @staticmethod
    def forward(
        ctx: Any, source_MH: torch.Tensor, target_FH: torch.Tensor, edge_SH: torch.Tensor, neighbors: Neighbors,
        share_F: np.ndarray, slope: float,
    ) -> torch.Tensor:  # fmt: skip
        from any2vec.kernels.graph.attention import weigh_edge_sums

        rows = _array(source_MH), _array(target_FH), _array(edge_SH)
        weight_SH = torch.empty_like(edge_SH, memory_format=torch.contiguous_format)
        weigh_edge_sums(*neighbors[:2], share_F.astype(rows[0].dtype), *rows, slope, weight_SH.numpy())
        ctx.known = (*neighbors[:2], *rows, slope, weight_SH.numpy())
        return weight_SH

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_SH: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        from any2vec.kernels.graph.attention import weigh_edge_sums_gradient

        _, _, source_MH, target_FH, edge_SH, _, _ = ctx.known
        grads = [grad_SH.new_zeros(rows.shape) for rows in (source_MH, target_FH, edge_SH)]
        weigh_edge_sums_gradient(*ctx.known, _array(grad_SH), *(grad.numpy() for grad in grads))
        return *grads, None, None, None


class EdgePairWeights(torch.autograd.Function):
    """Softmax of attention . leaky(source + target + edge) by head, (S, H); edge (S, D); else as `PairWeights`."""

    @staticmethod
    def forward(
        ctx: Any, source_MD: torch.Tensor, target_FD: torch.Tensor, edge_SD: torch.Tensor, attention_D: torch.Tensor,
        heads: int, neighbors: Neighbors, share_F: np.ndarray, slope: float,
    ) -> torch.Tensor:  # fmt: skip
        from any2vec.kernels.graph.attention import weigh_edge_pairs

        rows = _array(source_MD), _array(target_FD), _array(edge_SD), _array(attention_D)
        weight_SH = source_MD.new_empty(len(neighbors.neighbor_S), heads)
        weigh_edge_pairs(*neighbors[:2], share_F.astype(rows[0].dtype), *rows, slope, weight_SH.numpy())
        ctx.known = (*neighbors[:2], *rows, slope, weight_SH.numpy())
        return weight_SH

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_SH: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        from any2vec.kernels.graph.attention import weigh_edge_pairs_gradient

        _, _, source_MD, target_FD, edge_SD, attention_D, _, _ = ctx.known
        grads = [grad_SH.new_zeros(rows.shape) for rows in (source_MD, target_FD, edge_SD)]
        attention = np.zeros(attention_D.shape, np.float64)
        weigh_edge_pairs_gradient(*ctx.known, _array(grad_SH), *(grad.numpy() for grad in grads), attention)
        return *grads, torch.from_numpy(attention.astype(attention_D.dtype)), None, None, None, None


def _array(tensor: torch.Tensor) -> np.ndarray:
    found: np.ndarray = tensor.detach().contiguous().numpy()
    return found

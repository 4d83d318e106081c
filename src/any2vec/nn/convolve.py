"""`convolve`: the sum of a graph convolution (Kipf and Welling 2017, equation 2), normalized, in one pass over rows.

Legend: M nodes that have rows, F of them, the first ones, that the convolution answers for, D columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from any2vec.nn.aggregate import Neighbors, spread, weighted_mean
from any2vec.nn.threads import over_nodes


def convolve(x_MD: torch.Tensor, neighbors: Neighbors, degree_M1: torch.Tensor) -> torch.Tensor:
    """(F, D): sum over the node and its neighbors of x / sqrt((degree + 1) (degree' + 1)).

    degree: in-neighbors in the graph, float (M or more, 1); the sum over a sample of them counts for all: its mean, by
    its weights where it has some, times their number.
    """
    if neighbors.weight_S is not None:
        root_M1 = (degree_M1[: len(x_MD)] + 1).rsqrt()
        scaled_MD, num = x_MD * root_M1, len(neighbors.stop_F1) - 1
        return (weighted_mean(scaled_MD, neighbors) * degree_M1[:num] + scaled_MD[:num]) * root_M1[:num]
    found: torch.Tensor = _Convolve.apply(x_MD, neighbors, degree_M1[: len(x_MD)])
    return found


def convolve_part(x_ND: torch.Tensor, neighbors: Neighbors, root_N: np.ndarray, first: int) -> torch.Tensor:
    """(F, D): the same of the nodes from `first` on, without a gradient.

    neighbors: all that these nodes have in the graph, by number of node. root: float32, 1 / sqrt(degree + 1).
    """
    own_F = root_N[first : first + len(neighbors.stop_F1) - 1]
    return _convolved(neighbors, x_ND, root_N, own_F, own_F, first)


class _Convolve(torch.autograd.Function):
    """out = after (A before x + own x); its gradient = before (A' after g) + own after g, A' the reverse of A."""

    @staticmethod
    def forward(ctx: Any, x_MD: torch.Tensor, neighbors: Neighbors, degree_M1: torch.Tensor) -> torch.Tensor:
        num_targets = len(neighbors.stop_F1) - 1
        degree_M = degree_M1.numpy().reshape(-1).astype(x_MD.detach().numpy().dtype)
        root_M = 1 / np.sqrt(degree_M + 1)
        counts = np.maximum(np.diff(neighbors.stop_F1), 1)
        each_F = np.where(degree_M[:num_targets] > 0, degree_M[:num_targets] / counts, 1).astype(root_M.dtype)
        own_F, after_F = root_M[:num_targets] / each_F, root_M[:num_targets] * each_F
        ctx.known = neighbors, root_M, own_F, after_F
        return _convolved(neighbors, x_MD.detach(), root_M, own_F, after_F)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_FD: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        neighbors, root_M, own_F, after_F = ctx.known
        if neighbors.reverse is not None:
            own_M = own_F * after_F / root_M  # M is F
            return _convolved(neighbors.reverse, grad_FD, after_F, own_M, root_M), None, None
        scaled_FD = grad_FD * torch.from_numpy(after_F)[:, None]
        out_MD = grad_FD.new_zeros(len(root_M), grad_FD.shape[1])
        spread(neighbors, scaled_FD.numpy(), False, out_MD.numpy())
        out_MD *= torch.from_numpy(root_M)[:, None]
        out_MD[: len(own_F)] += scaled_FD * torch.from_numpy(own_F)[:, None]
        return out_MD, None, None


def _convolved(
    neighbors: Neighbors, x: torch.Tensor, before_M: np.ndarray, own_F: np.ndarray, after_F: np.ndarray, first: int = 0
) -> torch.Tensor:  # fmt: skip
    """first: the row of the first of the F nodes."""
    from any2vec.kernels.graph.aggregate import convolve_rows

    x_MD = x.contiguous().numpy()
    out = x.new_empty(len(own_F), x.shape[1])
    out_FD = out.numpy()

    def work(start: int, stop: int) -> None:
        part = slice(start, stop)
        convolve_rows(
            neighbors.stop_F1[start : stop + 1], neighbors.neighbor_S, x_MD, x_MD[first + start : first + stop],
            before_M, own_F[part], after_F[part], out_FD[part],
        )  # fmt: skip

    over_nodes(work, neighbors.stop_F1, x_MD.shape[1])
    return out

"""Edges of several relations by relation and target, and what is computed of the groups.

Legend: F nodes that aggregate, S edges, R relations, G groups of edges of one relation into one node, B bases, N rows
of a basis, I and O columns in and out.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from any2vec.errors import InputError
from any2vec.nn.aggregate import Neighbors
from any2vec.nn.threads import over_nodes


class RelationGroups:
    """Edges in groups, one for each relation and node that has some of it; nothing is checked. They are made when they
    are first asked for.

    Args:
        neighbors: of the F nodes. type_S: integers in [0, num_relations): relations of the edges.
    """

    def __init__(self, neighbors: Neighbors, type_S: np.ndarray, num_relations: int) -> None:
        self._edges = neighbors, type_S, num_relations

    def __len__(self) -> int:
        """F"""
        return len(self._edges[0].stop_F1) - 1

    @property
    def neighbors(self) -> Neighbors:
        """Of the G groups, by relation, then by node."""
        return self._sorted[0]

    @property
    def cut_R1(self) -> np.ndarray:  # noqa: N802
        """int64: the groups of relation r are [cut[r], cut[r + 1])."""
        return self._sorted[1]

    @property
    def groups(self) -> Neighbors:
        """Of the F nodes: their groups, by relation."""
        return self._sorted[2]

    @cached_property
    def _sorted(self) -> tuple[Neighbors, np.ndarray, Neighbors]:
        from any2vec.kernels.graph.relations import group_by_relation

        (stop_F1, given_S, *_), type_S, num_relations = self._edges
        size = int(stop_F1[-1])
        neighbor_S, stop_S1 = np.empty(size, given_S.dtype), np.empty(size + 1, np.int64)
        cut_R1, place_F1 = np.zeros(num_relations + 1, np.int64), np.zeros(len(stop_F1), np.int64)
        group_S, scratch_S = np.empty(size, np.int32), np.empty(size, np.int32)
        num = group_by_relation(
            stop_F1, given_S[:size], type_S[:size], cut_R1, neighbor_S, scratch_S, stop_S1, place_F1, group_S
        )
        return Neighbors(stop_S1[: num + 1].copy(), neighbor_S), cut_R1, Neighbors(place_F1, group_S[:num].copy())

    @cached_property
    def type_G(self) -> np.ndarray:  # noqa: N802 - a shape letter
        """int64: relation of each group."""
        return np.repeat(np.arange(len(self.cut_R1) - 1), np.diff(self.cut_R1))

    @cached_property
    def type_S(self) -> np.ndarray:  # noqa: N802
        """int64: relation of each edge, in the order of the groups."""
        return np.repeat(self.type_G, np.diff(self.neighbors.stop_F1))


def check_types(edge_type: Any, num_edges: int, num_relations: int) -> None:
    """Raise InputError unless it holds a relation for each edge."""
    if not isinstance(edge_type, torch.Tensor) or edge_type.shape != (num_edges,) or edge_type.is_floating_point():
        got = f"{edge_type.dtype} {tuple(edge_type.shape)}" if isinstance(edge_type, torch.Tensor) else edge_type
        raise InputError(f"edge_type must be whole numbers, one for each of {num_edges:,} edges, got {got}.")
    if num_edges and not 0 <= int(edge_type.min()) <= int(edge_type.max()) < num_relations:
        low, high = int(edge_type.min()), int(edge_type.max())
        raise InputError(f"edge_type must be from 0 to {num_relations - 1:,}, got {low} to {high}.")


class RelationProduct(torch.autograd.Function):
    """Rows of groups (G, I) times the matrix of their relation, (R, I, O) or of blocks (R, C, I/C, O/C): (G, O)."""

    @staticmethod
    def forward(ctx: Any, x_GI: torch.Tensor, weight: torch.Tensor, cut_R1: np.ndarray) -> torch.Tensor:
        blocks = weight.shape[1] if weight.ndim == 4 else 1
        out_GO = x_GI.new_empty(len(x_GI), blocks * weight.shape[-1])
        for relation, part in _parts(cut_R1):
            out_GO[part] = _times(x_GI[part], weight[relation])
        ctx.save_for_backward(x_GI, weight)
        ctx.cut_R1 = cut_R1
        return out_GO

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_GO: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor, None]:
        x_GI, weight = ctx.saved_tensors
        grad_GI = torch.empty_like(x_GI) if ctx.needs_input_grad[0] else None
        grad_weight = torch.zeros_like(weight)
        for relation, part in _parts(ctx.cut_R1):
            if grad_GI is not None:
                grad_GI[part] = _times(grad_GO[part], weight[relation].transpose(-1, -2))
            if weight.ndim == 3:
                grad_weight[relation] = x_GI[part].T @ grad_GO[part]
            else:
                x, grad = (rows.unflatten(1, (weight.shape[1], -1)) for rows in (x_GI[part], grad_GO[part]))
                grad_weight[relation] = torch.bmm(x.permute(1, 2, 0), grad.transpose(0, 1))
        return grad_GI, grad_weight, None


class BasisMix(torch.autograd.Function):
    """Means over the edges of each group of rows of sum over b of share[relation, b] basis[b], (G, O).

    row_S: rows of the bases, by edge, in the order of the groups.
    """

    @staticmethod
    def forward(
        ctx: Any, share_RB: torch.Tensor, basis_BNO: torch.Tensor, found: RelationGroups, row_S: np.ndarray
    ) -> torch.Tensor:
        from any2vec.kernels.graph.relations import mix_bases

        stop_G1, type_G = found.neighbors.stop_F1, found.type_G
        share, basis = (one.detach().contiguous() for one in (share_RB, basis_BNO))
        out = basis.new_empty(len(type_G), basis.shape[2])
        share_, basis_, out_ = share.numpy(), basis.numpy(), out.numpy()

        def work(first: int, stop: int) -> None:
            mix_bases(stop_G1[first : stop + 1], row_S, type_G[first:stop], share_, basis_, out_[first:stop])

        over_nodes(work, stop_G1, basis.shape[0] * basis.shape[2])
        ctx.known = stop_G1, row_S, type_G
        ctx.save_for_backward(share, basis)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_GO: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None, None]:
        from any2vec.kernels.graph.relations import mix_bases_gradient

        share, basis = ctx.saved_tensors
        grad_share, grad_basis = torch.zeros(share.shape, dtype=torch.float64), torch.zeros_like(basis)
        mix_bases_gradient(
            *ctx.known, share.numpy(), basis.numpy(), grad_GO.contiguous().numpy(), grad_share.numpy(),
            grad_basis.numpy(),
        )  # fmt: skip
        return grad_share.to(share.dtype), grad_basis, None, None


def _parts(cut_R1: np.ndarray) -> list[tuple[int, slice]]:
    """Relations that have groups, and which these are."""
    cuts = cut_R1.tolist()
    return [(relation, slice(*pair)) for relation, pair in enumerate(pairwise(cuts)) if pair[0] < pair[1]]


def _times(x_GI: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """Rows times a matrix (I, O), or times blocks of one, (C, I/C, O/C), each its own columns: (G, O)."""
    if matrix.ndim == 2:
        return x_GI @ matrix
    blocks = x_GI.unflatten(1, (len(matrix), -1)).transpose(0, 1)
    return torch.bmm(blocks, matrix).transpose(0, 1).flatten(1)

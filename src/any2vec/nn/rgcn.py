"""The relational graph convolution (Schlichtkrull et al. 2018, arXiv 1703.06103): with PyG's parameters, PyG's numbers.

Legend: M nodes that have rows, F that the layer answers for, R relations, N nodes of embeddings.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
import torch

from any2vec.checks import check_whole
from any2vec.errors import InputError
from any2vec.nn.aggregate import Neighbors, aggregate, check_tensors, neighbors_of
from any2vec.nn.relations import BasisMix, RelationGroups, RelationProduct, check_types

Rows = torch.Tensor | None


class RGCNConv(torch.nn.Module):
    """out_i = bias + root x_i + the sum over relations r of W_r times the mean of i's in-neighbors' rows by r.

    Equation 2, with 1 / c of the number of neighbors by the relation. Parameters are named as in
    `torch_geometric.nn.RGCNConv`, and start as they do there: `state_dict` goes from one to the other. A node without
    features is its number: then W_r and root hold a learned row for each.

    Args:
        in_channels: columns, 1 or more, or the number of nodes without features; a pair: of neighbors and of the node.
        out_channels: columns, 1 or more. num_relations: R, 1 or more.
        num_bases: W_r is a mixture of so many matrices (equation 3). num_blocks: W_r is block-diagonal (equation 4), of
            so many blocks, a divisor of both columns; with features only. Give one of the two, or none.
        root_weight: with the node's own row. bias: with a bias.

    Raises:
        InputError: an option is not legal.
    """

    def __init__(
        self, in_channels: int | tuple[int, int], out_channels: int, num_relations: int, num_bases: int | None = None,
        num_blocks: int | None = None, root_weight: bool = True, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        size, own = in_channels if isinstance(in_channels, tuple) else (in_channels, in_channels)
        for name, value, most in (
            ("in_channels", size, 1 << 31), ("in_channels", own, 1 << 31), ("out_channels", out_channels, 1 << 20),
            ("num_relations", num_relations, 1 << 31), ("num_bases", 1 if num_bases is None else num_bases, 1 << 20),
            ("num_blocks", 1 if num_blocks is None else num_blocks, 1 << 20),
        ):  # fmt: skip
            check_whole(name, value, 1, most)
        if num_bases is not None and num_blocks is not None:
            raise InputError("num_bases and num_blocks are two ways to share weights; give one of them.")
        if num_blocks is not None and (size % num_blocks or out_channels % num_blocks):
            raise InputError(
                f"num_blocks must divide in_channels and out_channels, {size:,} and {out_channels:,}, got {num_blocks}."
            )
        self.num_relations, self.num_bases, self.num_blocks = num_relations, num_bases, num_blocks
        shape: tuple[int, ...] = (num_relations if num_bases is None else num_bases, size, out_channels)
        if num_blocks is not None:
            shape = (num_relations, num_blocks, size // num_blocks, out_channels // num_blocks)
        self.weight = torch.nn.Parameter(torch.empty(shape))
        self.comp = None if num_bases is None else torch.nn.Parameter(torch.empty(num_relations, num_bases))
        self.root = torch.nn.Parameter(torch.empty(own, out_channels)) if root_weight else None
        self.bias = torch.nn.Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters anew (Glorot and Bengio 2010, over the last two axes)."""
        for part in (self.weight, self.comp, self.root):
            if part is not None:
                most = sqrt(6 / (part.shape[-2] + part.shape[-1]))
                torch.nn.init.uniform_(part, -most, most)
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    def forward(
        self, x: Rows | tuple[Rows, Rows], edge_index: torch.Tensor | RelationGroups,
        edge_type: torch.Tensor | None = None,
    ) -> torch.Tensor:  # fmt: skip
        """(F, out_channels).

        Args:
            x: float rows (M, in_channels); int64 (M,): nodes without features, of [0, in_channels); None: all
                of these, in their order; or a pair, of neighbors and of the F nodes.
            edge_index: int64 (2, S): from row to row; or groups, of which nothing is checked.
            edge_type: whole numbers (S,) in [0, num_relations).

        Raises:
            InputError: as of `aggregate`; an edge's type is none; nodes without features are given to blocks.
        """
        source, own = x if isinstance(x, tuple) else (x, x)
        source = torch.arange(self.weight.shape[-2]) if source is None else source
        own = source if own is None else own
        if self.num_blocks is not None and not source.is_floating_point():
            raise InputError("num_blocks is for nodes with features; leave it out, or give float rows.")
        if not isinstance(edge_index, RelationGroups):
            edge_index = self._grouped(source, edge_index, edge_type, len(own))
            if own is not source and self.root is not None and not own.is_floating_point():
                _check_nodes(own, len(self.root))
        if source.is_floating_point():
            mean_GI = aggregate(source, edge_index.neighbors)
            found_GO: torch.Tensor = RelationProduct.apply(mean_GI, self._matrices(), edge_index.cut_R1)
        else:
            found_GO = self._embedded(source.numpy(), edge_index)
        out = aggregate(found_GO, edge_index.groups, reduce="sum")
        if self.root is not None:
            out = out + (own @ self.root if own.is_floating_point() else self.root.index_select(0, own))
        return out if self.bias is None else out + self.bias

    def _matrices(self) -> torch.Tensor:
        """(R, in, out), or blocks."""
        if self.comp is None:
            return self.weight
        return (self.comp @ self.weight.flatten(1)).unflatten(1, self.weight.shape[1:])

    def _embedded(self, node_M: np.ndarray, groups: RelationGroups) -> torch.Tensor:
        """Means over each group of its relation's rows of nodes, (G, out)."""
        stop_G1, neighbor_S = groups.neighbors.stop_F1, groups.neighbors.neighbor_S
        if self.comp is not None:
            mixed: torch.Tensor = BasisMix.apply(self.comp, self.weight, groups, node_M[neighbor_S])
            return mixed
        row_S = groups.type_S * self.weight.shape[1] + node_M[neighbor_S]
        return aggregate(self.weight.flatten(0, 1), Neighbors(stop_G1, row_S))

    def _grouped(self, source: torch.Tensor, edge_index: torch.Tensor, edge_type: Rows, num: int) -> RelationGroups:
        """The edges in groups. InputError where they, or rows, are none."""
        if source.is_floating_point():
            check_tensors(source, edge_index)
        else:
            check_tensors(torch.empty(len(source), 1), edge_index)
            _check_nodes(source, self.weight.shape[-2])
        check_types(edge_type, edge_index.shape[1], self.num_relations)
        assert edge_type is not None
        type_S = edge_type.numpy()
        if (edge_index[1, 1:] < edge_index[1, :-1]).any():
            order = edge_index[1].argsort(stable=True)
            edge_index, type_S = edge_index[:, order], type_S[order.numpy()]
        return RelationGroups(neighbors_of(edge_index, len(source), num), type_S, self.num_relations)


def _check_nodes(nodes: torch.Tensor, num: int) -> None:
    are_numbers = nodes.ndim == 1 and nodes.dtype in (torch.int64, torch.int32)
    if not are_numbers or (len(nodes) and not 0 <= int(nodes.min()) <= int(nodes.max()) < num):
        raise InputError(f"x of whole numbers must be nodes, int64 (nodes,) from 0 to {num - 1:,}.")

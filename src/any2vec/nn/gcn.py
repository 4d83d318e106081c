"""The graph convolution (Kipf and Welling 2017, equation 2): with PyG's parameters, PyG's numbers."""

from __future__ import annotations

import numpy as np
import torch

from any2vec.checks import check_whole
from any2vec.errors import InputError
from any2vec.nn.aggregate import Neighbors, check_range, check_tensors, neighbors_of, weighted_sum
from any2vec.nn.convolve import convolve


class GCNConv(torch.nn.Module):
    """out_i = bias + the sum of W x_j / sqrt(d_i d_j) over the in-neighbors j of i and i itself; d: how many these are.

    A self-loop of the graph stands for the one that is added. Parameters are named as in `torch_geometric.nn.GCNConv`,
    and start as they do there (Glorot and Bengio 2010; 0): `state_dict` goes from one to the other.

    Args:
        in_channels, out_channels: columns, 1 or more. bias: with a bias.

    Raises:
        InputError: an option is not legal.
    """

    def __init__(self, in_channels: int, out_channels: int, bias: bool = True) -> None:
        super().__init__()
        for name, size in (("in_channels", in_channels), ("out_channels", out_channels)):
            check_whole(name, size, 1, 1 << 20)
        self.lin = torch.nn.Linear(in_channels, out_channels, bias=False)
        self.bias = torch.nn.Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        torch.nn.init.xavier_uniform_(self.lin.weight)
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    def forward(
        self, x: torch.Tensor, edge_index: torch.Tensor, edge_weight: torch.Tensor | None = None
    ) -> torch.Tensor:  # fmt: skip
        """(M, out_channels).

        Args:
            x: rows (M, in_channels). edge_index: int64 (2, S), from row to row.
            edge_weight: (S,), of the type of x: how many edges each one counts as, in degrees, too; an added self-loop
                counts as one. With its gradient.

        Raises:
            InputError: as of `aggregate`; edge_weight is of another kind.
        """
        check_tensors(x, edge_index)
        check_range(edge_index, len(x), len(x))
        if edge_weight is not None:
            return self._weighted(x, edge_index, edge_weight)
        is_narrow = self.lin.weight.shape[0] < self.lin.weight.shape[1]
        found = self.lin(x) if is_narrow else x
        neighbors = neighbors_of(edge_index[:, edge_index[0] != edge_index[1]], len(x), len(x))
        found = convolve(found, neighbors, torch.from_numpy(np.diff(neighbors.stop_F1))[:, None])
        found = found if is_narrow else self.lin(found)
        return found if self.bias is None else found + self.bias

    def _weighted(self, x: torch.Tensor, edge_index: torch.Tensor, edge_weight: torch.Tensor) -> torch.Tensor:
        is_tensor, kind = isinstance(edge_weight, torch.Tensor), type(edge_weight).__name__
        if not is_tensor or edge_weight.shape != edge_index.shape[1:] or edge_weight.dtype != x.dtype:
            got = f"{edge_weight.dtype} {tuple(edge_weight.shape)}" if is_tensor else kind
            raise InputError(f"edge_weight must be {x.dtype} ({edge_index.shape[1]},), got {got}.")
        graph = WeightedGraph(edge_index, len(x))
        norm_S = graph.normalized(edge_weight)
        is_narrow = self.lin.weight.shape[0] < self.lin.weight.shape[1]
        found = weighted_sum(self.lin(x) if is_narrow else x, graph.neighbors, norm_S[:, None])
        found = found if is_narrow else self.lin(found)
        return found if self.bias is None else found + self.bias


class WeightedGraph:
    """Edges by target, the last of each node's a self-loop, grouped once for many weights; without one of its own, a
    node has one that counts as one.

    Args:
        edge_index: int64 (2, S), from node to node; of a node's self-loops the last one counts.
    """

    def __init__(self, edge_index: torch.Tensor, num_nodes: int) -> None:
        is_loop, each = edge_index[0] == edge_index[1], torch.arange(num_nodes)
        last_N = torch.full((num_nodes,), -1).scatter_reduce(0, edge_index[0, is_loop], is_loop.nonzero()[:, 0], "amax")
        self._looped = (last_N >= 0).nonzero()[:, 0]
        self._loop, self._is_edge_S, self._num_nodes = last_N[self._looped], ~is_loop, num_nodes
        src, dst = torch.cat([edge_index[:, self._is_edge_S], torch.stack([each, each])], dim=1)
        self._dst, self._order = dst.sort(stable=True)
        self._src = src[self._order]
        stop_F1 = np.searchsorted(self._dst.numpy(), np.arange(num_nodes + 1))
        self.neighbors = Neighbors(stop_F1, np.ascontiguousarray(self._src.numpy()))

    def normalized(self, weight_S: torch.Tensor) -> torch.Tensor:
        """Weights over the roots of both ends' degrees, which are sums of weights, in the order of `neighbors`."""
        loop_N = weight_S.new_ones(self._num_nodes).index_put((self._looped,), weight_S[self._loop])
        weight = torch.cat([weight_S[self._is_edge_S], loop_N])[self._order]
        root_N = weight.new_zeros(self._num_nodes).index_add(0, self._dst, weight).rsqrt()
        root_N = root_N.masked_fill(root_N == float("inf"), 0)
        return root_N[self._src] * weight * root_N[self._dst]

"""What a network says of the nodes of a graph, from all their neighbors: layer by layer, in bounded memory.

A layer is computed for all nodes that the next one asks for before that one begins, so no row is computed twice;
batches of nodes are as large as the budget allows, or all nodes go by columns (`columns`), whichever reads fewer rows.
Neighbors are added up in their order, row by row, so batches of any size give the same sums; what multiplies rows by
weights may round them differently.

Source: DGI (Yin et al. 2022, arXiv 2211.15082). Ours: what a batch reaches is counted before its rows are read, so that
one that is too large is halved before memory runs out; how many different nodes it reaches is learnt from the last one.

Legend: N nodes of the graph, K nodes asked for, M nodes whose rows a batch reads, F of them that it answers for, S
edges, D columns, C classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from any2vec import machine
from any2vec.data.attributed.edge_features import FeaturedCsr
from any2vec.data.attributed.features import FeatureRows
from any2vec.data.attributed.relations import RelationalCsr
from any2vec.data.attributed.scratch import GrowingRows
from any2vec.errors import InputError, StorageError
from any2vec.kernels.common.ranges import positions_in
from any2vec.models.networks.columns import Whole, by_columns, plan, steps_of
from any2vec.models.networks.config.base import GraphNetwork
from any2vec.models.networks.config.own import OwnModule
from any2vec.models.networks.network import Block, Network, block_of, blocks_of
from any2vec.models.networks.sizing import (
    FLOAT,
    LEAST_ROWS,
    WORK,
    distinct,
    layer_bytes,
    sampled_bytes,
)  # fmt: skip
from any2vec.nn.sparse.rows import SparseRows, rows_among
from any2vec.sampling.neighbors import Neighborhood, NeighborOptions, NeighborSampler
from any2vec.types import Csr
from any2vec.units import size

_SHARE = 2
"""of the machine's memory, one part in so many, where no budget is given"""
_MOST = 0.5
"""share of the nodes beyond which all are computed, whoever is asked for: then rows need not be gathered"""
_MARGIN = 1.1
"""times the nodes that the last batch has reached"""
_PIECE = 1 << 20


class Rows(Protocol):
    """Rows of nodes, wherever they are."""

    def take(self, ids: np.ndarray) -> np.ndarray:
        """float32 (M, D) of ids, integers (M,); of nodes without features their numbers, int64 (M,)."""


class AnyNetwork(Protocol):
    """What is computed layer by layer: a `Network`, or a user's module. M rows that a layer reads, F nodes."""

    widths: tuple[int, ...]
    """columns that each layer takes, and those of the scores"""
    is_cut: bool
    """whether it has layers; else it is computed over the whole graph"""
    hidden_columns: int
    """of what the last layer takes, those that are vectors, the first ones; 0: all"""

    def infer(self, number: int, x_MD: Any, block: Block) -> torch.Tensor:
        """What a layer gives, (F, widths[number + 1])."""

    def reads_neighbors(self, number: int) -> bool:
        """Whether a layer takes more than the nodes' own rows."""

    def edge_columns(self, number: int) -> int:
        """Numbers that a layer holds for each edge."""

    def target_columns(self, number: int) -> int:
        """Numbers that a layer makes of each node beside what it gives."""


class Counts(NamedTuple):
    """What passes have done."""

    batches: int = 0
    halved: int = 0
    """batches that were too large, and were made again of half as many nodes"""
    scratch_bytes: int = 0
    """of layers that went to a scratch file, and of messages and totals of those by columns"""
    by_columns: int = 0
    """layers that went by columns of all nodes"""

    def __add__(self, other: tuple[int, ...]) -> Counts:  # type: ignore[override]
        return Counts(*(a + b for a, b in zip(self, other, strict=True)))


class Inference:
    """Passes over one graph, any number.

    Args:
        features: of the N nodes, (N, width).
        budget_bytes: of memory for layers and batches; 0: half of the machine's.
        first: layers of the network that the features are behind already.
        degree_N: float32, what networks know of each node's number of neighbors; None: how many there are.
    """

    def __init__(
        self, csr: Csr, features: Rows, budget_bytes: int = 0, first: int = 0, degree_N: np.ndarray | None = None
    ) -> None:
        self.csr, self.features, self.first = csr, features, first
        self.sums: torch.Tensor | None = None
        """what the first of these layers sums the features up to, where that is known (`fixed_sums`)"""
        self.budget_bytes = budget_bytes or machine.memory_bytes() // _SHARE or 1 << 32
        self.counts = Counts()
        self._sampler = NeighborSampler(csr, NeighborOptions(fanouts=(-1,)))
        self._degree_N = np.diff(csr.indptr).astype(np.float32) if degree_N is None else degree_N

    def __len__(self) -> int:
        return len(self.csr.indptr) - 1

    @cached_property
    def _block(self) -> Block:
        """Of all nodes; made where a layer takes it, for features of edges may have to be read."""
        return block_of(self.csr)._replace(degree_M1=torch.from_numpy(self._degree_N[:, None]))

    def scores(self, network: AnyNetwork, nodes: np.ndarray) -> np.ndarray:
        """Scores of the classes of some nodes, integers (K,): float32 (K, C). Raises as `hidden_and_scores`."""
        return self._last_two(network, nodes)[1].take(nodes)

    def hidden_and_scores(self, network: AnyNetwork, nodes: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """(what the last hidden layer gives float32 (K, hidden), scores of classes (K, C)); None: of all nodes.

        Where they do not fit into the budget they are mapped from scratch files, which end with the arrays.

        Raises:
            InputError: the budget does not hold the neighbors of one node; it says how much does.
            StorageError: the disk is full, or cannot be written.
        """
        hidden, scores = self._last_two(network, nodes)
        if nodes is not None:
            return _first(hidden.take(nodes), network.hidden_columns), scores.take(nodes)
        rows = hidden.row_KD if isinstance(hidden, _Layer) else _whole(hidden, len(self))
        return _first(rows, network.hidden_columns), scores.row_KD

    def _last_two(self, network: AnyNetwork, nodes: np.ndarray | None) -> tuple[Rows, _Layer]:
        if not network.is_cut:
            return self._at_once(network)
        layers = [_Step(network, number, *sizes) for number, sizes in enumerate(pairwise(network.widths))][self.first :]
        self._check_budget(layers)
        rows: Any = self.features
        found: list[Any] = [rows]
        held = 0
        with torch.no_grad():
            for layer, ids in zip(layers, self._wanted(layers, nodes), strict=True):
                found = found[-1:]
                num_rows, free = len(self) if ids is None else len(ids), self.budget_bytes - held
                held = FLOAT * num_rows * layer.size_out
                if held + self.budget_bytes // WORK > free:
                    self.counts += Counts(scratch_bytes=held)
                    held = 0
                rows = self._layer(layer, rows, ids, free - held, bool(held))
                found.append(rows)
        return found[0], found[1]

    def _at_once(self, network: Any) -> tuple[Rows, _Layer]:
        """As `_last_two`, of a module that is not cut into layers: one pass over the whole graph."""
        needed = network.at_once_bytes(len(self), len(self.csr.indices))
        if needed > self.budget_bytes:
            raise InputError(
                f"{network.place} is computed over the whole graph at once, for {network.why_whole}; that takes about "
                f"{size(needed)}, and inference has {size(self.budget_bytes)}: give it so much, or write the forward "
                "so that it can be cut. NeighborLoader with num_neighbors=[-1, ...] gives batches of all neighbors of "
                "some nodes."
            )
        self.counts += Counts(1)
        with torch.no_grad():
            hidden, scores = network.at_once(torch.from_numpy(_whole(self.features, len(self))), self._block)
        return _Layer(None, hidden.numpy()), _Layer(None, scores.numpy())

    def _layer(self, layer: _Step, rows: Rows, ids: np.ndarray | None, room: int, in_memory: bool) -> _Layer:
        """What a layer gives for some nodes; None: for all."""
        num = len(self)
        if in_memory and ids is None and layer.whole_bytes(num, len(self.csr.indices), _is_at_hand(rows)) <= room:
            self.counts += Counts(1)
            block = self._block._replace(sums=self.sums) if layer.number == self.first else self._block
            x_ND = rows if isinstance(rows, SparseRows) else torch.from_numpy(_whole(rows, num))
            return _Layer(None, layer.run(x_ND, block).numpy())
        is_whole, given = ids is None, np.arange(num) if ids is None else ids
        batches = self._by_columns(layer, rows, room) if is_whole else self._batches(layer, rows, given, room)
        num_rows = num if ids is None else len(ids)
        with GrowingRows(num_rows, layer.size_out, in_memory or not num_rows) as out:
            for batch in batches:
                out.append(batch.numpy())
            return _Layer(ids, out.finish())

    def _by_columns(self, layer: _Step, rows: Rows, room: int) -> Iterator[torch.Tensor]:
        """What a layer gives for all nodes: by columns, where that reads fewer rows than batches would; in batches,
        where it does not, or for those that are left when memory or the disk is full."""
        network, num, done = layer.network, len(self), 0
        steps = steps_of(network.layers[layer.number], layer.size_in) if isinstance(network, Network) else None
        chosen = steps and plan(steps, num, len(self.csr.indices), (layer.size_in, layer.size_out), room)
        if isinstance(network, Network) and steps and chosen and chosen.cost < self._read_by_batches(layer, room):
            pieces = by_columns(steps, rows, Whole.of(self.csr, self._degree_N), chosen)
            try:
                for piece in pieces:
                    yield network.activated(layer.number, piece)
                    done += len(piece)
                self.counts += Counts(scratch_bytes=chosen.scratch_bytes, by_columns=1)
            except (MemoryError, RuntimeError, StorageError) as error:
                if not (isinstance(error, StorageError) and chosen.scratch_bytes) and not _is_lack_of_memory(error):
                    raise
            del pieces  # and what they hold
        yield from self._batches(layer, rows, np.arange(done, num), room)

    def _read_by_batches(self, layer: _Step, room: int) -> float:
        """Rows that batches of all nodes read, by one from the middle."""
        num = len(self)
        first = num // 2
        stop = _stop(layer, self.csr.indptr, first, num, num, 1.0, room)
        asked = np.arange(first, stop)
        reached = len(self._sampler.sample(asked).node_M) if layer.reads_neighbors else len(asked)
        return num / len(asked) * reached

    def _check_budget(self, layers: list[_Step]) -> None:
        most = int(np.diff(self.csr.indptr).max())
        read = LEAST_ROWS + most
        needed = WORK * max(layer.num_bytes(read, LEAST_ROWS, most) for layer in layers)
        if needed > self.budget_bytes:
            raise InputError(
                f"Inference has {size(self.budget_bytes)} of memory, and a node with {most:,} neighbors needs "
                f"{size(needed)}; give it so much."
            )

    def _wanted(self, layers: list[_Step], nodes: np.ndarray | None) -> list[np.ndarray | None]:
        """Nodes that each layer is computed for, int64, ascending; None: all."""
        found: list[np.ndarray | None] = [None] * len(layers)
        if nodes is None:
            return found
        seen_N = np.zeros(len(self), bool)
        seen_N[nodes] = True
        for number, layer in reversed(list(enumerate(layers))):
            ids = np.flatnonzero(seen_N)
            if len(ids) > _MOST * len(self):
                break
            found[number] = ids
            for first in range(0, len(ids) if layer.reads_neighbors else 0, _PIECE):
                places = self._places(ids[first : first + _PIECE])
                seen_N[self.csr.indices[places]] = True
        return found

    def _places(self, ids: np.ndarray) -> np.ndarray:
        """Places of the entries of some rows of the adjacency."""
        return positions_in(self.csr.indptr[ids], self.csr.indptr[ids + 1])

    def _batches(self, layer: _Step, rows: Rows, ids: np.ndarray, room: int) -> Iterator[torch.Tensor]:
        """What a layer gives for some nodes, in their order."""
        num = len(self)
        num_K = (self.csr.indptr[ids + 1] - self.csr.indptr[ids]) * layer.reads_neighbors
        end_K1 = np.concatenate([np.zeros(1, np.int64), np.cumsum(num_K)])
        first, most, reach = 0, len(ids), 1.0
        while first < len(ids):
            stop = _stop(layer, end_K1, first, min(len(ids), first + most), num, reach, room)
            asked = ids[first:stop]
            found = _alone(asked)
            if layer.reads_neighbors:
                found = self._sampler.sample(asked, with_edges=isinstance(self.csr, RelationalCsr | FeaturedCsr))
            shape = len(found.node_M), stop - first, len(found.neighbor_S)
            reach = min(1.0, _MARGIN * shape[0] / distinct(*shape[1:], num))
            out = None
            if layer.num_bytes(*shape) <= room or stop == first + 1:
                out = self._tried(layer, rows, found)
            if out is None:
                most = (stop - first) // 2
                self.counts += Counts(halved=1)
                continue
            self.counts += Counts(1)
            yield out[: stop - first]
            first, most = stop, len(ids)

    def _tried(self, layer: _Step, rows: Rows, found: Neighborhood) -> torch.Tensor | None:
        """What a layer gives for a batch; None: memory did not suffice, and half the batch may do."""
        full = _filled_up(found)
        try:
            x_MD = rows_among(rows, full.node_M)
            return layer.run(x_MD, blocks_of(full, self._degree_N, self.csr)[0])
        except (MemoryError, RuntimeError) as error:
            if found.nodes_by_hop[0] == 1 or not _is_lack_of_memory(error):
                raise
            return None


def inference_over(
    model: GraphNetwork, csr: Csr, features: Rows, budget_bytes: int = 0, first: int = 0
) -> Inference:  # fmt: skip
    """Passes of a model's networks over a graph; arguments are those of `Inference`."""
    degree_N = None
    if isinstance(model, OwnModule):
        from any2vec.models.modules.network import degrees_of

        degree_N = degrees_of(csr)
    return Inference(csr, features, budget_bytes, first, degree_N)


class _Step(NamedTuple):
    """One layer."""

    network: AnyNetwork
    number: int
    size_in: int
    size_out: int

    @property
    def reads_neighbors(self) -> bool:
        """Whether it takes more than the nodes' own rows."""
        return self.network.reads_neighbors(self.number)

    def run(self, x_MD: torch.Tensor | SparseRows, block: Block) -> torch.Tensor:
        """(F, size_out)"""
        return self.network.infer(self.number, x_MD, block)

    def num_bytes(self, num_read: int, num_targets: int, num_edges: int) -> int:
        """Of a batch, from the sampling on."""
        shape = num_read, num_targets, num_edges
        made = self._made_bytes(*shape)
        return made + sampled_bytes(*shape) + FLOAT * num_read * self.size_in

    def whole_bytes(self, num_nodes: int, num_edges: int, is_at_hand: bool) -> int:
        """Of all nodes at once; is_at_hand: their rows, which need not be read."""
        made = self._made_bytes(num_nodes, num_nodes, num_edges)
        return made + (0 if is_at_hand else FLOAT * num_nodes * self.size_in)

    def _made_bytes(self, num_read: int, num_targets: int, num_edges: int) -> int:
        edge_columns, columns = self.network.edge_columns(self.number), self.network.target_columns(self.number)
        made = layer_bytes(self.size_in, self.size_out, num_read, num_targets, num_edges, edge_columns)
        return made + FLOAT * num_targets * columns


class _Layer(NamedTuple):
    """What a layer has given."""

    ids: np.ndarray | None
    """int64 (K,), ascending: of which nodes; None: of all"""
    row_KD: np.ndarray

    def take(self, ids: np.ndarray) -> np.ndarray:
        rows = FeatureRows(self.row_KD, np.empty(0, np.float32))
        return rows.take(ids if self.ids is None else np.searchsorted(self.ids, ids))


def _is_lack_of_memory(error: Exception) -> bool:
    """Whether NumPy or torch could not allocate."""
    return isinstance(error, MemoryError) or "allocate memory" in str(error)


def _alone(ids: np.ndarray) -> Neighborhood:
    """Some nodes without neighbors."""
    none = np.empty(0, np.int32)
    return Neighborhood(ids.astype(np.int32), np.zeros(len(ids) + 1, np.int64), none, none, (len(ids), 0), (0,))


def _filled_up(found: Neighborhood) -> Neighborhood:
    """A small batch with some of its nodes once more, without neighbors, so that no few rows are multiplied."""
    lacks = LEAST_ROWS - found.nodes_by_hop[0]
    if lacks <= 0:
        return found
    node_M = np.pad(found.node_M, (0, max(0, LEAST_ROWS - len(found.node_M))), mode="edge")
    stop_D1 = np.pad(found.stop_D1, (0, lacks), mode="edge")
    return found._replace(node_M=node_M, stop_D1=stop_D1, nodes_by_hop=(LEAST_ROWS, *found.nodes_by_hop[1:]))


def _first(row_KD: np.ndarray, columns: int) -> np.ndarray:
    """The first columns; 0: all."""
    return row_KD if columns in (0, row_KD.shape[1]) else np.ascontiguousarray(row_KD[:, :columns])


def _is_at_hand(rows: Any) -> bool:
    """Whether rows are there as a layer takes them: float32, in memory or mapped."""
    return isinstance(rows, _Layer | SparseRows) or (isinstance(rows, FeatureRows) and rows.row_ND.dtype == np.float32)


def _whole(rows: Any, num: int) -> np.ndarray:
    """The rows of all nodes, and no copies of them where they are at hand."""
    if _is_at_hand(rows) and not isinstance(rows, SparseRows):
        return np.asarray(rows.row_KD if isinstance(rows, _Layer) else rows.row_ND)
    return np.asarray(rows.take(np.arange(num)))


def _stop(
    layer: _Step, end_K1: np.ndarray, first: int, most: int, num_nodes: int, reach: float, room: int
) -> int:  # fmt: skip
    """Where a batch ends that begins at `first`: as many nodes as fit by what is expected of them, one at least."""
    low, high = first + 1, most
    while low < high:
        stop = (low + high + 1) // 2
        num, edges = stop - first, int(end_K1[stop] - end_K1[first])
        read = max(num, int(reach * distinct(num, edges, num_nodes)))
        low, high = (stop, high) if layer.num_bytes(read, num, edges) <= room else (low, stop - 1)
    return low

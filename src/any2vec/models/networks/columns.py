"""A layer for all nodes of a graph, whose rows lie on disk: by columns, of which memory holds some of every node's.

Layers that sum rows of neighbors, or take their mean or maximum, have three steps. `message`: what a node sends, from
its own row. `total`: what the messages of a node's neighbors come to, column by column. `update`: what the layer makes
of it and of the node's own row. So messages are made in the order of the rows, which is a pass over the file from front
to back (batches of nodes would read nearly a row for each edge, here and there); then some columns of all messages at a
time are in memory, and summed along the edges.

Legend: N nodes, F of them that follow one another, E entries of the adjacency, D columns of rows, P of messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from any2vec.data.attributed.scratch import GrowingRows
from any2vec.models.networks.network import Convolution, GcnLayer, GineLayer, GinLayer, SageLayer
from any2vec.models.networks.sizing import FLOAT, LEAST_ROWS
from any2vec.nn.aggregate import Neighbors, aggregate
from any2vec.nn.convolve import convolve_part
from any2vec.types import Csr

_UNDER_WAY = 4
"""a fourth of the memory is for rows under way, the rest for messages of all nodes"""
_MULTIPLE = 4
"""columns that are in memory are a multiple of so many"""
_MOST_CUTS = 64
"""each of which has an open file"""


class Whole(NamedTuple):
    """A graph."""

    csr: Csr
    degree_N: np.ndarray
    """float32: in-neighbors"""
    root_N: np.ndarray
    """float32: 1 / sqrt(degree + 1)"""

    @classmethod
    def of(cls, csr: Csr, degree_N: np.ndarray) -> Whole:
        return cls(csr, degree_N, 1 / np.sqrt(degree_N + 1))

    @property
    def num_nodes(self) -> int:
        """N"""
        return len(self.degree_N)

    def neighbors(self, span: slice) -> Neighbors:
        """Of nodes that follow one another."""
        return Neighbors(self.csr.indptr[span.start : span.stop + 1], self.csr.indices)


class LayerSteps(Protocol):
    """A layer in three steps."""

    columns: int
    """P"""
    reads_own: bool
    """whether the update reads nodes' own rows"""
    made: int
    """numbers that the update makes of a node, beside what it is given and what it gives"""

    def message(self, x_FD: torch.Tensor) -> torch.Tensor:
        """What nodes send, (F, P)."""

    def total(self, message_NP: torch.Tensor, graph: Whole, span: slice) -> torch.Tensor:
        """What the messages to some nodes come to, (F, P); of some columns alone, these."""

    def update(self, total_FP: torch.Tensor, x_FD: torch.Tensor | None) -> torch.Tensor:
        """What the layer gives; x: own rows, where it reads them."""


class Plan(NamedTuple):
    """How a layer is computed."""

    cuts: list[slice]
    """columns that are in memory together"""
    rows_at_once: int
    """under way"""
    cost: float
    """rows that it reads; what else goes to or comes from a disk is counted as such"""
    scratch_bytes: int
    """written in all; half of them lie there at most"""


def steps_of(layer: Any, size_in: int) -> LayerSteps | None:
    """The steps of a layer that takes so many columns; None: it does not come in such."""
    if isinstance(layer, Convolution):
        return _Convolution(size_in)
    if isinstance(layer, SageLayer):
        return _Sage(layer)
    if isinstance(layer, GcnLayer):
        return _Gcn(layer)
    return _Gin(layer) if isinstance(layer, GinLayer) and not isinstance(layer, GineLayer) else None


def plan(steps: LayerSteps, num_nodes: int, num_entries: int, widths: tuple[int, int], room: int) -> Plan | None:
    """What `room` bytes of memory allow; None: too little. widths: columns that the layer takes, and gives."""
    size_in, size_out = widths
    fitting = (room - room // _UNDER_WAY) // (FLOAT * num_nodes)
    num_cuts = 1 if fitting >= steps.columns else -(-steps.columns // max(1, fitting // _MULTIPLE * _MULTIPLE))
    row_bytes = FLOAT * (3 * size_in + 2 * steps.columns + 2 * size_out + steps.made)  # as read, in order, as float32
    rows_at_once = room // _UNDER_WAY // row_bytes - LEAST_ROWS  # by so many the last ones may be more
    if num_cuts > _MOST_CUTS or fitting < min(_MULTIPLE, steps.columns) or rows_at_once < LEAST_ROWS:
        return None
    columns = -(-steps.columns // num_cuts // _MULTIPLE) * _MULTIPLE
    cuts = [slice(first, min(first + columns, steps.columns)) for first in range(0, steps.columns, columns)]
    kept = 2 * steps.columns if len(cuts) > 1 else 0  # messages and totals
    cost = num_nodes * (1 + steps.reads_own + 2 * kept / size_in) + (len(cuts) - 1) * num_entries / size_in
    return Plan(cuts, rows_at_once, cost, FLOAT * num_nodes * kept)


def by_columns(steps: LayerSteps, rows: Any, graph: Whole, chosen: Plan) -> Iterator[torch.Tensor]:
    """What the layer gives of all nodes, piece by piece, in their order.

    Args:
        rows: `Rows` of the nodes. Messages and totals wait in scratch files where not all columns fit.

    Raises:
        StorageError: the disk is full, or cannot be written.
    """
    spans, num = list(_spans(graph.num_nodes, chosen.rows_at_once)), graph.num_nodes
    messages = _stored((steps.message(_rows(rows, span)) for span in spans), chosen.cuts, num, len(chosen.cuts) == 1)
    found: Iterable[torch.Tensor]
    if len(messages) == 1:
        found = (steps.total(torch.from_numpy(messages[0]), graph, span) for span in spans)
    else:
        totals = []
        while messages:
            message_NP = torch.from_numpy(np.array(messages.pop(0)))  # of the file, which ends with it, to memory
            pieces = (steps.total(message_NP, graph, span) for span in spans)
            totals += _stored(pieces, [slice(0, message_NP.shape[1])], num, in_memory=False)
            del message_NP, pieces
        found = (torch.from_numpy(np.concatenate([total_NP[span] for total_NP in totals], axis=1)) for span in spans)
    for total, span in zip(found, spans, strict=True):
        yield steps.update(total, _rows(rows, span) if steps.reads_own else None)


def _spans(num: int, size: int) -> Iterator[slice]:
    """Nodes that follow one another, `size` of them; the last ones are never so few that libraries add up products in
    another order."""
    begins = list(range(0, max(1, num - LEAST_ROWS + 1), size))
    return (slice(*pair) for pair in pairwise([*begins, num]))


def _stored(pieces: Iterable[torch.Tensor], cuts: list[slice], num: int, in_memory: bool) -> list[np.ndarray]:
    """All rows of the pieces, (num, columns) of each cut; in files, which end with the arrays, or in memory."""
    with ExitStack() as stack:
        stores = [stack.enter_context(GrowingRows(num, cut.stop - cut.start, in_memory)) for cut in cuts]
        for piece in pieces:
            for store, cut in zip(stores, cuts, strict=True):
                store.append(piece.numpy()[:, cut])
        return [store.finish() for store in stores]


def _rows(rows: Any, span: slice) -> torch.Tensor:
    """float32 (F, D)"""
    return torch.from_numpy(rows.take(np.arange(span.start, span.stop)))


class _Sage:
    """Where rows get narrower they are multiplied first, as in `SAGEConv`."""

    made = 0

    def __init__(self, layer: SageLayer) -> None:
        self._conv = conv = layer.conv
        self._is_narrow = conv.lin_l.out_features < conv.lin_l.in_features and conv.aggr != "max"
        self.columns = conv.lin_l.out_features if self._is_narrow else conv.lin_l.in_features
        self.reads_own = conv.lin_r is not None

    def message(self, x_FD: torch.Tensor) -> torch.Tensor:
        conv = self._conv
        sent = x_FD if conv.lin is None else conv.lin(x_FD).relu_()
        return torch.nn.functional.linear(sent, conv.lin_l.weight) if self._is_narrow else sent

    def total(self, message_NP: torch.Tensor, graph: Whole, span: slice) -> torch.Tensor:
        return aggregate(message_NP, graph.neighbors(span), reduce=self._conv.aggr)

    def update(self, total_FP: torch.Tensor, x_FD: torch.Tensor | None) -> torch.Tensor:
        conv = self._conv
        out: torch.Tensor = total_FP + conv.lin_l.bias if self._is_narrow else conv.lin_l(total_FP)
        return out if x_FD is None or conv.lin_r is None else out.addmm_(x_FD, conv.lin_r.weight.T)


class _Gcn:
    reads_own, made = False, 0

    def __init__(self, layer: GcnLayer) -> None:
        self._linear, self._is_narrow = layer.linear, layer.multiplies_first
        self.columns = layer.linear.out_features if layer.multiplies_first else layer.linear.in_features

    def message(self, x_FD: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x_FD, self._linear.weight) if self._is_narrow else x_FD

    def total(self, message_NP: torch.Tensor, graph: Whole, span: slice) -> torch.Tensor:
        return convolve_part(message_NP, graph.neighbors(span), graph.root_N, span.start)

    def update(self, total_FP: torch.Tensor, x_FD: torch.Tensor | None) -> torch.Tensor:
        found: torch.Tensor = total_FP + self._linear.bias if self._is_narrow else self._linear(total_FP)
        return found


class _Convolution(_Gcn):
    def __init__(self, columns: int) -> None:
        self.columns = columns

    def message(self, x_FD: torch.Tensor) -> torch.Tensor:
        return x_FD

    def update(self, total_FP: torch.Tensor, x_FD: torch.Tensor | None) -> torch.Tensor:
        return total_FP


class _Gin:
    reads_own = False

    def __init__(self, layer: GinLayer) -> None:
        self._layer, first = layer, layer.first
        self._is_narrow = layer.multiplies_first
        self.columns = first.out_features if self._is_narrow else first.in_features
        self.made = 3 * first.out_features

    def message(self, x_FD: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self._layer.first(x_FD) if self._is_narrow else x_FD
        return found

    def total(self, message_NP: torch.Tensor, graph: Whole, span: slice) -> torch.Tensor:
        eps, degree_F1 = self._layer.eps, torch.from_numpy(graph.degree_N[span, None])
        own = 1 if eps is None else 1 + eps
        return aggregate(message_NP, graph.neighbors(span)) * degree_F1 + own * message_NP[span]

    def update(self, total_FP: torch.Tensor, x_FD: torch.Tensor | None) -> torch.Tensor:
        return self._layer.answer(total_FP if self._is_narrow else self._layer.first(total_FP), None)

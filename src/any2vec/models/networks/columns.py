"""A layer for all nodes of a graph whose rows do not fit into memory: the sums over neighbors, some columns at a time.

A layer that adds up rows of neighbors, or takes their mean or maximum, is three steps: each row makes a message by
itself, messages of neighbors come together, and a node's own row updates what they come to. Messages are made in the
order in which the rows lie, which are read once so, where batches of nodes would read nearly a row for each edge, in no
order. Columns stay apart while messages come together, so as many of them as memory holds do so at a time. All numbers
are those of the layer, to the bit.

Legend: N nodes, F of them in a row, S edges, D columns of rows, P of messages, or some of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from any2vec.data.attributed.scratch import GrowingRows
from any2vec.models.networks.network import Convolution, GcnLayer, GineLayer, GinLayer, Network, SageLayer
from any2vec.models.networks.sizing import FLOAT, LEAST_ROWS
from any2vec.nn.aggregate import Neighbors, aggregate
from any2vec.nn.convolve import convolve_part
from any2vec.types import Csr

_PIECE = 4
"""of the memory, one part in so many that rows have which are under way; messages of all nodes have the rest"""
_STEP = 4
"""columns at least, and a multiple of so many"""


class Whole(NamedTuple):
    """A graph."""

    csr: Csr
    degree_N: np.ndarray
    """float32: in-neighbors"""

    def neighbors(self, part: slice) -> Neighbors:
        """Of some nodes, by numbers of nodes."""
        return Neighbors(self.csr.indptr[part.start : part.stop + 1], self.csr.indices)


class Parts(Protocol):
    """A layer in three steps."""

    size: int
    """columns of messages"""
    needs_own: bool
    """whether the update reads nodes' own rows"""

    def message(self, x_FD: torch.Tensor) -> torch.Tensor:
        """What rows send, (F, size)."""

    def total(self, message_NP: torch.Tensor, graph: Whole, part: slice) -> torch.Tensor:
        """What the messages to some nodes come to, (F, P)."""

    def update(self, total_FP: torch.Tensor, x_FD: torch.Tensor | None) -> torch.Tensor:
        """What the layer gives, of all columns."""


class Plan(NamedTuple):
    """How a layer is computed."""

    columns: int
    """of messages that are in memory at a time, of all nodes"""
    step: int
    """rows under way"""
    cost: float
    """rows that it reads, what goes to and comes from scratch files counted as such"""
    scratch_bytes: int
    """written in all; half of them lie there at most"""


def parts_of(network: Any, number: int) -> Parts | None:
    """The steps of a layer; None: it has others."""
    layer = network.layers[number] if isinstance(network, Network) else None
    if isinstance(layer, SageLayer):
        return _Sage(layer)
    if isinstance(layer, GcnLayer):
        return _Gcn(layer)
    if isinstance(layer, GinLayer) and not isinstance(layer, GineLayer):
        return _Gin(layer)
    return _Convolution(network.widths[number]) if isinstance(layer, Convolution) else None


def plan(parts: Parts, num_nodes: int, size_in: int, size_out: int, room: int) -> Plan | None:
    """What `room` bytes allow; None: too little."""
    fitting = (room - room // _PIECE) // (FLOAT * num_nodes)
    columns = parts.size if fitting >= parts.size else fitting // _STEP * _STEP
    if not columns:
        return None
    row_bytes = FLOAT * (3 * size_in + 2 * parts.size + 2 * size_out)  # as read, in order, as float32
    kept = 0 if columns == parts.size else 2 * parts.size  # messages and sums
    cost = num_nodes * (1 + parts.needs_own + 2 * kept / size_in)
    return Plan(columns, max(LEAST_ROWS, room // _PIECE // row_bytes), cost, FLOAT * num_nodes * kept)


def by_columns(parts: Parts, rows: Any, graph: Whole, plan: Plan) -> Iterator[torch.Tensor]:
    """What the layer gives of all nodes, piece by piece, in their order.

    Args:
        rows: `Rows` of the nodes. Messages and sums wait in scratch files where not all columns fit.

    Raises:
        StorageError: the disk is full, or cannot be written.
    """
    spans = list(_spans(len(graph.degree_N), plan.step))
    messages = _kept(
        (parts.message(_rows(rows, part)) for part in spans), parts.size, plan.columns, len(graph.degree_N)
    )
    if len(messages) == 1:
        sums: Iterator[torch.Tensor] = (parts.total(torch.from_numpy(messages[0]), graph, part) for part in spans)
    else:
        totals = []
        while messages:
            message_NP = torch.from_numpy(np.array(messages.pop(0)))
            found = (parts.total(message_NP, graph, part) for part in spans)
            totals += _kept(found, message_NP.shape[1], message_NP.shape[1], len(message_NP), in_memory=False)
            del message_NP, found
        sums = (torch.from_numpy(np.concatenate([total_NP[part] for total_NP in totals], axis=1)) for part in spans)
    for total, part in zip(sums, spans, strict=True):
        yield parts.update(total, _own(parts, rows, part))


def _spans(num: int, step: int) -> Iterator[slice]:
    """Pieces of the rows; the last one is as large as two where it would have few rows."""
    ends = list(range(0, max(1, num - LEAST_ROWS + 1), step))
    return (slice(*pair) for pair in pairwise([*ends, num]))


def _kept(
    pieces: Iterator[torch.Tensor], size: int, columns: int, num: int, in_memory: bool | None = None
) -> list[np.ndarray]:  # fmt: skip
    """Rows one behind the other, (N, columns or fewer), of each so many columns; in memory where these are all."""
    cuts = [slice(first, min(first + columns, size)) for first in range(0, size, columns)]
    with ExitStack() as stack:
        stays = len(cuts) == 1 if in_memory is None else in_memory
        parts = [stack.enter_context(GrowingRows(num, cut.stop - cut.start, stays)) for cut in cuts]
        for piece in pieces:
            for part, cut in zip(parts, cuts, strict=True):
                part.append(piece.numpy()[:, cut])
        return [part.finish() for part in parts]


def _own(parts: Parts, rows: Any, part: slice) -> torch.Tensor | None:
    return _rows(rows, part) if parts.needs_own else None


def _rows(rows: Any, part: slice) -> torch.Tensor:
    """float32 (F, D)"""
    return torch.from_numpy(rows.take(np.arange(part.start, part.stop)))


class _Sage:
    """The convolution multiplies rows first where they get narrower, as `SAGEConv` does."""

    def __init__(self, layer: SageLayer) -> None:
        self._conv = conv = layer.conv
        self._is_narrow = conv.lin_l.out_features < conv.lin_l.in_features and conv.aggr != "max"
        self.size = conv.lin_l.out_features if self._is_narrow else conv.lin_l.in_features
        self.needs_own = conv.lin_r is not None

    def message(self, x_FD: torch.Tensor) -> torch.Tensor:
        conv = self._conv
        if conv.lin is not None:
            x_FD = conv.lin(x_FD).relu_()
        return torch.nn.functional.linear(x_FD, conv.lin_l.weight) if self._is_narrow else x_FD

    def total(self, message_NP: torch.Tensor, graph: Whole, part: slice) -> torch.Tensor:
        return aggregate(message_NP, graph.neighbors(part), reduce=self._conv.aggr)

    def update(self, total_FP: torch.Tensor, x_FD: torch.Tensor | None) -> torch.Tensor:
        conv = self._conv
        out: torch.Tensor = total_FP + conv.lin_l.bias if self._is_narrow else conv.lin_l(total_FP)
        return out if x_FD is None or conv.lin_r is None else out.addmm_(x_FD, conv.lin_r.weight.T)


class _Gcn:
    needs_own = False

    def __init__(self, layer: GcnLayer) -> None:
        self._linear, self._is_narrow = layer.linear, layer.is_narrow
        self.size = layer.linear.out_features if layer.is_narrow else layer.linear.in_features

    def message(self, x_FD: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x_FD, self._linear.weight) if self._is_narrow else x_FD

    def total(self, message_NP: torch.Tensor, graph: Whole, part: slice) -> torch.Tensor:
        return convolve_part(message_NP, graph.neighbors(part), graph.degree_N, part.start)

    def update(self, total_FP: torch.Tensor, x_FD: torch.Tensor | None) -> torch.Tensor:
        found: torch.Tensor = total_FP + self._linear.bias if self._is_narrow else self._linear(total_FP)
        return found


class _Gin:
    needs_own = False

    def __init__(self, layer: GinLayer) -> None:
        self._layer, first = layer, layer.first
        self._is_narrow = first.out_features < first.in_features
        self.size = first.out_features if self._is_narrow else first.in_features

    def message(self, x_FD: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self._layer.first(x_FD) if self._is_narrow else x_FD
        return found

    def total(self, message_NP: torch.Tensor, graph: Whole, part: slice) -> torch.Tensor:
        eps, degree_F1 = self._layer.eps, torch.from_numpy(graph.degree_N[part, None])
        own = 1 if eps is None else 1 + eps
        return aggregate(message_NP, graph.neighbors(part)) * degree_F1 + own * message_NP[part]

    def update(self, total_FP: torch.Tensor, x_FD: torch.Tensor | None) -> torch.Tensor:
        return self._layer.answer(total_FP if self._is_narrow else self._layer.first(total_FP), None)


class _Convolution:
    needs_own = False

    def __init__(self, size: int) -> None:
        self.size = size

    def message(self, x_FD: torch.Tensor) -> torch.Tensor:
        return x_FD

    def total(self, message_NP: torch.Tensor, graph: Whole, part: slice) -> torch.Tensor:
        return convolve_part(message_NP, graph.neighbors(part), graph.degree_N, part.start)

    def update(self, total_FP: torch.Tensor, x_FD: torch.Tensor | None) -> torch.Tensor:
        return total_FP

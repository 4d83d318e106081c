"""The stages by which batches come: sample, look ahead, read, gather; then a batch is trained.

With one thread they follow one another. With more, sampling has a thread and so has what reads, and queues join them:
the next batch is read while one is trained, and another one or two are sampled. Across the end of an epoch nodes are
sampled and looked ahead for, and nothing is read, so that validation has the memory of a batch.

Looking ahead (Ginex: Park et al. 2022, PVLDB 15(11)): batches are sampled once, as many ahead as a superbatch has, and
wait in a trace until they are read; from their nodes it is known which row is used next, and so which rows give way.

Legend: U nodes of a batch, ascending.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from any2vec.background import Spent, Stage, StageThreads, chained
from any2vec.data.attributed.row_file import Reads
from any2vec.errors import StorageError
from any2vec.models.networks.batches import Batch, Batches, Drawn
from any2vec.models.networks.features import CachedFeatures
from any2vec.nn.sparse.rows import SparseRows
from any2vec.plan.lookahead.oracle import NEVER
from any2vec.plan.lookahead.window import NONE, UseWindow
from any2vec.tables.disk.trace import Trace
from any2vec.tables.residency.residency import Placed

STAGES = ("sample", "look_ahead", "read", "gather", "train", "validate")
SAMPLED = 2
"""batches that wait to be read, at most"""
PATIENCE = 3600.0
"""seconds that a batch may take to come"""


class BatchRead(NamedTuple):
    """A batch on its way to be trained."""

    drawn: Drawn
    id_U: np.ndarray
    """int64: the nodes whose rows are read from a file"""
    placed: Placed | None
    row_UD: np.ndarray | None
    """as the file has them"""
    reads: Reads


class _Ready(NamedTuple):
    """A batch that can be trained."""

    batch: Batch
    drawn: Drawn
    reads: Reads


class BatchStages:
    """Batches of steps, which are numbered over all epochs.

    Args:
        threads: that train; 2 or more: stages have threads of their own.
    """

    def __init__(self, batches: Batches, threads: int, patience: float = PATIENCE) -> None:
        self.spent = {name: Spent() for name in STAGES}
        """of this process"""
        self._batches, self._threads, self._patience = batches, threads, patience
        self._num_steps, self._ahead, self.trace = 0, 0, Trace(0)
        self._first = self._next = self._stop = -1
        """the step that the stages at hand began with, the one that comes next, and the one behind their last"""
        self._line: Iterator[_Ready] | StageThreads = iter(())

    @property
    def per_epoch(self) -> int:
        """Batches of an epoch."""
        return -(-self._batches.num_items // self._batches.batch_size)

    def plan(self, num_steps: int, ahead: int, trace_bytes: int = 0) -> None:
        """There will be so many steps, and so many are known before they are read, where that is of use.

        trace_bytes: of their samples in memory; the others wait on disk.
        """
        self._num_steps, self._ahead, self.trace = num_steps, ahead, Trace(trace_bytes)

    def steps(self, first: int, stop: int) -> Iterator[Batch]:
        """Batches of the steps [first, stop), of one epoch.

        Raises:
            what ended a stage; StorageError: no batch comes.
        """
        if self._next != first or first == self._stop:
            self._begin(first)
        line = self._line
        if isinstance(line, StageThreads):
            line.allow((first // self.per_epoch + 1) * self.per_epoch - self._first)
        for _ in range(stop - first):
            self._next += 1
            yield self._counted(line.take(self.spent["train"]) if isinstance(line, StageThreads) else next(line))

    def summary(self, seconds: float) -> dict[str, Any]:
        """What a run's summary says of its stages; seconds: of training."""
        spent = self.spent.items()
        return {
            "trace_bytes_spilled": self.trace.spilled_bytes,
            "edges_per_s": self._batches.reader.num_edges / max(seconds, 1e-9),
            "seconds_by_stage": {name: round(one.at_work, 4) for name, one in spent},
            "waits_by_stage": {
                name: {"for_input": round(one.for_input, 4), "for_room": round(one.for_room, 4)}
                for name, one in spent if one.for_input or one.for_room
            },
        }  # fmt: skip

    def close(self) -> None:
        """No batch follows."""
        if isinstance(self._line, StageThreads):
            self._line.close()
        self._line, self._next = iter(()), -1
        self.trace.clear()

    def _begin(self, first: int) -> None:
        self.close()
        self._first = self._next = first
        epoch_end = (first // self.per_epoch + 1) * self.per_epoch
        self._stop = max(self._num_steps, epoch_end)
        source, stages = range(first, self._stop), self._stages()
        if self._threads < 2:
            self._line = chained(iter(source), stages, self.spent)
            return
        line = StageThreads(source, [stages[:1], stages[1:]], [SAMPLED, 1], self.spent, self._patience, self._stalled)
        line.start()
        self._line = line

    def _stages(self) -> list[Stage]:
        """Those that the features need."""
        found = [Stage("sample", partial(map, self._drawn))]
        features = self._batches.reader.features
        if isinstance(features, CachedFeatures):
            if features.needs_next_uses:
                found.append(
                    Stage("look_ahead", partial(planned, features=features, ahead=self._ahead, trace=self.trace))
                )
            found.append(Stage("read", partial(map, self._read)))
        return [*found, Stage("gather", partial(map, self._gathered))]

    def _drawn(self, step: int) -> BatchRead:
        drawn = self._batches.draw(*divmod(step, self.per_epoch))
        return BatchRead(drawn, np.empty(0, np.int64), None, None, Reads())

    def _read(self, coming: BatchRead) -> BatchRead:
        features, (drawn, id_U, placed, _, _) = self._batches.reader.features, coming
        assert isinstance(features, CachedFeatures)
        if drawn.node_M is None:
            return coming
        if placed is None:
            id_U = np.sort(drawn.node_M.astype(np.int64))
            placed = features.place(id_U, None)
        return BatchRead(drawn, id_U, placed, *features.read(id_U, placed))

    def _gathered(self, coming: BatchRead) -> _Ready:
        drawn, id_U, _, row_UD, reads = coming
        reader = self._batches.reader
        x_MD: torch.Tensor | SparseRows | None = None
        if drawn.node_M is not None:
            if row_UD is not None:
                assert isinstance(reader.features, CachedFeatures)
                row_MD = reader.features.rows_of(id_U, row_UD).take(np.searchsorted(id_U, drawn.node_M))
                x_MD = torch.from_numpy(row_MD)
            else:
                x_MD = reader.rows(drawn.node_M)
        return _Ready(self._batches.make(drawn, x_MD), drawn, reads)

    def _counted(self, ready: _Ready) -> Batch:
        self._batches.reader.count(ready.drawn, ready.reads)
        return ready.batch

    def _stalled(self) -> StorageError:
        return StorageError(f"No batch has come for {self._patience:g} s; look whether the disk works.")


def planned(coming: Iterator[BatchRead], features: CachedFeatures, ahead: int, trace: Trace) -> Iterator[BatchRead]:
    """The same, with the places of their rows, chosen by what the next `ahead` batches read; their arrays wait in a
    trace."""
    window, held, is_over = UseWindow(), deque[_Bare](), False
    while True:
        while not is_over and len(held) <= ahead:
            one = next(coming, None)
            is_over = one is None
            if one is not None:
                assert one.drawn.node_M is not None
                id_U = np.sort(one.drawn.node_M.astype(np.int64))
                window.admit(id_U)
                features.expect(id_U, window.newest)
                bare, arrays = _bare(one.drawn)
                held.append(bare)
                trace.put(arrays)
        if not held:
            return
        uses = window.leave()
        step_U = window.steps(uses.next_G)
        placed = features.place(uses.row_G, np.where(step_U == NONE, NEVER, step_U))
        yield BatchRead(held.popleft().whole(trace.get()), uses.row_G, placed, None, Reads())


class _Bare(NamedTuple):
    """What has been drawn, without its arrays."""

    drawn: Drawn
    slots: tuple[int, ...]
    """by field of the edges: which of the arrays it is, -1: none"""

    def whole(self, arrays: list[np.ndarray]) -> Drawn:
        """What it was made of."""
        edges = self.drawn.edges
        if self.slots:
            fields = zip(edges, self.slots, strict=True)
            edges = edges._make(field if slot < 0 else arrays[slot] for field, slot in fields)
        return self.drawn._replace(node_M=arrays[0], edges=edges)


def _bare(drawn: Drawn) -> tuple[_Bare, list[np.ndarray]]:
    """(the same without arrays, its arrays, the nodes first)."""
    assert drawn.node_M is not None
    arrays, slots, edges = [drawn.node_M], list[int](), drawn.edges
    for field in edges or ():
        slots.append(-1)
        if field is drawn.node_M:
            slots[-1] = 0
        elif isinstance(field, np.ndarray):
            slots[-1] = len(arrays)
            arrays.append(field)
    if slots:
        edges = edges._make(field if slot < 0 else None for field, slot in zip(edges, slots, strict=True))
    return _Bare(drawn._replace(node_M=None, edges=edges), tuple(slots)), arrays

"""Training a table of which a part is in memory: states of the buffer, windows of triples, batches, commits.

A window's batches are all done before the next begins, so before a partition leaves and before a commit: what that
brings to the disk is the table as it was between two windows, and the place where to go on stands in its note.
Meanwhile the next window's triples are read, and the next state's partitions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple

import numpy as np

from any2vec.checks import MAX_SEED, Number, Whole, check_fields
from any2vec.data.partitions.buckets import Buckets
from any2vec.errors import InputError, Interrupted
from any2vec.plan.order.buffer_walk import START, BufferWalk, Position
from any2vec.plan.order.shared_walk import SharedWalk
from any2vec.sampling.triple_windows import WINDOW, Ahead, TripleWindows, Window
from any2vec.tables.disk.partition_buffer import PATIENCE, BufferCounts, PartitionBuffer
from any2vec.tables.disk.partition_exchange import PartitionExchange
from any2vec.tables.disk.partition_store import PartitionStore
from any2vec.train.loop import LoopParts, run
from any2vec.train.out_of_core.pipeline import Pipeline, Stage
from any2vec.types import Work

Slots = list[tuple[int, int]]


class Place(NamedTuple):
    """What a batch's draws and rates depend on."""

    epoch: int
    position: int
    """triples of the epoch before the batch"""


class Batch(NamedTuple):
    """What a learner is given."""

    table_SC: np.ndarray
    """float32 (slots, columns)"""
    slot_M3: np.ndarray
    """int64: slot of the head, relation, slot of the tail; of the whole window, int32, where `arrange` has cut it"""
    resident: Slots
    """(first slot, stop slot) of each partition that is there, by partition"""
    place: Place
    made: Any = None
    """what `arrange` has made for it"""


@dataclass(frozen=True, kw_only=True)
class OutOfCoreOptions:
    """How a table of which a part is in memory is trained."""

    batch_size: Annotated[int, Whole(1, 1 << 28)] = 1000
    """triples, 1 or more"""
    window: int = WINDOW
    """triples that are shuffled together"""
    is_shuffled: bool = True
    """whether they come so; they need not for one whose `arrange` brings them into an order of its own"""
    seed: Annotated[int, Whole(0, MAX_SEED)] = 1
    """of the order of the triples"""
    threads: int = 1
    """that train batches"""
    staleness_bound: int = 1
    """batches: none is trained on rows that so many others change meanwhile"""
    commit_seconds: Annotated[float, Number(0, 1e9)] = 300.0
    """between two commits; each writes all partitions in memory"""

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class OutOfCoreReport:
    """What a run has moved, and how stale its batches were."""

    buffer: BufferCounts
    triple_bytes: int
    """of triples that were read"""
    seconds_waited: float
    """for triples"""
    staleness: dict[int, int] = field(default_factory=dict)
    """stale by -> batches"""


class OutOfCoreRun:
    """One run, or the rest of one.

    Args:
        store: the table; its rows are those of the buckets' parts.
        walk: from the start of a run; where the store's note has another place, the run goes on there.
        compute: trains one batch in place; called by `threads` threads. Its result goes to `report`. Or stages, with
            threads of their own: the first is given a batch and reads rows, the last changes them.
        dense: gives the arrays that belong into a commit; called while no batch is under way.
        report: called behind each window, with it and its batches' results, in order; raises Interrupted to end the run
            by a commit, as the buckets may.
        is_due: asked behind each window whether to commit there; by default the clock says it.
        exchange: brings partitions from other hosts, and gives them what this one needs no longer.
        arrange: cuts a window into batches, in the thread that reads ahead: the position of each, and what is made for
            it; by default there are `batch_size` triples in one.
        pause: called with the seconds of each commit.
        sweeps: of an epoch; the walk and the buckets count them as epochs.

    Raises:
        InputError: the table, the triples and the walk do not belong together, or the store's run was another.
    """

    def __init__(
        self, store: PartitionStore, buckets: Buckets, walk: BufferWalk | SharedWalk,
        compute: Callable[[Batch], Any] | Sequence[Stage], options: OutOfCoreOptions | None = None, *,
        dense: Callable[[], Mapping[str, np.ndarray]] | None = None,
        report: Callable[[Work[Window], list[Any]], None] | None = None,
        is_due: Callable[[Position], bool] | None = None, patience: float = PATIENCE,
        arrange: Callable[[Window], Sequence[tuple[int, Any]]] | None = None,
        pause: Callable[[float], None] | None = None, exchange: PartitionExchange | None = None, sweeps: int = 1,
    ) -> None:  # fmt: skip
        self.store, self.buckets = store, buckets
        self.options = options or OutOfCoreOptions()
        self.stages = [Stage(compute, self.options.threads)] if callable(compute) else list(compute)
        self._dense, self._report, self._is_due = dense, report, is_due or self._clock_says
        self._patience, self._arrange, self._pause = patience, arrange, pause or (lambda _: None)
        self._exchange, self._sweeps = exchange, sweeps
        self._settings = _settings(store, buckets, walk, self.options)
        self.walk = replace(walk, start=position_of(store, self._settings))
        self._committed = time.monotonic()
        self.moved: OutOfCoreReport
        """when all is trained"""
        self._last: Position | None = None
        """where the run stands behind the last window that was trained"""

    def run(self) -> OutOfCoreReport:
        """Train to the end.

        Raises:
            StorageError: the disk is full or does not answer; the store is as at the last commit.
            FormatError: a partition or a bucket is damaged.
            whatever compute raises.
        """
        with self.working() as parts:
            run(*parts)
        return self.moved

    @contextmanager
    def working(self) -> Iterator[LoopParts]:
        """What the loop takes; behind it all is committed, and `moved` says what came and went. Raises as `run`."""
        options, read, exchange = self.options, self.buckets.bytes_read, self._exchange
        self._committed = time.monotonic()
        fetch = exchange.fetch if exchange else None
        with (
            PartitionBuffer(self.store, self.walk, self.walk.blocks, self._patience, fetch) as buffer,
            exchange.serving(buffer) if exchange else nullcontext(),
            Pipeline(self.stages, options.staleness_bound) as pipeline,
            Ahead(self._windows(buffer), self._patience, lambda: self.buckets.moves) as windows,
        ):
            swapping = _Swapping(buffer, self._is_due, self._note, self._pause, exchange)
            try:
                yield LoopParts(windows, _Batches(buffer, pipeline, options.batch_size), swapping, self._received)
            except Interrupted:
                if self._last is not None:
                    swapping.commit(self._last)
                raise
            if buffer.turn is not None:
                swapping.commit(buffer.turn.after)
            counts = buffer.counts
        buffer.table_SC = buffer.table_SC[:0].copy()  # who holds on to the parts does not hold on to the table
        self.moved = OutOfCoreReport(
            counts, self.buckets.bytes_read - read, windows.seconds_waited, dict(sorted(pipeline.staleness.items()))
        )

    def _note(self, position: Position) -> tuple[dict[str, Any], Mapping[str, np.ndarray] | None]:
        """What a commit remembers."""
        self._committed = time.monotonic()
        note = {**self.store.note, "position": list(position), "settings": self._settings}
        return note, self._dense() if self._dense else None

    def _received(self, work: Work[Window], results: list[Any]) -> None:
        self._last = work.payload.position
        if self._report is not None:
            self._report(work, results)

    def _clock_says(self, position: Position) -> bool:
        return time.monotonic() - self._committed >= self.options.commit_seconds

    def _windows(self, buffer: PartitionBuffer) -> Iterator[Work[Window]]:
        options = self.options
        windows = TripleWindows(
            self.buckets, self.walk, buffer.block_rows, options.seed, options.window, options.is_shuffled, self._sweeps
        )
        for work in windows:
            window = work.payload
            made = None if self._arrange is None else self._arrange(window)
            yield work if self._arrange is None else replace(work, payload=window._replace(made=made))


class _Batches:
    """The learner: a window's batches, all done when it returns; a `train.loop.Learner`."""

    def __init__(self, buffer: PartitionBuffer, pipeline: Pipeline, size: int) -> None:
        self._buffer, self._pipeline, self._size = buffer, pipeline, size

    def run(self, work: Work[Window]) -> list[Any]:
        """The batches' results."""
        window = work.payload
        if len(window.slot_M3):
            self._buffer.mark()
        resident = self._buffer.resident
        for position, made in self._cut(window) if window.made is None else window.made:
            slot_M3 = made if window.made is None else window.slot_M3
            place = Place(window.turn.epoch, position)
            self._pipeline.put(Batch(self._buffer.table_SC, slot_M3, resident, place, made))
        return self._pipeline.flush()

    def _cut(self, window: Window) -> Iterator[tuple[int, np.ndarray]]:
        for start in range(0, len(window.slot_M3), self._size):
            yield window.before + start, window.slot_M3[start : start + self._size].astype(np.int64)


class _Swapping:
    """The driver: partitions come before the windows that need them, commits behind windows; a `train.loop.Driver`."""

    def __init__(
        self, buffer: PartitionBuffer, is_due: Callable[[Position], bool],
        note: Callable[[Position], tuple[dict[str, Any], Mapping[str, np.ndarray] | None]],
        pause: Callable[[float], None], exchange: PartitionExchange | None,
    ) -> None:  # fmt: skip
        self._buffer, self._is_due, self._note, self._pause = buffer, is_due, note, pause
        self._exchange = exchange

    def before(self, work: Work[Window]) -> None:
        now, then = self._buffer.turn, work.payload.turn
        if now is None or (now.epoch, now.state) != (then.epoch, then.state):
            turn = self._buffer.advance()
            if self._exchange and turn:
                self._exchange.check_held(turn)

    def after(self, work: Work[Window], stats: list[Any]) -> None:
        if self._is_due(work.payload.position):
            self.commit(work.payload.position)

    def is_settled(self, work: Work[Window]) -> bool:
        return True

    def commit(self, position: Position) -> None:
        before = self._buffer.seconds_committing
        self._buffer.commit(*self._note(position))
        self._pause(self._buffer.seconds_committing - before)


def position_of(store: PartitionStore, settings: Mapping[str, Any]) -> Position:
    """Where the run that a store belongs to stands; the start where it has none.

    Raises:
        InputError: it is a run of other settings.
    """
    if "position" not in store.note:
        return START
    former = store.note["settings"]
    wrong = [name for name in settings if settings[name] != former.get(name)]
    if wrong:
        name = wrong[0]
        raise InputError(
            f"The store {store.folder} belongs to a run with {name} {former.get(name)}, got {settings[name]}; go on "
            "with the settings that it began with, or begin anew."
        )
    return Position(*store.note["position"])


def _settings(
    store: PartitionStore, buckets: Buckets, walk: BufferWalk | SharedWalk, options: OutOfCoreOptions
) -> dict[str, Any]:
    """What must be the same for a run to go on; more epochs may be asked for."""
    if list(store.bounds) != buckets.parts.bounds.tolist() or walk.partitions != store.num_partitions:
        raise InputError(
            f"The table {store.folder} has {store.num_partitions} partitions of {store.num_rows:,} rows, the triples "
            f"{buckets.folder} are for {buckets.parts.partitions} of {buckets.parts.num_entities:,}, and the order for "
            f"{walk.partitions}; make them of the same numbers."
        )
    return {
        "order": walk.order, "capacity": walk.capacity, "order_seed": walk.seed, "group": walk.group,
        "batch_size": options.batch_size, "window": options.window, "seed": options.seed,
        "triples": buckets.digest,
    }  # fmt: skip

"""A run of one host whose table is larger than memory: the program around `OutOfCoreRun`, whatever the rows are of.

In the run folder, until the result is whole: `table`, the partitions of the rows (tables/disk/partition_store.py) with
the arrays that stand beside them, and `triples`, what is trained, by bucket (data/partitions/buckets.py). `any2vec
check` looks at both.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, Protocol

import numpy as np

from any2vec.cluster.transport import Transport
from any2vec.data.partitions.buckets import Buckets
from any2vec.data.partitions.row_partitions import RowPartitions
from any2vec.errors import InputError, Interrupted, StorageError
from any2vec.plan.order.buffer import BufferPlan
from any2vec.plan.order.buffer_walk import BufferWalk
from any2vec.plan.order.shared_walk import SharedWalk
from any2vec.sampling.triple_windows import Window
from any2vec.tables.disk.partition_exchange import AllPartitions
from any2vec.tables.disk.partition_store import PartitionStore
from any2vec.train.frame import Program
from any2vec.train.loop import LoopParts
from any2vec.train.monitor import Decisions, stopped
from any2vec.train.out_of_core.pipeline import bound_of
from any2vec.train.out_of_core.run import Batch, OutOfCoreOptions, OutOfCoreReport, OutOfCoreRun
from any2vec.train.progress import Recorder
from any2vec.train.result import StoredResult
from any2vec.train.run_folder import TABLE, TRIPLES, has_table, remove_table
from any2vec.train.spec import Request
from any2vec.types import Stats, Work


class TableLearner(Protocol):
    """A learner as such a run needs it."""

    items: int
    """trained so far"""
    seed: int
    """of this host's draws"""

    def learning_rate(self, progress: float) -> float: ...

    def arrange(self, window: Window) -> Sequence[tuple[int, Any]]:
        """A window's batches: what `OutOfCoreRun` calls so."""

    def step(self, batch: Batch) -> Stats:
        """Train a batch; several threads may at once."""


class TableProgram(Program):
    """A single host, with some partitions of the rows in memory; what is learned is a subclass's.

    Args:
        num_rows: of the table.

    Raises:
        InputError: there is no run folder, or somebody wants to see the vectors at the end of each epoch.
    """

    learner: TableLearner
    sweeps = 1
    """of an epoch over all states of the buffer: what `BufferWalk` and `Buckets` call epochs"""
    window: ClassVar[int]
    """of what is trained: between two moments at which a run can stop"""
    is_shuffled: ClassVar[bool] = True
    """within a window"""

    def __init__(
        self, request: Request, transport: Transport, plan: BufferPlan, num_rows: int, metadata: dict[str, Any]
    ) -> None:
        if request.spec.run.out is None:
            raise InputError("A table that is larger than memory is trained in the run folder; say which one, as out.")
        if request.hooks.on_epoch is not None:
            raise InputError("on_epoch is called where all rows are in memory; leave it out, or memory.")
        super().__init__(request, transport)
        self.plan, self.metadata = plan, metadata
        self.out = request.spec.run.out
        self.parts = RowPartitions(num_rows, plan.partitions, request.spec.run.seed)
        self.walk: BufferWalk | SharedWalk = BufferWalk(
            order=request.spec.storage.order_of(request.spec.model), partitions=plan.partitions, capacity=plan.capacity,
            epochs=request.spec.run.epochs * self.sweeps, seed=request.spec.run.seed,
        )  # fmt: skip
        self._moment = ""
        """what is said of a stop that is obeyed at once; "": it waits for the end of a window"""

    @contextmanager
    def opened(self) -> Iterator[tuple[int, float]]:
        with self.stopping_at_once("before training began"):
            self._store, self._buckets = self.open_store(self.out)
        try:
            yield self.recall_totals(self._store)
        finally:
            self._store.close()

    @contextmanager
    def working(self, recorder: Recorder) -> Iterator[LoopParts]:
        def dense() -> dict[str, np.ndarray]:
            return self.dense() | {"totals": np.array([self.learner.items, recorder.seconds], np.float64)}

        decisions = Decisions(recorder, self, self.request.spec.run.checkpoint_seconds)

        def report(work: Work[Window], results: list[Stats]) -> None:
            decisions.add(sum(results, Stats(0, 0.0, 0)))
            if decisions.decide(work, [decisions.report()])[1]:
                raise self._interrupted(f"at {work.progress:.1%}")

        training = OutOfCoreRun(
            self._store, self._buckets, self.walk, self.learner.step, self.options(), dense=dense, report=report,
            arrange=self.learner.arrange, pause=recorder.pause, sweeps=self.sweeps,
        )  # fmt: skip
        try:
            with training.working() as parts:
                yield parts
        except StorageError:
            self._store.forget_uncommitted()
            raise
        self.metrics = self.model_metrics() | self.table_metrics(training.moved)

    def writing(self) -> AbstractContextManager[None]:
        return self.stopping_at_once("while the result was written")

    def stored(self) -> StoredResult:
        return self.result(self._store)

    def remove(self) -> None:
        remove_table(self.out)

    @abstractmethod
    def buckets(self, folder: Path, is_new: bool) -> Buckets:
        """What is trained: made in a folder, or what a former run has left there."""

    @abstractmethod
    def start(self, entity_M: np.ndarray, row_MC: np.ndarray) -> None:
        """Write the rows (zeros) of these entities (int64) as they start."""

    @property
    @abstractmethod
    def batch_size(self) -> int:
        """Of what a thread trains at once."""

    def options(self) -> OutOfCoreOptions:
        """How what is trained is cut."""
        request = self.request
        return OutOfCoreOptions(
            batch_size=self.batch_size, window=self.window, is_shuffled=self.is_shuffled, seed=self.learner.seed,
            threads=request.threads, staleness_bound=bound_of(request.spec.sync.staleness_bound, request.threads),
            commit_seconds=request.spec.run.checkpoint_seconds,
        )  # fmt: skip

    def dense(self) -> dict[str, np.ndarray]:
        """Arrays that stand beside the table: a commit keeps them."""
        return {}

    def recall(self, dense: Mapping[str, np.ndarray]) -> None:
        """Take them as a commit has kept them."""
        for name, array in self.dense().items():
            array[:] = dense[name]

    @abstractmethod
    def model_metrics(self) -> dict[str, Any]:
        """What the summary says of the model."""

    @abstractmethod
    def result(self, store: PartitionStore | AllPartitions) -> StoredResult:
        """What is written at the end."""

    @property
    def spare_bytes(self) -> int:
        """Memory that the partitions have left."""
        return self.plan.capacity * self.plan.partition_bytes

    def open_store(
        self, folder: Path, own: Collection[int] | None = None, takes_next: bool = False
    ) -> tuple[PartitionStore, Buckets]:
        """What a former run has left in a folder, or new ones; own, takes_next: as `PartitionStore` has them."""
        table, triples = folder / TABLE, folder / TRIPLES
        if (table / "meta.json").exists():
            store = PartitionStore.open(table, takes_next)
            try:
                return store, self.buckets(triples, is_new=False)
            except BaseException:
                store.close()
                raise
        buckets, parts = self.buckets(triples, is_new=True), self.parts

        def fill(number: int, row_RC: np.ndarray) -> None:
            first, stop = parts.bounds[number : number + 2]
            self.start(parts.entities(np.arange(first, stop)), row_RC)

        request = self.request
        note = {"run": request.settings, "capacity": self.plan.capacity, "threads": request.threads}
        columns = self.plan.row_bytes // 4
        return PartitionStore.create(table, parts.bounds.tolist(), columns, fill, True, note, own), buckets

    def recall_totals(self, store: PartitionStore) -> tuple[int, float]:
        """Arrays as at the last commit; items and seconds of training until then."""
        kept = store.dense()
        if not kept:
            return self.learner.items, 0.0
        self.recall(kept)
        self.learner.items = int(kept["totals"][0])
        return self.learner.items, float(kept["totals"][1])

    def table_metrics(self, report: OutOfCoreReport) -> dict[str, Any]:
        """What the summary says of the table on disk."""
        moved = report.buffer.as_dict()
        moved["seconds_waited"] += report.seconds_waited
        return {
            "partitions": self.plan.partitions, "capacity": self.plan.capacity,
            "order": self.walk.order, "table_bytes": self.plan.num_rows * self.plan.row_bytes,
            "triple_bytes_read": report.triple_bytes, "staleness": report.staleness, **moved,
        }  # fmt: skip

    def on_stop(self, number: int, frame: FrameType | None) -> None:
        """Behind the window at hand; at once where there is nothing to commit."""
        super().on_stop(number, frame)
        if self._moment:
            raise self._interrupted(self._moment)

    @contextmanager
    def stopping_at_once(self, moment: str) -> Iterator[None]:
        """Within it there is nothing to commit, and whatever is made is made aside: whoever asks for a stop gets it.

        moment: "while", "before" or "behind" what.
        """
        self._moment = moment
        try:
            if self.stop_signal:
                raise self._interrupted(moment)
            yield
        finally:
            self._moment = ""

    def _interrupted(self, moment: str) -> Interrupted:
        kept = self.out / TABLE if has_table(self.out) else None
        return Interrupted(stopped(self.stop_signal, moment, kept, "nothing was left half-written"))

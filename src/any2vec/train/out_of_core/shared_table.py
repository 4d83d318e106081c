"""The run of one of several hosts that train one table together, which no memory of theirs holds.

Each host has a folder of its own below the run folder, on its own machine: the partitions that it keeps, and the
triples of the buckets that it trains. What is learned, and how a single host learns it, is a `TableProgram`'s; here
stands what hosts do together: partitions change hands (tables/disk/partition_exchange.py) as the plan says
(plan/order/shared_walk.py), and at the end of each round all agree on what stands beside the table, tell rank 0 how far
they are, and perhaps commit: each its own store, all at the same round.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from types import FrameType
from typing import Any

import numpy as np

from any2vec.cluster.counters import summed
from any2vec.cluster.transport import LONG_WORK, control, gather_json
from any2vec.errors import Interrupted, JobError
from any2vec.plan.cost.shared_plan import host_moves, round_bytes
from any2vec.plan.order.buffer_walk import START, Position
from any2vec.plan.order.shared_walk import SharedWalk
from any2vec.sampling.triple_windows import Window
from any2vec.sync.rules.changed_mean import PHASE, ChangedMean
from any2vec.tables.disk.partition_exchange import ASK, GIVE, TAKEN, AllPartitions, Holding, PartitionExchange
from any2vec.tables.disk.partition_store import PartitionStore, next_note, read_index
from any2vec.train.frame import Program
from any2vec.train.loop import LoopParts
from any2vec.train.monitor import NUMBERS, Decisions, stopped
from any2vec.train.out_of_core.program import TableProgram
from any2vec.train.out_of_core.run import OutOfCoreReport, OutOfCoreRun
from any2vec.train.progress import Recorder
from any2vec.train.result import Result, StoredResult
from any2vec.train.run_folder import TABLE, host_folder, is_table, remove_table
from any2vec.types import ProgressLine, Round, Span, Stats, Work

_ANSWERS = 2
"""of rank 0 to what hosts report at the end of a round: whether to commit, and the signal that ends the run"""


class SharedTable(Program):
    """One host of several.

    Args:
        table: what is learned, and this host's `SharedWalk`; its plan is the same on all hosts.
    """

    def __init__(self, table: TableProgram) -> None:
        super().__init__(table.request, table.transport)
        self.table, self.learner, self.metadata = table, table.learner, table.metadata
        self.place = host_folder(table.out, self.transport.rank)
        self.seconds_idle = 0.0
        """that this host has waited for others at the ends of rounds"""

    def compile(self) -> None:
        self.table.compile()

    def on_stop(self, number: int, frame: FrameType | None) -> None:
        self.table.on_stop(number, frame)

    def agree(self) -> None:
        self.transport.barrier("begin", timeout=LONG_WORK)  # rank 0 has removed what was in the folder, theirs too
        if not (self.transport.rank == 0 or self.request.spec.run.resume):
            self._remove()
        self._takes_next, self._number = self._agreed_round()

    @contextmanager
    def opened(self) -> Iterator[tuple[int, float]]:
        table, rank = self.table, self.transport.rank
        store, self._buckets = table.open_store(self.place, self._walk(None).rounds.owned(0, rank), self._takes_next)
        store.together = lambda: self.transport.barrier("commit", timeout=LONG_WORK)
        try:
            totals = table.recall_totals(store)
            with PartitionExchange(self.transport, store, self._walk(store)) as self._exchange:
                yield totals
        finally:
            store.close()

    @contextmanager
    def working(self, recorder: Recorder) -> Iterator[LoopParts]:
        training = self._training(recorder)
        with training.working() as parts:
            yield parts
        self.metrics = self.table.model_metrics() | self._gathered(training.moved)

    @contextmanager
    def writing(self) -> Iterator[None]:
        yield
        self.transport.barrier("written", timeout=LONG_WORK)

    def stored(self) -> StoredResult:
        return self.table.result(AllPartitions(self._exchange))

    def load(self, stored: StoredResult) -> Result:
        return self.table.load(stored)

    def remove(self) -> None:
        self._remove()
        self.transport.barrier("removed", timeout=LONG_WORK)
        if self.transport.rank == 0:
            remove_table(self.table.out)

    def _remove(self) -> None:
        """What this host has kept; its folders where they stay empty, as on machines that do not see the result."""
        remove_table(self.place)
        with suppress(OSError):
            self.place.rmdir()
            self.place.parent.rmdir()

    def _agreed_round(self) -> tuple[bool, int]:
        """(whether a commit that is ready counts, the round that all hosts go on with).

        Raises:
            JobError: there is no round that all have.
        """
        walk = self._walk(None)
        settled, ready = 0, -1
        if is_table(self.place):
            settled = _round_of(walk, read_index(self.place / TABLE)["note"])
            note = next_note(self.place / TABLE)
            ready = -1 if note is None else _round_of(walk, note)
        own = control(settled, ready)
        found = [parts[0].array for parts in self.transport.gather([own], "resume", timeout=LONG_WORK).values()]
        answer = [control(_common([(int(one[0]), int(one[1])) for one in found]))] if found else []
        number = int(self.transport.share(answer, "resume", timeout=LONG_WORK)[0].array[0])
        if number not in (settled, ready):
            raise JobError(
                f"Rank {self.transport.rank} has its part of the table as before round {settled}, and others go on "
                f"from round {number}; start again with --overwrite (overwrite=True)."
            )
        return number != settled, number

    def _walk(self, store: PartitionStore | None) -> SharedWalk:
        start = START if store is None or "position" not in store.note else Position(*store.note["position"])
        assert isinstance(self.table.walk, SharedWalk)
        return replace(self.table.walk, start=start)

    def _training(self, recorder: Recorder) -> OutOfCoreRun:
        table, exchange, walk = self.table, self._exchange, self._exchange.walk
        mean = ChangedMean(self.transport, table.dense())
        decisions = Decisions(recorder, table, self.request.spec.run.checkpoint_seconds)
        ended, stop = walk.round_after.get(walk.start, 0), 0
        """rounds; the signal that ends the run here"""

        def dense() -> dict[str, np.ndarray]:
            return table.dense() | {"totals": np.array([recorder.items, recorder.seconds], np.float64)}

        def report(work: Work[Window], results: list[Stats]) -> None:
            if stop:
                raise Interrupted(stopped(stop, "at the end of a round", table.out, ""))

        def decide(reports: Sequence[np.ndarray]) -> Sequence[float]:
            is_due, number = decisions.decide(_work_of(walk, ended), reports)
            if is_due:
                decisions.saves.done()
            return is_due, number

        def is_due(position: Position) -> bool:
            nonlocal ended, stop
            number = walk.round_after.get(position)
            if number is None:
                return False
            began = time.monotonic()
            save, stop = map(int, mean.barrier(decisions.report(), decide))
            self.seconds_idle += time.monotonic() - began
            exchange.check()
            exchange.drop_given(number - 1)
            ended = number
            return bool(save) and not stop and number < walk.rounds.number

        def step(batch: Any) -> Stats:
            stats = table.learner.step(batch)
            decisions.add(stats)
            return stats

        return OutOfCoreRun(
            exchange.store, self._buckets, walk, step, table.options(), dense=dense, report=report, is_due=is_due,
            arrange=table.learner.arrange, exchange=exchange,
        )  # fmt: skip

    def _gathered(self, report: OutOfCoreReport) -> dict[str, Any]:
        """What the summary says of the hosts, at rank 0; all call it together."""
        transport, plan, exchange = self.transport, self.table.plan, self._exchange
        store, rounds = exchange.store, exchange.walk.rounds.number - self._number
        own = {
            "moved": self.table.table_metrics(report), "phases": transport.counters.bytes_by_phase(),
            "plan": host_moves(exchange.walk, store.bounds, store.columns).as_dict(), "held": exchange.ended(),
            "idle": self.seconds_idle, "kinds": transport.counters.bytes_by_kind(),
        }  # fmt: skip
        every = gather_json(transport, own, "facts", timeout=LONG_WORK)
        if not every:
            return {}
        sent = summed([one["phases"] for one in every])
        shapes = [array.shape for array in self.table.dense().values()]
        agreeing = round_bytes(shapes, transport.hosts, NUMBERS, _ANSWERS) * rounds
        holdings = [(Holding(*held), rank) for rank, one in enumerate(every) for held in one["held"]]
        return every[0]["moved"] | {
            "hosts": transport.hosts,
            "bytes_by_kind": summed([one["kinds"] for one in every]),
            "order": "shared",
            "loads": sum(one["moved"]["loads"] for one in every),
            "stores": sum(one["moved"]["stores"] for one in every),
            "bytes_read": sum(one["moved"]["bytes_read"] for one in every),
            "bytes_written": sum(one["moved"]["bytes_written"] for one in every),
            "table_bytes": plan.num_rows * plan.row_bytes,
            "partition_bytes_sent": sum(sent.get(phase, 0) for phase in (ASK, GIVE, TAKEN)),
            "partition_bytes_planned": sum(one["plan"]["bytes_sent"] for one in every),
            "round_bytes_sent": sent.get(PHASE, 0),
            "round_bytes_planned": agreeing,
            "holdings": len(holdings),
            "held_twice": held_twice(holdings),
            "seconds_idle": [round(one["idle"], 3) for one in every],
        }


def held_twice(holdings: Sequence[tuple[Holding, int]]) -> int:
    """How often a partition was held by two hosts in one round, or by none, by what the hosts have noted."""
    by_part: dict[int, list[tuple[int, int]]] = {}
    for held, _ in holdings:
        if held.stop > held.first:
            by_part.setdefault(held.part, []).append((held.first, held.stop))
    wrong = 0
    for times in by_part.values():
        times.sort()
        wrong += sum(before[1] != after[0] for before, after in pairwise(times))
    return wrong


def _work_of(walk: SharedWalk, number: int) -> Work[Span]:
    """A round as the recorder knows it: all are nearly alike, but the one of whole groups is twice the others."""
    rounds = walk.rounds
    epoch = number // rounds.per_epoch
    weights = [2 if rounds.index(one) == 0 else 1 for one in range(epoch * rounds.per_epoch, number + 1)]
    start, stop, whole = sum(weights[:-1]), sum(weights), rounds.per_epoch + 1
    line = ProgressLine(0, whole, epoch / rounds.epochs, (epoch + 1) / rounds.epochs)
    span = Span(start, stop, line)
    return Work(span, epoch, Round(number, (span,)), line.progress(stop), opens_round=True, ends_round=True)


def _round_of(walk: SharedWalk, note: dict[str, Any]) -> int:
    """The round that a commit is before."""
    return walk.round_after[Position(*note["position"])] if "position" in note else 0


def _common(found: Sequence[tuple[int, int]]) -> int:
    """The last round that all hosts have, of (settled, ready): a commit that is ready may count, a settled one does."""
    ready = {ready for _, ready in found}
    return ready.pop() if len(ready) == 1 and min(ready) >= 0 else max(settled for settled, _ in found)

"""The run of one of several hosts that train one table together, which no memory of theirs holds.

Each host has a folder of its own below the run folder, on its own machine: the partitions that it keeps, and the
triples of the buckets that it trains. What is learned, and how a single host learns it, is a `TableHost`'s; here stands
what hosts do together: partitions change hands (tables/disk/partition_exchange.py) as the plan says
(plan/order/shared_walk.py), and at the end of each round all agree on what stands beside the table, tell rank 0 how far
they are, and perhaps commit: each its own store, all at the same round.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from any2vec.cluster.counters import Counters
from any2vec.cluster.transport import LONG_WORK, Transport, control, text_of, text_part
from any2vec.data.triples.buckets import Buckets
from any2vec.errors import Interrupted, JobError
from any2vec.plan.cost.shared_plan import host_moves, round_bytes
from any2vec.plan.order.buffer_walk import START, Position
from any2vec.plan.order.shared_walk import SharedWalk
from any2vec.sampling.triple_windows import Window
from any2vec.signals import name_of, stops_go_to
from any2vec.sync.rules.changed_mean import PHASE, ChangedMean
from any2vec.tables.disk.partition_exchange import ASK, GIVE, TAKEN, AllPartitions, Holding, PartitionExchange
from any2vec.tables.disk.partition_store import PartitionStore, next_note, read_index
from any2vec.train.host import Made, run_summary, summed
from any2vec.train.out_of_core.run import OutOfCoreReport, OutOfCoreRun
from any2vec.train.out_of_core.table_host import TableHost
from any2vec.train.progress import Recorder
from any2vec.train.run_folder import TABLE, host_folder, is_table, remove_table, run_folder, write_result
from any2vec.types import ProgressLine, Round, Span, Stats, Work

_NUMBERS, _ANSWERS = 5, 2
"""what hosts tell at the end of a round: items, loss, examples, seconds, signal; and what they hear: save, stop"""


class SharedTable:
    """One host of several.

    Args:
        host: what is learned, and this host's `SharedWalk`; its plan is the same on all hosts.
    """

    def __init__(self, host: TableHost, transport: Transport) -> None:
        self.host, self.transport, self.request = host, transport, host.request
        self.folder = host_folder(host.out, transport.rank)
        self.seconds_idle = 0.0
        """that this host has waited for others at the ends of rounds"""

    def train(self) -> Made | None:
        """Train, and write the result at rank 0; None elsewhere.

        Raises:
            Interrupted: a signal asked for it; the stores have the work up to the end of a round.
            HostError: another host is lost; the stores are as at the last commit.
            StorageError, FormatError: as `TableHost.train`.
        """
        host, request, transport = self.host, self.request, self.transport
        began = time.perf_counter()
        host.compile()
        compile_seconds = time.perf_counter() - began
        is_first = transport.rank == 0
        with run_folder(host.out if is_first else None, request.spec.run.resume, request.settings) as log:
            if not (is_first or request.spec.run.resume):
                self._remove()
            transport.barrier("begin", timeout=LONG_WORK)
            takes_next, number = self._agreed_round()
            with stops_go_to(host.asked), self._opened(takes_next) as (store, buckets):
                recorder = host.resumed(store, log)
                walk = self._walk(store)
                with PartitionExchange(transport, store, walk) as exchange:
                    report = self._run(store, buckets, walk, exchange, recorder)
                    told = self._gathered(report, walk, exchange, number)
                    summary: dict[str, Any] = {}
                    if is_first:
                        facts = run_summary(
                            request, host.parts.num_entities, recorder, compile_seconds, host.data_facts
                        )
                        summary = facts | host.facts() | told
                        result = host.result(AllPartitions(exchange))
                        write_result(host.out, result, summary, request.settings, result.parts())
                    transport.barrier("written", timeout=LONG_WORK)
            self._remove()
            transport.barrier("removed", timeout=LONG_WORK)
        if not is_first:
            return None
        remove_table(host.out)
        return host.made(summary, recorder)

    def _remove(self) -> None:
        """What this host has kept; its folders where they stay empty, as on machines that do not see the result."""
        remove_table(self.folder)
        with suppress(OSError):
            self.folder.rmdir()
            self.folder.parent.rmdir()

    def _agreed_round(self) -> tuple[bool, int]:
        """(whether a commit that is ready counts, the round that all hosts go on with).

        Raises:
            JobError: there is no round that all have.
        """
        walk = self._walk(None)
        settled, ready = 0, -1
        if is_table(self.folder):
            settled = _round_of(walk, read_index(self.folder / TABLE)["note"])
            note = next_note(self.folder / TABLE)
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

    @contextmanager
    def _opened(self, takes_next: bool) -> Iterator[tuple[PartitionStore, Buckets]]:
        host, rank = self.host, self.transport.rank
        store, buckets = host.opened(self.folder, self._walk(None).rounds.owned(0, rank), takes_next)
        store.together = lambda: self.transport.barrier("commit", timeout=LONG_WORK)
        try:
            yield store, buckets
        finally:
            store.close()

    def _walk(self, store: PartitionStore | None) -> SharedWalk:
        start = START if store is None or "position" not in store.note else Position(*store.note["position"])
        assert isinstance(self.host.walk, SharedWalk)
        return replace(self.host.walk, start=start)

    def _run(
        self, store: PartitionStore, buckets: Buckets, walk: SharedWalk, exchange: PartitionExchange, recorder: Recorder
    ) -> OutOfCoreReport:
        host, request, transport = self.host, self.request, self.transport
        mean = ChangedMean(transport, host.dense())
        meeting = _Meeting(host, recorder, walk, request.spec.run.checkpoint_seconds, transport.counters)

        def dense() -> dict[str, np.ndarray]:
            return host.dense() | {"totals": np.array([recorder.items, recorder.seconds], np.float64)}

        def heard(work: Work[Window], results: list[Stats]) -> None:
            if meeting.stop:
                raise Interrupted(
                    f"Stopped by {name_of(meeting.stop)} at the end of a round; {host.out} holds the work so far, "
                    "--resume goes on from it."
                )

        def is_due(position: Position) -> bool:
            number = walk.round_after.get(position)
            if number is None:
                return False
            began = time.monotonic()
            save, meeting.stop = map(int, mean.meet(meeting.told(), meeting.decide))
            self.seconds_idle += time.monotonic() - began
            exchange.check()
            exchange.drop_given(number - 1)
            meeting.ended = number
            return bool(save) and not meeting.stop and number < walk.rounds.number

        def step(batch: Any) -> Stats:
            stats = host.learner.step(batch)
            meeting.add(stats)
            return stats

        return OutOfCoreRun(
            store, buckets, walk, step, host.options(), dense=dense, report=heard, is_due=is_due,
            arrange=host.learner.arrange, exchange=exchange,
        ).run()  # fmt: skip

    def _gathered(
        self, report: OutOfCoreReport, walk: SharedWalk, exchange: PartitionExchange, number: int
    ) -> dict[str, Any]:
        """What the summary says of the hosts, at rank 0; all call it together."""
        transport, plan = self.transport, self.host.plan
        store = exchange.store
        own = {
            "moved": self.host.moved(report), "phases": transport.counters.bytes_by_phase(),
            "plan": host_moves(walk, store.bounds, store.columns).as_dict(), "held": exchange.ended(),
            "idle": self.seconds_idle, "kinds": transport.counters.bytes_by_kind(),
        }  # fmt: skip
        found = transport.gather([text_part(json.dumps(own))], "facts", timeout=LONG_WORK)
        every = [json.loads(text_of(parts[0])) for parts in found.values()]
        if not every:
            return {}
        sent: Counter[str] = Counter()
        for one in every:
            sent.update(one["phases"])
        shapes = [array.shape for array in self.host.dense().values()]
        agreeing = round_bytes(shapes, transport.hosts, _NUMBERS, _ANSWERS) * (walk.rounds.number - number)
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
            "partition_bytes_sent": sum(sent[phase] for phase in (ASK, GIVE, TAKEN)),
            "partition_bytes_planned": sum(one["plan"]["bytes_sent"] for one in every),
            "round_bytes_sent": sent[PHASE],
            "round_bytes_planned": agreeing,
            "holdings": len(holdings),
            "held_twice": held_twice(holdings),
            "seconds_idle": [round(one["idle"], 3) for one in every],
        }


class _Meeting:
    """What hosts tell each other at the ends of rounds."""

    def __init__(
        self, host: TableHost, recorder: Recorder, walk: SharedWalk, commit_seconds: float, counters: Counters
    ) -> None:
        self.stop = 0
        """the signal that ends the run here"""
        self.ended = walk.round_after.get(walk.start, 0)
        """rounds"""
        self._host, self._recorder, self._walk, self._commit_seconds = host, recorder, walk, commit_seconds
        self._counters = counters
        self._own = Stats(0, 0.0, 0)
        self._lock = threading.Lock()
        self._committed = time.monotonic()

    def add(self, stats: Stats) -> None:
        """Of a batch."""
        with self._lock:
            self._own += stats

    def told(self) -> Sequence[float]:
        """What this host says."""
        own, self._own = self._own, Stats(0, 0.0, 0)
        return own.items, own.loss_sum, own.loss_examples, own.cpu_seconds, self._host.stop_signal

    def decide(self, every: Sequence[np.ndarray]) -> Sequence[float]:
        """What rank 0 says: whether to commit, and the signal that ends the run."""
        total = Stats(0, 0.0, 0)
        for items, loss_sum, examples, cpu, _ in every:
            total += Stats(int(items), float(loss_sum), int(examples), float(cpu))
        work = _work_of(self._walk, self.ended)
        self._recorder.add(work, total, self._counters.bytes_sent(), self._counters.bytes_received())
        stop = 0 if work.progress >= 1.0 else int(max(numbers[4] for numbers in every))
        now = time.monotonic()
        is_due = now - self._committed >= self._commit_seconds
        if is_due:
            self._committed = now
        return is_due, stop


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

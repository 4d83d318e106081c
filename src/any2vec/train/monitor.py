"""Records, checkpoints and stops of a run. Each host says what it has done; rank 0 decides, and all act alike."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from any2vec.cluster.message import Part
from any2vec.cluster.transport import LONG_WORK, control
from any2vec.errors import Interrupted
from any2vec.plan.order.shares import Range
from any2vec.signals import Stoppable, name_of
from any2vec.train.checkpoint import FILE, Checkpoint, save_checkpoint
from any2vec.train.progress import Recorder
from any2vec.types import Stats, Work

if TYPE_CHECKING:
    from any2vec.train.in_memory.program import InMemoryProgram

_STOP, _SAVE, _SHOW, _VALIDATE = 1, 2, 4, 8
NUMBERS = 5
"""what a host reports: items, loss, examples, CPU seconds, the signal that asked it to stop"""


class Interval:
    """When something is due again.

    Args:
        most_share: it takes at most one part in so many of the time; 0: whatever it takes.
    """

    def __init__(self, every: float, most_share: int = 0) -> None:
        self.every, self.most_share = every, most_share
        self.count = 0
        self._took = 0.0
        self._items = -1
        self._last = self._asked = time.perf_counter()

    @property
    def age(self) -> float:
        """Seconds since it was done."""
        return time.perf_counter() - self._last

    def is_due(self) -> bool:
        """Whether it is time. It is before the interval is over, not after it, where this is asked evenly."""
        now = time.perf_counter()
        ahead, self._asked = now - self._asked, now
        return now - self._last + ahead >= self.every

    def is_due_behind(self, items: int) -> bool:
        """Whether it is time, and something has been trained since."""
        return items != self._items and self.age >= max(self.every, self.most_share * self._took)

    def done(self, seconds: float = 0.0, items: int = -1) -> None:
        """It took so many seconds, behind so many items of the run."""
        self.count += 1
        self._items, self._took = items, seconds
        self._last = self._asked = time.perf_counter()


class Decisions:
    """What one host reports, and what rank 0 decides of the reports of all.

    Args:
        asked: whoever is asked to stop.
        every: seconds between two checkpoints.
    """

    def __init__(self, recorder: Recorder, asked: Stoppable, every: float) -> None:
        self.recorder, self.asked = recorder, asked
        self.saves = Interval(every)
        self._own = Stats(0, 0.0, 0)
        self._lock = threading.Lock()

    def add(self, stats: Stats) -> None:
        """What this host has done; of any thread."""
        with self._lock:
            self._own += stats

    def report(self) -> Sequence[float]:
        """NUMBERS of what this host has done since the last report."""
        own, self._own = self._own, Stats(0, 0.0, 0)
        return own.items, own.loss_sum, own.loss_examples, own.cpu_seconds, self.asked.stop_signal

    def decide(
        self, work: Work[Any], reports: Sequence[Sequence[float] | np.ndarray], is_held: bool = False
    ) -> tuple[bool, int]:
        """(whether a checkpoint is due, the signal that ends the run here), by rank 0; the work is recorded.

        is_held: its record is made when it has been validated.
        """
        total = Stats(0, 0.0, 0)
        for items, loss_sum, examples, cpu, _ in reports:  # in rank order: sums do not depend on who came first
            total += Stats(int(items), float(loss_sum), int(examples), float(cpu))
        self.recorder.add(work, total, is_held)
        if work.progress >= 1.0:
            return False, 0
        return self.saves.is_due(), int(max(report[-1] for report in reports))


class Monitor:
    """Behind each work of a run whose rows are in memory. Where hosts have agreed they report to rank 0."""

    def __init__(self, program: InMemoryProgram, recorder: Recorder) -> None:
        run = program.request.spec.run
        self.program, self.transport = program, program.transport
        self.decisions = Decisions(recorder, program, run.checkpoint_seconds)
        self._file: Path | None = None if run.out is None else run.out / FILE

    def on_work(self, work: Work[Any], stats: Stats) -> None:
        """Record, show, save, stop.

        Raises:
            Interrupted: a signal ends the run here; what is kept of it is said.
        """
        self.decisions.add(stats)
        recorder = self.decisions.recorder
        if not self.program.driver.is_settled(work):
            recorder.tick(work)
            return
        left = Part("control", np.array(self.program.schedule.left(), np.int64).reshape(-1, 2))
        # A server of rows comes here long before trainers do; who is lost or silent is noticed all the same.
        found = self.transport.gather([control(*self.decisions.report()), left], "report", timeout=LONG_WORK)
        order, number = self._decide(work, [parts[0].array for parts in found.values()])
        own_verdict = [control(order, number, work.progress)]
        verdict = self.transport.share(own_verdict, "report", timeout=LONG_WORK)[0].array
        order, number, progress = int(verdict[0]), int(verdict[1]), float(verdict[2])  # of rank 0: it always trains
        if order & _SHOW:
            began = time.perf_counter()
            self.program.end_epoch(work.epoch)
            recorder.pause(time.perf_counter() - began)
        if order & _VALIDATE:
            began = time.perf_counter()
            metrics = self.program.validate(work.epoch + 1)
            recorder.pause(time.perf_counter() - began)
            if found:
                recorder.record(work, validation=metrics)
        if order & _SAVE:
            self._save([parts[1].array.tolist() for parts in found.values()])
        if order & _STOP:
            kept = self._file if order & _SAVE else None
            raise Interrupted(stopped(number, f"at {progress:.1%}", kept, "nothing was kept"))

    def _decide(self, work: Work[Any], reports: Sequence[np.ndarray]) -> tuple[int, int]:
        """(what all hosts do now, the signal that asks for it), said by rank 0."""
        if not reports:
            return 0, 0
        validates = work.ends_epoch and self.program.validation is not None
        is_due, number = self.decisions.decide(work, reports, validates)
        shows = work.ends_epoch and self.program.request.hooks.on_epoch is not None
        saves = (is_due or number) and self._file is not None
        return _SHOW * shows | _VALIDATE * validates | _STOP * bool(number) | _SAVE * bool(saves), number

    def _save(self, rest: Sequence[Sequence[Range]]) -> None:
        """rest: positions that each host has left of the epoch, by rank."""
        start, recorder = time.perf_counter(), self.decisions.recorder
        state = self.program.state()
        if state is not None:
            assert self._file is not None
            totals: dict[str, Any] = {"items": recorder.items, "seconds": recorder.seconds}
            if self.program.validation is not None:
                totals["validation"] = self.program.validation.epochs
            place = dict(self.program.schedule.state_dict(rest))
            save_checkpoint(self._file, Checkpoint(state, place, self.program.request.settings, totals))
        # Who goes on waits no longer than for a host that works, too; who leaves looks like a lost host to rank 0.
        self.transport.barrier("saved", timeout=LONG_WORK)
        self.decisions.saves.done()
        recorder.pause(time.perf_counter() - start)


def stopped(number: int, moment: str, kept: Path | None, else_kept: str) -> str:
    """The sentence of a run that a signal has ended. kept: what holds the work so far, if anything does."""
    where = else_kept if kept is None else f"{kept} holds the work so far, --resume goes on from it"
    return f"Stopped by {name_of(number)} {moment}; {where}."

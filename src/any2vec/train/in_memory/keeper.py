"""The keeper of a run: records its progress, writes checkpoints, and stops it when asked to; on all hosts as on one."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.cluster.message import Part
from any2vec.cluster.transport import LONG_WORK, Transport, control
from any2vec.errors import Interrupted
from any2vec.plan.order.epochs import EpochSchedule
from any2vec.plan.order.shares import Range
from any2vec.signals import Stoppable
from any2vec.train.checkpoint import Checkpoint, save_checkpoint
from any2vec.train.loop import Driver
from any2vec.train.progress import Recorder
from any2vec.types import State, Stats, Work

_STOP, _SAVE, _SHOW = 1, 2, 4


@dataclass(frozen=True)
class Keeping:
    """What a keeper needs to know of the run."""

    file: Path | None
    """the checkpoint that rank 0 writes; None: nothing is kept"""
    settings: dict[str, Any]
    every: float
    """seconds between checkpoints"""
    schedule: EpochSchedule
    state: Callable[[], State | None]
    """all hosts call it together: the state of the run at rank 0, None elsewhere"""
    end_epoch: Callable[[int], None]
    """all hosts call it together where an epoch ends, if rank 0 `shows_epochs`"""
    shows_epochs: bool
    """of rank 0: whether somebody wants to see the vectors at the end of each epoch"""


class Keeper:
    """Hears of each piece of work. Where hosts have agreed they tell rank 0, which says whether to show, save, stop."""

    def __init__(
        self, keeping: Keeping, driver: Driver, recorder: Recorder, transport: Transport, asked: Stoppable
    ) -> None:
        self.keeping = keeping
        self.driver = driver
        self.recorder = recorder
        self.transport = transport
        self.asked = asked
        self._own = Stats(0, 0.0, 0)
        self._last = self._settled = time.perf_counter()

    def heard(self, work: Work[Any], stats: Stats) -> None:
        self._own += stats
        if not self.driver.is_settled(work):
            self.recorder.tick(work)
            return
        own, self._own = self._own, Stats(0, 0.0, 0)
        news = (own.items, own.loss_sum, own.loss_examples, own.cpu_seconds, self.asked.stop_signal)
        left = Part("control", np.array(self.keeping.schedule.left(), np.int64).reshape(-1, 2))
        # A server of rows comes here long before trainers do; who is lost or silent is noticed all the same.
        found = self.transport.gather([control(*news), left], "report", timeout=LONG_WORK)
        order, number = self._decide(work, found)
        own_verdict = [control(order, number, work.progress)]
        verdict = self.transport.share(own_verdict, "report", timeout=LONG_WORK)[0].array
        order, number, progress = int(verdict[0]), int(verdict[1]), float(verdict[2])  # of rank 0: it always trains
        if order & _SHOW:
            began = time.perf_counter()
            self.keeping.end_epoch(work.epoch)
            self.recorder.pause(time.perf_counter() - began)
        if order & _SAVE:
            self._save([parts[1].array.tolist() for parts in found.values()])
        if order & _STOP:
            if order & _SAVE:
                # Who leaves earlier looks like a lost host to rank 0, which writes.
                self.transport.barrier("saved", timeout=LONG_WORK)
            where = f"{self.keeping.file} holds the work so far, --resume goes on from it"
            kept = where if order & _SAVE else "nothing was kept"
            raise Interrupted(f"Stopped by {signal.Signals(number).name} at {progress:.1%}; {kept}.")

    def _decide(self, work: Work[Any], found: dict[int, tuple[Part, ...]]) -> tuple[int, int]:
        """(what all hosts do now, the signal that asks for it), said by rank 0."""
        if self.transport.rank != 0:
            return 0, 0
        said = [parts[0].array for parts in found.values()]
        total = Stats(0, 0.0, 0)
        for items, loss_sum, examples, cpu, _ in said:  # in rank order: sums do not depend on who came first
            total += Stats(int(items), float(loss_sum), int(examples), float(cpu))
        counters = self.transport.counters
        self.recorder.add(work, total, counters.bytes_sent(), counters.bytes_received())
        number = int(max(numbers[4] for numbers in said))
        show = _SHOW if self.keeping.shows_epochs and work.ends_epoch else 0
        if work.progress >= 1.0:
            return show, 0
        # Before the interval is over, not after it: what a kill loses is the work since the last checkpoint.
        now = time.perf_counter()
        is_due = bool(number) or now - self._last + (now - self._settled) >= self.keeping.every
        self._settled = now
        save = _SAVE if is_due and self.keeping.file is not None else 0
        return show | (_STOP if number else 0) | save, number

    def _save(self, rest: Sequence[Sequence[Range]]) -> None:
        """rest: positions that each host has left of the epoch, by rank."""
        start = time.perf_counter()
        state = self.keeping.state()
        if state is not None:
            assert self.keeping.file is not None
            totals = {"items": self.recorder.items, "seconds": self.recorder.seconds}
            place = dict(self.keeping.schedule.state_dict(rest))
            save_checkpoint(self.keeping.file, Checkpoint(state, place, self.keeping.settings, totals))
        self._last = self._settled = time.perf_counter()
        self.recorder.pause(self._last - start)

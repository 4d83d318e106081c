"""The keeper of a run: records its progress, writes checkpoints, and stops it when asked to."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from any2vec.errors import Interrupted
from any2vec.models.learner import SequenceLearner
from any2vec.train.checkpoint import Checkpoint, save_checkpoint
from any2vec.train.progress import Recorder
from any2vec.types import Stats, Work


class Keeper:
    """Hears of each piece of work: records it, writes checkpoints, and stops the run when asked to."""

    def __init__(
        self, file: Path | None, learner: SequenceLearner, recorder: Recorder, settings: dict[str, Any], every: float
    ) -> None:
        self.file = file
        self.learner = learner
        self.recorder = recorder
        self.settings = settings
        self.every = every
        self.stop_signal = 0
        self._last = time.perf_counter()

    def heard(self, work: Work, stats: Stats) -> None:
        self.recorder.add(work, stats)
        if work.progress_to >= 1.0:
            return
        if self.stop_signal:
            self._save(work)
            where = f"{self.file} holds the work so far, --resume goes on from it" if self.file else "nothing was kept"
            raise Interrupted(f"Stopped by {signal.Signals(self.stop_signal).name} at {work.progress_to:.1%}; {where}.")
        if time.perf_counter() - self._last >= self.every:
            self._save(work)

    def _save(self, work: Work) -> None:
        if self.file is None:
            return
        start = time.perf_counter()
        position = (work.epoch, work.stop) if work.stop < self.learner.source.num_positions else (work.epoch + 1, 0)
        totals = {"items": self.recorder.items, "seconds": self.recorder.seconds}
        save_checkpoint(self.file, Checkpoint(self.learner.state, *position, self.settings, totals))
        self._last = time.perf_counter()
        self.recorder.pause(self._last - start)


@contextmanager
def stop_signals(keeper: Keeper) -> Iterator[None]:
    """Ctrl-C and SIGTERM ask for a stop after the work at hand; a second Ctrl-C does not wait for a checkpoint."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(number: int, frame: Any) -> None:
        if keeper.stop_signal and number == signal.SIGINT:
            raise KeyboardInterrupt
        keeper.stop_signal = number

    previous = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)

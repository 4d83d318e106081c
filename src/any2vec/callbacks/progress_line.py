"""Progress of a run in a notebook, a terminal or a log: `fit(progress=True)`."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

from any2vec.callbacks.base import Callback
from any2vec.standard_error import StandardError
from any2vec.types import Progress
from any2vec.units import duration, fraction, number

LINE_SECONDS = 15.0
"""at most one line in so many seconds where lines stay"""


class ProgressLine(Callback):
    """One line on standard error that is written anew, in a terminal or a notebook; elsewhere a line now and then."""

    def __init__(self) -> None:
        self._rewrites = sys.stderr.isatty() or "ipykernel" in sys.modules
        self._last, self._width = time.monotonic(), 0

    def on_record(self, record: Progress) -> None:
        now = time.monotonic()
        if not (self._rewrites or record.validation or record.progress >= 1 or now - self._last >= LINE_SECONDS):
            return
        self._last = now
        parts = [f"epoch {min(record.epoch + 1, record.epochs)}/{record.epochs}", f"{100 * record.progress:.0f} %"]
        parts += [f"{number(record.items_per_s)} items/s"]
        parts += [] if record.loss is None else [f"loss {fraction(record.loss)}"]
        parts += [f"{name.replace('_', ' ')} {fraction(value)}" for name, value in list(record.validation.items())[:1]]
        left = record.seconds * (1 - record.progress) / record.progress if record.progress else None
        parts += [f"{duration(left)} left" if record.progress < 1 else duration(record.seconds)]
        self._show("  ".join(parts))

    def on_end(self, summary: Mapping[str, Any] | None, error: BaseException | None) -> None:
        if self._rewrites and self._width:
            print(file=StandardError(), flush=True)

    def _show(self, text: str) -> None:
        if not self._rewrites:
            print(text, file=StandardError(), flush=True)
            return
        print("\r" + text.ljust(self._width), end="", file=StandardError(), flush=True)
        self._width = len(text)

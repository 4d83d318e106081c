"""The status line of a stream: reads its records by callback and draws on standard error.

On a terminal a live line; elsewhere a plain one now and then.
"""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.status import Status

from any2vec.cli.bar import LINE_SECONDS
from any2vec.cli.output import stderr_console
from any2vec.tasks.stream.progress import StreamProgress
from any2vec.units import duration, fraction, number


class StreamBar:
    """A context manager with the callback of `any2vec.stream`: `record`."""

    def __init__(self, quiet: bool = False, console: Console | None = None) -> None:
        self._console = console or stderr_console()
        self._quiet = quiet
        self._live: Status | None = None
        self._last_line = time.monotonic()

    def __enter__(self) -> StreamBar:
        if not self._quiet and self._console.is_terminal:
            self._live = self._console.status("opening")
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def record(self, record: StreamProgress) -> None:
        """One record of the run."""
        text = line_of(record)
        if self._live is not None:
            self._live.update(text)
        elif not self._quiet and time.monotonic() - self._last_line >= LINE_SECONDS:
            self._last_line = time.monotonic()
            self._console.print(text, soft_wrap=True, markup=False)


def line_of(record: StreamProgress) -> str:
    """A record in a line."""
    parts = [
        duration(record.seconds),
        f"{number(record.words)} words",
        f"{number(record.words_per_s)} words/s",
        f"{number(record.vocabulary)} vectors",
    ]
    if record.loss is not None:
        parts.append(f"loss {fraction(record.loss)}")
    troubled = [name for name, told in record.sources.items() if told["state"] in ("retrying", "given up", "failed")]
    if troubled:
        parts.append(f"{troubled[0]}: {record.sources[troubled[0]]['state']}")
    return "  ".join(parts)

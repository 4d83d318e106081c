"""The progress bar: reads `Progress` records by callback and draws on standard error.

On a terminal, and in a notebook with ipywidgets: a live bar with items/s, loss and time left. Elsewhere (a log file, a
pipe): one plain line now and then, no control codes. In Python:

    with Bar() as bar:
        any2vec.fit(model, data, callback=bar.record, stage=bar.stage)
"""

from __future__ import annotations

import time
from importlib.util import find_spec
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn
from rich.progress import Progress as RichProgress
from rich.status import Status
from rich.table import Column

from any2vec.cli.output import can_rewrite, shown, stderr_console
from any2vec.tasks.stream.progress import StreamProgress
from any2vec.types import Progress
from any2vec.units import duration, fraction, number, visible

LINE_SECONDS = 15.0
"""at most one line in so many seconds where there is no terminal"""
QUICK_SECONDS = 2.0
"""a stage that took no longer is not worth a line there"""
STEP_SECONDS = 1.0
"""a step that took no longer leaves the terminal, too: nothing was compiled"""
NAME_WIDTH = 26
"""columns for the name of a stage: speed, loss and time left must stay whole on a line of 80"""
_TRAIN = "\0train"


class Bar:
    """A context manager with the two callbacks of `any2vec.fit`: `record` (callback=) and `stage` (stage=)."""

    def __init__(self, quiet: bool = False, console: Console | None = None) -> None:
        self._console = console or stderr_console()
        self._quiet = quiet
        self._is_live = not quiet and _can_draw(self._console)
        self._live: RichProgress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._last_line = time.monotonic()
        self._ended: dict[str, int] = {}
        self._began: dict[str, float] = {}
        self._over: set[str] = set()
        self._first: Progress | None = None

    def __enter__(self) -> Bar:
        if self._is_live:
            self._live = RichProgress(
                SpinnerColumn(finished_text="[green]✓[/]"),
                TextColumn("{task.description}", table_column=Column(no_wrap=True, max_width=NAME_WIDTH)),
                BarColumn(bar_width=None),
                TextColumn("{task.fields[text]}", table_column=Column(no_wrap=True)),
                console=self._console,
                refresh_per_second=8,
                expand=True,
            )
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def stage(self, name: str, done: int, total: int | None) -> None:
        """Work around training: reading, compiling, drawing. `done` of `total` (None: unknown); total 1: one step."""
        now = time.monotonic()
        is_last = bool(total) and done >= (total or 0)
        if is_last and name in self._over and name not in self._began:
            return  # hosts that were started again found it done
        if name not in self._began or done == 0:
            self._began[name] = now
        spent, is_step = now - self._began[name], total == 1
        if is_last:
            del self._began[name]
            self._over.add(name)
        if is_step and not is_last and self._live is None:
            return  # a log has one line for a step, when it is over
        text = duration(spent) if is_last else ""
        if not is_last and not is_step:
            text = f"{100 * done / total:.0f} %" if total else number(done)
        self._show(name, name, done, None if is_step and not is_last else total, text, is_last, spent > QUICK_SECONDS)
        if is_step and self._live is not None:
            self._live.update(self._tasks[name], visible=not is_last or spent > STEP_SECONDS)

    def record(self, record: Progress) -> None:
        """One progress record of training."""
        if self._first is None:
            self._first = record
        parts = [f"{number(record.items_per_s)} items/s"]
        if record.loss is not None:
            parts.append(f"loss {fraction(record.loss)}")
        is_last = record.progress >= 1
        parts.append(duration(record.seconds) if is_last else f"{duration(self._left(record))} left")
        name = f"epoch {min(record.epoch + 1, record.epochs)}/{record.epochs}"
        self._show(_TRAIN, name, int(1e6 * record.progress), 1_000_000, "  ".join(parts), is_last, True)

    def _left(self, record: Progress) -> float | None:
        """Seconds left by the mean speed of this process; a resumed run does not start at 0."""
        assert self._first is not None
        seconds, share = record.seconds, record.progress
        if record is not self._first and share > self._first.progress:
            seconds, share = seconds - self._first.seconds, share - self._first.progress
        return seconds * (1 - record.progress) / share if share > 0 else None

    def _show(
        self, task: str, name: str, done: int, total: int | None, text: str, is_last: bool, is_worth_a_line: bool
    ) -> None:
        if self._live is not None:
            if task not in self._tasks:
                self._tasks[task] = self._live.add_task(name, total=total, text=text)
            self._live.update(self._tasks[task], completed=done, total=total, description=name, text=text)
        elif not self._quiet:
            now = time.monotonic()
            is_new = is_last and is_worth_a_line and self._ended.get(task) != done
            if is_new or (not is_last and now - self._last_line >= LINE_SECONDS):
                self._last_line = now
                self._ended |= {task: done} if is_last else {}
                share = f"{100 * done / total:.0f} %  " if total and task == _TRAIN else ""
                self._console.print(f"{name}  {share}{text}".rstrip(), soft_wrap=True, markup=False)


def _can_draw(console: Console) -> bool:
    """On a terminal that can rewrite a line; in a notebook where ipywidgets is installed, which Rich draws with."""
    if console.is_jupyter:
        return find_spec("ipywidgets") is not None
    return can_rewrite(console)


class StreamBar:
    """A context manager with the callback of `any2vec.stream`: `record`."""

    def __init__(self, quiet: bool = False, console: Console | None = None) -> None:
        self._console = console or stderr_console()
        self._quiet = quiet
        self._live: Status | None = None
        self._last_line = time.monotonic()

    def __enter__(self) -> StreamBar:
        if not self._quiet and can_rewrite(self._console):
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
            self._live.update(shown(text))
        elif not self._quiet and time.monotonic() - self._last_line >= LINE_SECONDS:
            self._last_line = time.monotonic()
            self._console.print(visible(text), soft_wrap=True, markup=False)


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
    troubled = [
        name for name, source in record.sources.items() if source["state"] in ("retrying", "given up", "failed")
    ]
    if troubled:
        parts.append(f"{troubled[0]}: {record.sources[troubled[0]]['state']}")
    return "  ".join(parts)

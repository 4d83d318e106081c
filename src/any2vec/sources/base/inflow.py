"""Many sources at once: a thread for each, and a queue for each whose bytes are bounded.

Legend: nothing here reads a line; batches pass as they are.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from any2vec.errors import Any2VecError, InputError
from any2vec.sources.base.cutter import LineBatch, Position
from any2vec.sources.base.source import Source

MOST_BYTES = 4 << 20
"""bytes that wait for a source, by default"""
_ENDING = 2.0
"""seconds that readers have to end, each anew where something comes of one that cannot be asked again"""
_LONGEST_ENDING = 30.0


class _Worker:
    """What waits of one source."""

    def __init__(self, source: Source, position: Position | None) -> None:
        self.source, self.position = source, position
        self.waiting: deque[LineBatch] = deque()
        self.bytes = self.lines = 0
        self.is_over = False
        self.error: BaseException | None = None


class Inflow:
    """Reads sources side by side. A context: it is closed at its end.

    Each source has a queue of its own, of `most_bytes` (or one batch, if that is larger): while it is full, its thread
    waits and reads nothing, so that a server sees its connection fill up. A source that stalls holds no other. An error
    that a source raises, against its promise, ends that source alone: `metrics` says so.

    Args:
        sources: with names that differ.
        positions: source's name -> where it goes on, for those that do not begin.
        most_bytes: that wait for each source at most.
        in_step: `take` waits for the source whose turn it is, as long as that has not ended: all give alike, and the
            slowest sets the pace.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        positions: Mapping[str, Position] | None = None,
        *,
        most_bytes: int = MOST_BYTES,
        in_step: bool = False,
    ) -> None:
        check_names(sources)
        self._workers = [_Worker(source, (positions or {}).get(source.name)) for source in sources]
        self._most_bytes = most_bytes
        self._in_step = in_step
        self._condition = threading.Condition()
        """notifies who takes; the reader of each queue waits at `_room`"""
        self._room = threading.Condition(self._condition._lock)  # type: ignore[attr-defined]
        self._is_closed = self._is_left = False
        """`_is_left`: nobody waits for readers any more"""
        self._until = 0.0
        """when those that are closed are left behind"""
        self._turn = 0
        self._threads = [
            threading.Thread(target=self._read, args=(worker,), name=f"source {worker.source.name}", daemon=True)
            for worker in self._workers
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_over(self) -> bool:
        """Every source has ended, and all of it was taken."""
        with self._condition:
            return all(worker.is_over and not worker.waiting for worker in self._workers)

    def take(self, timeout: float) -> LineBatch | None:
        """The next batch of any source, one after the other in turn; None: none has come within so many seconds."""
        until = time.monotonic() + timeout
        with self._condition:
            while True:
                for step in range(len(self._workers)):
                    worker = self._workers[(self._turn + step) % len(self._workers)]
                    if self._in_step and not worker.waiting and not worker.is_over:
                        break
                    if worker.waiting:
                        self._turn = (self._turn + step + 1) % len(self._workers)
                        return self._take(worker)
                left = until - time.monotonic()
                if left <= 0 or all(worker.is_over for worker in self._workers):
                    return None
                self._condition.wait(left)

    @property
    def waiting_bytes(self) -> int:
        """Of all sources."""
        with self._condition:
            return sum(worker.bytes for worker in self._workers)

    def positions(self) -> dict[str, Position]:
        """Where each source goes on behind what was taken of it, for a checkpoint of that moment; not of one that has
        given nothing."""
        with self._condition:
            return {worker.source.name: worker.position for worker in self._workers if worker.position is not None}

    def drain(self) -> list[LineBatch]:
        """End all readers; what waits of sources that cannot be asked for it again (at most once), which counts as
        taken."""
        self.close()
        with self._condition:
            lossy = [worker for worker in self._workers if worker.source.delivery == "at most once"]
            return [self._take(worker) for worker in lossy for _ in range(len(worker.waiting))]

    def metrics(self) -> dict[str, dict[str, Any]]:
        """By source's name: its own metrics, and the lines and bytes that wait."""
        with self._condition:
            found = {}
            for worker in self._workers:
                metrics = worker.source.metrics()
                if worker.error is not None:
                    metrics |= {"state": "failed", "trouble": _warned(worker.error)}
                found[worker.source.name] = {**metrics, "waiting": worker.lines, "waiting_bytes": worker.bytes}
            return found

    def close(self) -> None:
        """End all readers; those that a server holds are left behind after two seconds, and end with the process."""
        for worker in self._workers:
            worker.source.close()
        with self._condition:
            self._is_closed = True
            self._until = time.monotonic() + _ENDING
            self._room.notify_all()
            self._condition.notify_all()
        last = time.monotonic() + _LONGEST_ENDING
        for thread in self._threads:
            while thread.is_alive() and (left := min(self._until, last) - time.monotonic()) > 0:
                thread.join(left)
        with self._condition:
            self._is_left = True

    def _take(self, worker: _Worker) -> LineBatch:
        batch = worker.waiting.popleft()
        worker.bytes -= batch.num_bytes
        worker.lines -= len(batch)
        worker.position = batch.position
        self._room.notify_all()
        return batch

    def _read(self, worker: _Worker) -> None:
        """A reader's thread. What cannot be asked for again is read up to the source's own end, for `drain`."""
        batches: Iterator[LineBatch | None] = iter(())
        try:
            batches = worker.source.batches(worker.position)
            for batch in batches:
                if batch is not None:
                    self._put(worker, batch)
                if self._is_left or (self._is_closed and worker.source.delivery != "at most once"):
                    break
        except Exception as error:
            worker.error = error
        finally:
            getattr(batches, "close", lambda: None)()
            with self._condition:
                worker.is_over = True
                self._condition.notify_all()

    def _put(self, worker: _Worker, batch: LineBatch) -> None:
        """Wait for room. Once it is over, what cannot be asked for again is put at once, and the rest dropped."""
        size = batch.num_bytes
        with self._condition:
            self._room.wait_for(
                lambda: self._is_closed or not worker.waiting or worker.bytes + size <= self._most_bytes
            )
            if self._is_left or (self._is_closed and worker.source.delivery != "at most once"):
                return
            if self._is_closed:
                self._until = time.monotonic() + _ENDING
            worker.waiting.append(batch)
            worker.bytes += size
            worker.lines += len(batch)
            self._condition.notify_all()


def check_names(sources: Sequence[Source]) -> None:
    """InputError unless the names of sources differ, and the files that they name."""
    found: dict[str | tuple[int, int], str] = {}
    for name in (source.name for source in sources):
        file = _file_of(name)
        if file in found:
            twice = f"{name} twice" if found[file] == name else f"{found[file]} and {name}, which are one file"
            raise InputError(f"Each source is read once, got {twice}; leave one out.")
        found[file] = name


def _file_of(name: str) -> str | tuple[int, int]:
    """Which file, however it is spelled; the name, where there is none."""
    try:
        status = Path(name).stat()
    except (OSError, ValueError):
        return name
    return status.st_dev, status.st_ino


def _warned(error: BaseException) -> str:
    return str(error) if isinstance(error, Any2VecError) else f"{type(error).__name__}: {error}"

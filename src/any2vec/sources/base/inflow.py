"""Many sources at once: a thread for each, and a queue for each whose bytes are bounded.

Legend: nothing here reads a line; batches pass as they are.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from any2vec.errors import Any2VecError, InputError
from any2vec.sources.base.cutter import LineBatch, Position
from any2vec.sources.base.source import Source

MOST_BYTES = 4 << 20
"""bytes that wait for a source, by default"""
_ENDING = 2.0


class _Lane:
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
    that a source raises, against its promise, ends that source alone: `facts` tells it.

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
        names = [source.name for source in sources]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise InputError(f"Each source is read once, got {twice[0]} twice; leave one out.")
        self._lanes = [_Lane(source, (positions or {}).get(source.name)) for source in sources]
        self._most_bytes = most_bytes
        self._in_step = in_step
        self._news = threading.Condition()
        """told to who takes; each lane's reader waits at `_room`"""
        self._room = threading.Condition(self._news._lock)  # type: ignore[attr-defined]
        self._is_closed = False
        self._turn = 0
        self._threads = [
            threading.Thread(target=self._read, args=(lane,), name=f"source {lane.source.name}", daemon=True)
            for lane in self._lanes
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
        with self._news:
            return all(lane.is_over and not lane.waiting for lane in self._lanes)

    def take(self, timeout: float) -> LineBatch | None:
        """The next batch of any source, one after the other in turn; None: none has come within so many seconds."""
        until = time.monotonic() + timeout
        with self._news:
            while True:
                for step in range(len(self._lanes)):
                    lane = self._lanes[(self._turn + step) % len(self._lanes)]
                    if self._in_step and not lane.waiting and not lane.is_over:
                        break
                    if lane.waiting:
                        self._turn = (self._turn + step + 1) % len(self._lanes)
                        return self._take(lane)
                left = until - time.monotonic()
                if left <= 0 or all(lane.is_over for lane in self._lanes):
                    return None
                self._news.wait(left)

    @property
    def waiting_bytes(self) -> int:
        """Of all sources."""
        with self._news:
            return sum(lane.bytes for lane in self._lanes)

    def positions(self) -> dict[str, Position]:
        """Where each source goes on behind what was taken of it, for a checkpoint of that moment; not of one that has
        given nothing."""
        with self._news:
            return {lane.source.name: lane.position for lane in self._lanes if lane.position is not None}

    def facts(self) -> dict[str, dict[str, Any]]:
        """By source's name: its own facts, and the lines and bytes that wait."""
        with self._news:
            found = {}
            for lane in self._lanes:
                facts = lane.source.facts()
                if lane.error is not None:
                    facts |= {"state": "failed", "trouble": _told(lane.error)}
                found[lane.source.name] = {**facts, "waiting": lane.lines, "waiting_bytes": lane.bytes}
            return found

    def close(self) -> None:
        """End all readers; those that a server holds are left behind after two seconds, and end with the process."""
        for lane in self._lanes:
            lane.source.close()
        with self._news:
            self._is_closed = True
            self._room.notify_all()
            self._news.notify_all()
        until = time.monotonic() + _ENDING
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _take(self, lane: _Lane) -> LineBatch:
        batch = lane.waiting.popleft()
        lane.bytes -= batch.num_bytes
        lane.lines -= len(batch)
        lane.position = batch.position
        self._room.notify_all()
        return batch

    def _read(self, lane: _Lane) -> None:
        """A reader's thread."""
        batches: Iterator[LineBatch | None] = iter(())
        try:
            batches = lane.source.batches(lane.position)
            for batch in batches:
                if self._is_closed or (batch is not None and not self._put(lane, batch)):
                    break
        except Exception as error:
            lane.error = error
        finally:
            getattr(batches, "close", lambda: None)()
            with self._news:
                lane.is_over = True
                self._news.notify_all()

    def _put(self, lane: _Lane, batch: LineBatch) -> bool:
        """Wait for room; False: it is over."""
        size = batch.num_bytes
        with self._news:
            self._room.wait_for(lambda: self._is_closed or not lane.waiting or lane.bytes + size <= self._most_bytes)
            if self._is_closed:
                return False
            lane.waiting.append(batch)
            lane.bytes += size
            lane.lines += len(batch)
            self._news.notify_all()
        return True


def _told(error: BaseException) -> str:
    return str(error) if isinstance(error, Any2VecError) else f"{type(error).__name__}: {error}"

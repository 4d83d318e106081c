"""What every source of lines is to those who read it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Literal, Protocol

from any2vec.data.io.files import read_blocks
from any2vec.errors import DataError
from any2vec.sources.base.cutter import BLOCK, TAIL, LineBatch, LineCutter, Position, Tally, is_before
from any2vec.sources.base.options import SourceOptions
from any2vec.sources.base.pump import Batches, cut_all, idle

Delivery = Literal["exactly once", "at least once", "at most once"]
"""How often a line is trained where the job is killed and goes on from a checkpoint of position, keys and model.

exactly once: the source can be asked for what follows a position. at least once: it can be asked for old lines, but not
for a position; those within the window of de-duplication are trained once. at most once: what was read and is not in
the checkpoint is gone.
"""


class Source(Protocol):
    """Lines from one place. One thread reads it; `close` and `metrics` may be called from any other."""

    name: str
    """alone among those of a run"""
    delivery: Delivery

    def batches(self, position: Position | None) -> Iterator[LineBatch | None]:
        """The lines behind a position, or from the source's beginning; None each tenth of a second or so without any.

        Ends where the source ends, where `close` has been called, or where its retries are spent; `metrics` says which.
        Raises no error for what the source sends.
        """
        ...

    def close(self) -> None:
        """Let `batches` end soon."""
        ...

    def metrics(self) -> dict[str, Any]:
        """What has come so far: see `Tally.metrics`."""
        ...


class PacedSource(ABC):
    """A `Source` that gives at most so many lines a second; a subclass reads them.

    Args:
        rate: lines a second at most; None: as fast as they come.
    """

    delivery: Delivery = "exactly once"

    def __init__(self, name: str, rate: float | None) -> None:
        self.name, self._rate = name, rate
        self._tally = Tally()
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True

    def metrics(self) -> dict[str, Any]:
        return {**self._tally.metrics(), "delivery": self.delivery}

    def batches(self, position: Position | None) -> Batches:
        """As of `Source`: each batch waits until those before it have had their time."""
        batches = self._batches(position)
        return batches if self._rate is None else self._paced(batches, self._rate)

    @abstractmethod
    def _batches(self, position: Position | None) -> Batches:
        """The same as fast as they come."""

    def _paced(self, batches: Batches, rate: float) -> Batches:
        free = time.monotonic()
        for batch in batches:
            if batch is not None:
                yield from idle(free - time.monotonic(), lambda: self._is_closed)
                free = max(free, time.monotonic() - 1.0) + len(batch) / rate  # a second that went unused may be made up
            yield batch


class PackedFile(PacedSource):
    """Lines of a gz, zst or xz file. A line's number is its first byte's, unpacked.

    Position: `offset`, of those, earlier files counted in; `at`, the same in this file; `mark` and `marked`. A file in
    whose place another has come is read from its beginning.

    Where the file turns out to be damaged, the source ends behind the last whole line before, and says so; once the
    file is whole, it goes on from there.
    """

    def __init__(self, path: str, name: str, number: int, options: SourceOptions, is_json: bool) -> None:
        super().__init__(name, options.rate)
        self._path, self._options, self._is_json = path, options, is_json
        self._cutter = LineCutter(number, options, self._tally)
        self._start = 0
        """the number of the file's first byte"""

    def _batches(self, position: Position | None) -> Batches:
        self._start = 0 if position is None else int(position["offset"])
        self._cutter.restart(self._start)
        self._tally.state = "reading"
        try:
            blocks = self._blocks() if position is None else self._blocks_behind(position)
            for block in blocks:
                if self._is_closed:
                    self._tally.state = "closed"
                    return
                self._cutter.feed(block)
                yield from cut_all(self._cutter, self._position, self._is_json, self._options, self._tally)
        except DataError as error:
            self._tally.bad("damaged file")
            self._tally.bad("half a line", bool(self._cutter.held))
            self._tally.trouble = str(error)
        else:
            self._cutter.finish()
            yield from cut_all(self._cutter, self._position, self._is_json, self._options, self._tally)
        self._tally.state = "ended"

    def _blocks(self) -> Iterator[bytes]:
        return read_blocks(self._path, block_bytes=BLOCK, allow_empty=True)

    def _blocks_behind(self, position: Position) -> Iterator[bytes]:
        """The file from a position on; from its beginning, where the bytes before that are others or fewer."""
        at, done, before, blocks = int(position.get("at", 0)), 0, b"", self._blocks()
        for block in blocks if at else ():
            done += len(block)
            before = (before + block[: len(block) - max(0, done - at)])[-TAIL:]
            if done >= at or self._is_closed:
                break
        if at and not self._is_closed and (done < at or not is_before(before, position)):
            self._tally.bad("file cut short")
            self._tally.trouble = (
                f"{self.name} is another file than the one read before; it is read from its beginning."
            )
            yield from self._blocks()
            return
        if at:
            self._start -= at
            self._cutter.tail = before
            yield block[len(block) - (done - at) :]
        yield from blocks

    def _position(self) -> Position:
        return {"offset": self._cutter.offset, "at": self._cutter.offset - self._start, **self._cutter.mark}

"""Standard input and named pipes: read once, as fast as they come.

Delivery is at most once, but where standard input is a file (`< FILE`): then a position can be found again.
"""

from __future__ import annotations

import os
import select
import stat
import time

from any2vec.sources.base.cutter import LineCutter
from any2vec.sources.base.line_batch import Position
from any2vec.sources.base.options import SourceOptions
from any2vec.sources.base.paced import PacedSource
from any2vec.sources.base.pump import Batches, cut_all, pump
from any2vec.sources.base.source import Delivery


class Pipe(PacedSource):
    """Lines of a file descriptor. A line's number is its first byte's. Position: `offset`, bytes of lines read.

    path: a named pipe that is opened; None: standard input. A named pipe may be opened and closed by many writers, one
    after the other, while it is followed; standard input ends where its writer closes it.
    """

    def __init__(self, path: str | None, name: str, number: int, options: SourceOptions) -> None:
        super().__init__(name, options.rate)
        self._path, self._options = path, options
        self._cutter = LineCutter(number, options, self._tally)
        self._is_file = path is None and _is_file(0)
        self.delivery: Delivery = "exactly once" if self._is_file else "at most once"
        self._file = 0
        self._has_come = False

    def _batches(self, position: Position | None) -> Batches:
        offset = 0 if position is None else int(position["offset"])
        self._cutter.restart(offset)
        if self._path is not None:
            self._file = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        elif self._is_file:
            os.lseek(self._file, offset, os.SEEK_SET)
        try:
            is_json = self._options.form == "ndjson"
            yield from pump(self._read, self._cutter, self._position, is_json, self._options, self._tally)
            self._cutter.finish()
            yield from cut_all(self._cutter, self._position, is_json, self._options, self._tally)
            self._tally.state = "closed" if self._is_closed else "ended"
        finally:
            if self._path is not None:
                os.close(self._file)

    def _position(self) -> Position:
        return {"offset": self._cutter.offset}

    def _read(self, room: memoryview, seconds: float) -> int | None:
        if self._is_closed:
            return 0
        if not select.select([self._file], [], [], seconds)[0]:
            return None
        try:
            size = os.readv(self._file, [room])
        except BlockingIOError:
            return None
        except OSError as error:  # a terminal that has gone
            self._tally.trouble = f"Cannot read {self.name}: {error.strerror}."
            return 0
        self._has_come |= size > 0
        if size == 0 and self._path is not None and (self._options.follow or not self._has_come):
            time.sleep(seconds)
            return None
        return size


def _is_file(descriptor: int) -> bool:
    try:
        return stat.S_ISREG(os.fstat(descriptor).st_mode)
    except OSError:
        return False

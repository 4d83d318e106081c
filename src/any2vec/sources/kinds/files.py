"""A file, followed as it grows: lines that are added, the file that takes its place, and what happens to both.

Delivery is exactly once: a file can be asked again for what follows a position.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from any2vec.sources.base.cutter import TAIL, LineCutter, Position, is_before
from any2vec.sources.base.options import SourceOptions
from any2vec.sources.base.pump import MOMENT, Batches, cut_all, idle, pump
from any2vec.sources.base.source import PacedSource

_PACKED = (".gz", ".zst", ".zstd", ".xz", ".bz2", ".lz4", ".zip")
_NUMBERED = re.compile(r"\.(\d{1,6})$")
_ROTATED = re.compile(r"[.-]\d")
"""how what follows the name begins: log.1, log-20260101, log.2026-01-01"""


class _Sibling(NamedTuple):
    """A file that is, or once was, the followed one: recognized by its name."""

    changed: int
    """when it was last written, ns"""
    is_newest: bool
    """it has the name itself"""
    minus_number: int
    """log.2 is older than log.1"""
    name: str
    path: str
    identity: tuple[int, int]
    size: int
    is_rotated: bool
    """its name says so"""


class FollowedFile(PacedSource):
    """Lines of a file and of those that follow it under its name.

    - Rotation: where the name has come to stand for another file that is not empty, the old one is read to its end,
      then the next one (of those that bear its name, and a number or date behind it, by the time of their last change)
      from its beginning.
      So a job that was down while files were rotated finds its own one by inode and by the bytes before its place, and
      those between; also where it does not follow, and ends with the file that has the name.
    - Truncation: where the file is shorter than what was read of it, or the up to 64 bytes before that place are no
      longer the same, it is read from its beginning. What stood there unread is gone, which is counted. A file that is
      rewritten with the same bytes before that place is taken for one that has grown.
    - The end of a line is a line feed; what stands behind the last one waits for its end while the file is followed.
    - Compressed siblings are left alone.

    A line's number is its first byte's, the bytes of earlier files counted in. Position: `offset` (bytes of lines read,
    earlier files counted in), `at` (the same in this file), `device`, `inode`, `mark` and `marked` (hash and number of
    the bytes before), `changed` (ns).
    """

    def __init__(self, path: str, name: str, number: int, options: SourceOptions, is_json: bool) -> None:
        super().__init__(name, options.rate)
        self._path, self._options, self._is_json = path, options, is_json
        self._cutter = LineCutter(number, options, self._tally)
        self._file = -1
        self._start = 0
        """the number of the file's first byte"""
        self._at = 0
        """bytes of the file that were read"""
        self._before = b""
        """the last of them, up to 64"""
        self._is_cut_short = False
        self._scratch = bytearray(TAIL)

    def _batches(self, position: Position | None) -> Batches:
        try:
            yield from self._find(position)
            while not self._is_closed:
                for batch in pump(self._read, self._cutter, self._position, self._is_json, self._options, self._tally):
                    if self._is_closed:
                        break
                    yield batch
                if self._is_cut_short:
                    self._rewind()
                    continue
                self._cutter.finish()
                yield from cut_all(self._cutter, self._position, self._is_json, self._options, self._tally)
                if not self._options.follow and position is None:
                    break
                following = self._following()
                if following is None or not self._enter(following.path, self._start + self._at, following.identity):
                    if not self._options.follow:
                        break
                    yield from idle(MOMENT, lambda: self._is_closed)
            self._tally.state = "closed" if self._is_closed else "ended"
        finally:
            self._leave()

    # ---- one file ---------------------------------------------------------------------------------------------------

    def _read(self, room: memoryview, seconds: float) -> int | None:
        """Bytes behind those that were read; 0: this file is over, or is to be read anew; None: wait."""
        if self._is_closed:
            return 0
        is_over = self._options.follow and self._has_follower()  # asked before reading: so nothing comes behind the end
        size = self._read_on(room)
        self._is_cut_short = size is None
        if size or size is None:
            return size or 0
        if is_over or not self._options.follow:
            return 0
        time.sleep(seconds)
        return None

    def _read_on(self, room: memoryview) -> int | None:
        """None: what was read is no longer there."""
        known = len(self._before)
        scratch = memoryview(self._scratch)[:known]
        size = os.preadv(self._file, [scratch, room] if known else [room], self._at - known) - known
        if size < 0 or scratch != self._before:
            return None
        self._at += size
        self._before = (self._before + bytes(room[max(0, size - TAIL) : size]))[-TAIL:]
        return size

    def _rewind(self) -> None:
        """The file was cut short, or rewritten."""
        self._is_cut_short = False
        self._tally.bad("file cut short")
        self._tally.trouble = f"{self._path} was cut short or rewritten; it is read from its beginning."
        self._start, self._at, self._before = self._cutter.offset, 0, b""
        self._cutter.restart(self._start)

    def _position(self) -> Position:
        status = os.fstat(self._file)
        return {
            "offset": self._cutter.offset,
            "at": self._cutter.offset - self._start,
            "device": status.st_dev,
            "inode": status.st_ino,
            **self._cutter.mark,
            "changed": status.st_mtime_ns,
        }

    def _enter(self, path: str, start: int, identity: tuple[int, int] | None) -> bool:
        """Open a file, to be read from its beginning; False: it is gone, or its name stands for another by now."""
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            self._tally.trouble = f"Cannot read {path}: {error.strerror}."
            return False
        if identity not in (None, _identity(os.fstat(file))):
            os.close(file)
            return False
        self._leave()
        self._file = file
        self._start, self._at, self._before = start, 0, b""
        self._cutter.restart(start)
        return True

    def _leave(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    # ---- which file -------------------------------------------------------------------------------------------------

    def _find(self, position: Position | None) -> Iterator[None]:
        """Open the file that a position is in, at its place; None while there is none."""
        start = 0 if position is None else int(position["offset"])
        while not self._is_closed:
            found = None if position is None else self._found(position)
            if self._enter(found.path, start, found.identity) if found else self._enter(self._path, start, None):
                if position is not None:
                    self._go_to(position)
                return
            self._tally.state = "waiting"
            yield from idle(MOMENT, lambda: self._is_closed)  # type: ignore[misc]

    def _found(self, position: Position) -> _Sibling | None:
        """The file of a position, or the first one behind it.

        An inode says too little: that of a file that was removed may by now be another's. So the bytes before the place
        count too, and tell a copy (copytruncate).
        """
        siblings = self._siblings()
        own = [sibling for sibling in siblings if sibling.identity == (position["device"], position["inode"])]
        copies = [sibling for sibling in siblings if sibling.changed >= position["changed"]]
        marked = (sibling for sibling in (*own, *copies) if _is_marked(sibling, position))
        behind = [
            sibling
            for sibling in siblings
            if sibling.changed > position["changed"] and (sibling.is_newest or sibling.is_rotated)
        ]
        return next(marked, next(iter((*behind, *own)), None))

    def _go_to(self, position: Position) -> None:
        """The place in the file that was opened; its beginning, where the bytes before it are others."""
        before = _before(self._file, position)
        if before is not None:
            at = int(position["at"])
            self._start, self._at, self._before = int(position["offset"]) - at, at, before
            self._cutter.tail = before
        elif _identity(os.fstat(self._file)) == (position["device"], position["inode"]):
            self._rewind()
        else:
            self._tally.bad("file gone")
            self._tally.trouble = f"The file that {self._path} was is gone; the next one is read from its beginning."

    def _siblings(self) -> list[_Sibling]:
        """The file and those that were it, the oldest first; where it is not followed, by their names alone."""
        found = []
        folder, own = os.path.split(self._path)
        try:
            with os.scandir(folder or ".") as entries:
                for entry in entries:
                    if entry.name.startswith(own) and not entry.name.lower().endswith(_PACKED) and entry.is_file():
                        is_rotated = _ROTATED.match(entry.name, len(own)) is not None
                        if not (entry.name == own or is_rotated or self._options.follow):
                            continue
                        status = entry.stat()
                        number = _NUMBERED.search(entry.name)
                        found.append(
                            _Sibling(
                                status.st_mtime_ns, entry.name == own, -int(number[1]) if number else 0, entry.name,
                                entry.path, _identity(status), status.st_size, is_rotated,
                            )
                        )  # fmt: skip
        except OSError as error:
            self._tally.trouble = f"Cannot look into {folder or '.'}: {error.strerror}."
        newest = [sibling for sibling in found if sibling.is_newest]
        return sorted(sibling for sibling in found if not sibling.is_newest) + newest

    def _has_follower(self) -> bool:
        """Whether the name stands for another file, in which something is written: then the old one gets no more."""
        try:
            status = Path(self._path).stat()
        except OSError:
            return False
        return _identity(status) != _identity(os.fstat(self._file)) and status.st_size > 0

    def _following(self) -> _Sibling | None:
        """The file behind this one."""
        own = os.fstat(self._file)
        siblings = self._siblings()
        places = [place for place, s in enumerate(siblings) if s.identity == _identity(own)]
        if places:
            behind = [sibling for sibling in siblings[places[0] + 1 :] if sibling.identity != _identity(own)]
        else:
            behind = [sibling for sibling in siblings if sibling.is_newest or sibling.changed > own.st_mtime_ns]
        # Names that begin like it may be of other files: log.errors beside log.
        return next((sibling for sibling in behind if sibling.size and (sibling.is_newest or sibling.is_rotated)), None)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _is_marked(sibling: _Sibling, position: Position) -> bool:
    """Whether a file has the bytes that were before a position's place."""
    try:
        file = os.open(sibling.path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return _before(file, position) is not None
    finally:
        os.close(file)


def _before(file: int, position: Position) -> bytes | None:
    """The bytes of an open file before a position's place; None: they are others, or fewer."""
    at, marked = int(position["at"]), int(position["marked"])
    before = os.pread(file, marked, at - marked)
    return before if is_before(before, position) else None

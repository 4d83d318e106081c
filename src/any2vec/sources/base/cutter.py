"""Lines of a source: batches of them, counters, and how bytes in pieces of any size become whole lines.

Legend: N lines, B bytes.
"""

from __future__ import annotations

import codecs
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from any2vec.kernels.common.rng import stream_key
from any2vec.kernels.text import lines as kernels
from any2vec.sources.base.options import MOST_LINE, SourceOptions

BLOCK = 1 << 16
"""bytes that are read at once"""
TAIL = 64
"""bytes before a place by which it is known again"""
_PURPOSE_SOURCE = 40

State = Literal["starting", "reading", "waiting", "retrying", "ended", "given up", "closed"]
Position = dict[str, Any]
"""where a source goes on, as JSON knows it: what a checkpoint keeps"""


@dataclass(frozen=True, slots=True)
class LineBatch:
    """Lines of one source, in its order; what follows is whole words, of whatever bytes."""

    source: int
    """of the run's sources, which"""
    text_B: np.ndarray
    """uint8 (B,): the lines one after the other, each with its b"\\n" """
    stop_N: np.ndarray
    """int64 (N,): line n is text_B[stop_N[n - 1] : stop_N[n]], the first from 0"""
    key_N: np.ndarray
    """uint64 (N,): what makes two lines the same, hashed: their ids, or their texts"""
    offset_N: np.ndarray
    """int64 (N,), ascending: the number that the source knows a line by; its byte offset in a file"""
    position: Position
    """where the source goes on behind the last of them"""
    names: Sequence[str] | None = None
    """the ids that the source has given its lines; None: the numbers are all there is"""

    def __len__(self) -> int:
        return len(self.stop_N)

    @property
    def num_bytes(self) -> int:
        """Bytes of memory that it takes, about."""
        return (
            self.text_B.nbytes
            + 24 * len(self)
            + (0 if self.names is None else sum(map(len, self.names)) + 57 * len(self))
        )

    def id_of(self, line: int) -> str:
        """The id of a line, alone among those of its source."""
        return str(int(self.offset_N[line])) if self.names is None else self.names[line]


class Tally:
    """Counters of one source. Its reader writes; others read, at any time."""

    def __init__(self) -> None:
        self.state: State = "starting"
        self.lines = 0
        self.bytes = 0
        """as they came, what was skipped too"""
        self.reconnects = 0
        self.trouble: str | None = None
        """the last thing that went wrong, in a sentence"""
        self._bad: Counter[str] = Counter()

    def bad(self, why: str, count: int = 1) -> None:
        """Something was skipped (or, not UTF-8: taken as it is)."""
        if count:
            self._bad[why] += count

    def metrics(self) -> dict[str, Any]:
        """state, lines, bytes, reconnects, trouble (None: none), bad (things in all) and bad_by (what -> how many)."""
        by = dict(self._bad.copy())
        return {
            "state": self.state,
            "lines": self.lines,
            "bytes": self.bytes,
            "bad": sum(by.values()),
            "bad_by": by,
            "reconnects": self.reconnects,
            "trouble": self.trouble,
        }


def source_key(number: int) -> np.uint64:
    """What the keys of a source's own ids are made with: so two sources' lines differ where their ids are equal."""
    return stream_key(number, _PURPOSE_SOURCE)


def is_before(before: bytes, position: Position) -> bool:
    """Whether these are the bytes that were before a position's place (`LineCutter.mark`)."""
    return len(before) == position.get("marked") and _hash(before) == position["mark"]


def _hash(tail: bytes) -> str:
    return hashlib.blake2b(tail, digest_size=8).hexdigest()


class LineCutter:
    """Cuts a stream of bytes into lines. Feed it (`room`, `fed`), then `cut` until nothing comes.

    A line of more than MOST_LINE bytes is skipped up to its end, a line with a NUL byte too, both counted; one that is
    not UTF-8 is counted and kept: its words are the vocabulary's business. A byte-order mark before the first is left
    out. While a line is skipped, `offset` stays before it: whoever goes on there finds no rest of it, but the line.
    Memory 5 MiB at most.

    Args:
        number: of the run's sources, which.
        offset: the number of the first byte in the stream; what a line's id is made of.
    """

    def __init__(self, number: int, options: SourceOptions, tally: Tally, offset: int = 0) -> None:
        self.number, self.offset = number, offset
        """`offset`: bytes of the stream up to the last line that `cut` has given or left out"""
        self.tail = b""
        """the last bytes before `offset`, up to 64"""
        self._options, self._tally = options, tally
        self._key = source_key(number)
        self._block_B = np.zeros(MOST_LINE + 3 * BLOCK, np.uint8)
        self._text_B = np.zeros_like(self._block_B)
        self._stop_N, self._offset_N = np.zeros((2, options.most_lines), np.int64)
        self._key_N = np.zeros(options.most_lines, np.uint64)
        self._begin = self._look = self._stop = 0
        self._is_finished = False
        self._skipped, self._skipped_tail = 0, b""
        """bytes of a line that is too long and whose end has not come; the last of them, up to 64"""

    @property
    def held(self) -> int:
        """Bytes that were fed and are not cut."""
        return self._stop - self._begin

    @property
    def mark(self) -> Position:
        """By which the place `offset` is known again: `mark` and `marked`, hash and number of the bytes before it."""
        return {"mark": _hash(self.tail), "marked": len(self.tail)}

    def room(self) -> memoryview:
        """Where at least BLOCK bytes may be written; then say how many by `fed`."""
        if len(self._block_B) - self._stop < BLOCK + 1:  # a byte for the line feed that `finish` adds
            held = self.held
            self._block_B[:held] = self._block_B[self._begin : self._stop]
            self._look, self._begin, self._stop = self._look - self._begin, 0, held
        return memoryview(self._block_B)[self._stop : self._stop + BLOCK]  # type: ignore[arg-type]

    def fed(self, size: int) -> None:
        """So many bytes have come."""
        self._stop += size
        self._tally.bytes += size

    def feed(self, data: bytes | memoryview) -> None:
        """At most BLOCK bytes, for who has them already."""
        self.room()[: len(data)] = data
        self.fed(len(data))

    def rest(self) -> bytes:
        """What was fed and is not cut, which is then forgotten."""
        found = self._block_B[self._begin : self._stop].tobytes()
        self.restart(self.offset)
        return found

    def finish(self) -> None:
        """The stream has ended: what stands behind the last line feed is a line, or the end of one that is skipped."""
        if self._skipped and not self._skip():
            self._end_skip()
        elif self.held:
            self._block_B[self._stop] = 10
            self._stop += 1
            self._is_finished = True

    def restart(self, offset: int) -> None:
        """Another stream begins: what is held is forgotten, and the next byte has this number."""
        self._begin = self._look = self._stop = 0
        self._is_finished = False
        self._skipped, self._skipped_tail = 0, b""
        self.offset, self.tail = offset, b""

    def cut(self, position: Callable[[], Position]) -> LineBatch | None:
        """The next lines, `most_lines` at most, or None: there is no whole line. `position` is asked behind them."""
        if self._skipped and not self._skip():
            return None
        if (
            self.offset == 0
            and self._block_B[self._begin : min(self._stop, self._begin + 3)].tobytes() == codecs.BOM_UTF8
        ):
            self._go_to(self._begin + 3)
        start = self.offset - self._begin  # so that a byte's place in the block plus this is its number
        found = np.zeros(kernels.FOUND_SIZE, np.int64)
        begin = kernels.cut_lines(
            self._block_B, self._begin, self._look, self._stop, start, MOST_LINE, self._key,
            self._options.dedup == "text", self._text_B, self._stop_N, self._key_N, self._offset_N, found,
        )  # fmt: skip
        self._tally.bad("line too long", int(found[kernels.TOO_LONG]))
        self._tally.bad("NUL bytes", int(found[kernels.WITH_NUL]))
        self._tally.bad("not UTF-8", int(found[kernels.NOT_UTF8]))
        lines, used = int(found[kernels.NUM_LINES]), int(found[kernels.USED])
        self._go_to(begin)
        if lines < len(self._stop_N):
            self._look = self._stop
            if self.held > MOST_LINE:
                self._tally.bad("line too long")
                self._skip()
        if lines == 0:
            return None
        stop_N, key_N, offset_N = self._stop_N[:lines].copy(), self._key_N[:lines].copy(), self._offset_N[:lines].copy()
        return LineBatch(self.number, self._text_B[:used].copy(), stop_N, key_N, offset_N, position())

    def _go_to(self, begin: int) -> None:
        end = begin
        if self._is_finished and begin == self._stop > self._begin:  # the last line feed is not of the stream
            end, self._is_finished = begin - 1, False
        self.tail = self._tail_of(self.tail, end)
        self.offset += end - self._begin
        self._move_to(begin)

    def _skip(self) -> bool:
        """Drop what has come of a line that is too long; False: its end has not come."""
        ends = np.flatnonzero(self._block_B[self._begin : self._stop] == 10)
        end = self._begin + int(ends[0]) + 1 if len(ends) else self._stop
        self._skipped_tail = self._tail_of(self._skipped_tail, end)
        self._skipped += end - self._begin
        self._move_to(end)
        if not len(ends):
            return False
        self._end_skip()
        return True

    def _end_skip(self) -> None:
        self.offset += self._skipped
        self.tail = (self.tail + self._skipped_tail)[-TAIL:]
        self._skipped, self._skipped_tail = 0, b""

    def _tail_of(self, before: bytes, end: int) -> bytes:
        """The last bytes, up to 64, of what was before and the block up to here."""
        return (before + self._block_B[max(self._begin, end - TAIL) : end].tobytes())[-TAIL:]

    def _move_to(self, begin: int) -> None:
        self._begin = begin
        self._look = max(self._look, begin)

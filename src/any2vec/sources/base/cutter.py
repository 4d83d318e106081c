"""Bytes as they come, in pieces of any size, become batches of whole lines; memory is bounded whatever comes.

Legend: N lines, B bytes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from any2vec.kernels.common.rng import stream_key
from any2vec.kernels.text import lines as kernels
from any2vec.sources.base.line_batch import LineBatch, Position
from any2vec.sources.base.options import MOST_LINE, SourceOptions
from any2vec.sources.base.tally import Tally

BLOCK = 1 << 16
"""bytes that are read at once"""
_TAIL = 64
_PURPOSE_SOURCE = 40


def source_key(number: int) -> np.uint64:
    """What the keys of a source's own ids are made with: so two sources' lines differ where their ids are equal."""
    return stream_key(number, _PURPOSE_SOURCE)


class LineCutter:
    """Cuts a stream of bytes into lines. Feed it (`room`, `fed`), then `cut` until nothing comes.

    A line of more than MOST_LINE bytes is skipped up to its end, a line with a NUL byte too, both counted; one that is
    not UTF-8 is counted and kept: its words are the vocabulary's business. Memory 5 MiB at most.

    Args:
        number: of the run's sources, which.
        offset: the number of the first byte in the stream; what a line's id is made of.
    """

    def __init__(self, number: int, options: SourceOptions, tally: Tally, offset: int = 0) -> None:
        self.number, self.offset = number, offset
        """`offset`: bytes of the stream up to the last line that `cut` has given"""
        self.tail = b""
        """the last bytes before `offset`, up to 64"""
        self._options, self._tally = options, tally
        self._key = source_key(number)
        self._block_B = np.zeros(MOST_LINE + 3 * BLOCK, np.uint8)
        self._text_B = np.zeros_like(self._block_B)
        self._stop_N, self._offset_N = np.zeros((2, options.most_lines), np.int64)
        self._key_N = np.zeros(options.most_lines, np.uint64)
        self._begin = self._look = self._stop = 0
        self._is_skipping = self._is_finished = False

    @property
    def held(self) -> int:
        """Bytes that were fed and are not cut."""
        return self._stop - self._begin

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
        """The stream has ended: what stands behind the last line feed is a line."""
        if self.held:
            self._block_B[self._stop] = 10
            self._stop += 1
            self._is_finished = True

    def restart(self, offset: int) -> None:
        """Another stream begins: what is held is forgotten, and the next byte has this number."""
        self._begin = self._look = self._stop = 0
        self._is_skipping = self._is_finished = False
        self.offset, self.tail = offset, b""

    def cut(self, position: Callable[[], Position]) -> LineBatch | None:
        """The next lines, `most_lines` at most, or None: there is no whole line. `position` is asked behind them."""
        if self._is_skipping and not self._skip():
            return None
        start = self.offset - self._begin  # so that a byte's place in the block plus this is its number
        found = np.zeros(kernels.FOUND_SIZE, np.int64)
        begin = kernels.cut_lines(
            self._block_B, self._begin, self._look, self._stop, start, self._key, self._options.dedup == "text",
            self._text_B, self._stop_N, self._key_N, self._offset_N, found,
        )  # fmt: skip
        self._tally.bad("NUL bytes", int(found[kernels.WITH_NUL]))
        self._tally.bad("not UTF-8", int(found[kernels.NOT_UTF8]))
        lines, used = int(found[kernels.NUM_LINES]), int(found[kernels.USED])
        self._go_to(begin)
        if lines < len(self._stop_N):
            self._look = self._stop
            if self.held > MOST_LINE:
                self._tally.bad("line too long")
                self._is_skipping = True
                self._go_to(self._stop)
        if lines == 0:
            return None
        stop_N, key_N, offset_N = self._stop_N[:lines].copy(), self._key_N[:lines].copy(), self._offset_N[:lines].copy()
        return LineBatch(self.number, self._text_B[:used].copy(), stop_N, key_N, offset_N, position())

    def _go_to(self, begin: int) -> None:
        end = begin
        if self._is_finished and begin == self._stop > self._begin:  # the last line feed is not of the stream
            end, self._is_finished = begin - 1, False
        taken = self._block_B[max(self._begin, end - _TAIL) : end].tobytes()
        self.tail = (self.tail + taken)[-_TAIL:]
        self.offset += end - self._begin
        self._begin = begin
        self._look = max(self._look, begin)

    def _skip(self) -> bool:
        """Drop the rest of a line that is too long; False: its end has not come."""
        ends = np.flatnonzero(self._block_B[self._begin : self._stop] == 10)
        self._is_skipping = len(ends) == 0
        self._go_to(self._stop if self._is_skipping else self._begin + int(ends[0]) + 1)
        return not self._is_skipping

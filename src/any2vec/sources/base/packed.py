"""Compressed files, read once to their end: what is in them does not grow.

Delivery is exactly once: a position is found again by unpacking up to it.
"""

from __future__ import annotations

from any2vec.data.io.files import read_blocks
from any2vec.errors import DataError
from any2vec.sources.base.cutter import BLOCK, LineCutter
from any2vec.sources.base.line_batch import Position
from any2vec.sources.base.options import SourceOptions
from any2vec.sources.base.paced import PacedSource
from any2vec.sources.base.pump import Batches, cut_all


class PackedFile(PacedSource):
    """Lines of a gz, zst or xz file. A line's number is its first byte's, unpacked. Position: `offset`, of those.

    Where the file turns out to be damaged, the source ends there, and says so.
    """

    def __init__(self, path: str, name: str, number: int, options: SourceOptions, is_json: bool) -> None:
        super().__init__(name, options.rate)
        self._path, self._options, self._is_json = path, options, is_json
        self._cutter = LineCutter(number, options, self._tally)

    def _batches(self, position: Position | None) -> Batches:
        offset = 0 if position is None else int(position["offset"])
        self._cutter.restart(offset)
        self._tally.state = "reading"
        done = 0
        try:
            for block in read_blocks(self._path, block_bytes=BLOCK, allow_empty=True):
                if self._is_closed:
                    self._tally.state = "closed"
                    return
                done += len(block)
                if done <= offset:
                    continue
                self._cutter.feed(block[len(block) - min(len(block), done - offset) :])
                yield from cut_all(self._cutter, self._position, self._is_json, self._options, self._tally)
        except DataError as error:
            self._tally.bad("damaged file")
            self._tally.trouble = str(error)
        self._cutter.finish()
        yield from cut_all(self._cutter, self._position, self._is_json, self._options, self._tally)
        self._tally.state = "ended"

    def _position(self) -> Position:
        return {"offset": self._cutter.offset}

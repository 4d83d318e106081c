"""How bytes of one place, pieces of any size, are read and handed on; and how attempts that fail are repeated."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

from any2vec.sources.base.cutter import BLOCK, LineBatch, LineCutter, Position, Tally
from any2vec.sources.base.options import SourceOptions
from any2vec.sources.base.records import from_json

MOMENT = 0.1
"""seconds that a source blocks at most before it yields None"""
_LINGER = 0.02
_FIRST_WAIT = 0.2
_LONGEST_WAIT = 30.0
Batches = Iterator[LineBatch | None]


def pump(
    read: Callable[[memoryview, float], int | None],
    cutter: LineCutter,
    position: Callable[[], Position],
    is_json: bool,
    options: SourceOptions,
    tally: Tally,
) -> Batches:
    """Read until the end; None where nothing has come for a moment.

    read: writes bytes and says how many; 0 where there are no more for good, None where none came in so many seconds.
    Small pieces are gathered for up to 20 ms, so that a batch is worth its handling.
    """
    while True:
        size = read(cutter.room(), MOMENT)
        if size is None:
            tally.state = "waiting"
            yield None
            continue
        if size == 0:
            return
        tally.state = "reading"
        cutter.fed(size)
        gathered = size
        until = time.monotonic() + _LINGER
        while gathered < BLOCK and size and (left := until - time.monotonic()) > 0:
            size = read(cutter.room()[: BLOCK - gathered], left)
            if size:
                cutter.fed(size)
                gathered += size
        yield from cut_all(cutter, position, is_json, options, tally)
        if size == 0:
            return


def cut_all(
    cutter: LineCutter, position: Callable[[], Position], is_json: bool, options: SourceOptions, tally: Tally
) -> Batches:
    """Every whole line that the cutter holds."""
    while (batch := cutter.cut(position)) is not None:
        made = from_json(batch, options, tally) if is_json else batch
        if made is not None:
            tally.lines += len(made)
            yield made


def idle(seconds: float, is_over: Callable[[], bool]) -> Batches:
    """None until so many seconds are over."""
    until = time.monotonic() + seconds
    while not is_over() and (left := until - time.monotonic()) > 0:
        time.sleep(min(MOMENT, left))
        yield None


class Attempts:
    """Does again what fails, after a wait that doubles, up to half a minute, and is jittered by a seeded draw.

    (Brooker 2015, "Exponential backoff and jitter", AWS Architecture Blog: equal jitter.) After `retries` failures in a
    row it is given up. `succeeded` says that the server gave what was asked for.
    """

    def __init__(self, retries: int, seed: int, number: int, tally: Tally, is_over: Callable[[], bool]) -> None:
        self._retries, self._tally, self._is_over = retries, tally, is_over
        self._random = random.Random(f"{seed} {number}")
        self._failures = 0
        self.least = 0.0
        """seconds that the next wait takes at least: what the server has asked for; then 0 again"""

    def succeeded(self) -> None:
        """The next failure is the first of a row."""
        self._failures = 0

    def repeat(
        self,
        attempt: Callable[[], Batches],
        troubles: tuple[type[BaseException], ...],
        describe: Callable[[BaseException], str],
    ) -> Batches:
        """What attempts give, until one ends without trouble.

        troubles: errors after which another attempt is made; describe: one as a sentence.
        """
        while not self._is_over():
            try:
                yield from attempt()
                self._tally.state = "closed" if self._is_over() else "ended"
                return
            except troubles as error:
                if self._is_over():
                    break
                self._failures += 1
                self._tally.trouble = describe(error)
                if self._failures > self._retries:
                    self._tally.state = "given up"
                    return
                self._tally.state = "retrying"
                yield from idle(self._wait(), self._is_over)
                self._tally.reconnects += 1
        self._tally.state = "closed"

    def _wait(self) -> float:
        longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(self._failures - 1, 20))
        least, self.least = self.least, 0.0
        return max(least, longest * (0.5 + 0.5 * self._random.random()))

"""A source of planted lines, at a given rate, that can be stalled and go on: for tests and benchmarks of sources."""

from __future__ import annotations

import threading

from any2vec.sources.base.line_batch import Position
from any2vec.sources.base.paced import PacedSource
from any2vec.sources.base.pump import MOMENT, Batches
from any2vec.testing.planted_stream import MOST_LINES, PlantedStream


class PlantedSource(PacedSource):
    """Lines [first, stop) of a planted stream. Position: `line`.

    Args:
        number: of the run's sources, which.
        rate: lines a second at most; None: as fast as they are taken.
        lines: of a batch at most; with a rate, also a twentieth of a second's worth.
    """

    def __init__(
        self,
        stream: PlantedStream,
        *,
        name: str = "planted",
        number: int = 0,
        first: int = 0,
        stop: int = MOST_LINES,
        rate: float | None = None,
        lines: int = 512,
    ) -> None:
        super().__init__(name, rate)
        self._stream, self._number = stream, number
        self._first, self._stop = first, stop
        self._lines = lines if rate is None else max(1, min(lines, int(rate / 20)))
        self._flows = threading.Event()
        self._flows.set()

    def stall(self) -> None:
        """Give nothing more until `flow`."""
        self._flows.clear()

    def flow(self) -> None:
        """Go on."""
        self._flows.set()

    def close(self) -> None:
        super().close()
        self._flows.set()

    def _batches(self, position: Position | None) -> Batches:
        line = self._first if position is None else int(position["line"])
        while line < self._stop and not self._is_closed:
            if not self._flows.wait(MOMENT):
                self._tally.state = "waiting"
                yield None
                continue
            if self._is_closed:
                break
            self._tally.state = "reading"
            batch = self._stream.batch(line, min(line + self._lines, self._stop), self._number)
            line += len(batch)
            self._tally.lines += len(batch)
            self._tally.bytes += batch.text_B.size
            yield batch
        self._tally.state = "closed" if self._is_closed else "ended"

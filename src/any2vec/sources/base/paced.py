"""What the sources that are read here have in common: what they count, how they are closed, how fast they may be."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Any

from any2vec.sources.base.line_batch import Position
from any2vec.sources.base.pump import Batches, idle
from any2vec.sources.base.source import Delivery
from any2vec.sources.base.tally import Tally


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

    def facts(self) -> dict[str, Any]:
        return {**self._tally.facts(), "delivery": self.delivery}

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

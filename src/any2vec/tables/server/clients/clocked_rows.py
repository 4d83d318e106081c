"""Rows on servers that wait for slow trainers as their clocks say: stale synchronous parallel (Ho et al. 2013)."""

from __future__ import annotations

from any2vec.tables.server.clients.pulled_rows import PulledRows
from any2vec.tables.server.clocks import END, REST


class ClockedRows(PulledRows):
    """The rows of a trainer with one worker thread, of `RowServer`s with a bound; the client is that of lane 0.

    A read of step c sees all that every trainer pushed up to its step c - bound - 1, and what has come since.
    """

    def _pushed(self, step: int) -> None:
        self.client.tick(step)

    def quiesce(self) -> None:
        """All trainers come here: their steps go on from the same number, however many each has made."""
        self._say(REST)

    def close(self, error: BaseException | None = None) -> None:
        """Nobody waits for this trainer any more; the servers go on answering it."""
        if error is None:
            self._say(END)

    def _say(self, what: int) -> None:
        self.client.tick(what)
        self.client.flush()

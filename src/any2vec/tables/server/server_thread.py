"""A server of rows or of dense parameters: a thread that takes requests until nobody is left to ask."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

from any2vec.cluster.transport import Transport
from any2vec.errors import HostError
from any2vec.types import Service


class ServerThread(Service, ABC):
    """Serves over the channels NAME? (requests) and NAME! (answers, with the worker's number behind it) (abstract).

    `start` it once.

    Args:
        what: it is, for messages.
        patience: seconds that somebody waits here for others; None: the transport's.
        closing: seconds that `close` waits by default.
    """

    def __init__(
        self, transport: Transport, name: str, what: str, patience: float | None, closing: float | None = None
    ) -> None:
        self.transport, self.name, self._what = transport, name, what
        self.patience = transport.patience if patience is None else patience
        self._closing = self.patience if closing is None else closing
        self.error: HostError | None = None
        """why it ended before its time"""
        self._changed = threading.Condition()
        """guards its state, and notifies those who wait for a change"""
        self._thread = threading.Thread(target=self._serve, name=f"{name}-{transport.rank}", daemon=True)

    def start(self) -> None:
        """Begin to serve; what was asked before waits in the inbox."""
        self._thread.start()

    def close(self, error: BaseException | None = None, *, timeout: float | None = None) -> None:
        """Wait until nobody is left to ask, at most `timeout` seconds.

        Raises:
            HostError: somebody is, or the server had ended by an error.
        """
        if error is not None:
            return
        self._thread.join(self._closing if timeout is None else timeout)
        self.check()
        if self._thread.is_alive():
            raise HostError(f"Rank {self.transport.rank} serves {self._who_is_left()}")

    def check(self) -> None:
        """Raise HostError if the server has ended by an error."""
        if self.error is not None:
            raise HostError(str(self.error))

    @abstractmethod
    def _is_needed(self) -> bool:
        """Somebody else may still ask."""

    @abstractmethod
    def _serve_next(self) -> None:
        """Take one request, or answer those who have waited too long."""

    @abstractmethod
    def _who_is_left(self) -> str:
        """What it serves, and to whom: the end of a sentence."""

    def _serve(self) -> None:
        """The thread's own function."""
        try:
            while self._is_needed():
                self._serve_next()
        except Exception as error:
            with self._changed:
                self.error = HostError(f"The {self._what} of rank {self.transport.rank} ended: {error}")
                self._changed.notify_all()

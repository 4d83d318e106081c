"""Rows of a batch that are pulled from row servers for a step, in whatever way their gradients go back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from any2vec.cluster.message import Part
from any2vec.tables.row_table import Lease, RowTable
from any2vec.tables.server.blocks.trained_block import ACCEPT
from any2vec.tables.server.client import RowClient
from any2vec.tables.server.clocks import END, REST


class PulledRows(RowTable, ABC):
    """One worker's way to the rows (a `RowTable`): each distinct row travels once, and so does its summed gradient.

    Args:
        client: the worker's own; its ids are those of the batches.
        name: of the table, whose blocks are `TrainedBlock`s.
    """

    def __init__(self, client: RowClient, name: str = "rows") -> None:
        self.client = client
        self.name = name
        self.width = client.server.blocks[name].dim

    def gather(self, id_U: np.ndarray, step: int) -> Lease:
        """The values that a reader of a step may see; waits until it may."""
        return Lease(id_U, self.client.pull({self.name: id_U}, step)[self.name])

    def apply(self, lease: Lease, gradient_UW: np.ndarray, step: int) -> None:
        """Send the gradients to the rows' owners.

        Raises:
            InputError, HostError: of this push or an earlier one, or a server is lost.
        """
        self.client.push(self.name, lease.id_U, gradient_UW, step)
        self._pushed(step)

    @abstractmethod
    def _pushed(self, step: int) -> None:
        """Everything of a step has been sent."""

    def flush(self) -> None:
        """Wait until the servers have taken what was pushed.

        Raises:
            InputError, HostError: as `RowClient.flush`.
        """
        self.client.flush()


class ClockedRows(PulledRows):
    """Stale synchronous parallel (Ho et al. 2013): the rows of a trainer with one worker thread, of `RowServer`s with a
    bound; the client is that of worker 0.

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


class HeldRows(PulledRows):
    """The rows of a trainer with one worker thread, in `HeldBlock`s.

    A push returns when it has arrived everywhere. So when the dense gradient of the step, which is sent afterwards, is
    accepted, no server still waits for the rows of an accepted trainer, however slow it has become meanwhile.
    """

    def _pushed(self, step: int) -> None:
        self.client.flush()


class HeldRowsNotices:
    """Notifies the owners of rows which trainers count in a step (`first_gradients.OnHeld`); on the host that decides.

    Args:
        client: with a worker's number of its own.
    """

    def __init__(self, client: RowClient, name: str = "rows") -> None:
        self.client = client
        self.name = name
        self._owners = np.flatnonzero(np.diff(client.bounds)).tolist()

    def notify(self, step: int, trainers: Sequence[int]) -> None:
        """These trainers, ascending, count in a step; it has taken effect when this returns.

        Raises:
            HostError: a server is lost.
        """
        part = Part("control", np.array([step, *trainers], np.int64))
        self.client.call(self.name, ACCEPT, {host: [part] for host in self._owners})

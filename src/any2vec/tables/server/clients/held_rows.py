"""Rows on servers that hold gradients until it is known whose count, and who tells them so."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from any2vec.cluster.message import Part
from any2vec.tables.server.blocks.held_block import ACCEPT
from any2vec.tables.server.client import RowClient
from any2vec.tables.server.clients.pulled_rows import PulledRows


class HeldRows(PulledRows):
    """The rows of a trainer with one worker thread, in `HeldBlock`s.

    A push returns when it has arrived everywhere. So when the dense gradient of the step, which is sent afterwards, is
    accepted, no server still waits for the rows of an accepted trainer, however slow it has become meanwhile.
    """

    def _pushed(self, step: int) -> None:
        self.client.flush()


class HeldRowsNotices:
    """Tells the owners of rows which trainers count in a step (`first_gradients.OnHeld`); on the host that decides.

    Args:
        client: of a lane of its own.
    """

    def __init__(self, client: RowClient, name: str = "rows") -> None:
        self.client = client
        self.name = name
        self._owners = np.flatnonzero(np.diff(client.bounds)).tolist()

    def announce(self, step: int, trainers: Sequence[int]) -> None:
        """These trainers, ascending, count in a step; it has taken effect when this returns.

        Raises:
            HostError: a server is lost.
        """
        part = Part("control", np.array([step, *trainers], np.int64))
        self.client.call(self.name, ACCEPT, {host: [part] for host in self._owners})

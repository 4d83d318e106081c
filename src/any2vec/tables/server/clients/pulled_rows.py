"""Rows of a batch that are pulled from row servers for a step, in whatever way their gradients go back."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from any2vec.tables.row_table import Lease, RowTable
from any2vec.tables.server.client import RowClient


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

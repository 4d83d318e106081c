"""Rows of a batch that are pulled from row servers for a step, in whatever way their gradients go back."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from any2vec.tables.access import RowAccess
from any2vec.tables.batch_rows import BatchRows
from any2vec.tables.server.client import RowClient


class PulledRows(RowAccess, ABC):
    """One worker's way to the rows (a `RowAccess`): each distinct row travels once, and so does its summed gradient.

    Args:
        client: the worker's own; its ids are those of the batches.
        name: of the table, whose blocks are `TrainedBlock`s.
    """

    def __init__(self, client: RowClient, name: str = "rows") -> None:
        self.client = client
        self.name = name

    def pooled(self, rows: BatchRows, step: int) -> np.ndarray:
        """Sums over the bags, float32 (P, W), of the rows that a reader of a step may see; waits until it may.

        Raises:
            InputError: an id is not of the table.
            HostError: a server is lost, or the step before does not end in time.
        """
        row_UW = self.client.pull({self.name: rows.row_U}, step)[self.name]
        return rows.pool(row_UW, row_UW.shape[1])

    def push(self, rows: BatchRows, step: int, gradient_PW: np.ndarray) -> None:
        """Send the gradients to the rows' owners.

        Raises:
            InputError, HostError: of this push or an earlier one, or a server is lost.
        """
        self.client.push(self.name, rows.row_U, rows.gradients(gradient_PW), step)
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

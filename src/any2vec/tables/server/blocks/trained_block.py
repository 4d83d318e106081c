"""Rows that a server trains: gradients come in, the row optimizer changes the rows, and sums over bags go out.

Nothing is locked: trainers and the server's thread change rows at once (Hogwild, Recht et al. 2011), and a read may see
a row half changed.

Legend: B rows of the block, C their columns, W those that are values, K rows of a request, M ids of bags, P bags.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from any2vec.cluster.codec import unpack_rows
from any2vec.cluster.message import Part
from any2vec.errors import InputError
from any2vec.kernels.clicks.bags import pool_bags
from any2vec.kernels.rows.rows import gather_rows, scatter_rows
from any2vec.tables.batch_rows import BatchRows
from any2vec.tables.row_optimizer import RowOptimizer
from any2vec.tables.server.owned_bags import PUSH_BAGS
from any2vec.tables.server.served_block import ServedBlock


class TrainedBlock(ServedBlock):
    """Values of rows out, gradients in.

    Args:
        table_BC: float32 (B, C), C order, values and state as `optimizer` has them; kept, not copied.
    """

    def __init__(self, table_BC: np.ndarray, optimizer: RowOptimizer) -> None:
        self.table = table_BC
        self.optimizer = optimizer
        self.version_B = np.zeros(len(table_BC), np.int64)
        """how many gradients each row has taken; a count that threads race for may miss one"""

    @property
    def num_rows(self) -> int:
        return len(self.table)

    @property
    def dim(self) -> int:
        return self.optimizer.width

    @property
    def memory(self) -> dict[str, int]:
        """Bytes that the rows take: values, state, versions."""
        width = self.optimizer.width * self.table.itemsize * self.num_rows
        return {"values": width, "state": self.table.nbytes - width, "versions": self.version_B.nbytes}

    def read(self, slot_K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(values float32 (K, W), versions int64 (K,)), copies."""
        self._check(slot_K)
        value_KW = np.empty((len(slot_K), self.dim), np.float32)
        gather_rows(self.table[:, : self.dim], slot_K, value_KW)
        return value_KW, self.version_B[slot_K]

    def pool(self, slot_M: np.ndarray, count_P: np.ndarray) -> np.ndarray:
        """float32 (P, W): bag p is the sum, in float32, of the next count_P[p] (> 0) rows of slot_M."""
        sum_PW = np.empty((len(count_P), self.dim), np.float32)
        pool_bags(self.table, slot_M, self._starts(slot_M, count_P), sum_PW)
        return sum_PW

    def push(self, trainer: int, clock: int, slot_K: np.ndarray, value_KD: np.ndarray, is_delta: bool) -> None:
        """Step with gradients, float32 (K, W). slot_K int64, ascending, none twice.

        Raises:
            InputError: slots or shapes do not fit, or values come instead of gradients.
        """
        self._check(slot_K)
        if not is_delta:
            raise InputError("A block that trains its rows takes gradients, not values.")
        if value_KD.shape != (len(slot_K), self.dim) or (np.diff(slot_K) <= 0).any():
            raise InputError(
                f"Gradients of {len(slot_K)} rows have shape {value_KD.shape}, not {(len(slot_K), self.dim)}, or their "
                "rows are not ascending."
            )
        self.optimizer.step(self.table, slot_K, value_KD)
        self.version_B[slot_K] += 1

    def push_bags(self, slot_M: np.ndarray, count_P: np.ndarray, gradient_PW: np.ndarray) -> None:
        """Step with the gradients of bags' sums, float32 (P, W), as `pool` takes bags.

        Raises:
            InputError: slots or shapes do not fit.
        """
        rows = BatchRows.of(slot_M, self._starts(slot_M, count_P))
        if gradient_PW.shape != (len(count_P), self.dim):
            raise InputError(f"Gradients of {len(count_P)} bags have shape {gradient_PW.shape}.")
        self.optimizer.step(self.table, rows.row_U, rows.gradients(gradient_PW))
        self.version_B[rows.row_U] += 1

    def call(self, operation: int, trainer: int, parts: Sequence[Part]) -> list[Part]:
        """PUSH_BAGS."""
        if operation != PUSH_BAGS or len(parts) < 3:
            raise InputError(
                f"Operation {operation} with {len(parts)} parts was asked of a block that trains its rows."
            )
        slot_M, count_P = (part.array.reshape(-1).astype(np.int64) for part in parts[:2])
        self.push_bags(slot_M, count_P, unpack_rows(parts[2:]))
        return []

    def copy(self) -> np.ndarray:
        """Values and state of this moment, float32 (B, C)."""
        return self.table.copy()

    def _starts(self, slot_M: np.ndarray, count_P: np.ndarray) -> np.ndarray:
        """Where each bag begins, and the end, int64 (P + 1,)."""
        self._check_bags(slot_M, count_P)
        start_P1 = np.zeros(len(count_P) + 1, np.int64)
        np.cumsum(count_P, out=start_P1[1:])
        return start_P1


class StoredBlock(TrainedBlock):
    """The same rows with their state, both ways: what a cache fetches, and writes back when it has trained it."""

    @property
    def dim(self) -> int:
        return self.optimizer.num_columns

    def push(self, trainer: int, clock: int, slot_K: np.ndarray, value_KD: np.ndarray, is_delta: bool) -> None:
        """Put values and state, float32 (K, C), in the place of what was there. slot_K int64, ascending, none twice.

        Raises:
            InputError: slots or shapes do not fit, or gradients come instead of rows.
        """
        self._check(slot_K)
        if is_delta:
            raise InputError("A block that stores rows takes rows, not gradients.")
        if value_KD.shape != (len(slot_K), self.dim) or (np.diff(slot_K) <= 0).any():
            raise InputError(
                f"{len(slot_K)} rows have shape {value_KD.shape}, not {(len(slot_K), self.dim)}, or are not ascending."
            )
        scatter_rows(value_KD, slot_K, self.table)
        self.version_B[slot_K] += 1

"""Rows that a server trains: gradients come in, the row optimizer changes the rows, and sums over bags go out.

Nothing is locked: trainers and the server's thread change rows at once (Hogwild, Recht et al. 2011), and a read may see
a row half changed.

Legend: B rows of the block, C their columns, W those that are values, K rows of a request, M ids of bags, P bags.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from any2vec.cluster.codec import unpack_rows
from any2vec.cluster.message import Part
from any2vec.errors import InputError
from any2vec.kernels.rows.bags import pool_bags
from any2vec.kernels.rows.rows import gather_rows, scatter_rows
from any2vec.tables.batch_rows import BatchRows
from any2vec.tables.row_optimizer import RowOptimizer
from any2vec.tables.server.owned_bags import PUSH_BAGS
from any2vec.tables.server.served_block import ServedBlock

ACCEPT = 2
"""operation: [step, ranks of the trainers that count, ascending]; gives nothing"""


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

    def read(self, slot_K: np.ndarray) -> np.ndarray:
        """Values, float32 (K, W), a copy."""
        self._check(slot_K)
        value_KW = np.empty((len(slot_K), self.dim), np.float32)
        gather_rows(self.table[:, : self.dim], slot_K, value_KW)
        return value_KW

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
        self._check_gradients(slot_K, value_KD, is_delta)
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

    def _check_gradients(self, slot_K: np.ndarray, value_KD: np.ndarray, is_delta: bool) -> None:
        self._check_push(slot_K, value_KD)
        if not is_delta:
            raise InputError("A block that trains its rows takes gradients, not values.")

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
        self._check_push(slot_K, value_KD)
        if is_delta:
            raise InputError("A block that stores rows takes rows, not gradients.")
        scatter_rows(value_KD, slot_K, self.table)
        self.version_B[slot_K] += 1


class HeldBlock(TrainedBlock):
    """A `TrainedBlock` that steps once for each step, by the sum of the gradients of those that count, in rank order.

    The row server that serves it has bound 0, and who decides is its only trainer: readers of step t + 1 wait for step
    t.

    Args:
        scale: of the sums: N / M where M of N trainers count, and all have scaled by 1 / N.
        applied: called with every step that has taken effect; set it to the server's `tick` for who decides.
    """

    def __init__(self, table_BC: np.ndarray, optimizer: RowOptimizer, scale: float = 1.0) -> None:
        super().__init__(table_BC, optimizer)
        self.scale = scale
        self.step = 0
        """the one whose trainers are not yet known"""
        self.applied: Callable[[int], None] = lambda step: None
        self.dropped: Counter[int] = Counter()
        """trainer -> pushes that did not count"""
        self._held: defaultdict[int, dict[int, tuple[np.ndarray, np.ndarray]]] = defaultdict(dict)
        """step -> trainer -> its push"""
        self._lock = threading.Lock()

    def push(self, trainer: int, clock: int, slot_K: np.ndarray, value_KD: np.ndarray, is_delta: bool) -> None:
        """Hold gradients, float32 (K, W), for step `clock`; drop them if it is over. slot_K int64, ascending.

        Raises:
            InputError: slots or shapes do not fit, or it is the trainer's second push of the step.
        """
        self._check_gradients(slot_K, value_KD, is_delta)
        with self._lock:
            if clock < self.step:
                self.dropped[trainer] += 1
            elif trainer in self._held[clock]:
                raise InputError(f"Rank {trainer} pushed twice in step {clock}; its rows of a step come at once.")
            else:
                self._held[clock][trainer] = slot_K, value_KD

    def call(self, operation: int, trainer: int, parts: Sequence[Part]) -> list[Part]:
        """ACCEPT."""
        if operation != ACCEPT or len(parts) != 1 or not parts[0].array.size:
            raise InputError(
                f"Operation {operation} with {len(parts)} parts was asked of a block that holds gradients."
            )
        step, *trainers = (int(number) for number in parts[0].array.reshape(-1))
        self.accept(step, trainers)
        return []

    def accept(self, step: int, trainers: Sequence[int]) -> None:
        """Let a step take effect: exactly these trainers count, ascending; those that pushed nothing here have no rows.

        Raises:
            InputError: the step is not the next one.
        """
        with self._lock:
            if step != self.step:
                raise InputError(f"Step {step} was decided where step {self.step} was to be.")
            held = self._held.pop(step, {})
            self.dropped.update(rank for rank in held if rank not in trainers)
            counted = [held[rank] for rank in trainers if rank in held]
            if counted:
                slot_U = self.optimizer.step_by_sum(self.table, counted, self.scale)
                self.version_B[slot_U] += 1
            self.step += 1
        self.applied(step)


class SynchronousBlock(HeldBlock):
    """All trainers' gradients of a step, summed in rank order, step its rows once: synchronous training.

    It is what cached synchronous training must equal, bit by bit. The server is made with bound 0 and in_step; trainers
    reach it by `ClockedRows`.
    """

    def apply(self, clock: int) -> None:
        self.accept(clock, sorted(self._held[clock]))

"""What every table of rows keeps to: a class to inherit, with a way to make one of given rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from any2vec.tables.row_optimizer import RowOptimizer
from any2vec.tables.row_table import ChangedTable, RowTable

ROWS, WIDTH = 30, 4


class RowTableTests(ABC):
    """Of one worker, whose batches come one after the other."""

    @abstractmethod
    def table(self, row_VC: np.ndarray, optimizer: RowOptimizer) -> RowTable:
        """A new one that holds a copy of these rows, values and state."""

    def tables(self) -> tuple[RowTable, np.ndarray, RowOptimizer]:
        """(the table, what it holds, how its rows are stepped)"""
        optimizer = RowOptimizer(WIDTH, "adagrad", 0.1)
        row_VC = np.random.default_rng(1).random((ROWS, optimizer.num_columns), np.float32)
        return self.table(row_VC.copy(), optimizer), row_VC, optimizer

    @contextmanager
    def started(self) -> Iterator[tuple[RowTable, np.ndarray, RowOptimizer]]:
        table, row_VC, optimizer = self.tables()
        table.start()
        yield table, row_VC, optimizer
        table.close()

    def batches(self, number: int) -> list[np.ndarray]:
        rng = np.random.default_rng(2)
        return [np.sort(rng.choice(ROWS, int(rng.integers(1, 9)), replace=False)) for _ in range(number)]

    def test_what_is_gathered_are_the_rows(self) -> None:
        with self.started() as (table, row_VC, _):
            for step, id_U in enumerate(self.batches(5)):
                lease = table.gather(id_U, step)
                assert np.array_equal(lease.id_U, id_U)
                assert np.array_equal(lease.row_UC[:, :WIDTH], row_VC[id_U, :WIDTH])
                table.apply(lease, np.zeros((len(id_U), WIDTH), np.float32), step)

    def test_gradients_step_the_rows(self) -> None:
        """As the row optimizer steps those of a plain array."""
        rng = np.random.default_rng(3)
        with self.started() as (table, row_VC, optimizer):
            for step, id_U in enumerate(self.batches(20)):
                gradient_UW = rng.normal(0, 1, (len(id_U), WIDTH)).astype(np.float32)
                lease = table.gather(id_U, step)
                assert np.array_equal(lease.row_UC[:, :WIDTH], row_VC[id_U, :WIDTH])
                table.apply(lease, gradient_UW, step)
                optimizer.step(row_VC, id_U, gradient_UW)

    def test_changes_are_added(self) -> None:
        with self.started() as (table, row_VC, _):
            if not isinstance(table, ChangedTable):
                return
            for step, id_U in enumerate(self.batches(20)):
                lease = table.gather(id_U, step)
                assert np.array_equal(lease.row_UC, row_VC[id_U])
                change_UC = np.full(lease.row_UC.shape, np.float32(0.25))
                table.add(lease, change_UC, step)
                row_VC[id_U] += change_UC

"""What every residency policy keeps to: a class to inherit, with the policy's name."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

import numpy as np
import pytest

from any2vec.plan.lookahead.oracle import NEVER
from any2vec.tables.residency.residency import Residency

STEPS, ROWS = 200, 40


class ResidencyTests(ABC):
    """Of random batches, some of which are held for a while."""

    name: ClassVar[str]
    """as it is registered"""

    def trace(self) -> list[np.ndarray]:
        """Ids of each batch, ascending; a few of them often."""
        rng = np.random.default_rng(3)
        weight = 1 / np.arange(1, ROWS + 1)
        sizes = rng.integers(0, 9, STEPS)
        return [np.sort(rng.choice(ROWS, size, replace=False, p=weight / weight.sum())) for size in sizes]

    @pytest.mark.parametrize("capacity", [0, 1, 8, 20, ROWS])
    def test_each_id_has_one_slot_and_what_is_held_stays(self, capacity: int) -> None:
        residency, trace = Residency(capacity, self.name), self.trace()
        held: list[tuple[int, np.ndarray, np.ndarray]] = []
        for step, id_U in enumerate(trace):
            later = trace[step + 1 : step + 6]
            uses = [next((step + 1 + at for at, ids in enumerate(later) if row in ids), NEVER) for row in id_U.tolist()]
            before = {int(row) for row in residency.owner_K if row >= 0}
            placed = residency.place(id_U, np.array(uses, np.int64))
            there = placed.slot_U >= 0
            assert np.array_equal(residency.owner_K[placed.slot_U[there]], id_U[there])
            assert before & set(id_U.tolist()) <= set(id_U[there].tolist()), "a row of the batch gave way"
            held.append((step, placed.slot_U[there], id_U[there]))
            for _, slots, ids in held:
                assert np.array_equal(residency.owner_K[slots], ids), "a row that was held gave way"
            own = residency.owner_K[residency.owner_K >= 0]
            assert len(own) == len(set(own.tolist())) == len(residency) <= capacity
            for old in [one for one in held if one[0] <= step - 2 or step % 7 == 0]:
                residency.release(old[1])
                held = [one for one in held if one[0] != old[0]]

    def test_the_same_trace_gives_the_same_slots(self) -> None:
        found = []
        for _ in range(2):
            residency, slots = Residency(8, self.name), []
            for id_U in self.trace():
                slot_U = residency.place(id_U, np.full(len(id_U), NEVER)).slot_U
                residency.release(slot_U[slot_U >= 0])
                slots += slot_U.tolist()
            found.append(slots)
        assert found[0] == found[1]

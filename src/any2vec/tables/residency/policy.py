"""What a residency policy is asked: which new rows come in, and which slots give way to them.

Legend: K slots, U distinct ids of a batch, N some ids or slots, E slots that give way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np


class ResidencyPolicy(ABC):
    """Sees ids, slots and steps, never a value, and never moves a row itself.

    Args:
        owner_K: int64, the id in each slot, EMPTY where it is free; kept, changed by the `Residency`.
        held_K: int32, how many hold each slot; kept likewise.
    """

    needs_next_uses: ClassVar[bool] = False
    """whether it decides by the next use of each row, so that something must look ahead"""

    def __init__(self, owner_K: np.ndarray, held_K: np.ndarray) -> None:
        self.owner_K, self.held_K = owner_K, held_K

    @property
    def capacity(self) -> int:
        return len(self.owner_K)

    def begin(self, id_U: np.ndarray) -> None:
        """A batch begins."""
        return

    def admit(self, id_N: np.ndarray, next_N: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
        """Which rows come in, and for whom.

        Args:
            id_N: of the batch's rows that have no slot.
            next_N: int64, the step that uses each next, NEVER where that is not known.
            room: free slots for them, N at most.

        Returns:
            (positions among the N, those for free slots first; slots that give way to the others, none of which is
            held). Of positions beyond room and slots the rows pass by.
        """
        return np.arange(len(id_N)), self.give_way(len(id_N) - room)

    def enter(self, slot_N: np.ndarray, id_N: np.ndarray, next_N: np.ndarray) -> None:
        """These rows have come in; `use` follows."""
        return

    def use(self, slot_N: np.ndarray, next_N: np.ndarray) -> None:
        """A batch uses these slots."""
        return

    def leave(self, slot_N: np.ndarray, id_N: np.ndarray) -> None:
        """These rows have gone."""
        return

    def expect(self, slot_N: np.ndarray, step: int) -> None:
        """A step to come was found to use the rows in these slots."""
        return

    def give_way(self, number: int) -> np.ndarray:
        """`victims`, which look at all slots, and none where none is needed."""
        return self.victims(number) if number > 0 else np.empty(0, np.int64)

    @abstractmethod
    def victims(self, number: int) -> np.ndarray:
        """Slots that give way first, int64, at most so many (1 or more); none that is held."""

    def movable(self) -> np.ndarray:
        """bool (K,): slots that may give way: they have a row, and nobody holds it."""
        return (self.owner_K >= 0) & (self.held_K == 0)

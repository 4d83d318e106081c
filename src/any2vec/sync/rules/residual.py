"""Error feedback: what rounding left out of a message is added to the next one of the same row.

Seide et al. 2014, "1-bit stochastic gradient descent", section 3, applied row by row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from any2vec.tables.copying import put_rows, rows_of
from any2vec.types import State


class Residuals:
    """What one host still owes of each row: name -> float32 (V, D). Without tables it owes nothing, ever."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """shapes: name -> (V, D)."""
        self.tables = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}

    def outgoing(self, name: str, ids: np.ndarray, change_KD: np.ndarray) -> np.ndarray:
        """The change of rows and what is owed of them; remember it until `sent` says what arrived."""
        owed = self.tables[name]
        owing = rows_of(owed, ids)
        owing += change_KD
        put_rows(owed, ids, owing)
        return owing

    def sent(self, name: str, ids: np.ndarray, arrived_KD: np.ndarray) -> None:
        """Take off what the receiver read."""
        if self.tables:
            left = rows_of(self.tables[name], ids)
            left -= arrived_KD
            put_rows(self.tables[name], ids, left)

    def state_dict(self) -> State:
        """What is owed."""
        return self.tables

    def load_state_dict(self, states: Sequence[State], rank: int, hosts: int) -> None:
        """Owe what was owed; where the number of hosts is another, rank 0 owes all of it."""
        mine = states[rank : rank + 1] if len(states) == hosts else states if rank == 0 else ()
        for state in mine:
            for name, owed in self.tables.items():
                if name in state:
                    owed += state[name]

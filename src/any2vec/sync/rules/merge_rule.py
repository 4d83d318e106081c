"""The seam of merge rules: what becomes of rows of which several hosts made different things.

A package registers a rule as an entry point of the group `any2vec.rules`: its name is then an agreement of words, nodes
and triples, and with `fr-` or `shadow-` before it one of dense layers, a vector being a table of one row.

Legend: B rows of a block, D numbers of a row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from any2vec.kernels.common.scalar import BOUND
from any2vec.types import State


class MergeRule(ABC):
    """Merges one block of rows, round after round (abstract). Each block has an instance of its own.

    Args:
        occurrence_B: float64 (B,), how often rows occur in an epoch, infinite where nobody counted them; None: nobody
            counted any.
    """

    bound: ClassVar[float] = float(BOUND)
    """no number that is agreed on is larger: what kernels of rows rely on"""

    def __init__(self, occurrence_B: np.ndarray | None = None) -> None:
        return

    @abstractmethod
    def combine(self, start_BD: np.ndarray, changes: Sequence[np.ndarray], out_BD: np.ndarray) -> None:
        """Fill `out_BD`, float32, with what hosts agree on.

        The result depends on nothing but these arrays, their order and the rule's own memory.

        Args:
            start_BD: float32, the rows from which all hosts started; not to be changed.
            changes: float64 (B, D) of each host, in rank order: its rows less the start; a row of zeros is one that it
                did not change.
        """

    def state_dict(self) -> State:
        """The rule's memory, for checkpoints; by default it has none."""
        return {}

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`."""
        return


class SquaresSum(MergeRule):
    """Of optimizer states that only grow, such as Adagrad's sums of squared gradients: the changes of all hosts add up.

    A host's change is what its own steps added, so the sum is what one host would have that made all of these steps at
    the same gradients, and rates fall as they do there, however the values of the rows are merged. Nothing is clipped.
    """

    bound = float("inf")

    def combine(self, start_BD: np.ndarray, changes: Sequence[np.ndarray], out_BD: np.ndarray) -> None:
        out_BD[:] = sum(changes, start_BD.astype(np.float64))

"""The seam of merge rules: what becomes of rows of which several hosts made different things.

A package registers a rule as an entry point of the group `any2vec.rules`: its name is then an agreement of words,
nodes, triples and streams, and of the dense layers of clicks, a vector being a table of one row. With `fr-` or
`shadow-` before it, it is one of triples and of dense layers.

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


class StateMean(MergeRule):
    """Of optimizer states that only grow, such as Adagrad's sums of squared gradients: the mean of hosts' changes.

    It is over the hosts that changed the row, so that rates fall as fast as those of a host with its own steps alone.
    The sum would be the state of one host that makes all steps one after the other, but no rule takes all of these
    steps at their full length: measured, rows then stop too early (docs/log.md). It never falls, and is never clipped.
    """

    bound = float("inf")

    def combine(self, start_BD: np.ndarray, changes: Sequence[np.ndarray], out_BD: np.ndarray) -> None:
        count_B = sum(change_BD.any(axis=1) for change_BD in changes)
        out_BD[:] = start_BD + sum(changes) / np.maximum(count_B, 1)[:, None]

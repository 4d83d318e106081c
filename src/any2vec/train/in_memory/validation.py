"""Validation: metrics behind each epoch, the best state so far, and when patience with worse ones is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from any2vec.types import State

if TYPE_CHECKING:
    from any2vec.train.result import Result

Validator = Callable[["Result"], Mapping[str, float]]
"""metrics of a result by name, on data that it was not trained on; the first one decides, and higher is better"""
_BEST = "best."
"""names of the best state's arrays in a checkpoint begin so"""


class Validation:
    """What validation has found. Every host knows the metrics; the best state is rank 0's alone.

    Args:
        patience: epochs without a better score after which the run is over; 0: never.
        epochs: what was found before: {"epoch": from 1, metric: value, ...}, of which the first metric decides.
        best: the state of the best of those.
    """

    def __init__(self, patience: int, epochs: Sequence[Mapping[str, Any]] = (), best: State | None = None) -> None:
        self.patience, self.best = patience, best or {}
        self.epochs = [dict(one) for one in epochs]

    def add(self, epoch: int, metrics: Mapping[str, float], state: State | None) -> None:
        """Note the metrics of an epoch, from 1; a copy of the state is kept where it is the best so far."""
        self.epochs.append({"epoch": epoch, **metrics})
        if state is not None and self.best_epoch == epoch:
            if not self.best:
                self.best = {name: np.empty_like(array) for name, array in state.items()}
            for name, array in state.items():  # into the arrays of the former best: a second copy would not fit
                np.copyto(self.best[name], array)

    @property
    def best_epoch(self) -> int:
        """From 1: the first one of those with the highest score; 0: none was scored."""
        return int(max(self.epochs, key=_score)["epoch"]) if self.epochs else 0

    @property
    def is_over(self) -> bool:
        """Whether no epoch shall follow: none has been better for so long."""
        return bool(self.epochs) and 0 < self.patience <= self.epochs[-1]["epoch"] - self.best_epoch

    def summary(self) -> dict[str, Any]:
        """What the summary of the run says."""
        return {
            "best_epoch": self.best_epoch, "epochs_done": self.epochs[-1]["epoch"] if self.epochs else 0,
            "validation": self.epochs,
        }  # fmt: skip

    def state_dict(self) -> State:
        """The best state, as a checkpoint keeps it."""
        return {_BEST + name: array for name, array in self.best.items()}


def best_of(state: State) -> State:
    """The best state of a checkpoint's arrays."""
    return {name.removeprefix(_BEST): np.array(array) for name, array in state.items() if name.startswith(_BEST)}


def _score(metrics: Mapping[str, Any]) -> float:
    return float(next(value for name, value in metrics.items() if name != "epoch"))

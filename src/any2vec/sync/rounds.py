"""The driver that lets hosts agree between rounds (bulk-synchronous), whatever the agreement is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from any2vec.types import Work


class Agreement(Protocol):
    """What hosts do around a round; every host calls the same methods in the same order."""

    def open(self, work: Work) -> None:
        """Before the first work of a round."""

    def close(self) -> None:
        """After the last work of a round."""

    def collect(self) -> dict[str, np.ndarray] | None:
        """The agreed tables at rank 0, None elsewhere; they hold until the next call of any method."""

    @property
    def memory(self) -> dict[str, np.ndarray]:
        """What this host alone remembers from round to round; a checkpoint keeps it."""

    def recall(self, memories: Sequence[dict[str, np.ndarray]]) -> None:
        """Take up the memories of all hosts of a former run, by rank; there may have been more or fewer of them."""


class Rounds:
    """Calls an agreement where rounds open and close, and takes the time that it needs."""

    def __init__(self, agreement: Agreement) -> None:
        self.agreement = agreement
        self.seconds = 0.0
        """spent in agreements, waiting for other hosts included"""
        self.rounds = 0

    def before(self, work: Work) -> None:
        if work.opens_round:
            began = time.perf_counter()
            self.agreement.open(work)
            self.seconds += time.perf_counter() - began

    def after(self, work: Work) -> None:
        if work.closes_round:
            began = time.perf_counter()
            self.agreement.close()
            self.rounds += 1
            self.seconds += time.perf_counter() - began

    def is_settled(self, work: Work) -> bool:
        return work.closes_round

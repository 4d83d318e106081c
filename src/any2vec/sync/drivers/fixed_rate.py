"""Synchronization in the foreground: the worker that does every k-th iteration of its trainer does a sync, too."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from any2vec.sync.base.dense import DenseAgreement
from any2vec.sync.drivers.syncing import Syncing
from any2vec.sync.rules.replica_rule import ReplicaRule
from any2vec.types import State

_SINCE = "fixed.since"


class FixedRate(DenseAgreement):
    """One trainer's `DenseAgreement`: FR-k of a rule. Other workers go on; one that reaches its turn meanwhile waits.

    Args:
        every: k, iterations of this trainer, 1 or more.
        is_watched: as `Syncing`.
    """

    def __init__(self, rule: ReplicaRule, every: int, is_watched: bool = True) -> None:
        self.replica = rule.replica
        self.rule = rule
        self.every = every
        self.syncing = Syncing(rule, is_watched)
        self._turn = threading.Lock()
        """held during a sync"""
        self._before = 0
        """iterations of a former run since its last sync"""
        self._numbers = itertools.count(1)

    def start(self) -> None:
        self.syncing.start()

    def begin(self, worker: int, index: int) -> int:
        return index

    def apply(self, worker: int, step: int, gradient_Q: np.ndarray) -> None:
        self.replica.step(gradient_Q)
        self.moved(worker)

    def moved(self, worker: int) -> None:
        """A worker has changed the replica; it does a sync, if it is time for one."""
        self.syncing.iterate(worker)
        if next(self._numbers) % self.every == 0:
            with self._turn:
                self.syncing.sync()

    def quiesce(self) -> None:
        with self._turn:
            self.syncing.quiesce()

    def close(self, error: BaseException | None = None) -> None:
        if error is None:
            with self._turn:
                self.syncing.close()

    def gather_result(self) -> np.ndarray | None:
        return self.rule.gather_result()

    def state_dict(self) -> State:
        since = (self._before + self.syncing.iterations) % self.every
        return {_SINCE: np.array([since], np.float32)} | self.rule.state_dict()

    def load_state_dict(self, states: Sequence[State]) -> None:
        self.rule.load_state_dict(states)
        if self.rule.rank < len(states):
            self._before = int(states[self.rule.rank].get(_SINCE, np.zeros(1))[0])
            self._numbers = itertools.count(self._before + 1)

    def metrics(self) -> dict[str, Any]:
        """As `Syncing`."""
        return self.syncing.metrics()

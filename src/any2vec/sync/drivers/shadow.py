"""Synchronization behind the workers: a thread of its own for each trainer (ShadowSync; Zheng et al. 2020).

It is a driver, not an algorithm: it repeats the syncs of whatever rule it is given while workers train the replica, and
no worker ever waits for it. Its work is kernels and messages, which do not hold the GIL.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from any2vec.errors import HostError
from any2vec.sync.base.dense import DenseAgreement
from any2vec.sync.drivers.syncing import Syncing
from any2vec.sync.rules.replica_rule import ReplicaRule
from any2vec.types import State


class ShadowSync(DenseAgreement):
    """One trainer's `DenseAgreement`.

    When the workers stand still or have finished, the shadow ends its sync, and whoever says so goes on with the syncs
    that others still need, in the foreground.

    Args:
        least: iterations of this trainer from one sync to the next, 1 or more; with nothing new to tell, none begins.
        is_watched: as `Syncing`.
    """

    def __init__(self, rule: ReplicaRule, least: int = 1, is_watched: bool = True) -> None:
        self.replica = rule.replica
        self.rule = rule
        self.least = least
        self.syncing = Syncing(rule, is_watched)
        self._turn = threading.Lock()
        """held during a sync"""
        self._moved = threading.Event()
        self._is_paused = self._is_over = False
        self._error: HostError | None = None
        self._cpu_seconds = self._wall_seconds = 0.0
        self._thread = threading.Thread(target=self._run, name=f"shadow-{rule.rank}", daemon=True)

    def start(self) -> None:
        self.syncing.start()
        self._thread.start()

    def begin(self, worker: int, index: int) -> int:
        self._check()
        self._is_paused = False
        return index

    def apply(self, worker: int, step: int, gradient_Q: np.ndarray) -> None:
        self._check()
        self.replica.step(gradient_Q)
        self.moved(worker)

    def moved(self, worker: int) -> None:
        """A worker has changed the replica."""
        self._check()
        self.syncing.iterate(worker)
        self._moved.set()

    def quiesce(self) -> None:
        self._is_paused = True
        with self._turn:
            self._check()
            self.syncing.quiesce()

    def close(self, error: BaseException | None = None) -> None:
        """The shadow ends after the sync that is under way; without an error this trainer joins the last syncs."""
        self._is_over = True
        self._moved.set()
        if error is not None:
            return
        self._thread.join()
        self._check()
        self.syncing.close()

    def gather_result(self) -> np.ndarray | None:
        return self.rule.gather_result()

    def state_dict(self) -> State:
        return self.rule.state_dict()

    def load_state_dict(self, states: Sequence[State]) -> None:
        self.rule.load_state_dict(states)

    def metrics(self) -> dict[str, Any]:
        """As `Syncing`; shadow_cpu_share: the processor time of the shadow's thread over the time that it was there."""
        return self.syncing.metrics() | {
            "shadow_cpu_seconds": self._cpu_seconds,
            "shadow_cpu_share": self._cpu_seconds / self._wall_seconds if self._wall_seconds else 0.0,
        }

    def _run(self) -> None:
        """The thread's own function."""
        begun = time.perf_counter()
        try:
            while not self._is_over:
                self._moved.wait()
                self._moved.clear()
                with self._turn:
                    if not self._is_over and not self._is_paused and self.syncing.gap >= self.least:
                        self.syncing.sync()
                self._cpu_seconds, self._wall_seconds = time.thread_time(), time.perf_counter() - begun
        except HostError as error:
            self._error = error
        except Exception as error:
            self._error = HostError(f"The shadow of rank {self.rule.rank} ended: {type(error).__name__}: {error}")

    def _check(self) -> None:
        """Raise what the shadow has ended by."""
        if self._error is not None:
            raise type(self._error)(str(self._error))

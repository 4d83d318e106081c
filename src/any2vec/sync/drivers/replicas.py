"""When the replicas of trainers synchronize by a rule: every k iterations, or behind the workers; what is measured."""

from __future__ import annotations

import itertools
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from any2vec.errors import HostError
from any2vec.kernels.replicas.replicas import compile_all, copy_replica, distances
from any2vec.sync.base.dense import DenseAgreement
from any2vec.sync.rules.replica_rule import FINISHED, STANDING, WORKING, ReplicaRule
from any2vec.types import State


class Syncing:
    """Carries out syncs, one at a time (the caller sees to it), and counts the iterations of the workers between them.

    Args:
        is_watched: measure how far workers move the replica while a sync runs, which is what overwriting would throw
            away; it costs two more passes over the parameters in a sync.
    """

    def __init__(self, rule: ReplicaRule, is_watched: bool = True) -> None:
        self.rule = rule
        self.is_watched = is_watched
        self.gaps: Counter[int] = Counter()
        """iterations from one merge to the next -> how often"""
        self.syncs = 0
        self.seconds = 0.0
        self.moved_behind = self.moved = 0.0
        """Euclidean lengths, added up over syncs: what workers did while a sync ran, and since the merge before"""
        self._since = rule.replica.value.copy()
        self._iterations: dict[int, int] = {}
        """by worker: each counts its own, so nothing is lost without a lock"""
        self._merged_at = 0

    @property
    def iterations(self) -> int:
        """Of all workers of this trainer so far."""
        return sum(list(self._iterations.values()))

    @property
    def gap(self) -> int:
        """Iterations since the last merge."""
        return self.iterations - self._merged_at

    def start(self) -> None:
        """Compile whatever a sync needs, so that no worker's first steps share the processor with that; collective."""
        compile_all()
        self.rule.start()
        copy_replica(self.rule.replica.value, self._since)

    def iterate(self, worker: int) -> None:
        """A worker has done one more iteration."""
        self._iterations[worker] = self._iterations.get(worker, 0) + 1

    def sync(self, standing: int = WORKING) -> int:
        """Snapshot, communicate, merge; what is agreed on, as of `ReplicaRule.agreed`."""
        begun = time.perf_counter()
        self.rule.snapshot(standing)
        for phase in self.rule.communicate:
            phase()
        if self.rule.agreed != STANDING:
            self.merge()
            self.seconds += time.perf_counter() - begun
        return self.rule.agreed

    def merge(self) -> None:
        """The last part of a sync, and its figures."""
        value, gap = self.rule.replica.value, self.gap
        self._merged_at += gap
        if self.is_watched:
            behind, moved = distances(value, self.rule.seen, self._since)
            self.moved_behind += behind
            self.moved += moved
        self.rule.merge()
        if self.is_watched:
            copy_replica(value, self._since)
        self.syncs += 1
        self.gaps[gap] += 1

    def quiesce(self) -> None:
        """This trainer's workers stand still: go on with syncs until that is so of all trainers."""
        while self.sync(STANDING) < STANDING:
            pass
        self.rule.quiesce()

    def close(self) -> None:
        """This trainer has no batch left: join syncs with its last replica until that is so of all, and once more."""
        while self.sync(FINISHED) < FINISHED:
            pass
        self.rule.close()

    def metrics(self) -> dict[str, Any]:
        """Of this trainer: counts, bytes, seconds, and the histogram of the sync gap.

        lost_if_overwritten: of all that the workers moved the replica, the share that copying the result over it would
        have thrown away; lost_by_merging: what the merges did.
        """
        lost = self.moved_behind / self.moved if self.moved else 0.0
        counted = dict(self.gaps)  # at once: another thread may be counting
        gaps = Counter({gap: count for gap, count in counted.items() if gap})
        found: dict[str, Any] = {
            "syncs": self.syncs,
            "iterations": self.iterations,
            "sync_gap": {str(gap): gaps[gap] for gap in sorted(gaps)},
            "sync_gap_mean": _mean(gaps),
            "sync_seconds": self.seconds,
            "sync_bytes_sent": self.rule.sent,
            "sync_bytes_received": self.rule.received,
        }
        if self.is_watched:
            found |= {"lost_if_overwritten": lost, "lost_by_merging": lost * self.rule.takes_back}
        return found


def _mean(counts: Counter[int]) -> float:
    return sum(value * count for value, count in counts.items()) / max(sum(counts.values()), 1)


class ReplicaDriver(DenseAgreement, ABC):
    """One trainer's `DenseAgreement` on the replica of a rule; when syncs begin is a subclass's (abstract).

    Args:
        is_watched: as `Syncing`.
    """

    def __init__(self, rule: ReplicaRule, is_watched: bool = True) -> None:
        self.replica, self.rule = rule.replica, rule
        self.syncing = Syncing(rule, is_watched)
        self._turn = threading.Lock()
        """held during a sync"""

    def start(self) -> None:
        self.syncing.start()

    def begin(self, worker: int, index: int) -> int:
        return index

    def apply(self, worker: int, step: int, gradient_Q: np.ndarray) -> None:
        self.replica.step(gradient_Q)
        self.moved(worker)

    @abstractmethod
    def moved(self, worker: int) -> None:
        """A worker has changed the replica."""

    def quiesce(self) -> None:
        with self._turn:
            self.syncing.quiesce()

    def gather_result(self) -> np.ndarray | None:
        return self.rule.gather_result()

    def state_dict(self) -> State:
        return self.rule.state_dict()

    def continues(self, states: Sequence[State]) -> bool:
        return self.rule.continues(states)

    def load_state_dict(self, states: Sequence[State]) -> None:
        self.rule.load_state_dict(states)

    def metrics(self) -> dict[str, Any]:
        """As `Syncing`."""
        return self.syncing.metrics()


_SINCE = "fixed.since"


class FixedRate(ReplicaDriver):
    """FR-k of a rule: the worker that does every k-th iteration of its trainer does a sync, too, in the foreground.

    Other workers go on; one that reaches its turn meanwhile waits.

    Args:
        every: k, iterations of this trainer, 1 or more.
        is_watched: as `Syncing`.
    """

    def __init__(self, rule: ReplicaRule, every: int, is_watched: bool = True) -> None:
        super().__init__(rule, is_watched)
        self.every = every
        self._before = 0
        """iterations of a former run since its last sync"""
        self._numbers = itertools.count(1)

    def moved(self, worker: int) -> None:
        """It does a sync, if it is time for one."""
        self.syncing.iterate(worker)
        if next(self._numbers) % self.every == 0:
            with self._turn:
                self.syncing.sync()

    def close(self, error: BaseException | None = None) -> None:
        if error is None:
            with self._turn:
                self.syncing.close()

    def state_dict(self) -> State:
        since = (self._before + self.syncing.iterations) % self.every
        return {_SINCE: np.array([since], np.float32)} | super().state_dict()

    def load_state_dict(self, states: Sequence[State]) -> None:
        super().load_state_dict(states)
        if self.rule.rank < len(states):
            self._before = int(states[self.rule.rank].get(_SINCE, np.zeros(1))[0])
            self._numbers = itertools.count(self._before + 1)


class ShadowSync(ReplicaDriver):
    """Syncs behind the workers, by a thread of its own for each trainer (ShadowSync; Zheng et al. 2020).

    It is a driver, not an algorithm: it repeats the syncs of whatever rule it is given while workers train the replica,
    and no worker ever waits for it. Its work is kernels and messages, which do not hold the GIL.

    When the workers stand still or have finished, the shadow ends its sync, and whoever says so goes on with the syncs
    that others still need, in the foreground.

    Args:
        least: iterations of this trainer from one sync to the next, 1 or more; with nothing new to tell, none begins.
        is_watched: as `Syncing`.
    """

    def __init__(self, rule: ReplicaRule, least: int = 1, is_watched: bool = True) -> None:
        super().__init__(rule, is_watched)
        self.least = least
        self._moved = threading.Event()
        self._is_paused = self._is_over = False
        self._error: HostError | None = None
        self._cpu_seconds = self._wall_seconds = 0.0
        self._thread = threading.Thread(target=self._run, name=f"shadow-{rule.rank}", daemon=True)

    def start(self) -> None:
        super().start()
        self._thread.start()

    def begin(self, worker: int, index: int) -> int:
        self._check()
        self._is_paused = False
        return index

    def moved(self, worker: int) -> None:
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

    def metrics(self) -> dict[str, Any]:
        """As `Syncing`; shadow_cpu_share: the processor time of the shadow's thread over the time that it was there."""
        return super().metrics() | {
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

"""One trainer's syncs by a rule, whoever calls for them, and what is measured of them."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from any2vec.kernels.replicas.replicas import compile_all, copy_replica, distances
from any2vec.sync.rules.replica_rule import FINISHED, STANDING, WORKING, ReplicaRule


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
        gaps = Counter({gap: count for gap, count in self.gaps.items() if gap})
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

"""Plain twins of `any2vec.kernels.replicas.replicas` and of what trainers do with them: one number after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

ONE = np.float32(1)


def merge_towards(value: np.ndarray, target: np.ndarray, share: float) -> np.ndarray:
    a = np.float32(share)
    return np.array([(ONE - a) * x + a * y for x, y in zip(value, target, strict=True)], np.float32)


def merge_shift(value: np.ndarray, target: np.ndarray, seen: np.ndarray, share: float) -> np.ndarray:
    a = np.float32(share)
    return np.array([x + a * (y - s) for x, y, s in zip(value, target, seen, strict=True)], np.float32)


def merge_moved(value: np.ndarray, target: np.ndarray, seen: np.ndarray) -> np.ndarray:
    return np.array([y if x == s else x + (y - s) for x, y, s in zip(value, target, seen, strict=True)], np.float32)


def merge_difference(value: np.ndarray, difference: np.ndarray) -> np.ndarray:
    return np.array([x - y for x, y in zip(value, difference, strict=True)], np.float32)


def move_center(center: np.ndarray, seen: np.ndarray, share: float) -> tuple[np.ndarray, np.ndarray]:
    """(the center afterwards, the difference)."""
    a = np.float32(share)
    difference = np.array([a * (x - c) for x, c in zip(seen, center, strict=True)], np.float32)
    return np.array([c + d for c, d in zip(center, difference, strict=True)], np.float32), difference


def mean_replica(replicas: Sequence[np.ndarray]) -> np.ndarray:
    return np.array([np.float32(total / len(replicas)) for total in _totals(replicas)], np.float32)


def block_momentum(
    replicas: Sequence[np.ndarray], rate: float, momentum: float, velocity: np.ndarray, known: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(velocity, global model) afterwards."""
    speeds = [
        momentum * float(v) + rate * (total / len(replicas) - float(w))
        for total, v, w in zip(_totals(replicas), velocity, known, strict=True)
    ]
    now = [float(w) + speed for w, speed in zip(known, speeds, strict=True)]
    return np.array(speeds, np.float32), np.array(now, np.float32)


def distances(value: np.ndarray, seen: np.ndarray, since: np.ndarray) -> tuple[float, float]:
    return tuple(
        float(sum(float(x - y) ** 2 for x, y in zip(value, other, strict=True)) ** 0.5) for other in (seen, since)
    )  # type: ignore[return-value]


def _totals(replicas: Sequence[np.ndarray]) -> list[float]:
    """Sums in float64, in the order of the ranks."""
    totals = [0.0] * len(replicas[0])
    for replica in replicas:
        totals = [total + float(x) for total, x in zip(totals, replica, strict=True)]
    return totals


class Trainers:
    """The twin of `replay.Replay`, of plain SGD: what each event of a schedule does, in plain words."""

    def __init__(self, rule: str, values: Sequence[np.ndarray], rate: float, **reported: Any) -> None:
        self.rule = rule
        self.reported = reported
        self.rate = np.float32(rate)
        self.values = [value.copy() for value in values]
        self.known = values[0].copy()
        """the center, or the global model"""
        self.velocity = np.zeros_like(values[0])
        self.at = [0] * len(values)
        """phases that each has done"""
        self.seen: dict[tuple[int, int], np.ndarray] = {}
        """(trainer, number of its sync) -> snapshot"""
        self.results: dict[int, np.ndarray] = {}
        """number of a sync -> what the averages made of it"""
        self.differences: list[np.ndarray] = [self.known] * len(values)

    @property
    def phases(self) -> int:
        return 3 if self.rule == "easgd" else 5

    def may_sync(self, trainer: int) -> bool:
        """Whether the next phase waits for nobody: who averages, or hears of it, needs all to have come so far."""
        at = self.at[trainer]
        return self.rule == "easgd" or at % 5 not in (2, 3) or all(other >= at for other in self.at)

    def step(self, trainer: int, gradient: np.ndarray) -> None:
        pairs = zip(self.values[trainer], gradient, strict=True)
        self.values[trainer] = np.array([x - self.rate * g for x, g in pairs], np.float32)

    def sync(self, trainer: int) -> None:
        number, phase = divmod(self.at[trainer], self.phases)
        self.at[trainer] += 1
        if phase == 0:
            self.seen[trainer, number] = self.values[trainer].copy()
        elif phase == self.phases - 1:
            self._merge(trainer, number)
        elif self.rule == "easgd":
            self.known, self.differences[trainer] = move_center(
                self.known, self.seen[trainer, number], self.reported["share"]
            )

    def _merge(self, trainer: int, number: int) -> None:
        value = self.values[trainer]
        if self.rule == "easgd":
            self.values[trainer] = merge_difference(value, self.differences[trainer])
            return
        if number not in self.results:
            seen = [self.seen[other, number] for other in range(len(self.values))]
            if self.rule == "ma":
                self.known = mean_replica(seen)
            else:
                self.velocity, self.known = block_momentum(
                    seen, self.reported["eta"], self.reported["momentum"] * (len(seen) > 1), self.velocity, self.known
                )
            self.results[number] = self.known
        result, share = self.results[number], self.reported["share"]
        if self.reported["merge"] == "shift":
            self.values[trainer] = merge_shift(value, result, self.seen[trainer, number], share)
        else:
            self.values[trainer] = merge_towards(value, result, share)

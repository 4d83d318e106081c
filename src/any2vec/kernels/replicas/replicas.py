"""What synchronization does to replicas of dense parameters while workers change them: number by number, no lock.

A worker's step that falls between the reading and the writing of one number may be lost, as among workers (Hogwild).

Legend: Q parameters.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import fast_jit, jit

_ONE = np.float32(1.0)


@jit
def copy_replica(value_Q: np.ndarray, copy_Q: np.ndarray) -> None:
    """copy = value, as far as it stands still."""
    for q in range(value_Q.size):
        copy_Q[q] = value_Q[q]


@jit
def merge_towards(value_Q: np.ndarray, target_Q: np.ndarray, share: float) -> None:
    """value = (1 - share) * value + share * target, float32; with share 1 it is the target, bit by bit."""
    add = np.float32(share)
    keep = _ONE - add
    for q in range(value_Q.size):
        value_Q[q] = keep * value_Q[q] + add * target_Q[q]


@jit
def merge_shift(value_Q: np.ndarray, target_Q: np.ndarray, seen_Q: np.ndarray, share: float) -> None:
    """value += share * (target - seen), float32."""
    part = np.float32(share)
    for q in range(value_Q.size):
        value_Q[q] += part * (target_Q[q] - seen_Q[q])


@jit
def merge_moved(value_Q: np.ndarray, target_Q: np.ndarray, seen_Q: np.ndarray) -> None:
    """value = target where it is as seen, else value += target - seen, float32: what did not move is the target."""
    for q in range(value_Q.size):
        value, seen = value_Q[q], seen_Q[q]
        value_Q[q] = target_Q[q] if value == seen else value + (target_Q[q] - seen)


@jit
def merge_difference(value_Q: np.ndarray, difference_Q: np.ndarray) -> None:
    """value -= difference."""
    for q in range(value_Q.size):
        value_Q[q] -= difference_Q[q]


@jit
def move_center(center_Q: np.ndarray, seen_Q: np.ndarray, share: float, difference_Q: np.ndarray) -> None:
    """difference = share * (seen - center); center += difference. float32 (Q,)."""
    part = np.float32(share)
    for q in range(center_Q.size):
        difference = part * (seen_Q[q] - center_Q[q])
        difference_Q[q] = difference
        center_Q[q] += difference


@jit
def add_replica(total_Q: np.ndarray, value_Q: np.ndarray) -> None:
    """total (float64) += value (float32)."""
    for q in range(total_Q.size):
        total_Q[q] += value_Q[q]


@jit
def mean_replica(total_Q: np.ndarray, count: int, mean_Q: np.ndarray) -> None:
    """mean (float32) = total (float64) / count."""
    for q in range(total_Q.size):
        mean_Q[q] = np.float32(total_Q[q] / count)


@jit
def block_momentum(
    total_Q: np.ndarray, count: int, rate: float, momentum: float, velocity_Q: np.ndarray, global_Q: np.ndarray
) -> None:
    """velocity = momentum * velocity + rate * (total / count - global); global += velocity. In float64; float32 stays.

    Blockwise model-update filtering (Chen, Huo 2016) without Nesterov's term.
    """
    for q in range(total_Q.size):
        now = np.float64(global_Q[q])
        velocity = momentum * np.float64(velocity_Q[q]) + rate * (total_Q[q] / count - now)
        velocity_Q[q] = np.float32(velocity)
        global_Q[q] = np.float32(now + velocity)


@fast_jit
def distances(value_Q: np.ndarray, seen_Q: np.ndarray, since_Q: np.ndarray) -> tuple[float, float]:
    """(|value - seen|, |value - since|), Euclidean, in float64."""
    behind, moved = 0.0, 0.0
    for q in range(value_Q.size):
        off, far = np.float64(value_Q[q] - seen_Q[q]), np.float64(value_Q[q] - since_Q[q])
        behind += off * off
        moved += far * far
    return np.sqrt(behind), np.sqrt(moved)


def compile_all() -> None:
    """Compile these kernels, or load them, by a call of each without numbers."""
    none, total = np.empty(0, np.float32), np.empty(0, np.float64)
    copy_replica(none, none)
    merge_towards(none, none, 0.5)
    merge_shift(none, none, none, 0.5)
    merge_moved(none, none, none)
    merge_difference(none, none)
    move_center(none, none, 0.5, none)
    add_replica(total, none)
    mean_replica(total, 1, none)
    block_momentum(total, 1, 1.0, 0.0, none, none)
    distances(none, none, none)

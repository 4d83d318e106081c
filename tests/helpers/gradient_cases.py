"""What the tests of gradients share: agreements, gradients with known sums, and replicas that have taken them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from any2vec.cluster.counters import Counters
from any2vec.cluster.transport import Transport
from any2vec.sync.base.dense import DenseAgreement
from any2vec.sync.drivers.served_gradients import ServedGradients
from any2vec.sync.drivers.summed_gradients import SummedGradients
from any2vec.sync.rules.gradient_rules import AsyncGradients, FirstGradients, GradientRule
from any2vec.tables.replica import Replica
from any2vec.types import LEFT_OUT

SIZE = 11
RATE = 0.25  # a power of two: steps of whole numbers are exact
KINDS = ["sgd", "adagrad", "adam"]


def start_values() -> np.ndarray:
    return np.arange(SIZE, dtype=np.float32) - 4


def gradient(rank: int, index: int) -> np.ndarray:
    """Whole numbers, that of each trainer and batch another."""
    return np.random.default_rng((rank, index)).integers(-99, 99, SIZE).astype(np.float32)


def rough(rank: int, index: int) -> np.ndarray:
    """Floats whose sum depends on its order."""
    return (np.random.default_rng((rank, index)).normal(size=SIZE) * 10.0 ** (index % 3)).astype(np.float32)


def train(agreement: DenseAgreement, rank: int, batches: range, make: Callable[[int, int], np.ndarray]) -> list[int]:
    """The steps of a trainer's batches."""
    steps = []
    for index in batches:
        steps.append(agreement.begin(0, index))
        if steps[-1] != LEFT_OUT:
            agreement.apply(0, steps[-1], make(rank, index))
    return steps


def stepped(kind: Any, sums: Sequence[np.ndarray]) -> Replica:
    """A replica that has taken these gradients."""
    replica = Replica(start_values(), kind, RATE)
    for sum_Q in sums:
        replica.step(sum_Q)
    return replica


def summed(counts: Sequence[int], make: Callable[[int, int], np.ndarray], first: int = 0) -> list[np.ndarray]:
    """By step, the sum in rank order over the trainers that still have a batch."""
    sums = []
    for index in range(first, first + max(counts)):
        total = np.zeros(SIZE, np.float32)
        for rank, count in enumerate(counts):
            if index < first + count:
                total = total + make(rank, index)
        sums.append(total)
    return sums


def bsp(transport: Transport, trainers: int, kind: Any = "sgd") -> SummedGradients:
    return SummedGradients(transport, Replica(start_values(), kind, RATE), range(trainers))


def served(
    transport: Transport, trainers: int, servers: Sequence[int], how: str, number: int | None = None, kind: Any = "sgd",
    on_held: Any = None, **options: Any,
) -> ServedGradients:  # fmt: skip
    """Only the first trainer's replica has the values to start from."""
    replica = Replica(start_values() if transport.rank == 0 else np.zeros(SIZE, np.float32), kind, RATE)
    names = list(range(trainers))

    def rule(held: Replica) -> GradientRule:
        if how == "m-of-n":
            return FirstGradients(held, names, number or trainers, on_held)
        return AsyncGradients(held, names, number)

    return ServedGradients(transport, replica, names, servers, rule, how != "async", **options)


def merged(metrics: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Facts of all hosts, added up."""
    total: dict[str, Any] = {}
    for found in metrics:
        for name, value in found.items():
            if isinstance(value, dict):
                total[name] = {**total.get(name, {}), **value}
            else:
                total[name] = total.get(name, 0) + value
    return total


def kinds_sent(counters: Counters) -> tuple[int, int]:
    """Bytes that a host has sent: dense arrays, and what steers."""
    kinds = counters.bytes_by_kind()
    return kinds["dense"], kinds["control"]

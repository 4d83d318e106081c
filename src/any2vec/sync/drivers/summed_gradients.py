"""Bulk-synchronous gradients of dense parameters: at every step all trainers step once by the sum of all gradients."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from any2vec.cluster.message import Part, checksum
from any2vec.cluster.transport import Transport
from any2vec.errors import JobError
from any2vec.plan.sharding.sharding import contiguous_bounds
from any2vec.sync.base.dense import DenseAgreement
from any2vec.sync.base.members import exchange_among
from any2vec.sync.rules.gradient_rules import sum_in_rank_order
from any2vec.tables.replica import Stepped

TRAINS, RESTS, HAS_ENDED = 0, 1, 2
"""what a trainer says of itself with every step"""


class SummedGradients(DenseAgreement):
    """A `DenseAgreement`, of one worker thread a trainer: bulk-synchronous steps (Valiant 1990).

    Each trainer owns a slice of the flat gradient, adds up what all sent of it in rank order in float32, and sends the
    sum to all: 2 (N - 1) / N gradients leave each trainer in a step. Replicas that are equal at the start stay so, bit
    by bit. A trainer that stands still (`quiesce`) or has no batch left (`close`) goes on owning its slice, and takes
    the steps of the others: as if it joined with gradients of zero, which do not travel.

    Args:
        replica: this trainer's.
        trainers: their ranks, ascending.
        name: of the channel.
    """

    def __init__(
        self, transport: Transport, replica: Stepped, trainers: Iterable[int], name: str = "gradients"
    ) -> None:
        self.transport = transport
        self.replica = replica
        self.trainers = tuple(trainers)
        self.name = name
        self.steps = 0
        """of all trainers together"""
        self.wait_seconds = 0.0
        """that this trainer spent in sending, waiting and adding up"""
        self._others = [rank for rank in self.trainers if rank != transport.rank]
        bounds = contiguous_bounds(len(replica.value), len(self.trainers))
        self._slices = {rank: slice(*ends) for rank, ends in zip(self.trainers, pairwise(bounds), strict=True)}

    def start(self) -> None:
        """Raises JobError when the replicas are not equal."""
        own = checksum([self.replica.value, *self.replica.state.values()])
        digest = [Part("control", np.array([own], np.uint64))]
        for rank, parts in self._exchange(dict.fromkeys(self._others, digest), "start").items():
            if int(parts[0].array[0]) != own:
                raise JobError(f"Ranks {rank} and {self.transport.rank} start from different dense parameters.")

    def begin(self, worker: int, index: int) -> int:
        return self.steps

    def apply(self, worker: int, step: int, gradient_Q: np.ndarray) -> None:
        self._step(TRAINS, gradient_Q)  # not copied: who was sent a slice has added it up before this returns

    def quiesce(self) -> None:
        """Take the steps of the others until all stand still."""
        while TRAINS in self._step(RESTS):
            pass

    def close(self, error: BaseException | None = None) -> None:
        """Take the steps of the others until none has a batch left."""
        while error is None and self._step(HAS_ENDED) != {HAS_ENDED}:
            pass

    def gather_result(self) -> np.ndarray | None:
        return self.replica.value if self.transport.rank == self.trainers[0] else None

    def metrics(self) -> dict[str, Any]:
        """steps: of all together, counted by the first trainer; wait_seconds: of this trainer."""
        steps = {"steps": self.steps} if self.transport.rank == self.trainers[0] else {}
        return {**steps, "wait_seconds": self.wait_seconds}

    def _step(self, state: int, gradient_Q: np.ndarray | None = None) -> set[int]:
        """One exchange, and one step where anyone trains; what all say of themselves."""
        started = time.perf_counter()
        own = [] if gradient_Q is None else [Part("dense", gradient_Q)]
        outgoing = {
            rank: [
                Part("control", np.array([state], np.uint8)),
                *(Part("dense", p.array[self._slices[rank]]) for p in own),
            ]
            for rank in self._others
        }
        got = self._exchange(outgoing, "reduce")
        states = {state} | {int(parts[0].array[0]) for parts in got.values()}
        if TRAINS in states:
            mine = self._slices[self.transport.rank]
            slices = {rank: parts[1].array for rank, parts in got.items() if len(parts) == 2}
            if gradient_Q is not None:
                slices[self.transport.rank] = gradient_Q[mine]
            total = sum_in_rank_order(slices)
            sent = [Part("dense", total)]
            sums = self._exchange(dict.fromkeys(self._others, sent), "gather")
            sum_Q = np.empty_like(self.replica.value)
            sum_Q[mine] = total
            for rank, parts in sums.items():
                sum_Q[self._slices[rank]] = parts[0].array
            self.wait_seconds += time.perf_counter() - started
            self.replica.step(sum_Q)
            self.steps += 1
        return states

    def _exchange(self, outgoing: dict[int, list[Part]], phase: str) -> dict[int, tuple[Part, ...]]:
        return exchange_among(self.transport, self.trainers, outgoing, phase, self.name)

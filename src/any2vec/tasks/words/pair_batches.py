"""The learner of skip-gram where some of the rows are in memory: windows of pairs, negatives from the rows there.

Letters: P partitions, H those that are there, V rows.
"""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

import numpy as np

from any2vec.data.partitions.buckets import Buckets
from any2vec.data.partitions.row_partitions import RowPartitions
from any2vec.errors import InputError
from any2vec.kernels.common.alias import build_alias, fill_alias
from any2vec.kernels.common.rng import PURPOSE_NEGATIVE, stream_key
from any2vec.kernels.skipgram.pairs import Noise, train_pairs
from any2vec.models.words.config import SequenceModel
from any2vec.models.words.learner import LOSS_EVERY, shared_negatives
from any2vec.models.words.rates import linear_rate
from any2vec.plan.cost.occupancy import NOISE_POWER
from any2vec.plan.order.buffer import block_rows
from any2vec.plan.order.buffer_walk import BufferWalk, Turn
from any2vec.plan.order.shared_walk import SharedWalk
from any2vec.plan.order.shares import noise_there, noise_weights, resident_counts
from any2vec.sampling.triple_windows import Window
from any2vec.train.out_of_core.run import Batch
from any2vec.types import Stats

BATCH = 1 << 14
"""pairs of a batch: some milliseconds"""


class PairBatch(NamedTuple):
    """Pairs [start, stop) of a window."""

    start: int
    stop: int
    before: int
    """pairs of the epoch before the window"""
    total: int
    """of the epoch"""
    noise: Noise


class PairLearner:
    """Trains windows of pairs.

    Args:
        count_V: int64, occurrences of each item in an epoch.
        walk: that of the run.
    """

    def __init__(
        self,
        model: SequenceModel,
        count_V: np.ndarray,
        parts: RowPartitions,
        walk: BufferWalk | SharedWalk,
        sweeps: int,
        seed: int,
    ) -> None:
        self.model, self.parts, self.walk, self.sweeps, self.seed = model, parts, walk, sweeps, seed
        self.items = 0
        """occurrences trained so far: pairs, as far as they are those of so many"""
        self.buckets: Buckets | None = None
        """set before the first window comes"""
        self._epoch_items = int(count_V.sum())
        self._block_rows = block_rows(int(np.diff(parts.bounds).max()), 8 * model.dim)
        if (slots := walk.blocks * self._block_rows) > 2**30:  # halves of rows have numbers in 32 bits
            raise InputError(f"{slots:,} rows would be in memory at a time, of 2**30 that can be; give less memory.")
        self._threshold_V, self._alias_V, self._mass_P = _noise_tables(count_V, parts)
        self._epoch = -1
        self._count_PP = self._joint_PP = np.empty((0, 0))
        self._lock = threading.Lock()

    def learning_rate(self, progress: float) -> float:
        """It falls linearly, as in memory."""
        return linear_rate(self.model, progress)

    def compile(self) -> None:
        """Compile the kernel, or load it from the cache, by an empty call."""
        none, (threshold_H, alias_H) = np.zeros(0, np.int64), build_alias(np.ones(1))
        noise = Noise(
            self._threshold_V, self._alias_V, threshold_H, alias_H, none, none, none, np.zeros(1, np.int32), 1,
            np.ones((1, 1), np.float32),
        )  # fmt: skip
        shared, rows_HD = shared_negatives(self.model), np.zeros((2, self.model.dim), np.float32)
        train_pairs(np.zeros((0, 2), np.int32), 0, 0, 0, np.uint64(0), noise, rows_HD, 5, 0.1, 0.0, LOSS_EVERY, shared)

    def arrange(self, window: Window) -> list[tuple[int, PairBatch]]:
        """Its batches: what `OutOfCoreRun` wants."""
        noise, size = self._noise(window.turn), len(window.slot_M3)
        return [
            (window.before + start, PairBatch(start, min(start + BATCH, size), window.before, window.total, noise))
            for start in range(0, size, BATCH)
        ]

    def step(self, batch: Batch) -> Stats:
        """Train a batch; several threads may at once."""
        began = time.thread_time()
        made: PairBatch = batch.made
        start, stop, total, epoch = made.start, made.stop, made.total, batch.place.epoch
        model, epochs = self.model, self.walk.epochs
        first, last = (self.learning_rate((epoch + ends) / epochs) for ends in (0, 1))
        loss, examples = train_pairs(
            batch.slot_M3, start, stop, made.before, stream_key(self.seed, PURPOSE_NEGATIVE, epoch), made.noise,
            batch.table_SC.reshape(-1, model.dim), model.num_negatives, first, (last - first) / total, LOSS_EVERY,
            shared_negatives(model),
        )  # fmt: skip
        before = epoch % self.sweeps * total + made.before
        done_before, done = (self._epoch_items * (before + at) // (self.sweeps * total) for at in (start, stop))
        items = done - done_before
        with self._lock:
            self.items += items
        return Stats(items, float(loss), int(examples), time.thread_time() - began)

    def _noise(self, turn: Turn) -> Noise:
        """Of a state of the buffer."""
        if turn.epoch != self._epoch:
            assert self.buckets is not None
            self._epoch, self._count_PP = turn.epoch, self.buckets.of(turn.epoch).count_PP
            self._joint_PP = resident_counts(self.walk.states_of(turn.epoch), self._count_PP)
        held = [part for part, _ in turn.held]
        mass_H, bounds = self._mass_P[held], self.parts.bounds
        there = np.float32(noise_there(held, self._mass_P))
        weight_HH = there * noise_weights(held, self._count_PP.sum(axis=1), self._joint_PP)
        held_B = np.zeros(self.walk.blocks, np.int32)
        held_B[[block for _, block in turn.held]] = np.arange(len(held))
        threshold_H, alias_H = build_alias(mass_H if mass_H.sum() > 0 else np.ones(len(held)))
        first_H = bounds[held]
        return Noise(
            self._threshold_V, self._alias_V, threshold_H, alias_H, first_H, bounds[np.array(held) + 1] - first_H,
            np.array([block * self._block_rows for _, block in turn.held], np.int64), held_B, self._block_rows,
            weight_HH,
        )  # fmt: skip


def _noise_tables(count_V: np.ndarray, parts: RowPartitions) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(threshold uint32 (V,), alias int32 (V,): each partition's, by row; noise of each partition, float64 (P,))."""
    threshold_V, alias_V = np.empty(parts.num_entities, np.uint32), np.empty(parts.num_entities, np.int32)
    mass_P = np.empty(parts.partitions)
    for number in range(parts.partitions):
        first, stop = parts.bounds[number : number + 2].tolist()
        weight_R = count_V[parts.entities(np.arange(first, stop))] ** NOISE_POWER
        mass_P[number] = weight_R.sum()
        if not mass_P[number] > 0:
            weight_R[:] = 1  # it is never drawn
        size = stop - first
        fill_alias(
            weight_R, 0, size, np.empty(size), np.empty(size, np.int32), threshold_V[first:stop], alias_V[first:stop]
        )
    return threshold_V, alias_V, mass_P

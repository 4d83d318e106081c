"""The learner of triples where some of the rows are in memory: it cuts windows of triples into batches.

All entities whose rows are there are negatives, or some that are drawn of them. Those of the given entity's own
partition are there whenever it is, others in few states of the buffer: so each partition's negatives count as much more
as they come less often (plan/order/shares.py), and over an epoch every entity is the negative of an example about
another as often as with all rows in memory, for queries for tails, and for heads, of each partition. Draws by
degree are from the answers of the window, and count like the others, as answers of the batch do.

Legend: P partitions, H those that are there; M triples, N = 2 M examples, Q queries of a batch; S slots, C columns.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from any2vec.data.partitions.row_partitions import RowPartitions
from any2vec.models.triples.config import TripleModel
from any2vec.models.triples.queries import Queries, QueryBatch
from any2vec.models.triples.score import NO_DENSE, Dense
from any2vec.models.triples.score_worker import make_worker
from any2vec.models.triples.worker import Candidates, Negatives, Range, Shares, TripleWorker
from any2vec.models.words.rates import linear_rate
from any2vec.plan.order.bucket_orders import State
from any2vec.plan.order.buffer import block_rows
from any2vec.plan.order.buffer_walk import BufferWalk, Place, Turn
from any2vec.plan.order.shared_walk import SharedWalk
from any2vec.plan.order.shares import noise_there, noise_weights, resident_counts
from any2vec.sampling.triple_windows import Window
from any2vec.tables.row_optimizer import RowOptimizer
from any2vec.train.out_of_core.run import Batch
from any2vec.types import Stats


@dataclass(frozen=True)
class Resident:
    """The partitions that are there, H of them by their place in memory."""

    slots: Sequence[Range]
    place_of_block: np.ndarray
    """int64: which of them a block of memory has"""
    block_rows: int
    weight_2HH: np.ndarray | None
    """float32: what a negative counts, to queries for tails and for heads, by partition of the given entity, and
    its own; None: 1 throughout"""

    def shares(self, batch: QueryBatch, candidates: Candidates, num_relations: int) -> Shares | None:
        """What the candidates count to the queries of a batch; None: 1 each."""
        if self.weight_2HH is None:
            return None
        first_H1 = np.searchsorted(candidates.slot_K, [start for start, _ in self.slots] + [self.slots[-1][1]])
        asks_heads_Q = batch.heads_asked(num_relations).astype(np.int64)
        return Shares(first_H1, self.weight_2HH[asks_heads_Q, self.place_of_block[batch.given_Q // self.block_rows]])


@dataclass(frozen=True)
class Asked:
    """Examples [start, stop) of a window."""

    queries: Queries
    start: int
    stop: int
    resident: Resident
    negatives: Negatives
    total: int
    """triples of the epoch; the learning rate follows the share of the run that lies behind"""

    def batch(self) -> QueryBatch:
        return self.queries.batch(self.start, self.stop)


class WindowLearner:
    """Trains windows of triples, whose examples of the same query come together, as they do in memory.

    Args:
        relation_RC: rows of relations, float32, changed in place by all threads.
        parts: of the table. Where all entities would be negatives, batches are smaller as there are fewer in memory: so
            each row is stepped as often in an epoch as if all were, by as many examples at a time.
        walk: that of the run.
        dense: tables of dense parameters, likewise changed in place.
    """

    def __init__(
        self, model: TripleModel, relation_RC: np.ndarray, parts: RowPartitions, walk: BufferWalk | SharedWalk,
        num_relations: int, seed: int, dense: Dense = NO_DENSE,
    ) -> None:  # fmt: skip
        self.dense = dense
        self.model, self.relation_RC, self.num_relations, self.seed = model, relation_RC, num_relations, seed
        self.parts, self.walk = parts, walk
        self.num_negatives = model.negatives_of(parts.num_entities)
        self.count_PP: np.ndarray | None = None
        """int64 (P, P): triples from partition to partition, those of all hosts; set before the first window comes"""
        self._block_rows = block_rows(int(np.diff(parts.bounds).max()), 4 * RowOptimizer(model.dim).num_columns)
        self.items = 0
        """triples trained so far"""
        self._epoch = -1
        self._ways: list[tuple[np.ndarray, np.ndarray]] = []
        """of the epoch: for queries for tails, and for heads, those of each partition, and their `resident_counts`"""
        self._own = threading.local()
        self._lock = threading.Lock()

    def learning_rate(self, progress: float) -> float:
        """Learning rate at a share of the whole run, 0..1."""
        return linear_rate(self.model, progress)

    def arrange(self, window: Window) -> list[tuple[int, Asked]]:
        """Its batches, each with the examples of the epoch that come before it; what `OutOfCoreRun` wants."""
        if not len(window.slot_M3):
            return []
        model, resident = self.model, self._resident(window.turn)
        queries = Queries(model, window.slot_M3, self.num_relations, self.seed)
        queries.begin(window.turn.epoch)
        negatives = Negatives(model, resident.slots, queries.answer_N, self.num_negatives, self.seed)
        cuts = queries.cuts(self._batch_size(resident), model.batch_size)
        return [
            (2 * window.before + start, Asked(queries, start, stop, resident, negatives, window.total))
            for start, stop in pairwise(cuts)
        ]

    def step(self, batch: Batch) -> Stats:
        """Train a batch; several threads may at once."""
        began = time.thread_time()
        asked: Asked = batch.made
        queries, place = asked.batch(), batch.place
        candidates = asked.negatives.of(queries, place.epoch, place.position)
        shares = asked.resident.shares(queries, candidates, self.num_relations)
        progress = (place.epoch + place.position / (2 * asked.total)) / self.walk.epochs
        loss = self._worker(batch.table_SC).step(queries, candidates, self.learning_rate(progress), shares)
        items = asked.stop // 2 - asked.start // 2  # a triple has two examples
        with self._lock:
            self.items += items
        return Stats(items, loss, asked.stop - asked.start, time.thread_time() - began)

    def _resident(self, turn: Turn) -> Resident:
        held = sorted(turn.held, key=lambda place: place.block)
        place_of_block = np.zeros(self.walk.blocks, np.int64)
        place_of_block[[block for _, block in held]] = np.arange(len(held))
        weight_2HH = None if len(held) == self.parts.partitions else self._weights(turn, [part for part, _ in held])
        return Resident([self._slots(place) for place in held], place_of_block, self._block_rows, weight_2HH)

    def _slots(self, place: Place) -> Range:
        """Those of a partition's rows."""
        first, bounds = place.block * self._block_rows, self.parts.bounds
        return first, first + int(bounds[place.part + 1] - bounds[place.part])

    def _weights(self, turn: Turn, held: Sequence[int]) -> np.ndarray:
        """What negatives count; `Resident` says how."""
        if turn.epoch != self._epoch:
            assert self.count_PP is not None
            self._epoch = turn.epoch
            self._ways = ways_asked(self.walk.states_of(turn.epoch), self.count_PP, self.model.has_relations)
        weight_2HH = np.stack([noise_weights(held, asked_P, joint_PP) for asked_P, joint_PP in self._ways])
        if self.num_negatives:
            weight_2HH *= np.float32(noise_there(held, np.diff(self.parts.bounds)))
        return weight_2HH

    def _batch_size(self, resident: Resident) -> int:
        """Examples."""
        if self.num_negatives:
            return self.model.batch_size
        there = sum(stop - start for start, stop in resident.slots)
        return max(1, self.model.batch_size * there // self.parts.num_entities)

    def _worker(self, table_SC: np.ndarray) -> TripleWorker:
        """Of this thread."""
        if getattr(self._own, "worker", None) is None:
            self._own.worker = make_worker(self.model, table_SC, self.relation_RC, self.dense)
        found: TripleWorker = self._own.worker
        return found


def ways_asked(
    states: Sequence[State], count_PP: np.ndarray, has_relations: bool
) -> list[tuple[np.ndarray, np.ndarray]]:
    """For queries for tails, and for heads: those about an entity of each partition, and their `resident_counts`.

    Without relations heads and tails are asked for at once: both are the same then. count_PP: triples.
    """
    turned = [State(state.held, tuple((j, i) for i, j in state.buckets)) for state in states]
    ways = [
        (way_PP.sum(axis=1), resident_counts(order, way_PP))
        for order, way_PP in ((states, count_PP), (turned, count_PP.T))
    ]
    if has_relations:
        return ways
    (of_tails_P, tails_PP), (of_heads_P, heads_PP) = ways
    return 2 * [(of_tails_P + of_heads_P, tails_PP + heads_PP)]

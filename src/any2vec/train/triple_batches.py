"""The learner of triples where some of the rows are in memory: it cuts windows of triples into batches.

What a state of the buffer trains is the triples of some buckets: given an entity of partition i, tails stand in the
partitions j whose bucket (i, j) is among them, heads in those whose bucket (j, i) is. Only entities of these are
negatives of the question. With all that are resident, a state would teach that answers stand where its buckets have
them, and not in partitions whose bucket with i has its turn in another state, which would teach the contrary. As it
is, a state learns which answer it is, given that it stands in one of these partitions: a model that is right about all
entities is right about that, too. Besides, whatever answers a query there is trained now, so no true answer is taken
for a negative (where a state's triples are several windows: of the same window).

Questions with negatives in the same partitions come together in batches, which come in random order.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from any2vec.data.entity_parts import EntityParts
from any2vec.kernels.rng import PURPOSE_ORDER, stream_key
from any2vec.models.rates import linear_rate
from any2vec.models.triple_config import TripleModel
from any2vec.models.triple_questions import QuestionBatch, Questions
from any2vec.models.triple_worker import Negatives, Range, TripleWorker
from any2vec.plan.buffer import block_rows
from any2vec.plan.buffer_walk import Place, Turn
from any2vec.sampling.triple_windows import Window
from any2vec.tables.row_optimiser import RowOptimiser
from any2vec.train.out_of_core import Batch
from any2vec.types import Stats


@dataclass(frozen=True)
class Asked:
    """Questions [start, stop) of a window."""

    questions: Questions
    start: int
    stop: int
    open_slots: Sequence[Range]
    """where their answers and negatives stand"""
    answer_N: np.ndarray
    """answers of all questions that have them there; none, where no negatives are drawn by degree"""
    total: int
    """triples of the epoch; the learning rate follows the share of the run that lies behind"""

    def batch(self) -> QuestionBatch:
        return self.questions.batch(self.start, self.stop)


class WindowLearner:
    """Trains windows of triples, whose questions come together where they ask the same, as they do in memory.

    Args:
        relation_RC: rows of relations, float32, changed in place by all threads.
        parts: of the table. Where all entities would be negatives, batches are smaller as there are fewer in memory: so
            each row is stepped as often in an epoch as if all were, by as many questions at a time.
    """

    def __init__(
        self, model: TripleModel, relation_RC: np.ndarray, parts: EntityParts, num_relations: int, epochs: int,
        seed: int,
    ) -> None:  # fmt: skip
        self.model, self.relation_RC, self.num_relations, self.seed = model, relation_RC, num_relations, seed
        self.parts, self.epochs = parts, epochs
        self.num_negatives = model.negatives_of(parts.num_entities)
        most = -(-parts.num_entities // parts.partitions)
        self._block_rows = block_rows(most, 4 * RowOptimiser(model.dim).num_columns)
        self.items = 0
        """triples trained so far"""
        self._own = threading.local()
        self._lock = threading.Lock()

    def learning_rate(self, progress: float) -> float:
        """Learning rate at a share of the whole run, 0..1."""
        return linear_rate(self.model, progress)

    def arrange(self, window: Window) -> list[tuple[int, Asked]]:
        """Its batches, each with the questions of the epoch that come before it; what `OutOfCoreRun` wants."""
        return self._batches(window) if len(window.slot_M3) else []

    def step(self, batch: Batch) -> Stats:
        """Train a batch; several threads may at once."""
        began = time.thread_time()
        asked: Asked = batch.made
        questions, place = asked.batch(), batch.place
        negatives = Negatives(self.model, asked.open_slots, asked.answer_N, self.num_negatives, self.seed).of(
            questions, place.epoch, place.position
        )
        progress = (place.epoch + place.position / (2 * asked.total)) / self.epochs
        loss = self._worker(batch.table_SC).step(questions, negatives, self.learning_rate(progress))
        items = asked.stop // 2 - asked.start // 2  # a triple has two questions
        with self._lock:
            self.items += items
        return Stats(items, loss, asked.stop - asked.start, time.thread_time() - began)

    def _batches(self, window: Window) -> list[tuple[int, Asked]]:
        turn, model = window.turn, self.model
        questions = Questions(model, window.slot_M3, self.num_relations, self.seed)
        slots = [self._slots(place) for place in turn.held]
        open_parts, class_2P = open_classes(turn, model.has_relations)
        block_P = np.array([block for _, block in turn.held])
        order_P = np.argsort(block_P)
        part_G = order_P[np.searchsorted(block_P[order_P], questions.given_G // self._block_rows)]
        class_G = class_2P[questions.asks_heads_G.astype(np.int64), part_G]
        questions.begin(turn.epoch, class_G)
        size, first, found = self._batch_size(turn), 0, []
        for number, parts in enumerate(open_parts):
            stop = first + int(questions.count_G[class_G == number].sum())
            if stop == first:
                continue
            open_slots = [slots[part] for part in parts]
            answer_N = questions.batch(first, stop).answer_B if model.degree_share else np.empty(0, np.int64)
            for start, end in pairwise(questions.cuts(first, stop, size, model.batch_size)):
                found.append(Asked(questions, start, end, open_slots, answer_N, window.total))
            first = stop
        key = int(stream_key(self.seed, PURPOSE_ORDER, turn.epoch))
        order = np.random.default_rng((key, window.before)).permutation(len(found))
        batches = [found[number] for number in order.tolist()]
        sizes = [asked.stop - asked.start for asked in batches[:-1]]
        return list(zip(accumulate(sizes, initial=2 * window.before), batches, strict=True))

    def _slots(self, place: Place) -> Range:
        """Those of a partition's rows."""
        first, bounds = place.block * self._block_rows, self.parts.bounds
        return first, first + int(bounds[place.part + 1] - bounds[place.part])

    def _batch_size(self, turn: Turn) -> int:
        """Questions."""
        if self.num_negatives:
            return self.model.batch_size
        resident = sum(stop - start for start, stop in map(self._slots, turn.held))
        return max(1, self.model.batch_size * resident // self.parts.num_entities)

    def _worker(self, table_SC: np.ndarray) -> TripleWorker:
        """Of this thread."""
        if getattr(self._own, "worker", None) is None:
            self._own.worker = TripleWorker(self.model, table_SC, self.relation_RC)
        found: TripleWorker = self._own.worker
        return found


def open_classes(turn: Turn, has_relations: bool) -> tuple[list[tuple[int, ...]], np.ndarray]:
    """In which partitions questions have their answers now; partitions are numbered as turn.held has them.

    Returns:
        The classes of questions, by the partitions; and the class of questions for the tails, and for the heads, of
        what stands in each partition, int64 (2, P). Without relations heads and tails are asked for at once.
    """
    at = {part: number for number, (part, _) in enumerate(turn.held)}
    is_open_2PP = np.zeros((2, len(at), len(at)), np.bool_)
    for head_part, tail_part in turn.buckets:
        head, tail = at[head_part], at[tail_part]
        is_open_2PP[0, head, tail] = is_open_2PP[1, tail, head] = True
    if not has_relations:
        is_open_2PP[:] = is_open_2PP.any(axis=0)
    is_open_NP, class_N = np.unique(is_open_2PP.reshape(-1, len(at)), axis=0, return_inverse=True)
    return [tuple(np.flatnonzero(is_open_P).tolist()) for is_open_P in is_open_NP], class_N.reshape(2, -1)

"""The questions that triples ask, those of one query together, in an order of their own in each epoch.

Letters: M triples, N = 2 M questions, G queries (pairs of an entity and a way to read a relation), Q queries and B
questions of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from any2vec.kernels.rng import PURPOSE_ORDER, stream_key
from any2vec.models.triple_config import TripleModel


@dataclass(frozen=True)
class QuestionBatch:
    """Questions b of query q are first_Q1[q] <= b < first_Q1[q + 1]; all int64 but is_turned_Q, bool."""

    given_Q: np.ndarray
    """slots of entities"""
    relation_Q: np.ndarray
    """rows of the table of relations"""
    is_turned_Q: np.ndarray
    """the relation's row is read from its tails to its heads"""
    first_Q1: np.ndarray
    answer_B: np.ndarray
    """slots of entities"""


def ways_of(model: TripleModel, num_relations: int) -> tuple[np.ndarray, np.ndarray]:
    """(row of the table of relations int64, whether it is read the other way round) of 2 x num_relations ways.

    Way r asks for tails of relation r, way num_relations + r for its heads.
    """
    relation = np.arange(2 * num_relations)
    if not model.has_relations:
        return np.zeros_like(relation), np.zeros(len(relation), np.bool_)
    if model.reciprocal:
        return relation, np.zeros(len(relation), np.bool_)
    return relation % num_relations, relation >= num_relations


def _order_of(way_N: np.ndarray, given_N: np.ndarray) -> np.ndarray:
    """`np.lexsort((given_N, way_N))` of whole numbers, 0 and up; where they fit, each key is one number with its place,
    and what is sorted is numbers, which takes a tenth of the time."""
    slots = int(given_N.max()) + 1
    places = (len(given_N) - 1).bit_length()
    if ((int(way_N.max()) + 1) * slots - 1).bit_length() + places > 64:
        return np.lexsort((given_N, way_N))
    key_N = way_N.astype(np.uint64)
    key_N *= np.uint64(slots)
    key_N += given_N.astype(np.uint64)
    key_N <<= np.uint64(places)
    key_N |= np.arange(len(key_N), dtype=np.uint64)
    key_N.sort()
    key_N &= np.uint64((1 << places) - 1)
    return key_N.astype(np.int64)


class Questions:
    """Both questions of each triple.

    Args:
        triple_M3: int (M, 3): slot of the head, relation, slot of the tail; M is 1 or more.
        num_relations: more than any relation.
    """

    def __init__(self, model: TripleModel, triple_M3: np.ndarray, num_relations: int, seed: int) -> None:
        head_M, relation_M, tail_M = (np.ascontiguousarray(column, np.int64) for column in triple_M3.T)
        given_N = np.concatenate([head_M, tail_M])
        way_N = np.concatenate([relation_M, relation_M + num_relations])
        relation_of_way, is_turned_way = ways_of(model, num_relations)
        if not model.has_relations:
            way_N[:] = 0
        order_N = _order_of(way_N, given_N)
        given_N, way_N = given_N[order_N], way_N[order_N]
        is_first_N = np.ones(len(given_N), np.bool_)
        is_first_N[1:] = (np.diff(given_N) != 0) | (np.diff(way_N) != 0)
        start_G = np.flatnonzero(is_first_N)
        self._first_G1 = np.append(start_G, len(given_N))
        self.count_G = np.diff(self._first_G1)
        """questions of each query, int64"""
        self.given_G = given_N[start_G]
        """slots of entities, int64"""
        self.asks_heads_G = way_N[start_G] >= num_relations
        """bool; never true where heads and tails are asked for alike, for there are no relations"""
        self._relation_G = relation_of_way[way_N[start_G]]
        self._is_turned_G = is_turned_way[way_N[start_G]]
        self.answer_N = np.concatenate([tail_M, head_M])[order_N]
        self._seed = seed
        self._order: tuple[int, np.ndarray, np.ndarray] = (-1, start_G, start_G)

    def cuts(self, start: int, stop: int, size: int, most: int) -> list[int]:
        """Where batches of questions [start, stop), in the order of the epoch, begin and end.

        They have about `size` questions, and end where queries do; longer ones than `most` are cut all the same.
        """
        at_G1 = self._order[2]
        near = at_G1[np.searchsorted(at_G1, _pieces(start, stop, size))].tolist()
        return [cut for low, high in pairwise(near) for cut in _pieces(low, high, most)[:-1]] + [stop]

    @property
    def num_questions(self) -> int:
        return len(self.answer_N)

    def begin(self, epoch: int, class_G: np.ndarray | None = None) -> None:
        """Lay down the order of an epoch; before any of its batches is asked for, and by one thread.

        class_G: int, of each query: those of lower classes come first. Always the same ones.
        """
        if self._order[0] == epoch:
            return
        rng = np.random.Generator(np.random.PCG64(int(stream_key(self._seed, PURPOSE_ORDER, epoch))))
        order_G = rng.permutation(len(self.given_G))
        if class_G is not None:
            order_G = order_G[np.argsort(class_G[order_G], kind="stable")]
        first_G1 = np.concatenate([[0], np.cumsum(np.diff(self._first_G1)[order_G])])
        self._order = (epoch, order_G, first_G1)

    def batch(self, start: int, stop: int) -> QuestionBatch:
        """Questions [start, stop) in the order of the epoch."""
        _, order_G, at_G1 = self._order
        low, high = np.searchsorted(at_G1, start, "right") - 1, np.searchsorted(at_G1, stop, "left")
        query_Q = order_G[low:high]
        begin_Q = np.maximum(at_G1[low:high], start)
        count_Q = np.minimum(at_G1[low + 1 : high + 1], stop) - begin_Q
        first_Q1 = np.concatenate([[0], np.cumsum(count_Q)])
        source_Q = self._first_G1[query_Q] + begin_Q - at_G1[low:high]
        place_B = np.repeat(source_Q - first_Q1[:-1], count_Q) + np.arange(stop - start)
        return QuestionBatch(
            self.given_G[query_Q], self._relation_G[query_Q], self._is_turned_G[query_Q], first_Q1,
            self.answer_N[place_B],
        )  # fmt: skip


def _pieces(start: int, stop: int, size: int) -> list[int]:
    """Where pieces of nearly equal length, `size` at most, begin and end."""
    number = -(-(stop - start) // size)
    return [start + (stop - start) * piece // number for piece in range(number + 1)] if number else [start]

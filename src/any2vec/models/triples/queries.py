"""The training examples of triples, grouped by query, in another random order in each epoch.

Letters: M triples, N = 2 M examples, G queries (pairs of an entity and a way to read a relation), Q queries and B
examples of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from any2vec.kernels.common.ranges import positions_in
from any2vec.kernels.common.rng import PURPOSE_ORDER, stream_key
from any2vec.kernels.triples.query_batches import group_queries, pack_queries
from any2vec.models.triples.config import TripleModel


@dataclass(frozen=True)
class QueryBatch:
    """Examples b of query q are first_Q1[q] <= b < first_Q1[q + 1]; all int64 but is_turned_Q, bool."""

    given_Q: np.ndarray
    """slots of entities"""
    relation_Q: np.ndarray
    """rows of the table of relations"""
    is_turned_Q: np.ndarray
    """the relation's row is read from its tails to its heads"""
    first_Q1: np.ndarray
    answer_B: np.ndarray
    """slots of entities"""

    def heads_asked(self, num_relations: int) -> np.ndarray:
        """Bool; never true where heads and tails are asked for alike, for there are no relations."""
        return self.is_turned_Q | (self.relation_Q >= num_relations)


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


class Queries:
    """Both examples of each triple: (head, relation, ?) and (?, relation, tail).

    Args:
        triple_M3: int (M, 3): slot of the head, relation, slot of the tail; M is 1 or more.
        num_relations: more than any relation.
    """

    def __init__(self, model: TripleModel, triple_M3: np.ndarray, num_relations: int, seed: int) -> None:
        relations = num_relations if model.has_relations else 0
        first_G1, given_G, way_G, self.answer_N = _grouped(triple_M3, relations)
        relation_of_way, is_turned_way = ways_of(model, num_relations)
        self._first_G1, self._given_G = first_G1, given_G
        self._relation_G, self._is_turned_G = relation_of_way[way_G], is_turned_way[way_G]
        self._seed = seed
        self._order: tuple[int, np.ndarray, np.ndarray] = (-1, given_G, given_G)

    def cuts(self, size: int, most: int) -> list[int]:
        """Where batches of examples, in the order of the epoch, begin and end.

        They have about `size` examples, and end where queries do; longer ones than `most` are cut all the same.
        """
        at_G1 = self._order[2]
        near = at_G1[np.searchsorted(at_G1, _pieces(0, self.num_queries, size))].tolist()
        return [cut for low, high in pairwise(near) for cut in _pieces(low, high, most)[:-1]] + [self.num_queries]

    @property
    def num_queries(self) -> int:
        return len(self.answer_N)

    def begin(self, epoch: int) -> None:
        """Lay down the order of an epoch; before any of its batches is asked for, and by one thread."""
        if self._order[0] == epoch:
            return
        rng = np.random.Generator(np.random.PCG64(int(stream_key(self._seed, PURPOSE_ORDER, epoch))))
        order_G = rng.permutation(len(self._given_G))
        first_G1 = np.concatenate([[0], np.cumsum(np.diff(self._first_G1)[order_G])])
        self._order = (epoch, order_G, first_G1)

    def batch(self, start: int, stop: int) -> QueryBatch:
        """Examples [start, stop) in the order of the epoch."""
        _, order_G, at_G1 = self._order
        low, high = np.searchsorted(at_G1, start, "right") - 1, np.searchsorted(at_G1, stop, "left")
        query_Q = order_G[low:high]
        begin_Q = np.maximum(at_G1[low:high], start)
        count_Q = np.minimum(at_G1[low + 1 : high + 1], stop) - begin_Q
        first_Q1 = np.concatenate([[0], np.cumsum(count_Q)])
        source_Q = self._first_G1[query_Q] + begin_Q - at_G1[low:high]
        place_B = positions_in(source_Q, source_Q + count_Q)
        return QueryBatch(
            self._given_G[query_Q], self._relation_G[query_Q], self._is_turned_G[query_Q], first_Q1,
            self.answer_N[place_B],
        )  # fmt: skip


_Grouped = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""first example of each query, and their number; its entity; its way; and the answers of all examples: int64"""


def _grouped(triple_M3: np.ndarray, num_relations: int) -> _Grouped:
    """Examples by query, those of one query as their triples stand, for tails first; num_relations: 0: all are one."""
    size = 2 * len(triple_M3)
    given_bits = int(triple_M3[:, ::2].max()).bit_length()
    place_bits = (size - 1).bit_length()
    if given_bits + place_bits + (2 * num_relations).bit_length() > 64:
        return _grouped_by_columns(triple_M3, num_relations)
    key_N, answer_N, sorted_N = np.empty(size, np.uint64), np.empty(size, np.int64), np.empty(size, np.int64)
    pack_queries(triple_M3, num_relations, given_bits, place_bits, key_N, answer_N)
    key_N.sort()  # numbers: a tenth of the time of an order by columns
    first_G1, given_G, way_G = np.empty(size + 1, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    groups = group_queries(key_N, given_bits, place_bits, answer_N, sorted_N, first_G1, given_G, way_G)
    return first_G1[: groups + 1].copy(), given_G[:groups].copy(), way_G[:groups].copy(), sorted_N


def _grouped_by_columns(triple_M3: np.ndarray, num_relations: int) -> _Grouped:
    """The same, where a query and a place are more than one number."""
    head_M, relation_M, tail_M = (np.ascontiguousarray(column, np.int64) for column in triple_M3.T)
    given_N = np.concatenate([head_M, tail_M])
    way_N = np.concatenate([relation_M, relation_M + num_relations])
    if not num_relations:
        way_N[:] = 0
    order_N = np.lexsort((given_N, way_N))
    given_N, way_N = given_N[order_N], way_N[order_N]
    is_first_N = np.ones(len(given_N), np.bool_)
    is_first_N[1:] = (np.diff(given_N) != 0) | (np.diff(way_N) != 0)
    start_G = np.flatnonzero(is_first_N)
    answer_N = np.concatenate([tail_M, head_M])[order_N]
    return np.append(start_G, len(given_N)), given_N[start_G], way_N[start_G], answer_N


def _pieces(start: int, stop: int, size: int) -> list[int]:
    """Where pieces of nearly equal length, `size` at most, begin and end."""
    number = -(-(stop - start) // size)
    return [start + (stop - start) * piece // number for piece in range(number + 1)] if number else [start]

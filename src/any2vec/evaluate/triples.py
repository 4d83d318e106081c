"""Knowledge graphs: how high does a model rank the true head or tail of a held-out triple among all entities?

Filtered, both sides, over all entities, as is usual (Bordes et al. 2013): other answers that are known to be true, from
training, validation or test, do not count. A tie counts half, the realistic rank of Berrendorf et al. (2020): a model
that scores everything alike ranks in the middle, not first.

Letters: M triples, Q queries, B of them in a block, N entities, K known answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from any2vec.checks import check_choice
from any2vec.data.options import TripleOptions
from any2vec.data.triples.triples import TripleReport, Triples, read_triples
from any2vec.data.vocab.user_keys import UserKeys
from any2vec.data.vocab.vocabulary import Keys
from any2vec.errors import DataError, FormatError, InputError
from any2vec.kernels.common.ranges import positions_in

HITS = (1, 3, 10)
_BLOCK_NUMBERS = 1 << 23
"""scores of a block"""
Scores = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(known entities int64 (B,), relations int64 (B,)) -> scores of all entities, float32 (B, N), higher is better"""


@dataclass(frozen=True)
class RankMetrics:
    """Of the ranks of some queries; all but mean_rank and count in 0..1."""

    mrr: float
    """mean of 1 / rank"""
    hits_at_1: float
    """share of queries whose rank is at most that"""
    hits_at_3: float
    hits_at_10: float
    mean_rank: float
    """1..N"""
    count: int
    """queries"""

    @classmethod
    def of(cls, rank_Q: np.ndarray) -> RankMetrics:
        """Of realistic ranks, 1 and up; Q >= 1."""
        hits = {f"hits_at_{most}": float((rank_Q <= most).mean()) for most in HITS}
        return cls(mrr=float((1 / rank_Q).mean()), mean_rank=float(rank_Q.mean()), count=len(rank_Q), **hits)


@dataclass(frozen=True)
class RelationResult:
    """Ranks of the triples of one relation."""

    relation: Any
    """its name, or its row where rows were given; None: those that the model was not trained on"""
    both: RankMetrics
    """queries for heads and for tails"""
    head: RankMetrics
    tail: RankMetrics


@dataclass(frozen=True)
class TriplesResult:
    """Ranks of both sides together, of each side and of each relation; all but mean_rank in 0..1."""

    mrr: float
    """mean of 1 / rank"""
    hits_at_1: float
    """share of queries whose rank is at most that"""
    hits_at_3: float
    hits_at_10: float
    mean_rank: float
    """1..N"""
    num_triples: int
    num_unknown: int
    """triples with an entity or relation that the model has no row for; their ranks are the middle of all"""
    sides: Mapping[str, RankMetrics]
    """"head": queries for heads; "tail": for tails"""
    relations: tuple[RelationResult, ...]
    """the most frequent first, of those as frequent in the order of the model's rows"""

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"task": "triples", **asdict(self)}


class Known:
    """The answers that are true: for a pair of an entity and a relation, the entities on the other side.

    Args:
        given_M, relation_M, answer_M: int64 (M,) each.
        num_relations: more than any relation.
    """

    def __init__(self, given_M: np.ndarray, relation_M: np.ndarray, answer_M: np.ndarray, num_relations: int) -> None:
        self.num_relations = num_relations
        query_M = self._query(given_M, relation_M)
        order = np.lexsort((answer_M, query_M))
        query_M, answer_M = query_M[order], answer_M[order]
        is_first = np.ones(len(order), bool)
        is_first[1:] = (np.diff(query_M) != 0) | (np.diff(answer_M) != 0)
        self._query_K, self._answer_K = query_M[is_first], answer_M[is_first]

    def pairs(self, given_B: np.ndarray, relation_B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(place in the block int64 (K,), answer int64 (K,)) of all known answers to these queries."""
        query_B = self._query(given_B, relation_B)
        start_B, stop_B = (np.searchsorted(self._query_K, query_B, side) for side in ("left", "right"))
        return np.repeat(np.arange(len(query_B)), stop_B - start_B), self._answer_K[positions_in(start_B, stop_B)]

    def _query(self, given: np.ndarray, relation: np.ndarray) -> np.ndarray:
        return np.asarray(given, np.int64) * self.num_relations + relation


def answering(true_M3: np.ndarray, asked_Q3: np.ndarray, place: int) -> np.ndarray:
    """The triples whose two other parts are asked about: all that can answer queries for this place, and some more."""
    for part in range(3):
        if part != place:
            true_M3 = true_M3[np.isin(true_M3[:, part], asked_Q3[:, part])]
    return true_M3


def filtered_ranks(
    scores: Scores, given_Q: np.ndarray, relation_Q: np.ndarray, answer_Q: np.ndarray, known: Known, num_entities: int
) -> np.ndarray:
    """Realistic ranks, float64 (Q,), 1 and up: 1 + entities that score higher + half of those that score alike.

    Raises:
        DataError: a score is no number.
    """
    rank_Q = np.empty(len(answer_Q), np.float64)
    for part in _blocks(len(answer_Q), num_entities):
        score_BN = scores(given_Q[part], relation_Q[part])
        own_B = score_BN[np.arange(len(score_BN)), answer_Q[part]]
        if not np.isfinite(own_B).all():
            raise DataError("The model scores a triple with no number: its training has diverged.")
        place_K, answer_K = known.pairs(given_Q[part], relation_Q[part])
        other_K = score_BN[place_K, answer_K]
        is_other_K = answer_K != answer_Q[part][place_K]
        above_B = (score_BN > own_B[:, None]).sum(axis=1)
        alike_B = (score_BN == own_B[:, None]).sum(axis=1) - 1  # itself
        size = len(own_B)
        above_B -= np.bincount(place_K[is_other_K & (other_K > own_B[place_K])], minlength=size)
        alike_B -= np.bincount(place_K[is_other_K & (other_K == own_B[place_K])], minlength=size)
        rank_Q[part] = 1 + above_B + 0.5 * alike_B
    return rank_Q


def evaluate_triples(
    head_scores: Scores, tail_scores: Scores, test_M3: np.ndarray, all_M3: Sequence[np.ndarray], num_entities: int,
    num_relations: int,
) -> TriplesResult:  # fmt: skip
    """Ranks of held-out triples, together, by side and by relation.

    Args:
        head_scores: of (tails, relations); tail_scores: of (heads, relations).
        test_M3: int64 (M, 3): head, relation, tail, by row; -1: the model has no row for it.
        all_M3: every set of triples that is true: training, validation, test.
        num_entities, num_relations: that the model has rows for.

    Raises:
        InputError: there is nothing to test, or triples are no rows.
        DataError: a score is no number.
    """
    for name, rows in (("test_M3", test_M3), *(("all_M3", part) for part in all_M3)):
        _check_rows(name, rows)
    if not len(test_M3):
        raise InputError("There are no triples to test.")
    is_known_M = (test_M3 >= 0).all(axis=1)
    true_M3 = np.concatenate([test_M3[:0], *(part[(part >= 0).all(axis=1)] for part in all_M3)])
    middle = (num_entities + 1) / 2
    asked, ranks = test_M3[is_known_M], []
    for scores, given, answer in ((head_scores, 2, 0), (tail_scores, 0, 2)):
        side_M3 = answering(true_M3, asked, answer)
        known = Known(side_M3[:, given], side_M3[:, 1], side_M3[:, answer], num_relations)
        rank_M = np.full(len(test_M3), middle)
        rank_M[is_known_M] = filtered_ranks(scores, asked[:, given], asked[:, 1], asked[:, answer], known, num_entities)
        ranks.append(rank_M)
    both = RankMetrics.of(np.concatenate(ranks))
    return TriplesResult(
        mrr=both.mrr, hits_at_1=both.hits_at_1, hits_at_3=both.hits_at_3, hits_at_10=both.hits_at_10,
        mean_rank=both.mean_rank, num_triples=len(test_M3), num_unknown=int((~is_known_M).sum()),
        sides={side: RankMetrics.of(rank_M) for side, rank_M in zip(("head", "tail"), ranks, strict=True)},
        relations=_by_relation(test_M3[:, 1], *ranks),
    )  # fmt: skip


def _check_rows(name: str, rows: Any) -> None:
    if not isinstance(rows, np.ndarray) or rows.dtype.kind not in "iu" or rows.ndim != 2 or rows.shape[1] != 3:
        got = f"{rows.dtype} {rows.shape}" if isinstance(rows, np.ndarray) else type(rows).__name__
        raise InputError(
            f"{name} has triples by row, arrays int (M, 3), got {got}; evaluate_triple_file takes files and tables."
        )


def _by_relation(relation_M: np.ndarray, head_M: np.ndarray, tail_M: np.ndarray) -> tuple[RelationResult, ...]:
    """From ranks of both sides."""
    order_M = np.argsort(relation_M, kind="stable")
    relation_R, first_R, count_R = np.unique(relation_M[order_M], return_index=True, return_counts=True)
    found = []
    for place in np.lexsort((relation_R, -count_R)):
        part = order_M[first_R[place] : first_R[place] + count_R[place]]
        ranks = np.concatenate([head_M[part], tail_M[part]]), head_M[part], tail_M[part]
        relation = int(relation_R[place])
        found.append(RelationResult(None if relation < 0 else relation, *map(RankMetrics.of, ranks)))
    return tuple(found)


def _blocks(count: int, num_entities: int) -> Iterator[slice]:
    size = max(1, _BLOCK_NUMBERS // max(1, num_entities))
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


UNKNOWN = ("middle", "skip", "error")


class Scorer(Protocol):
    """What is needed of `any2vec.TripleScorer`."""

    triples: np.ndarray
    """int (M, 3): those of training, by row"""
    options: TripleOptions
    """how they were read"""

    @property
    def entities(self) -> Sequence[Any]: ...

    @property
    def relations(self) -> Sequence[Any]: ...

    def head_scores(self, tail_B: np.ndarray, relation_B: np.ndarray) -> np.ndarray: ...

    def tail_scores(self, head_B: np.ndarray, relation_B: np.ndarray) -> np.ndarray: ...

    def score_rows(self, triple_M3: np.ndarray) -> np.ndarray: ...


def evaluate_triple_file(
    scorer: Scorer, test: Any, known: Sequence[Any] = (), unknown: str = "middle", options: TripleOptions | None = None
) -> TriplesResult:
    """Filtered ranks of the triples of a file, both sides.

    Args:
        test: whatever `read_triples` reads.
        known: further sets that are true (of validation, say): their triples are no wrong answers. Those of training
            and of the test itself never are.
        unknown: triples with a name that the model has no row for: middle, they rank in the middle of all entities;
            skip, they are left out; error, they are refused.
        options: how all of them are read; None: as those of training were, where they can be (a table that has the
            columns, text of the delimiter).

    Raises:
        InputError: unknown is not legal.
        DataError: a file cannot be read; no triple is known by name, or, with error, not each one is.
        FormatError: the triples of training are damaged.
    """
    check_choice("unknown", unknown, UNKNOWN)
    names, reading = named(scorer), options or scorer.options
    test_M3, *known_M3 = (
        read_triples(one, reading, known=names, is_of_training=options is None).rows() for one in (test, *known)
    )
    is_known_M = (test_M3 >= 0).all(axis=1)
    if not is_known_M.any():
        if (test_M3[:, [0, 2]] >= 0).any() and (test_M3[:, 1] < 0).all():
            raise DataError(
                f"{test} has entities that the model was trained on, but with none of its relations, such as "
                f"{scorer.relations[0]!r}; give head, relation and tail by the names of training."
            )
        raise DataError(
            f"Each of the {len(test_M3):,} triples of {test} has a name that the model was not trained on; it "
            f"knows names {_shown(scorer)}: give triples of the same graph."
        )
    if unknown == "error" and not is_known_M.all():
        raise DataError(
            f"{(~is_known_M).sum():,} of the {len(test_M3):,} triples of {test} have an entity or relation that the "
            "model was not trained on; let them rank in the middle (--unknown middle) or leave them out (skip)."
        )
    for one, known_3 in zip(known, known_M3, strict=True):
        if len(known_3) and not (known_3 >= 0).all(axis=1).any():
            raise DataError(
                f"None of the {len(known_3):,} known triples of {one} has the names of training; give head, relation "
                "and tail as there."
            )
    if unknown == "skip":
        test_M3 = test_M3[is_known_M]
    true_M3 = [_seen(scorer), test_M3, *known_M3]
    found = evaluate_triples(
        scorer.head_scores, scorer.tail_scores, test_M3, true_M3, len(scorer.entities), len(scorer.relations)
    )
    return replace(found, relations=tuple(_with_name(one, scorer.relations) for one in found.relations))


def _with_name(result: RelationResult, names: Sequence[str]) -> RelationResult:
    return result if result.relation is None else replace(result, relation=names[result.relation])


def _seen(scorer: Scorer) -> np.ndarray:
    """The triples of training, int64 (M, 3). FormatError: one is not of rows that the model has."""
    triple_M3, rows_3 = np.asarray(scorer.triples), [len(scorer.entities), len(scorer.relations), len(scorer.entities)]
    if triple_M3.dtype.kind not in "iu" or ((triple_M3 < 0) | (triple_M3 >= rows_3)).any():
        raise FormatError("The triples that the model was trained on are damaged: a number is of no row; train again.")
    return triple_M3.astype(np.int64)


def score_triple_file(scorer: Scorer, data: Path | str) -> Iterator[str]:
    """A line for each triple of a file, its names and its score.

    Raises:
        DataError: the file cannot be read, or has a name that the model was not trained on.
    """
    triple_M3 = read_triples(data, scorer.options, known=named(scorer), is_of_training=True).rows()
    if (triple_M3 < 0).any():
        number = 1 + int(np.argmax((triple_M3 < 0).any(axis=1)))
        raise DataError(
            f"Triple {number:,} of {data} has a name that the model was not trained on; it knows names "
            f"{_shown(scorer)}: leave the triple out."
        )
    for (head, relation, tail), score in zip(triple_M3.tolist(), scorer.score_rows(triple_M3).tolist(), strict=True):
        yield f"{scorer.entities[head]}\t{scorer.relations[relation]}\t{scorer.entities[tail]}\t{score:.9g}\n"


def named(scorer: Scorer) -> Triples:
    """No triples, but the names that have rows: what `read_triples` takes as `known`."""
    entities, relations = (Keys.of(UserKeys(keys).names) for keys in (scorer.entities, scorer.relations))
    empty = np.empty(0, np.int32)
    report = TripleReport(num_triples=0, num_entities=len(entities), num_relations=len(relations))
    return Triples(empty, empty, empty, entities, relations, report)


def _shown(scorer: Scorer) -> str:
    """A few of the model's names."""
    return f"such as {scorer.entities[0]!r} and {scorer.relations[0]!r}"

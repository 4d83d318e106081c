"""Held-out triples in a file, ranked by a model that is trained on others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from any2vec.checks import check_choice
from any2vec.data.triples.triples import TripleReport, Triples, read_triples
from any2vec.data.vocab.vocabulary import Keys
from any2vec.errors import DataError
from any2vec.evaluate.triples import TriplesResult, evaluate_triples

UNKNOWN = ("middle", "skip", "error")


class Scorer(Protocol):
    """What is needed of `any2vec.TripleScorer`."""

    entities: Sequence[str]
    relations: Sequence[str]
    triples: np.ndarray
    """int (M, 3): those of training, by row"""

    def head_scores(self, tail_B: np.ndarray, relation_B: np.ndarray) -> np.ndarray: ...

    def tail_scores(self, head_B: np.ndarray, relation_B: np.ndarray) -> np.ndarray: ...

    def score(self, triple_M3: np.ndarray) -> np.ndarray: ...


def evaluate_triple_file(
    scorer: Scorer, test: Path | str, known: Sequence[Path | str] = (), unknown: str = "middle"
) -> TriplesResult:
    """Filtered ranks of the triples of a file, both sides.

    Args:
        test: whatever `read_triples` reads.
        known: further sets that are true (of validation, say): their triples are no wrong answers. Those of training
            and of the test itself never are.
        unknown: triples with a name that the model has no row for: middle, they rank in the middle of all entities;
            skip, they are left out; error, they are refused.

    Raises:
        InputError: unknown is not legal.
        DataError: a file cannot be read; no triple is known by name, or, with error, not each one is.
    """
    check_choice("unknown", unknown, UNKNOWN)
    names = _named(scorer)
    test_M3 = read_triples(test, known=names).rows()
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
    if unknown == "skip":
        test_M3 = test_M3[is_known_M]
    true_M3 = [np.asarray(scorer.triples, np.int64), test_M3, *(read_triples(one, known=names).rows() for one in known)]
    return evaluate_triples(
        scorer.head_scores, scorer.tail_scores, test_M3, true_M3, len(scorer.entities), len(scorer.relations)
    )


def score_triple_file(scorer: Scorer, data: Path | str) -> Iterator[str]:
    """A line for each triple of a file, its names and its score.

    Raises:
        DataError: the file cannot be read, or has a name that the model was not trained on.
    """
    triple_M3 = read_triples(data, known=_named(scorer)).rows()
    if (triple_M3 < 0).any():
        number = 1 + int(np.argmax((triple_M3 < 0).any(axis=1)))
        raise DataError(
            f"Triple {number:,} of {data} has a name that the model was not trained on; it knows names "
            f"{_shown(scorer)}: leave the triple out."
        )
    for (head, relation, tail), score in zip(triple_M3.tolist(), scorer.score(triple_M3).tolist(), strict=True):
        yield f"{scorer.entities[head]}\t{scorer.relations[relation]}\t{scorer.entities[tail]}\t{score:.6g}\n"


def _named(scorer: Scorer) -> Triples:
    """No triples, but the names that have rows."""
    entities, relations = Keys.of(scorer.entities), Keys.of(scorer.relations)
    empty = np.empty(0, np.int32)
    report = TripleReport(num_triples=0, num_entities=len(entities), num_relations=len(relations))
    return Triples(empty, empty, empty, entities, relations, report)


def _shown(scorer: Scorer) -> str:
    """A few of the model's names."""
    return f"such as {scorer.entities[0]!r} and {scorer.relations[0]!r}"

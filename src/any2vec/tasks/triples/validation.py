"""Validation of models of triples: a share of them that is held out, and filtered ranks of those, or of a file's.

Legend: M triples, D distinct ones, V entities, R relations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from any2vec.data.options import TripleOptions
from any2vec.data.triples.triples import Triples, read_triples
from any2vec.errors import DataError, InputError
from any2vec.evaluate.triples import evaluate_triples
from any2vec.train.in_memory.validation import Validator
from any2vec.train.result import Result

_MOST_SCORES, _FEWEST = 1 << 31, 100
"""of an epoch's validation: scores of all entities, which bound how many triples are ranked; and triples at least"""
_STREAM = 7
"""number of the random stream by which triples are held out, and sampled"""
_METRICS = ("mrr", "hits_at_1", "hits_at_3", "hits_at_10")


def held_out(triples: Triples, share: float, seed: int) -> tuple[Triples, np.ndarray]:
    """(the triples that train, those held out: int64 (M, 3)), the latter about a share of all, drawn by the seed.

    An entity or relation that no other triple has stays in training. Copies of a triple are on one side together.

    Raises:
        InputError: the share comes to no triple.
    """
    whole_M3 = triples.rows()
    first_M = _first_copies(whole_M3) if triples.report.duplicates else np.arange(len(whole_M3))
    distinct_D = np.flatnonzero(first_M == np.arange(len(first_M)))
    drawn_D = np.random.default_rng((seed, _STREAM)).permutation(len(distinct_D))
    is_held_M = np.zeros(len(whole_M3), bool)
    is_held_M[distinct_D[drawn_D[: round(share * len(distinct_D))]]] = True
    is_held_M = is_held_M[first_M]
    kept_M3 = whole_M3[~is_held_M]
    is_known_V, is_known_R = np.zeros(len(triples.entities), bool), np.zeros(len(triples.relations), bool)
    is_known_V[kept_M3[:, [0, 2]]], is_known_R[kept_M3[:, 1]] = True, True
    is_held_M &= is_known_V[whole_M3[:, [0, 2]]].all(axis=1) & is_known_R[whole_M3[:, 1]]
    if not is_held_M.any():
        raise InputError(
            f"A share of {share:g} of {len(whole_M3):,} triples leaves none to validate on: each has a name that no "
            "other has; give a larger share, or a file."
        )
    head_M, relation_M, tail_M = (one[~is_held_M] for one in (triples.head, triples.relation, triples.tail))
    report = replace(triples.report, num_triples=len(head_M))
    return Triples(head_M, relation_M, tail_M, triples.entities, triples.relations, report), whole_M3[is_held_M]


def _first_copies(triple_M3: np.ndarray) -> np.ndarray:
    """Where each triple stands first, int64 (M,)."""
    order_M = np.lexsort(triple_M3.T)  # stable: copies stay in order
    sorted_M3 = triple_M3[order_M]
    is_new_M = np.ones(len(order_M), bool)
    is_new_M[1:] = (sorted_M3[1:] != sorted_M3[:-1]).any(axis=1)
    first_M = np.empty(len(order_M), np.int64)
    first_M[order_M] = order_M[is_new_M][np.cumsum(is_new_M) - 1]
    return first_M


def triple_validator(
    triples: Triples, held_M3: np.ndarray | None, data: Any, options: TripleOptions | None, seed: int
) -> Validator:
    """Filtered ranks of validation triples: MRR, which decides, and hits. Answers of training and validation are known.

    A triple with a name that training lacks ranks in the middle, as where a result is judged.

    Args:
        held_M3: those held out, by row; None: those of data, whatever `read_triples` reads.
        seed: of the sample, where ranking all of them would take more than some 2**31 scores.

    Raises:
        DataError: the data cannot be read, or no triple has names of the training alone.
    """
    if held_M3 is None:
        held_M3 = read_triples(data, options, known=triples, is_of_training=True).rows()
        if not (held_M3 >= 0).all(axis=1).any():
            raise DataError("No validation triple has names of the training alone; give triples of the same graph.")
    num_entities, num_relations = len(triples.entities), len(triples.relations)
    most = max(_FEWEST, _MOST_SCORES // (2 * num_entities))
    asked_M3 = held_M3
    if len(held_M3) > most:
        asked_M3 = held_M3[np.random.default_rng((seed, _STREAM)).permutation(len(held_M3))[:most]]
    true_M3 = [triples.rows(), held_M3]

    def validate(result: Result) -> Mapping[str, float]:
        scorer = result.scorer
        found = evaluate_triples(
            scorer.head_scores, scorer.tail_scores, asked_M3, true_M3, num_entities, num_relations
        ).as_dict()
        return {name: found[name] for name in _METRICS}

    return validate

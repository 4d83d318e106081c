"""Splits of triples that do not leak, and how far a given split does.

A test triple (h, r, t) is all but answered by training where that has (t, r', h) or (h, r', t) with a relation r' that
says the same as r, or its inverse (Toutanova and Chen 2015, who made FB15k-237 of FB15k for that; Dettmers et al. 2018,
WN18RR). Here all triples between the same two entities go to the same side.

Letters: M triples, G groups of triples between the same two entities.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from any2vec.checks import check_number
from any2vec.errors import InputError

TRAIN, VALID, TEST = 0, 1, 2
_ALIKE = 0.8
"""share of a relation's pairs of entities that another one links, too, from which the two are called alike"""
_FEWEST = 5
"""triples of a relation of which that is said"""


@dataclass(frozen=True)
class Leakage:
    """What training tells of test triples by way of other relations; shares of the test triples."""

    inverse_share: float
    """training has the two entities in the other order"""
    same_share: float
    """training has them in the same order, by another relation"""
    leaking_share: float
    """... by a relation that is alike, or alike the other way round: what an answer could be copied from"""
    relations: tuple[tuple[int, int, bool, float], ...]
    """(relation, another, whether the other way round, share of the first one's pairs that the other links),
    of training, the most alike first"""

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def find_leakage(train_M3: np.ndarray, test_M3: np.ndarray) -> Leakage:
    """How far a split leaks.

    Args:
        train_M3, test_M3: int64 (M, 3): head, relation, tail by row; rows of -1 (unknown) match nothing.

    Raises:
        InputError: one of them is empty.
    """
    if not len(train_M3) or not len(test_M3):
        raise InputError("Leakage is between triples to train on and triples to test; one of them has none.")
    alike = _alike(train_M3)
    known = _by_pair(train_M3)
    of_test = {(relation, other, turned) for relation, other, turned, _ in alike}
    inverse = same = leaking = 0
    for head, relation, tail in test_M3.tolist():
        turned, straight = known.get((tail, head), set()), known.get((head, tail), set()) - {relation}
        inverse += bool(turned)
        same += bool(straight)
        leaking += any((relation, other, True) in of_test for other in turned) or any(
            (relation, other, False) in of_test for other in straight
        )
    size = len(test_M3)
    return Leakage(inverse / size, same / size, leaking / size, tuple(alike))


def split_triples(
    triple_M3: np.ndarray, valid_share: float = 0.05, test_share: float = 0.05, seed: int = 1
) -> np.ndarray:
    """TRAIN, VALID or TEST for each triple, uint8 (M,).

    All triples between the same two entities, in whatever order, have the same label, so that no inverse or repeated
    relation leaks; and every entity and relation occurs in training. Shares are met as far as that allows.

    Raises:
        InputError: shares are not legal, or there is nothing to split.
    """
    check_number("valid_share", valid_share, 0, 0.5)
    check_number("test_share", test_share, 0, 0.5)
    if not len(triple_M3):
        raise InputError("There are no triples to split.")
    head_M, relation_M, tail_M = triple_M3.T
    pair_M = np.minimum(head_M, tail_M) * (int(triple_M3[:, [0, 2]].max()) + 1) + np.maximum(head_M, tail_M)
    order_M = np.argsort(pair_M, kind="stable")
    first_G = np.flatnonzero(np.concatenate([[True], np.diff(pair_M[order_M]) != 0]))
    stop_G = np.append(first_G[1:], len(order_M))
    left_of_entities = np.bincount(np.concatenate([head_M, tail_M]))
    left_of_relations = np.bincount(relation_M)
    label_M = np.zeros(len(triple_M3), np.uint8)
    wanted = {TEST: round(test_share * len(triple_M3)), VALID: round(valid_share * len(triple_M3))}
    for group in np.random.default_rng(seed).permutation(len(first_G)).tolist():
        label = TEST if wanted[TEST] > 0 else VALID
        if wanted[label] <= 0:
            break
        rows = order_M[first_G[group] : stop_G[group]]
        entities, of_entity = np.unique(triple_M3[rows][:, [0, 2]], return_counts=True)
        relations, of_relation = np.unique(relation_M[rows], return_counts=True)
        is_spared = len(rows) <= wanted[label]
        is_spared &= bool((left_of_entities[entities] > of_entity).all())
        is_spared &= bool((left_of_relations[relations] > of_relation).all())
        if is_spared:
            label_M[rows] = label
            left_of_entities[entities] -= of_entity
            left_of_relations[relations] -= of_relation
            wanted[label] -= len(rows)
    return label_M


def _by_pair(triple_M3: np.ndarray) -> dict[tuple[int, int], set[int]]:
    """(head, tail) -> relations between them."""
    found: dict[tuple[int, int], set[int]] = {}
    for head, relation, tail in triple_M3.tolist():
        found.setdefault((head, tail), set()).add(relation)
    return found


def _alike(triple_M3: np.ndarray) -> list[tuple[int, int, bool, float]]:
    """Pairs of relations that link the same entities, straight or turned."""
    of_relation: dict[int, set[tuple[int, int]]] = {}
    for head, relation, tail in triple_M3.tolist():
        of_relation.setdefault(relation, set()).add((head, tail))
    turned_of = {relation: {pair[::-1] for pair in pairs} for relation, pairs in of_relation.items()}
    found = []
    for relation, pairs in of_relation.items():
        if len(pairs) < _FEWEST:
            continue
        for other, others in of_relation.items():
            for is_turned, theirs in ((False, others), (True, turned_of[other])):
                if other == relation and not is_turned:
                    continue
                share = len(pairs & theirs) / len(pairs)
                if share >= _ALIKE:
                    found.append((relation, other, is_turned, share))
    return sorted(found, key=lambda one: -one[3])

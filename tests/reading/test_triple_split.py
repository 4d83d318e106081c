"""Splits that do not leak, and planted leaks that are found."""

from __future__ import annotations

import numpy as np
import pytest

from any2vec.data.triples.split import TEST, TRAIN, VALID, find_leakage, split_triples
from any2vec.errors import InputError


def graph(seed: int, size: int = 3000) -> np.ndarray:
    """Relation 1 is the inverse of 0, 2 says the same as 0, 3 is its own inverse; 4 to 6 say other things."""
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 100, (size, 2))
    rest = np.stack([rng.integers(0, 100, size), rng.integers(4, 7, size), rng.integers(0, 100, size)], axis=1)
    zero, one, two, three, back = (
        np.insert(ends, 1, relation, axis=1)
        for relation, ends in enumerate((base, base[:, ::-1], base, base[:50], base[:50, ::-1]))
    )
    back[:, 1] = 3
    return np.unique(np.concatenate([zero, one, two, three, back, rest]), axis=0)


def test_a_split_without_leaks() -> None:
    triples = graph(1)
    label = split_triples(triples, 0.1, 0.1, seed=3)
    parts = {kind: triples[label == kind] for kind in (TRAIN, VALID, TEST)}
    for kind in (VALID, TEST):
        assert 0.09 * len(triples) < len(parts[kind]) <= round(0.1 * len(triples))
        assert set(parts[kind][:, [0, 2]].ravel()) <= set(parts[TRAIN][:, [0, 2]].ravel())
        assert set(parts[kind][:, 1]) <= set(parts[TRAIN][:, 1])
        leaks = find_leakage(parts[TRAIN], parts[kind])
        assert leaks.inverse_share == leaks.same_share == leaks.leaking_share == 0
    assert np.array_equal(label, split_triples(triples, 0.1, 0.1, seed=3))
    assert not np.array_equal(label, split_triples(triples, 0.1, 0.1, seed=4))


def test_planted_leaks_are_found() -> None:
    """A random split of single triples: nearly every one of relations 0 to 2 has another that tells it."""
    triples = graph(2)
    is_test = np.random.default_rng(1).random(len(triples)) < 0.1
    leaks = find_leakage(triples[~is_test], triples[is_test])
    pairs = {(relation, other, turned) for relation, other, turned, _ in leaks.relations}
    assert {(0, 1, True), (1, 0, True), (0, 2, False), (2, 1, True), (3, 3, True)} <= pairs
    assert not any(relation > 3 for relation, *_ in pairs)
    share = np.isin(triples[is_test][:, 1], [0, 1, 2]).mean()
    assert 0.95 * share < leaks.leaking_share <= leaks.inverse_share + leaks.same_share


def test_entities_that_occur_once_are_for_training() -> None:
    triples = np.array([[0, 0, 1], [1, 0, 2], [2, 0, 0], [3, 0, 0]])
    for seed in range(20):
        label = split_triples(triples, 0.0, 0.25, seed)
        assert label[3] == TRAIN and (label == TEST).sum() == 1


def test_bad_arguments_are_told() -> None:
    with pytest.raises(InputError, match="test_share"):
        split_triples(graph(1), 0.1, 0.9)
    with pytest.raises(InputError, match="no triples to split"):
        split_triples(np.empty((0, 3), np.int64))
    with pytest.raises(InputError, match="one of them has none"):
        find_leakage(graph(1), np.empty((0, 3), np.int64))

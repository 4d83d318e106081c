"""The planted graph: the same triples in whatever pieces, and best ranks that its own rule attains."""

from __future__ import annotations

import numpy as np
import pytest

from any2vec.errors import InputError
from any2vec.evaluate.triples import evaluate_triples
from any2vec.testing import planted_triples
from any2vec.testing.planted_triples import PlantedTriples

SMALL = {"entities": 120, "relations": 3, "group": 6, "noise": 0.1}


def test_triples_are_the_same_in_whatever_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planted_triples, "CHUNK", 100)
    planted = PlantedTriples(**SMALL)
    whole = planted.triples(0, 1000)
    assert np.array_equal(np.concatenate([planted.triples(start, start + 250) for start in range(0, 1000, 250)]), whole)
    assert np.array_equal(planted.triples(95, 205), whole[95:205]) and len(planted.triples(7, 7)) == 0
    assert not np.array_equal(PlantedTriples(**SMALL, seed=2).triples(0, 1000), whole)
    assert whole.min() == 0 and whole[:, [0, 2]].max() < 120 and set(whole[:, 1]) == {0, 1, 2}


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_best_ranks_are_those_of_a_model_that_knows_the_rule(noise: float) -> None:
    """Its scores: popularity in the right group, nothing elsewhere."""
    planted = PlantedTriples(**SMALL | {"noise": noise})
    train, test = planted.triples(0, 1500), planted.triples(1500, 1700)
    entities = np.arange(120)
    place, group = planted._place_E, planted.group
    near = -(place % group).astype(np.float32)

    def scores(way_RG: np.ndarray) -> object:
        def score(given: np.ndarray, relation: np.ndarray) -> np.ndarray:
            wanted = way_RG[relation, place[given] // group]
            return np.where(place[entities] // group == wanted[:, None], near, -1e6).astype(np.float32)

        return score

    heads, tails = scores(planted._source_RG), scores(planted._target_RG)
    found = evaluate_triples(heads, tails, test, [train, test], 120, 3)  # type: ignore[arg-type]
    best = planted.best_ranks(test, np.concatenate([train, test]))
    assert found.mrr == pytest.approx(np.mean(1 / best)) and found.mean_rank == pytest.approx(best.mean())
    assert 0.3 < found.sides["tail"].mrr == pytest.approx(np.mean(1 / best[:200]))


def test_popular_entities_come_more_often() -> None:
    """Zipf's law with exponent 1 in groups of 3: shares 6 / 11, 3 / 11, 2 / 11, within four standard errors."""
    planted = PlantedTriples(entities=30, relations=2, group=3)
    triples = planted.triples(0, 60_000)
    for column in (0, 2):
        shares = np.bincount(planted._place_E[triples[:, column]] % 3) / len(triples)
        assert np.allclose(shares, np.array([6, 3, 2]) / 11, atol=4 * 0.5 / np.sqrt(len(triples)))


def test_illegal_numbers_are_reported() -> None:
    with pytest.raises(InputError, match="multiple of group = 20, got 30"):
        PlantedTriples(entities=30)
    with pytest.raises(InputError, match="noise"):
        PlantedTriples(noise=1.5)

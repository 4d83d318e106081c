"""How rows of the clicks table judge, on numbers that are known."""

from __future__ import annotations

import math

import pytest
from benchmarks.clicks.paper import COLUMNS, ROWS_IN_ALL, Sizes
from benchmarks.clicks.quality import chance, lead


def test_the_error_of_a_lead_is_what_seeds_differ_by_not_what_trainers_do() -> None:
    """Differences of 1 and 3 at two trainers, of 11 and 15 at four: variances 2 and 8, whatever their means."""
    found = lead({2: [2.0, 5.0], 4: [12.0, 17.0]}, {2: [1.0, 2.0], 4: [1.0, 2.0]})
    assert found.mean == 7.5 and found.by_trainers == {2: 2.0, 4: 13.0}
    assert found.error == pytest.approx(math.sqrt(2 / 2 + 8 / 2) / 2)
    assert found.error_of_one == pytest.approx(math.sqrt((2 + 8) / 2 / 2))


def test_one_trainer_counts_in_the_mean_and_says_nothing_of_chance_among_many() -> None:
    found = lead({1: [4.0, 4.0], 2: [2.0, 5.0]}, {1: [1.0, 1.0], 2: [1.0, 2.0]})
    assert found.mean == 2.5 and found.error == pytest.approx(math.sqrt(2 / 2) / 2)
    assert found.error_of_one == pytest.approx(1.0)
    assert chance({1: [9.0], 2: [1.0, 4.0]}, {1: [0.0], 2: [3.0, 4.0]}) == pytest.approx(1.0)


def test_what_both_sides_have_in_common_is_no_error() -> None:
    found = lead({1: [0.5, 0.9, 0.7]}, {1: [0.6, 1.0, 0.8]})
    assert found.mean == pytest.approx(-0.1) and found.error == pytest.approx(0)


def test_columns_on_paper_have_a_billion_rows_and_ids_of_their_own() -> None:
    import numpy as np

    stream = Sizes(pooled=2)
    assert stream.offset_F1[-1] == ROWS_IN_ALL and len(stream.size_F) == COLUMNS
    id_M, start_P1 = stream.batch(np.random.default_rng(0))
    column_M = np.repeat(np.arange(len(start_P1) - 1) % COLUMNS, np.diff(start_P1))
    assert (id_M >= stream.offset_F1[column_M]).all() and (id_M < stream.offset_F1[column_M + 1]).all()
    assert np.diff(start_P1).reshape(-1, COLUMNS)[:, :2].max() == 20

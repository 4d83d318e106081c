"""How rows of the clicks table judge, on numbers that are known."""

from __future__ import annotations

import math

import pytest
from benchmarks.clicks.paper import COLUMNS, ROWS_IN_ALL, Sizes
from benchmarks.clicks.quality import ROWS, _name, compare
from benchmarks.table import verdict

from any2vec.sync.options.names import FixedBmuf, ShadowBmuf, ShadowMa, parse_click_sync


def test_each_number_of_trainers_is_judged_by_itself() -> None:
    """Differences of seeds at two trainers 1, 1.1 and 1.2, at four -3, -3.1, -3.2, at eight -1, 0, 1."""
    theirs = {2: [5.0, 6.0, 7.0], 4: [5.0, 6.0, 7.0], 8: [5.0, 6.0, 7.0]}
    ours = {2: [6.0, 7.1, 8.2], 4: [2.0, 2.9, 3.8], 8: [4.0, 6.0, 8.0]}
    readings = compare(ours, theirs, "ours / theirs")
    assert [reading.value for reading in readings] == pytest.approx([1.1, -3.1, 0.0])
    assert readings[0].interval == pytest.approx((1.1 - 2 * 0.1 / math.sqrt(3), 1.1 + 2 * 0.1 / math.sqrt(3)))
    measure = next(row for row in ROWS if row.name == "shadow-quality").measures[0]
    assert [verdict(measure, reading) for reading in readings] == ["short", "pass", "not resolved"]
    assert verdict(measure, compare({2: [6.0, 7.1]}, {2: [5.0, 6.0]}, "")[0]) == "not resolved"  # of two seeds


def test_rules_are_named_as_runs_are_told() -> None:
    for name in (
        _name("shadow", "bmuf", "blend", 0.2),
        _name("shadow", "ma", "shift", 0.0),
        _name("fr", "bmuf", "", 0.14),
    ):
        how = parse_click_sync(name)
        assert not isinstance(how, ShadowBmuf) or (how.merge, how.momentum) == ("blend", 0.2)
        assert not isinstance(how, ShadowMa) or how.merge == "shift"
        assert not isinstance(how, FixedBmuf) or (how.every, how.momentum) == (5, 0.14)
    assert _name("shadow", "easgd", "blend", 0.0) == "shadow-easgd" and _name("fr", "ma", "", 0.0) == "fr-ma:5"


def test_columns_on_paper_have_a_billion_rows_and_ids_of_their_own() -> None:
    import numpy as np

    stream = Sizes(pooled=2)
    assert stream.offset_F1[-1] == ROWS_IN_ALL and len(stream.size_F) == COLUMNS
    id_M, start_P1 = stream.batch(np.random.default_rng(0))
    column_M = np.repeat(np.arange(len(start_P1) - 1) % COLUMNS, np.diff(start_P1))
    assert (id_M >= stream.offset_F1[column_M]).all() and (id_M < stream.offset_F1[column_M + 1]).all()
    assert np.diff(start_P1).reshape(-1, COLUMNS)[:, :2].max() == 20

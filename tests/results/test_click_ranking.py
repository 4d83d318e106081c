"""Values of a column ranked by a model of clicks have the scores of rows of data that hold them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import any2vec
from any2vec.errors import DataError, InputError, UnknownKeyError

pytest.importorskip("torch", reason="models of clicks need torch")

from any2vec.models.clicks.ranking import rank_values

ROWS = 400


def table_of(rows: int = ROWS) -> dict[str, list[Any]]:
    """Clicks that hang on the hour alone, which stands behind the first letter of a cell."""
    rng = np.random.default_rng(3)
    hours, users = rng.integers(10, 16, rows).tolist(), rng.integers(0, 5, rows).tolist()
    return {
        "click": [int(hour >= 13) for hour in hours],
        "user": users,
        "is_new": [user % 2 == 0 for user in users],
        "hour": [f"{'abc'[user % 3]}{hour}" for user, hour in zip(users, hours, strict=True)],
    }


@pytest.fixture(scope="module", params=["vocabulary", "hash"])
def scorer(request: pytest.FixtureRequest) -> any2vec.ClickScorer:
    """Two columns come from the hour's cell: the hour itself, and the letter before it."""
    column = {"hour": {"characters": [1, 3], "ids": request.param}, "letter": {"characters": [0, 1], "source": "hour"}}
    schema = any2vec.ClickSchema(
        label="click", categorical=("user", "is_new", "letter", "hour"), ids="vocabulary", column=column
    )
    model = any2vec.LogisticRegression(learning_rate=0.5)
    return any2vec.fit(model, table_of(), schema=schema, epochs=5, threads=1).scorer


def scores_of(scorer: any2vec.ClickScorer, rows: dict[str, list[Any]]) -> list[float]:
    return np.concatenate([found for found, _ in scorer.score(rows)]).tolist()


def test_a_column_of_which_a_part_counts(scorer: any2vec.ClickScorer) -> None:
    """Its candidates are those parts, and no part is taken of them again."""
    seen = table_of()
    seen["hour"] = ["b10" if hour[0] == "b" else hour for hour in seen["hour"]]
    found = rank_values(scorer, {"letter": "b", "user": 1}, "hour", 10, seen=seen)
    values = [value for value, _ in found]
    assert sorted(values) == [str(hour) for hour in range(11, 16)], "10 was seen with b"
    rows = {"user": [1] * 5, "is_new": [""] * 5, "hour": [f"b{value}" for value in values]}
    assert [score for _, score in found] == pytest.approx(scores_of(scorer, rows))
    assert len({score for _, score in found}) == 5


def test_columns_of_one_cell_are_given_once(scorer: any2vec.ClickScorer) -> None:
    with pytest.raises(InputError, match="letter and hour come from the same cell, 'hour'"):
        rank_values(scorer, {"letter": "b", "hour": "b13"}, "user", 3, values=[1])
    assert rank_values(scorer, {"letter": "b13", "hour": "b13"}, "user", 1, values=[1])[0][0] == 1


def test_where_all_is_seen_it_is_said() -> None:
    schema = any2vec.ClickSchema(label="click", categorical=("user", "item"))
    rows = {"click": [1, 0], "user": [1, 1], "item": ["a", "b"]}
    found = any2vec.fit(any2vec.LogisticRegression(), rows, schema=schema, epochs=1, threads=1).scorer
    with pytest.raises(InputError, match="all are seen in this context"):
        rank_values(found, {"user": 1}, "item", 9, seen=rows)
    with pytest.raises(InputError, match="its rows are hashed"):
        rank_values(found, {"user": 1}, "item", 9)


def test_an_empty_cell_is_no_candidate() -> None:
    schema = any2vec.ClickSchema(label="click", categorical=("user", "item"))
    rows = {"click": [1, 0, 1, 0], "user": [1, 2, 1, 2], "item": ["a", "", "b", "a"]}
    found = any2vec.fit(any2vec.LogisticRegression(), rows, schema=schema, epochs=1, threads=1).scorer
    assert sorted(value for value, _ in rank_values(found, {"user": 3}, "item", 9, seen=rows)) == ["a", "b"]


def test_data_are_scored_and_batches_predicted(scorer: any2vec.ClickScorer) -> None:
    for data in ({"user": [1]}, "rows.csv", [{"user": 1}]):
        with pytest.raises(InputError, match=rf"got {type(data).__name__}; score\(data\) takes data"):
            scorer.predict(data)  # type: ignore[arg-type]


@pytest.mark.parametrize("exclude", ["b13", "13"])
def test_what_is_left_out_counts_likewise(exclude: str, scorer: any2vec.ClickScorer) -> None:
    asked = ["a13", "c14", "a10"]
    found = rank_values(scorer, {"user": 1}, "hour", 10, values=asked, exclude=[exclude])
    assert [value for value, _ in found] == ["c14", "a10"]
    rows = {"user": [1] * 2, "is_new": [""] * 2, "hour": ["c14", "a10"]}
    assert [score for _, score in found] == pytest.approx(scores_of(scorer, rows))


def test_contexts_hold_what_a_column_holds(scorer: any2vec.ClickScorer) -> None:
    for value, text in ((True, "true"), (False, "false"), (np.bool_(True), "true")):
        found = rank_values(scorer, {"is_new": value}, "user", 5)
        assert found == rank_values(scorer, {"is_new": text}, "user", 5)
    assert rank_values(scorer, {"user": 3.0}, "is_new", 5) == rank_values(scorer, {"user": "3"}, "is_new", 5)
    with pytest.raises(UnknownKeyError, match="user 'True' is not among"):
        rank_values(scorer, {"user": True}, "is_new", 5)
    with pytest.raises(DataError, match=r"The context, row 1: column 'user' holds 3\.5, which is no category"):
        rank_values(scorer, {"user": 3.5}, "is_new", 5)


def test_a_schema_that_names_the_columns_of_its_files(tmp_path: Path) -> None:
    """As the built-in ones do: criteo, avazu."""
    table = table_of()
    rows = [",".join(str(values[row]) for values in table.values()) for row in range(ROWS)]
    (tmp_path / "rows.csv").write_text("\n".join(rows) + "\n")
    schema = any2vec.ClickSchema(
        label="click", categorical=("user", "hour"), ids="vocabulary", separator=",", header=False,
        column_names=tuple(table),
    )  # fmt: skip
    named = any2vec.fit(any2vec.LogisticRegression(), tmp_path / "rows.csv", schema=schema, threads=1).scorer
    found = rank_values(named, {"user": "1"}, "hour", 3)
    rows = {"user": ["1"] * 3, "hour": [value for value, _ in found]}
    assert [score for _, score in found] == pytest.approx(scores_of(named, rows))


def test_a_column_of_the_name_of_another_cell(tmp_path: Path) -> None:
    """Its own cell has a name that no column of the file has."""
    schema = any2vec.ClickSchema(
        label="click", categorical=("user", "is_new"), ids="vocabulary", column={"is_new": {"source": "hour"}},
        separator=",", header=False, column_names=("click", "user", "is_new", "hour"),
    )  # fmt: skip
    (tmp_path / "rows.csv").write_text("".join(f"{row % 2},{row % 3},x,{'ab'[row % 2]}\n" for row in range(60)))
    named = any2vec.fit(any2vec.LogisticRegression(), tmp_path / "rows.csv", schema=schema, threads=1).scorer
    assert [value for value, _ in rank_values(named, {"user": "1"}, "is_new", 2)] == ["b", "a"]

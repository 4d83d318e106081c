"""Clicks of tables in memory: a dict, rows, frames of libraries are the same examples as an Arrow table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from any2vec.data.clicks.clicks import read_clicks
from any2vec.data.clicks.schema import ClickSchema
from any2vec.errors import DataError

SCHEMA = ClickSchema(label="bought", categorical=("user", "product"), dense=("price",), ids="vocabulary")
COLUMNS: dict[str, Any] = {
    "product": ["a", "b", "a", None], "price": [1.0, 2.0, 3.0, 4.0], "user": [3, 5, 3, 7], "bought": [0, 1, 1, 0],
}  # fmt: skip


def made(library: str) -> Any:
    if library == "rows":
        return [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
    if library == "arrays":
        kinds = {"product": object, "price": float, "user": np.int32, "bought": bool}
        return {name: np.array(values, kinds[name]) for name, values in COLUMNS.items()}
    if library == "dict":
        return COLUMNS
    module = pytest.importorskip(library)
    return module.Dataset.from_dict(COLUMNS) if library == "datasets" else module.DataFrame(COLUMNS)


@pytest.mark.parametrize("library", ["dict", "rows", "arrays", "pandas", "polars", "datasets"])
def test_tables_are_the_same_clicks(library: str, tmp_path: Path) -> None:
    expected = read_clicks(pa.table(COLUMNS), SCHEMA, cache_dir=tmp_path / "one")
    found = read_clicks(made(library), SCHEMA, cache_dir=tmp_path / "other")
    assert list(found.key_of_rows()) == list(expected.key_of_rows()) and found.num_clicks == expected.num_clicks == 2
    one, other = (clicks.batch(0, 4) for clicks in (found, expected))
    assert all(np.array_equal(mine, theirs) for mine, theirs in zip(one, other, strict=True))


def test_a_column_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="The dict has no column 'price'"):
        read_clicks({name: COLUMNS[name] for name in ("product", "user", "bought")}, SCHEMA, cache_dir=tmp_path)

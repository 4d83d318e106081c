"""Columns as they stand in a file become arrays: labels, numbers, and rows of the categorical columns.

Letters as in `ClickBatch`; N rows of a block, F1 columns of one value. The same text has the same row whatever the file
format: whole numbers of a table count as their decimal text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from any2vec.data.clicks.reader import RawRows
from any2vec.data.clicks.rows import ClickBatch, ColumnRows
from any2vec.data.clicks.schema import ClickColumn, ClickSchema
from any2vec.errors import DataError

_SHOWN = 40
_LARGEST = float(np.finfo(np.float32).max)


class Encoded(NamedTuple):
    """N rows as arrays; rows are those of each column alone."""

    label_N: np.ndarray
    """float32 (N,), 0, 1 or NaN (not known)"""
    dense_NX: np.ndarray
    """float64 (N, X), log taken where the schema says so, not yet standardized; NaN where missing"""
    single_NF: np.ndarray
    """int32 (N, F1)"""
    bags: list[tuple[np.ndarray, np.ndarray]]
    """of each multi-valued column: its rows int32 one bag after another, and lengths int64 (N,)"""


def encode_block(block: RawRows, schema: ClickSchema, rows: Sequence[ColumnRows], needs_label: bool) -> Encoded:
    """Encode one block; `rows` gives the rows of the F columns.

    Raises:
        DataError: a label is not 0 or 1, a number is none or not finite, a column holds what is no category.
    """
    columns = schema.columns
    single = np.empty((block.num_rows, len(schema.categorical)), np.int32)
    bags = []
    for at, (column, give) in enumerate(zip(columns, rows, strict=True)):
        values = block.columns[column.source]
        try:
            if column.is_multi_valued:
                texts, lengths = _bag_texts(values, column, block)
                bags.append((give.rows_of(texts), lengths))
            else:
                single[:, at] = give.rows_of(texts_of(values, column, block))
        except DataError as error:
            if str(error).startswith(block.name):
                raise
            raise DataError(f"{block.name}, column {column.name!r}: {error}") from error
    dense = np.empty((block.num_rows, len(schema.dense)))
    for at, name in enumerate(schema.dense):
        dense[:, at] = _numbers(block, name)
        if schema.transform(name) == "log":
            dense[:, at] = np.sign(dense[:, at]) * np.log1p(np.abs(dense[:, at]))
    return Encoded(_labels(block, schema, needs_label), dense, single, bags)


def batch_of(
    label_B: np.ndarray, dense_BX: np.ndarray, single_BF: np.ndarray, bags: Any, offset_F: np.ndarray
) -> ClickBatch:
    """Join encoded columns into a `ClickBatch`.

    single_BF int32 (B, F1); bags: (rows int32, lengths int64 (B,)) of each multi-valued column; offset_F int64 (F+1,).
    """
    size, num_single = single_BF.shape
    if not bags:
        ids = (single_BF + offset_F[:num_single]).reshape(-1)
        return ClickBatch(label_B, dense_BX, ids, np.arange(len(ids) + 1, dtype=np.int64))
    num_columns = num_single + len(bags)
    lengths = np.ones((size, num_columns), np.int64)
    for at, (_, length_B) in enumerate(bags):
        lengths[:, num_single + at] = length_B
    start_P = np.zeros(size * num_columns + 1, np.int64)
    np.cumsum(lengths.reshape(-1), out=start_P[1:])
    start_BF = start_P[:-1].reshape(size, num_columns)
    id_M = np.empty(int(start_P[-1]), np.int64)
    id_M[start_BF[:, :num_single]] = single_BF + offset_F[:num_single]
    for at, (rows, length_B) in enumerate(bags):
        first_B = np.cumsum(length_B) - length_B
        shift_B = start_BF[:, num_single + at] - first_B
        id_M[np.arange(len(rows)) + np.repeat(shift_B, length_B)] = rows + offset_F[num_single + at]
    return ClickBatch(label_B, dense_BX, id_M, start_P)


# ---- categories -----------------------------------------------------------------------------------------------------


def texts_of(values: Any, column: ClickColumn, block: RawRows, stops: np.ndarray | None = None) -> Any:
    """What counts of the values of a column (pyarrow, as `RawRows` has them): large_binary (N,) without nulls.

    A missing value is an empty text, and only `column.characters` of a text count.

    Raises:
        DataError: a value is no category. block: what the message names; stops: of bags, where each row's values end.
    """
    from any2vec.data.io.arrow import pa, pc

    kind = values.type
    if pa.types.is_null(kind):
        values = pa.array([b""] * len(values), pa.large_binary())
    elif pa.types.is_floating(kind):
        values = _whole(values, column, block, stops)
    elif pa.types.is_nested(kind):
        is_list = not (pa.types.is_struct(kind) or pa.types.is_map(kind))
        hint = "lists; name it in multi_valued." if is_list else f"{kind}; give text or whole numbers."
        raise DataError(f"{block.name}, column {column.name!r}: expected one value a row, found {hint}")
    if not pa.types.is_large_binary(values.type):
        try:
            values = values.cast(pa.large_string()).cast(pa.large_binary())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise DataError(
                f"{block.name}, column {column.name!r}: {kind} is no category; give text or whole numbers."
            ) from None
    if values.null_count:
        values = values.fill_null(b"")
    if column.characters is not None:
        values = pc.binary_slice(values, *column.characters)
    return values


def _whole(values: Any, column: ClickColumn, block: RawRows, stops: np.ndarray | None) -> Any:
    """Floats that are whole numbers (integers beside missing values often come so) as int64; NaN is missing."""
    from any2vec.data.io.arrow import pa

    numbers = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    is_missing = np.isnan(numbers)
    with np.errstate(invalid="ignore"):
        wrong = ~is_missing & ~((np.abs(numbers) < 2**53) & (numbers == np.floor(numbers)))
    if wrong.any():
        place = int(np.argmax(wrong))
        row = place if stops is None else int(np.searchsorted(stops, place, "right"))
        raise DataError(
            f"{block.where(row)}: column {column.name!r} holds {numbers[place]}, which is no category; give text or "
            "whole numbers, or name the column in dense."
        )
    return pa.array(np.where(is_missing, 0, numbers).astype(np.int64), mask=is_missing)


def _bag_texts(values: Any, column: ClickColumn, block: RawRows) -> tuple[Any, np.ndarray]:
    """(texts of all bags, none of them empty; lengths int64 (N,))."""
    from any2vec.data.io.arrow import is_list, pa, pc

    if not is_list(values.type):
        values = pc.split_pattern(texts_of(values, replace(column, characters=None), block), column.separator)
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    flat = texts_of(values.flatten(), column, block, np.cumsum(lengths))
    is_kept = pc.binary_length(flat).to_numpy(zero_copy_only=False) > 0
    if is_kept.all():
        return flat, lengths
    kept = np.zeros(len(flat) + 1, np.int64)
    np.cumsum(is_kept, out=kept[1:])
    stops = np.cumsum(lengths)
    return flat.filter(pa.array(is_kept)), kept[stops] - kept[stops - lengths]


# ---- labels and numbers ---------------------------------------------------------------------------------------------


def _labels(block: RawRows, schema: ClickSchema, needs_label: bool) -> np.ndarray:
    """float32 (N,): 0, 1, or NaN where the label is not known and need not be."""
    if schema.label not in block.columns:
        return np.full(block.num_rows, np.nan, np.float32)
    numbers = _numbers(block, schema.label)
    is_missing = np.isnan(numbers)
    if needs_label and is_missing.any():
        raise DataError(f"{block.where(int(np.argmax(is_missing)))}: the label is missing; drop the row or fill it.")
    if schema.label_from is not None:
        return np.where(is_missing, np.nan, numbers >= schema.label_from).astype(np.float32)
    wrong = ~is_missing & (numbers != 0) & (numbers != 1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{block.where(row)}: the label must be 0 or 1, got {numbers[row]:g} in column {schema.label!r}; for stars "
            "or counts give label_from in the schema."
        )
    return numbers.astype(np.float32)


def _numbers(block: RawRows, name: str) -> np.ndarray:
    """float64 (N,) of a column, NaN where it is missing (empty text, null). DataError: no number, or not finite."""
    from any2vec.data.io.arrow import pa

    values = block.columns[name]
    kind = values.type
    try:
        if pa.types.is_large_binary(kind):
            values = _parsed(values)
        elif pa.types.is_boolean(kind):
            values = values.cast(pa.int8()).cast(pa.float64())
        else:
            values = values.cast(pa.float64(), safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        _refuse(block, name)
        raise DataError(f"{block.name}, column {name!r}: expected numbers, found {kind}.") from None
    numbers = np.array(values.to_numpy(zero_copy_only=False), np.float64)
    is_wrong = ~(np.abs(numbers) <= _LARGEST)
    if values.null_count:
        is_null = values.is_null().to_numpy(zero_copy_only=False)
        numbers[is_null] = np.nan
        is_wrong &= ~is_null
    if is_wrong.any():
        row = int(np.argmax(is_wrong))
        raise DataError(
            f"{block.where(row)}: column {name!r} holds {numbers[row]}; numbers must be finite in float32 (empty: "
            "missing)."
        )
    return numbers


def _parsed(texts: Any) -> Any:
    """float64 with nulls of large_binary texts; white space around them is dropped, true and false in any case are 1
    and 0. ArrowInvalid: one is no number."""
    from any2vec.data.io.arrow import pa, pc

    texts = pc.ascii_trim_whitespace(texts.cast(pa.large_string()))
    is_empty = pc.equal(pc.binary_length(texts), 0)
    texts = pc.if_else(is_empty, pa.scalar(None, pa.large_string()), texts)
    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:
        place = pc.index_in(pc.ascii_lower(texts), pa.array(["false", "true"], pa.large_string()))
        return pc.coalesce(place.cast(pa.large_string()), texts).cast(pa.float64())


def _refuse(block: RawRows, name: str) -> None:
    """Raise DataError at the first text of a column that is no number; return if there is none."""
    from any2vec.data.io.arrow import pa

    values = block.columns[name]
    low, high = 0, len(values)
    if not pa.types.is_large_binary(values.type):
        return
    while high - low > 1:  # the first half that cannot be parsed holds the first wrong value
        middle = (low + high) // 2
        try:
            _parsed(values.slice(low, middle - low))
            low = middle
        except pa.ArrowInvalid:
            high = middle
    shown = (values[low].as_py() or b"")[:_SHOWN].decode("utf-8", "replace")
    raise DataError(f"{block.where(low)}: column {name!r} holds {shown!r}, which is no number (empty: missing).")

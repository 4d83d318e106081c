"""Rows and sets of rows on the wire: as long as planned, and what comes out is what went in, or near it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from any2vec.cluster.codec import ids_size, pack_ids, pack_rows, rows_parts, rows_size, unpack_ids, unpack_rows
from any2vec.cluster.message import Part
from any2vec.errors import MessageError
from any2vec.sync.rules.residual import Residuals

tables = arrays.arrays(
    np.float32, st.tuples(st.integers(0, 6), st.integers(1, 9)), elements=st.floats(-1e4, 1e4, width=32)
)


@pytest.mark.parametrize("bits", [32, 16, 8])
@settings(deadline=None)
@given(rows=tables)
def test_rows(bits: int, rows: np.ndarray) -> None:
    parts = pack_rows(rows, bits)
    found = unpack_rows(parts)
    assert found.dtype == np.float32 and found.shape == rows.shape
    assert sum(part.array.nbytes for part in parts) == rows_size(*rows.shape, bits)
    assert len(parts) == rows_parts(len(rows), bits)
    if bits == 32:
        assert (found == rows).all()
    elif len(rows):
        top = np.abs(rows).max(axis=1, keepdims=True).astype(np.float64)
        half_step = top / (2 ** (bits - 1) - 1) / 2
        assert (np.abs(found.astype(np.float64) - rows) <= half_step * (1 + 1e-3) + top * 1e-6 + 1e-34).all()


def test_eight_bits_are_one_byte() -> None:
    codes, scales = pack_rows(np.ones((3, 100), np.float32), 8)
    assert (codes.array.nbytes, scales.array.nbytes) == (300, 12)


@settings(deadline=None)
@given(data=st.data())
def test_sets_of_rows(data: st.DataObject) -> None:
    num_rows = data.draw(st.sampled_from([1, 2, 9, 100, 3000, 70_000]))
    chosen = data.draw(st.sets(st.integers(0, num_rows - 1), max_size=40) | st.just(set(range(num_rows))))
    ids = np.array(sorted(chosen), np.int64)
    part = pack_ids(ids, num_rows)
    assert (unpack_ids(part, num_rows) == ids).all()
    assert part.kind == "ids" and part.array.nbytes == ids_size(len(ids), num_rows)


@pytest.mark.parametrize(
    ("count", "num_rows", "size"), [(0, 100, 0), (100, 100, 1), (3, 100, 6), (50, 100, 13), (5, 70_000, 20)]
)
def test_the_smallest_encoding_is_chosen(count: int, num_rows: int, size: int) -> None:
    """Nothing, one byte for all, 2 bytes an id, a bit a row, 4 bytes an id where 2 do not reach."""
    assert pack_ids(np.arange(count), num_rows).array.nbytes == ids_size(count, num_rows) == size


def test_a_row_beyond_the_block_is_refused() -> None:
    with pytest.raises(MessageError, match="row 9 of a block of 9 rows"):
        unpack_ids(Part("ids", np.array([2, 9], np.uint16)), 9)


@pytest.mark.parametrize("bits", [16, 8])
def test_error_feedback_loses_nothing(bits: int) -> None:
    """What arrives adds up to what was sent, but for what is owed; and that is less than one step of the scale."""
    random = np.random.default_rng(bits)
    changes = random.normal(0, 1, (50, 4, 8)).astype(np.float32)
    residuals, ids, arrived = Residuals({"input": (4, 8)}), np.arange(4), np.zeros((4, 8))
    for change in changes:
        packed = pack_rows(residuals.outgoing("input", ids, change), bits)
        residuals.sent("input", ids, unpack_rows(packed))
        arrived += unpack_rows(packed)
    owed = residuals.tables["input"]
    np.testing.assert_allclose(arrived + owed, changes.sum(axis=0, dtype=np.float64), atol=1e-4)
    assert np.abs(owed).max() < 2 * np.abs(changes).max() / (2 ** (bits - 1) - 1)

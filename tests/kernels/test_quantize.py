"""Rounded rows: what one pass over them does equals what its parts do one after the other, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from any2vec.cluster.codec import empty_parts, most_of, pack_rows, packed_lists, unpack_lists, unpack_rows
from any2vec.kernels.rows.quantize import quantize_changes, quantize_rows, quantize_slots, take_coded
from any2vec.tables.copying import put_packed

both_widths = pytest.mark.parametrize("bits", [8, 16])


def rows_like(size: int, dim: int, seed: int = 0) -> np.ndarray:
    """Of all magnitudes, with rows of zeros, of signs alone, and so small that they have no scale."""
    random = np.random.default_rng(seed)
    rows = (random.normal(size=(size, dim)) * 10.0 ** random.integers(-6, 4, (size, 1))).astype(np.float32)
    rows[1::7], rows[2::7], rows[3::7] = 0, -1e-44, -0.5
    return rows


@both_widths
@pytest.mark.parametrize("dim", [1, 7, 40])
def test_rows_are_rounded_as_their_twin(bits: int, dim: int) -> None:
    rows, most = rows_like(30, dim), most_of(bits)
    codes, scales = (part.array for part in empty_parts(rows.shape, bits))
    quantize_rows(rows, most, scales, codes)
    for row, scale, code in zip(rows, scales, codes, strict=True):
        expected = np.abs(row).max() / np.float32(most)
        with np.errstate(divide="ignore"):
            inverse = np.float32(1) / expected
        if not np.isfinite(inverse):
            expected = inverse = np.float32(0)
        assert scale == expected and (code == np.rint(row * inverse)).all()


@both_widths
def test_rows_that_several_ask_for_are_rounded_once(bits: int) -> None:
    rows, asked = rows_like(30, 9), np.array([2, 5, 9, 2, 29])
    codes, scales = (part.array for part in empty_parts(rows.shape, bits))
    codes[:], scales[:] = 0, 0
    quantize_slots(rows, np.unique(asked), most_of(bits), scales, codes)
    packed = empty_parts((len(asked), 9), bits)
    take_coded(scales, codes, asked, packed[1].array, packed[0].array)
    assert all(
        (one.array == other.array).all() for one, other in zip(packed, pack_rows(rows[asked], bits), strict=True)
    )
    assert not codes[0].any()


@both_widths
def test_changes_are_rounded_in_one_pass(bits: int) -> None:
    """Lists of rounded rows, of rows as they are, and none; what rounding leaves out is owed."""
    random, sizes, dim, most = np.random.default_rng(5), (8, 0, 11, 6), 13, most_of(bits)
    start = [pack_rows(rows_like(size, dim, size), 32 if host == 2 else bits) for host, size in enumerate(sizes)]
    was = np.concatenate(unpack_lists(start))
    now = was + random.normal(size=was.shape).astype(np.float32)
    now[4] = was[4]
    ids, owed = random.permutation(40)[: len(now)], random.normal(size=(40, dim)).astype(np.float32)
    expected_owed = owed.copy()
    owing = expected_owed[ids] + (now - was)
    expected = pack_rows(owing, bits)
    expected_owed[ids] = owing - unpack_rows(expected)
    found, lists = empty_parts(now.shape, bits), packed_lists(start)
    for begin, end in ((0, 3), (3, 17), (17, len(now))):
        codes, scales = found[0].array, found[1].array
        quantize_changes(
            now, lists.value_H, lists.scale_H, lists.size_H, lists.like, begin, end, ids, owed, most, scales, codes
        )
    assert all((one.array == other.array).all() for one, other in zip(found, expected, strict=True))
    assert (owed == expected_owed).all()


@both_widths
def test_rows_are_restored_where_they_belong(bits: int) -> None:
    table, expected = np.zeros((2, 50, 6), np.float32)
    ids = np.split(np.random.default_rng(1).permutation(50)[:23], [8, 8, 19])
    packed = [pack_rows(rows_like(len(which), 6, at), 32 if at == 2 else bits) for at, which in enumerate(ids)]
    expected[np.concatenate(ids)] = np.concatenate([unpack_rows(parts) for parts in packed])
    put_packed(table, ids, packed)
    assert (table == expected).all() and table.any()

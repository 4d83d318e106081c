"""Rows in 8 or 16 bits: each has a scale of its own, and whole numbers of it. Rounding is to nearest, ties to even.

Legend: K rows, D dim.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from any2vec.kernels.common.addresses import numbers_at, rows_at, slots_at
from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.prefetch import prefetch_read

_AHEAD = 4
"""rows of what is owed that are on their way from memory"""


@jit
def quantize_rows(rows_KD: np.ndarray, most: int, scale_K: np.ndarray, code_KD: np.ndarray) -> None:
    """code = round(row / scale), scale = largest |number| of the row / most; so |row - scale code| <= scale / 2.

    rows_KD float32 (K, D), finite, C order (a NaN makes its row one of NaN); most: 127 for int8 codes, 32,767 for
    int16; scale_K float32 (K,); a row of zeros has scale 0.
    """
    for k in range(rows_KD.shape[0]):
        scale_K[k] = _quantize(rows_KD[k], most, code_KD[k])


@jit
def quantize_slots(
    rows_BD: np.ndarray, slot_K: np.ndarray, most: int, scale_B: np.ndarray, code_BD: np.ndarray
) -> None:
    """`quantize_rows` of the rows slot_K alone, int64, to the same places."""
    for k in range(slot_K.size):
        slot = slot_K[k]
        scale_B[slot] = _quantize(rows_BD[slot], most, code_BD[slot])


@jit
def take_coded(
    scale_B: np.ndarray, code_BD: np.ndarray, slot_K: np.ndarray, scale_K: np.ndarray, code_KD: np.ndarray
) -> None:
    """scale[k], code[k] = those at slot_K[k], int64."""
    for k in range(slot_K.size):
        slot = slot_K[k]
        scale_K[k] = scale_B[slot]
        for d in range(code_BD.shape[1]):
            code_KD[k, d] = code_BD[slot, d]


@jit
def quantize_changes(
    now_KD: np.ndarray, start_H: np.ndarray, scale_H: np.ndarray, size_H: np.ndarray, like: np.integer[Any],
    begin: int, end: int, id_K: np.ndarray, owed_VD: np.ndarray, most: int, scale_K: np.ndarray, code_KD: np.ndarray,
) -> None:  # fmt: skip
    """Round what became of the rows [begin, end) since they came, and what is owed of them; go on owing what is left.

    now_KD float32 (K, D): rows of H lists, one after the other, size_H int64 (H,) of them each; start_H, scale_H
    uint64 (H,): addresses of what they came as, codes like `like` and their scales, or, where that of the scales is 0,
    float32. id_K int64 (K,): their places in owed_VD, float32.
    """
    dim, last = now_KD.shape[1], 0
    owing_D = np.empty(dim, np.float32)
    for h in range(size_H.size):
        first, last = last, last + size_H[h]
        low, high = max(begin, first), min(end, last)
        if low >= high:
            continue
        if scale_H[h] == 0:
            start_ND = rows_at(start_H[h], np.float32(0), size_H[h], dim)
            for k in range(low, high):
                if k + _AHEAD < high:
                    prefetch_read(owed_VD, id_K[k + _AHEAD])
                for d in range(dim):
                    owing_D[d] = now_KD[k, d] - start_ND[k - first, d]
                scale_K[k] = _quantize_owing(owing_D, owed_VD[id_K[k]], most, code_KD[k])
        else:
            was_N, was_ND = numbers_at(scale_H[h], np.float32(0), size_H[h]), rows_at(start_H[h], like, size_H[h], dim)
            for k in range(low, high):
                if k + _AHEAD < high:
                    prefetch_read(owed_VD, id_K[k + _AHEAD])
                was = was_N[k - first]
                for d in range(dim):
                    owing_D[d] = now_KD[k, d] - was * np.float32(was_ND[k - first, d])
                scale_K[k] = _quantize_owing(owing_D, owed_VD[id_K[k]], most, code_KD[k])


@jit
def _quantize_owing(change_D: np.ndarray, owed_D: np.ndarray, most: int, code_D: np.ndarray) -> np.float32:
    """Round a change and what is owed; its scale. It goes on owing what is left."""
    for d in range(change_D.size):
        change_D[d] = owed_D[d] + change_D[d]
    scale = _quantize(change_D, most, code_D)
    for d in range(change_D.size):
        owed_D[d] = change_D[d] - scale * np.float32(code_D[d])
    return scale


@jit
def _quantize(row_D: np.ndarray, most: int, code_D: np.ndarray) -> np.float32:
    """The codes of a row; its scale."""
    bits_D, most_bits = row_D.view(np.int32), np.int32(0)
    for d in range(row_D.size):  # numbers without a sign are in the order of their bits, which registers compare
        most_bits = max(most_bits, bits_D[d] & np.int32(0x7FFFFFFF))
    scale = _number(most_bits) / np.float32(most)
    inverse = np.float32(1) / scale if scale > 0 else np.float32(0)
    if not inverse < np.inf:  # a scale so small that it has no inverse: the row is as good as zero
        scale, inverse = np.float32(0), np.float32(0)
    for d in range(row_D.size):
        code_D[d] = np.rint(row_D[d] * inverse)
    return scale


@jit
def _number(bits: np.int32) -> np.float32:
    one_1 = np.empty(1, np.int32)
    one_1[0] = bits
    return one_1.view(np.float32)[0]


@jit
def restore_rows(scale_K: np.ndarray, code_KD: np.ndarray, rows_KD: np.ndarray) -> None:
    """rows = scale code; float32."""
    for k in range(code_KD.shape[0]):
        for d in range(code_KD.shape[1]):
            rows_KD[k, d] = scale_K[k] * np.float32(code_KD[k, d])


@jit
def restore_lists(
    scales_H: np.ndarray, codes_H: np.ndarray, size_H: np.ndarray, like: np.integer[Any], rows_KD: np.ndarray
) -> None:
    """`restore_rows` of H lists by address, uint64, one after the other; size_H: rows of each; like: a code."""
    at, dim = 0, rows_KD.shape[1]
    for h in range(size_H.size):
        size = size_H[h]
        if size > 0:
            scale_K = numbers_at(scales_H[h], np.float32(0), size)
            restore_rows(scale_K, rows_at(codes_H[h], like, size, dim), rows_KD[at : at + size])
            at += size


@jit
def restore_to(
    id_H: np.ndarray, scale_H: np.ndarray, code_H: np.ndarray, size_H: np.ndarray, like: np.integer[Any],
    table_VD: np.ndarray,
) -> None:  # fmt: skip
    """`restore_rows` of H lists by address, uint64, into the rows of their ids, int64 (K,); size_H: each K."""
    dim = table_VD.shape[1]
    for h in range(size_H.size):
        if size_H[h] > 0:
            id_K, scale_K = slots_at(id_H[h], size_H[h]), numbers_at(scale_H[h], np.float32(0), size_H[h])
            code_KD = rows_at(code_H[h], like, size_H[h], dim)
            for k in range(id_K.size):
                row = id_K[k]
                for d in range(dim):
                    table_VD[row, d] = scale_K[k] * np.float32(code_KD[k, d])

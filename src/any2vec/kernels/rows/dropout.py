"""What dropout keeps: numbers whose draw, of 16 bits, is not below a threshold.

A draw depends on (key, place) alone, so that a gradient asks again and no mask is kept. One hash of 32 bits gives the
draws of two numbers, half an array apart, so that both loops run over memory in order.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import fast_jit, jit

_SPREAD, _FIRST, _SECOND = np.uint32(0x9E3779B9), np.uint32(0x7FEB352D), np.uint32(0x846CA68B)
_15, _16 = np.uint32(15), np.uint32(16)
_CHUNK = 2048
_LOW = np.uint32(0xFFFF)


@jit
def bits_at(low: np.uint32, high: np.uint32, place: np.uint32) -> np.uint32:
    """32 random bits of the key (low, high) at a place below 2**32: the finalizer `lowbias32`, the key's halves xored
    before it and within it.
    """
    x = np.uint32(np.uint32(place * _SPREAD) ^ low)
    x = np.uint32(np.uint32(x ^ np.uint32(x >> _16)) * _FIRST)
    x = np.uint32(x ^ high)
    x = np.uint32(np.uint32(x ^ np.uint32(x >> _15)) * _SECOND)
    return np.uint32(x ^ np.uint32(x >> _16))


@fast_jit
def drop(x_N: np.ndarray, low: np.uint32, high: np.uint32, threshold: np.uint32) -> None:
    """x[i] = x[i] 65536 / (65536 - threshold), or 0 where its 16 bits are below the threshold (< 65536), in place.

    x of one float type, C order; N < 2**33.
    """
    half = (x_N.size + 1) // 2
    first_H, second_H = x_N[:half], x_N[half:]
    scale, none = x_N.dtype.type(65536.0 / (65536.0 - np.float64(threshold))), x_N.dtype.type(0)
    bits_C = np.empty(_CHUNK, np.uint32)
    for start in range(0, half, _CHUNK):
        size = min(_CHUNK, half - start)
        begin = np.uint32(start)
        for j in range(size):
            bits_C[j] = bits_at(low, high, np.uint32(begin + np.uint32(j)))
        part_C = first_H[start : start + size]
        for j in range(size):
            part_C[j] *= scale if np.uint32(bits_C[j] & _LOW) >= threshold else none
        part_C = second_H[start : start + size]
        for j in range(part_C.size):
            part_C[j] *= scale if np.uint32(bits_C[j] >> _16) >= threshold else none


@fast_jit
def drop_entries(
    value_S: np.ndarray, stop_M1: np.ndarray, column_S: np.ndarray, columns: int, low: np.uint32, high: np.uint32,
    threshold: np.uint32,
) -> None:  # fmt: skip
    """What `drop` does of all numbers of rows, of those that are not 0, in place; columns ascend within a row."""
    half = ((stop_M1.size - 1) * columns + 1) // 2
    scale, none = value_S.dtype.type(65536.0 / (65536.0 - np.float64(threshold))), value_S.dtype.type(0)
    for i in range(stop_M1.size - 1):
        for j in range(stop_M1[i], stop_M1[i + 1]):
            place = i * columns + column_S[j]
            if place < half:
                draw = np.uint32(bits_at(low, high, np.uint32(place)) & _LOW)
            else:
                draw = np.uint32(bits_at(low, high, np.uint32(place - half)) >> _16)
            value_S[j] *= scale if draw >= threshold else none

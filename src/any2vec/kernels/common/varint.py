"""Whole numbers as bytes, small ones short: 7 bits in a byte, the lowest first, the top bit where more follow (LEB128).

Ids of a batch, ascending, are close together, and most rows have changed few times, so that differences of ids and
counts of changes need little more than a byte each, where 4 or 8 would be sent otherwise.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit

MOST_BYTES = 9
"""of a number below 2 ** 63"""


@jit
def varint_size(number_N: np.ndarray) -> int:
    """Bytes that numbers, int64 (N,), each 0 or more, need."""
    size = number_N.size
    for number in number_N:
        while number > 127:
            number >>= 7
            size += 1
    return size


@jit
def write_varints(number_N: np.ndarray, byte_X: np.ndarray) -> None:
    """Fill byte_X, uint8 (varint_size(number_N),)."""
    x = 0
    for number in number_N:
        while number > 127:
            byte_X[x] = np.uint8((number & 127) | 128)
            number >>= 7
            x += 1
        byte_X[x] = np.uint8(number)
        x += 1


@jit
def read_varints(byte_X: np.ndarray, number_N: np.ndarray) -> bool:
    """Fill number_N, int64 (N,), from byte_X, uint8; False unless the bytes are exactly N numbers below 2 ** 63."""
    x = 0
    for n in range(number_N.size):
        number, shift = np.int64(0), 0
        while True:
            if x == byte_X.size or shift == 7 * MOST_BYTES:
                return False
            byte = np.int64(byte_X[x])
            x += 1
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        number_N[n] = number
    return x == byte_X.size

"""Twin of `kernels/rows/dropout.py` in Python's own whole numbers."""

from __future__ import annotations

import numpy as np

_MASK = (1 << 32) - 1


def bits_at(low: int, high: int, place: int) -> int:
    """32 bits."""
    x = place * 0x9E3779B9 & _MASK ^ low
    x = ((x ^ x >> 16) * 0x7FEB352D & _MASK) ^ high
    x = (x ^ x >> 15) * 0x846CA68B & _MASK
    return x ^ x >> 16


def is_kept(num: int, low: int, high: int, threshold: int) -> np.ndarray:
    """Of each place: the first half of an array has the low bits of a hash, the second half its high bits."""
    half = (num + 1) // 2
    bits = [bits_at(low, high, place % half) for place in range(num)]
    return np.array([(word >> 16 if place >= half else word & 0xFFFF) >= threshold for place, word in enumerate(bits)])

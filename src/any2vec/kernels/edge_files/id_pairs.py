"""Lines of two plain numbers, as most lists of edges have, in one pass. Letters: B bytes, L lines."""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit

_TAB, _LF, _CR, _SPACE = 9, 10, 13, 32
_ZERO, _MOST_DIGITS = 48, 18


@jit
def parse_pairs(text_B: np.ndarray, start: int, delimiter: int, id_2L: np.ndarray) -> tuple[int, int]:
    """int64 (2, L): ids of lines from byte `start` on, until the text or L ends, or a line is not as simple: two
    decimals of 18 digits or less without leading zeros, one delimiter between, a line feed at once or behind a carriage
    return.

    delimiter: a byte, or 0 for a space or a tab. Returns (lines found, first byte not done).
    """
    at, size, found = start, text_B.size, 0
    while at < size and found < id_2L.shape[1]:
        line = at
        for column in range(2):
            first, value = at, np.int64(0)
            while at < size:
                digit = np.int64(text_B[at]) - _ZERO
                if digit < 0 or digit > 9:
                    break
                value = 10 * value + digit
                at += 1
            digits = at - first
            if digits < 1 or digits > _MOST_DIGITS or (digits > 1 and text_B[first] == _ZERO) or at == size:
                return found, line
            id_2L[column, found] = value
            byte = text_B[at]
            if column == 0 and byte != delimiter and (delimiter != 0 or (byte != _SPACE and byte != _TAB)):
                return found, line
            at += 1
        if text_B[at - 1] == _CR and at < size:
            at += 1
        if text_B[at - 1] != _LF:
            return found, line
        found += 1
    return found, at

"""Plain twin of `any2vec.kernels.common.varint`."""

from __future__ import annotations

from collections.abc import Iterable


def write(numbers: Iterable[int]) -> bytes:
    found = bytearray()
    for number in numbers:
        while number > 127:
            found.append(number % 128 + 128)
            number //= 128
        found.append(number)
    return bytes(found)

"""Plain twin of `kernels.common.rng` and of the draw of `kernels.common.alias`: Python integers and one mask."""

from __future__ import annotations

from collections.abc import Sequence

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix64(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def draw(key: int, counter: int) -> int:
    return mix64((key + (counter + 1) * GOLDEN) & MASK)


def splitmix(state: int, count: int) -> list[int]:
    """The generator as published: a state that grows by the golden ratio, mixed at every call."""
    values = []
    for _ in range(count):
        state = (state + GOLDEN) & MASK
        values.append(mix64(state))
    return values


def below(bits32: int, n: int) -> int:
    return (bits32 * n) >> 32


def unit(bits64: int) -> float:
    return (bits64 >> 11) / (1 << 53)


def draw_alias(bits64: int, threshold: Sequence[int], alias: Sequence[int]) -> int:
    column = below(bits64 >> 32, len(threshold))
    return column if (bits64 & 0xFFFFFFFF) < int(threshold[column]) else int(alias[column])

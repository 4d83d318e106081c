"""Plain twin of `any2vec.kernels.common.permutation`: Python integers."""

from __future__ import annotations

from naive.common.rng import draw

ROUNDS = 6


def permuted(number: int, n: int, key: int) -> int:
    bits = max(1, (n - 1).bit_length())
    low_bits = bits // 2
    high_bits = bits - low_bits
    while True:
        high, low = divmod(number, 1 << low_bits)
        for turn in range(0, ROUNDS, 2):
            high ^= draw(key, low * ROUNDS + turn) % (1 << high_bits)
            low ^= draw(key, high * ROUNDS + turn + 1) % (1 << low_bits)
        number = high << low_bits | low
        if number < n:
            return number

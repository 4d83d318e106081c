"""The plain twin of the pairs of a stream: a dict of pairs of words, each weight faded to a moment by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from naive.text.pip import pair_counts

BLOCK = 4096


def weights(
    tokens: Sequence[int], keep: Sequence[int], key: int, window: int, offset: int, half_life: int | None
) -> Counter:
    """(row, other row) -> weight, as of the block of the last token; tokens >= len(keep) vanish.

    A pair belongs to the block of its later word. Blocks are counted from the first token; offset is for what is kept.
    """
    row = [*range(len(keep)), -1]
    before: Counter = Counter()
    found: Counter = Counter()
    last = (len(tokens) - 1) // BLOCK
    for stop in range(1, len(tokens) + 1):
        if stop < len(tokens) and stop % BLOCK:
            continue
        until = sum(pair_counts(tokens[:stop], row, keep, key, window, offset), Counter())
        age = (last - (stop - 1) // BLOCK) * BLOCK
        for pair, weight in (until - before).items():
            found[pair] += weight * (2.0 ** (-age / half_life) if half_life else 1)
        before = until
    return found

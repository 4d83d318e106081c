"""The plain twin of clicks: one text at a time, dictionaries for vocabularies, lists for bags."""

from __future__ import annotations

from collections import Counter

from naive.common.rng import mix64


def hash_row(text: bytes, num_rows: int) -> int:
    """The row of a text in a hashed column."""
    if not text:
        return 0
    code = mix64(len(text))
    for at in range(0, len(text), 8):
        code = mix64(code ^ int.from_bytes(text[at : at + 8], "little"))
    return 2 + code % (num_rows - 2)


def vocabulary_of(texts: list[bytes], min_count: int) -> list[bytes]:
    """Values by descending count, ties by first appearance, those below `min_count` left out."""
    counts = Counter(text for text in texts if text)
    return [text for text in sorted(counts, key=lambda text: -counts[text]) if counts[text] >= min_count]


def value_row(text: bytes, vocabulary: list[bytes]) -> int:
    """The row of a text in a column with a vocabulary: 0 missing, 1 rare or unseen."""
    if not text:
        return 0
    return 2 + vocabulary.index(text) if text in vocabulary else 1

"""The plain twin of text encoding: decode, fold, split lines, split words, count in a dict."""

from __future__ import annotations

import codecs
import re
from collections import Counter


def sentences_of(
    data: bytes, lowercase: bool = False, token_pattern: str | None = None, bad_bytes: str = "replace"
) -> list[list[str]]:
    """The non-empty sentences of a text, as lists of words."""
    text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8", {"skip": "ignore"}.get(bad_bytes, bad_bytes))
    if lowercase:
        text = text.lower()
    if token_pattern is None:
        lines = [line.split() for line in text.split("\n")]
    else:
        found = [re.findall(token_pattern, line) for line in text.replace("\r\n", "\n").split("\n")]
        lines = [[word for match in line for word in match.split()] for line in found]
    return [line for line in lines if line]


def encode(sentences: list[list[str]]) -> tuple[list[int], list[str], list[int]]:
    """Tokens (-1 ends a sentence), keys by descending count (ties: first appearance), counts."""
    counts = Counter(word for sentence in sentences for word in sentence)
    keys = sorted(counts, key=lambda word: -counts[word])
    rank = {word: row for row, word in enumerate(keys)}
    tokens = [token for sentence in sentences for token in [*(rank[word] for word in sentence), -1]]
    return tokens, keys, [counts[key] for key in keys]


def first_uses(tokens: list[int]) -> list[int]:
    """The ids in the order of their first uses."""
    return list(dict.fromkeys(token for token in tokens if token >= 0))


def count_bad_bytes(data: bytes) -> int:
    """Bytes that belong to no valid UTF-8 sequence."""
    return len(data) - len(data.decode("utf-8", "ignore").encode())

"""Plain twin of `any2vec.kernels.text.windows`: it reads the whole stream, then says what each center sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from naive.common.rng import below, draw

FAR = 10_000


class Center(NamedTuple):
    index: int
    """place in the array of tokens"""
    position: int
    """global position"""
    row: int
    contexts: list[tuple[int, int]]
    """(distance in kept tokens, row)"""


def centers(
    tokens: Sequence[int], start: int, stop: int, offset: int, keep: Sequence[int], key: int, window: int
) -> tuple[list[Center], int]:
    """The centers of tokens[start:stop], and the number of in-vocabulary tokens there before subsampling."""
    sentences: list[list[tuple[int, int, int]]] = [[]]
    items = 0
    for index, token in enumerate(int(token) for token in tokens):
        if token < 0:
            sentences.append([])
        elif token < len(keep):
            items += start <= index < stop
            bits = draw(int(key), offset + index)
            if (bits & 0xFFFFFFFF) < int(keep[token]):
                sentences[-1].append((index, token, 1 + below(bits >> 32, window)))
    found = []
    for sentence in sentences:
        for place, (index, row, reach) in enumerate(sentence):
            if start <= index < stop:
                near = [
                    (distance, sentence[place + distance][1])
                    for distance in range(-reach, reach + 1)
                    if distance != 0
                    and 0 <= place + distance < len(sentence)
                    and abs(sentence[place + distance][0] - index) <= FAR
                ]
                found.append(Center(index, offset + index, row, near))
    return found, items

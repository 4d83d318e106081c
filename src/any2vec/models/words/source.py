"""Where the tokens of one piece of work come from: a stored corpus, or walks that are made when they are needed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from any2vec.sampling.walks import Walker


_SEARCH = 65_536
"""tokens looked through at a time for the end of a sentence"""


class TokenSource(Protocol):
    """A token stream by positions, the same whoever asks and whenever."""

    num_positions: int
    unit: int
    """cuts of the stream fall on multiples of this many positions"""

    def boundary(self, position: int) -> int:
        """The first position at or behind `position` where a sentence or walk may start: hosts part there."""

    def piece(self, epoch: int, start: int, stop: int) -> tuple[np.ndarray, int, int, int]:
        """(tokens, begin, end, offset): positions [start, stop) are tokens[begin:end], offset that of tokens[0].

        tokens is int32, read-only; what lies around begin and end serves as context.
        """


class StoredTokens:
    """Tokens of a corpus on disk, memory-mapped; every epoch reads the same."""

    def __init__(self, tokens: np.ndarray, unit: int) -> None:
        self.tokens = np.asarray(tokens).view()
        self.tokens.flags.writeable = False  # one type for the kernels, whoever made the array
        self.num_positions = len(tokens)
        self.unit = unit

    def boundary(self, position: int) -> int:
        at = max(0, position - 1)
        while position > 0 and at < self.num_positions:
            ends = np.flatnonzero(self.tokens[at : at + _SEARCH] < 0)
            if ends.size:
                return at + int(ends[0]) + 1
            at += _SEARCH
        return self.num_positions if position > 0 else 0

    def piece(self, epoch: int, start: int, stop: int) -> tuple[np.ndarray, int, int, int]:
        return self.tokens, start, stop, 0


class PartTokens:
    """Tokens of one host's part of a text, at the positions that they have in the whole of it."""

    def __init__(self, tokens: np.ndarray, unit: int, offset: int, num_positions: int) -> None:
        """tokens: int32, the positions from `offset` on; num_positions: of the whole text."""
        self._part = StoredTokens(tokens, unit)
        self.tokens = self._part.tokens
        self.offset = offset
        self.num_positions = num_positions
        self.unit = unit

    def boundary(self, position: int) -> int:
        """Raises IndexError for a position of another host's part."""
        if not self.offset <= position <= self.offset + len(self.tokens):
            raise IndexError(f"position {position} lies in another part of the text")
        return self.offset + self._part.boundary(position - self.offset)

    def piece(self, epoch: int, start: int, stop: int) -> tuple[np.ndarray, int, int, int]:
        if start == stop:  # nothing can be had anywhere
            return self.tokens, 0, 0, self.offset
        if not self.offset <= start < stop <= self.offset + len(self.tokens):
            raise IndexError(f"positions [{start}, {stop}) lie in another part of the text")
        return self.tokens, start - self.offset, stop - self.offset, self.offset


class WalkedTokens:
    """Walks made on the fly; each epoch walks anew, and epoch 0 makes the walks that `any2vec walk` would store."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self.unit = walker.stride
        self.num_positions = walker.num_walks * walker.stride
        self._buffers = threading.local()

    def boundary(self, position: int) -> int:
        return min(self.num_positions, -(-position // self.unit) * self.unit)

    def piece(self, epoch: int, start: int, stop: int) -> tuple[np.ndarray, int, int, int]:
        buffer = getattr(self._buffers, "tokens", None)
        if buffer is None or buffer.size < stop - start:
            buffer = self._buffers.tokens = np.empty(stop - start, np.int32)
        tokens = buffer[: stop - start]
        self.walker.sample(start // self.unit, stop // self.unit, epoch, tokens)
        tokens = tokens[:]
        tokens.flags.writeable = False
        return tokens, 0, stop - start, start

"""Lines as a source gives them: some at a time, each with an id, and where the source goes on behind them.

Legend: N lines, B bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Position = dict[str, Any]
"""where a source goes on, as JSON knows it: what a checkpoint keeps"""


@dataclass(frozen=True, slots=True)
class LineBatch:
    """Lines of one source, in its order; what follows is whole words, of whatever bytes."""

    source: int
    """of the run's sources, which"""
    text_B: np.ndarray
    """uint8 (B,): the lines one after the other, each with its b"\\n" """
    stop_N: np.ndarray
    """int64 (N,): line n is text_B[stop_N[n - 1] : stop_N[n]], the first from 0"""
    key_N: np.ndarray
    """uint64 (N,): what makes two lines the same, hashed: their ids, or their texts"""
    offset_N: np.ndarray
    """int64 (N,), ascending: the number that the source knows a line by; its byte offset in a file"""
    position: Position
    """where the source goes on behind the last of them"""
    names: Sequence[str] | None = None
    """the ids that the source has given its lines; None: the numbers are all there is"""

    def __len__(self) -> int:
        return len(self.stop_N)

    @property
    def num_bytes(self) -> int:
        """Bytes of memory that it takes, about."""
        return (
            self.text_B.nbytes
            + 24 * len(self)
            + (0 if self.names is None else sum(map(len, self.names)) + 57 * len(self))
        )

    def id_of(self, line: int) -> str:
        """The id of a line, alone among those of its source."""
        return str(int(self.offset_N[line])) if self.names is None else self.names[line]

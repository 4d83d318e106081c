"""What a step of a character model trains: pairs, shared negatives, and the distinct words that they are made of.

Legend: M pairs, U distinct words of a side, S shared negatives, C distinct ones of them, R words of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from any2vec.encoders.spelling import Level, tries


@dataclass(frozen=True)
class BatchWords:
    """The words of a batch of the stream, spelled out, and how it is cut into steps."""

    row_R: np.ndarray
    """int64, ascending"""
    symbol_RS: np.ndarray
    size_R: np.ndarray
    """as `spell` has them"""
    cuts: np.ndarray
    """int64: positions of the batch at which steps begin, and its end"""
    negatives: np.ndarray
    """int64 (steps, S): rows"""

    def tries(self, row_U: np.ndarray, reading: str) -> list[list[Level]]:
        """What a reading reads of some of the words."""
        own = np.searchsorted(self.row_R, row_U)
        size_U = self.size_R[own]
        return tries(self.symbol_RS[own, : int(size_U.max())], size_U, reading)


@dataclass(frozen=True)
class Step:
    """Pairs over distinct words; each meets its context once, and each negative with weight share."""

    center_M: np.ndarray
    """int64: which of the centers"""
    context_M: np.ndarray
    """int64: which of the others"""
    row_X: np.ndarray
    """int64: rows of the distinct centers"""
    row_Y: np.ndarray
    """int64: of the distinct contexts and negatives"""
    negative_C: np.ndarray
    """int64: which of the others are negatives"""
    weight_XC: np.ndarray
    """float32: how often a center's pairs meet a negative that is not their context, times share and how often it
    was drawn"""


def make_step(pair_M2: np.ndarray, negative_S: np.ndarray, share: float) -> Step:
    """From (context, center) rows of M pairs, and the rows of the negatives that they share."""
    row_X, center_M = np.unique(pair_M2[:, 1].astype(np.int64), return_inverse=True)
    drawn_C, times_C = np.unique(negative_S, return_counts=True)
    row_Y, context_M = np.unique(np.concatenate([pair_M2[:, 0], drawn_C]), return_inverse=True)
    context_M, negative_C = context_M[: len(pair_M2)], context_M[len(pair_M2) :]
    pairs_X = np.bincount(center_M, minlength=len(row_X))
    place_Y = np.full(len(row_Y), -1)
    place_Y[negative_C] = np.arange(len(drawn_C))
    meets = np.flatnonzero(place_Y[context_M] >= 0)
    weight_XC = np.repeat(pairs_X[:, None], len(drawn_C), axis=1).astype(np.float32)
    np.subtract.at(weight_XC, (center_M[meets], place_Y[context_M[meets]]), 1)
    weight_XC *= np.float32(share) * times_C.astype(np.float32)
    return Step(center_M, context_M, row_X, row_Y, negative_C, weight_XC)

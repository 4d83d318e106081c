"""How many numbers a vector should have: more keep more of the signal, and more of the noise (Yin and Shen 2018).

What is counted is M + Z, the matrix of an endless corpus and noise. Of the vectors U D^a of k factors of M + Z and all
of those of M, the PIP loss falls with k while a factor brings more signal than noise: bias against variance. As Yin and
Shen do, the noise comes from two halves of the corpus and the signal from the spectrum of the whole. They simulate the
loss with random matrices of V x V; here it is worked out, in the limit of large V (Benaych-Georges and Nadakuditi 2011,
sections 3.1 and 3.2): with b = s sqrt(V), s the standard deviation of a cell of Z,

    a factor of strength l > b comes out as y = l + b^2 / l, its direction has the squared cosine c = 1 - b^2 / l^2 with
    the true one; a weaker one is lost in the noise, whose own spectrum ends at 2 b;
    PIP^2(k) = sum over all i of l_i^4a + sum over i <= k of (y_i^4a - 2 y_i^2a l_i^2a c_i).

For a = 1/2 the terms of the last sum are negative where l > sqrt(3) b, y > 4 / sqrt(3) b: Gavish and Donoho's threshold
(2014). The l of a y is what Yin and Shen take, y - 2 b. That is too little where the noise is alike in all cells, for
which the inverse of y = l + b^2 / l is right; noise of SPPMI is not, and has some stronger directions (docs/log.md).

Legend: V vocabulary, R factors whose strength is known, descending.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.data.io.direct import Spill
from any2vec.data.options import TextOptions
from any2vec.data.text.pairs.pair_counts import Stage
from any2vec.evaluate.words.pip import positive_target
from any2vec.evaluate.words.target import FIRST_PART, SECOND_PART, RowBlocks, count_pairs, read_corpus, step
from any2vec.evaluate.words.target_options import DimensionOptions

_FIRST_FACTORS = 64


@dataclass(frozen=True)
class Curve:
    """The PIP loss that vectors of each dimension should have."""

    dim: int
    """the best; 0 where all is noise"""
    signal_R: np.ndarray
    """float64 (R,), strength of the factors behind the noise; 0 for those lost in it"""
    relative_R1: np.ndarray
    """float64 (R + 1,), expected loss of 0, 1, ... R dimensions over that of 0"""


def expected_curve(
    spectrum_R: np.ndarray, noise: float, alpha: float = 0.5, signal: Callable[..., np.ndarray] | None = None
) -> Curve:
    """The expected PIP loss by dimension. Pure.

    Args:
        spectrum_R: float64 (R,), singular values of what is counted, descending.
        noise: b = s sqrt(V), half of where the spectrum of the noise ends.
        alpha: the power of the factors, in (0, 1].
        signal: the strength behind the noise of (spectrum_R, noise); `thresholded_signal` by default.
    """
    signal_R = (signal or thresholded_signal)(spectrum_R, noise)
    is_found = signal_R > noise
    strength_R = np.where(is_found, signal_R, 1.0)
    seen_R = strength_R + noise**2 / strength_R
    aligned_R = 1 - (noise / strength_R) ** 2
    change_R = seen_R ** (4 * alpha) - 2 * (seen_R * strength_R) ** (2 * alpha) * aligned_R
    change_R = np.where(is_found, change_R, spectrum_R ** (4 * alpha))  # a direction of pure noise
    square_R1 = np.cumsum(np.concatenate([[(signal_R ** (4 * alpha)).sum()], change_R]))
    relative_R1 = np.sqrt(np.maximum(square_R1, 0) / max(square_R1[0], 1e-300))
    return Curve(int(np.argmin(square_R1)), np.where(is_found, signal_R, 0.0), relative_R1)


def thresholded_signal(spectrum_R: np.ndarray, noise: float) -> np.ndarray:
    """y - 2 b, or 0: the estimate of Yin and Shen, which takes the largest value of the noise from each factor."""
    return np.maximum(spectrum_R - 2 * noise, 0)


def unbiased_signal(spectrum_R: np.ndarray, noise: float) -> np.ndarray:
    """The l of y = l + b^2 / l; 0 where y <= 2 b. Right where the noise is alike in all cells."""
    root_R = np.sqrt(np.maximum(spectrum_R**2 - 4 * noise**2, 0))
    return np.where(spectrum_R > 2 * noise, (spectrum_R + root_R) / 2, 0.0)


def noise_of_halves(first: RowBlocks, second: RowBlocks) -> float:
    """s, half of the standard deviation of a cell of the difference of two halves: that of a cell of the whole.

    Each half has twice the variance of the whole, and the difference that of both.
    """
    total = square = 0.0
    for mine, other in zip(first.blocks, second.blocks, strict=True):
        difference = (mine - other).data
        total += float(difference.sum())
        square += float(difference @ difference)
    cells = float(first.num_rows) ** 2
    return max(0.0, square / cells - (total / cells) ** 2) ** 0.5 / 2


def leading_spectrum(target: RowBlocks, least: float, most: int) -> np.ndarray:
    """Singular values of a symmetric matrix, descending: down to the first one below `least`, but at most `most`."""
    num = min(_FIRST_FACTORS, most)
    while True:
        value = np.abs(target.top_pairs(num)[0])
        if value[-1] < least or num >= min(most, target.num_rows):
            return value
        num = min(4 * num, most)


@dataclass(frozen=True, kw_only=True)
class DimensionResult:
    """The dimension that is best for a corpus, and why."""

    dim: int
    """with the least expected PIP loss"""
    dim_even_noise: int
    """the same if the noise were alike in all cells: larger, a limit from above"""
    is_cut: bool
    """max_dim ended the search: the best dimension may be larger"""
    expected: float
    """PIP loss expected of it, over that of no vectors at all; of the factors that were found"""
    noise: float
    """standard deviation of a cell"""
    edge: float
    """where the spectrum of the noise ends: 2 noise sqrt(V)"""
    words: int
    pairs: int
    """entries of the SPPMI matrix that are not 0"""
    spectrum: list[float]
    """singular values, descending"""
    signal: list[float]
    """of each, what is taken for signal; 0 where it is lost in the noise"""
    curve: list[float]
    """expected relative PIP loss of 0, 1, 2, ... dimensions"""
    options: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def choose_dimension(
    data: Any,
    *,
    options: DimensionOptions | None = None,
    text: TextOptions | None = None,
    cache_dir: Path | str | None = None,
    spill: Spill | None = None,
    stage: Stage | None = None,
) -> DimensionResult:
    """The dimension of the least expected PIP loss for the words of a corpus.

    Args:
        data: what `encode_text` reads.
        options: of counting, of the target and of the choice.
        text: how the corpus is read.
        cache_dir, spill, stage: as those of `evaluate_pip`.

    Raises:
        DataError: the corpus cannot be read, has too few words, or no pair in it comes more often than chance and the
            shift by log(num_negatives) ask for.
        StorageError: what is beyond the budget of memory cannot be written.

    Neighboring stretches of the text go into the two halves in turn. The noise is taken to be alike in all cells,
    which that of SPPMI is not, and to have no bias, which that of little text has: read the dimension as a guide.
    """
    options = options or DimensionOptions()
    corpus = read_corpus(data, text, cache_dir, stage)
    with spill or Spill() as spill:
        pairs = count_pairs(corpus, lambda key: True, options, spill, stage)
        target = positive_target(pairs)
        noise = noise_of_halves(pairs.sppmi(FIRST_PART), pairs.sppmi(SECOND_PART))
        scale = noise * target.num_rows**0.5
        with step(stage, "spectrum"):
            spectrum = leading_spectrum(target, 2 * scale, options.max_dim)
        num_pairs = target.num_pairs
    curve = expected_curve(spectrum, scale, options.alpha)
    return DimensionResult(
        dim=curve.dim, dim_even_noise=expected_curve(spectrum, scale, options.alpha, unbiased_signal).dim,
        is_cut=curve.dim == len(spectrum) < target.num_rows,
        expected=float(curve.relative_R1[curve.dim]), noise=noise, edge=2 * scale, words=len(pairs.keys),
        pairs=num_pairs, spectrum=spectrum.tolist(), signal=curve.signal_R.tolist(),
        curve=curve.relative_R1.tolist(), options=asdict(options),
    )  # fmt: skip

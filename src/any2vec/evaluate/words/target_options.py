"""The options of what PIP loss and the choice of a dimension compare with. Light: flags are made from it."""

from __future__ import annotations

from dataclasses import dataclass

from any2vec.checks import check_number, check_whole
from any2vec.data.options import PairOptions


@dataclass(frozen=True, kw_only=True)
class TargetOptions(PairOptions):
    """How co-occurrences become shifted positive PMI: as skip-gram with negative sampling weighs them."""

    num_negatives: int = 5
    """negatives per positive pair (the k of PMI - log k), 1..400"""
    noise_power: float = 0.75
    """negatives are drawn in proportion to counts to this power, in [0, 1]; 0.75 is what training does"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("num_negatives", self.num_negatives, 1, 400)
        check_number("noise_power", self.noise_power, 0, 1)


@dataclass(frozen=True, kw_only=True)
class DimensionOptions(TargetOptions):
    """How a dimension is chosen."""

    max_vocab: int | None = 10_000
    """keep only the most frequent words, 2 or more"""
    alpha: float = 0.5
    """vectors are U D^alpha of the factors U D V', in (0, 1]; 0.5 is what skip-gram learns"""
    max_dim: int = 256
    """the largest dimension looked at, 1..4096"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("alpha", self.alpha, 0, 1, open_low=True)
        check_whole("max_dim", self.max_dim, 1, 4096)

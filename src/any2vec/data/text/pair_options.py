"""Which words count as near each other. Light: the command line makes its flags from it."""

from __future__ import annotations

from dataclasses import dataclass

from any2vec.checks import MAX_SEED, check_number, check_whole


@dataclass(frozen=True, kw_only=True)
class PairOptions:
    """What a trainer of skip-gram counts as a pair: its window, its subsampling, its vocabulary."""

    window: int = 5
    """furthest context on either side, in kept words, 1..100; nearer ones weigh more, as each centre of training draws
    its own from 1..window"""
    subsample: float = 1e-4
    """frequency above which words are dropped at random (word2vec's t), in [0, 1]; 0 keeps all"""
    min_count: int = 5
    """words seen less often are left out, 1 or more"""
    max_vocab: int | None = None
    """keep only the most frequent words, 2 or more"""
    seed: int = 1
    """seed of the training whose subsampling is followed"""
    passes: int = 1
    """epochs of that training whose subsampling is followed, each with draws of its own, 1..1,000"""

    def __post_init__(self) -> None:
        check_whole("window", self.window, 1, 100)
        check_number("subsample", self.subsample, 0, 1)
        check_whole("min_count", self.min_count, 1, 2**62)
        if self.max_vocab is not None:
            check_whole("max_vocab", self.max_vocab, 2, 2**28)
        check_whole("seed", self.seed, 0, MAX_SEED)
        check_whole("passes", self.passes, 1, 1000)

"""Skip-gram whose words are made of n-grams of their characters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from any2vec.checks import check_whole
from any2vec.errors import InputError
from any2vec.models.words.config import SequenceModel


def check_grams(min_n: int, max_n: int, buckets: int) -> None:
    """Raise InputError unless these are lengths of n-grams and a number of buckets."""
    check_whole("min_n", min_n, 1, 100)
    check_whole("max_n", max_n, min_n, 100)
    check_whole("buckets", buckets, 1, 2**31 - 1)


@dataclass(frozen=True, kw_only=True)
class NGram(SequenceModel):
    """Skip-gram over words made of their n-grams, so that a word never seen has a vector (fastText).

    Bojanowski et al. 2017, arXiv 1607.04606. A word's vector is the mean of its own row and of its n-grams' rows.
    The ends of a word count as characters of its n-grams; buckets that no word has take no memory.

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "ngram"
    start_spread: ClassVar[float] = 30.0
    """A mean of some 25 rows starts a fifth as long as one (docs/log.md)."""

    learning_rate: float = 0.05
    """initial learning rate, in (0, 1]"""
    min_n: int = 3
    """length of the shortest n-grams, 1 or more"""
    max_n: int = 6
    """length of the longest n-grams, min_n..100"""
    buckets: int = 2_000_000
    """rows to hash n-grams to, 1 or more"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_grams(self.min_n, self.max_n, self.buckets)
        if (self.objective, self.kernel) != ("negative", "block"):
            raise InputError("ngram is trained with negative sampling by blocks; leave out objective and kernel.")

    @property
    def architecture(self) -> str:
        return "skipgram"

"""Options of models that learn from text without an end, checked at the door. Light: no numba, no NumPy."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from any2vec.checks import check_number, check_whole


@dataclass(frozen=True, kw_only=True)
class StreamModel:
    """Options of a model of words that come without an end (abstract).

    Each center draws its own window from 1..window, over the words that subsampling (word2vec's t, by the counts of the
    moment) keeps.
    """

    name: ClassVar[str] = ""
    is_dense: ClassVar[bool] = False
    """whether every batch changes all parameters, and there are no rows"""

    dim: int = 100
    """size of the vectors, 1..4096"""
    window: int = 5
    """context words on each side, 1..100"""
    num_negatives: int = 5
    """negative samples per positive pair, 1..400"""
    learning_rate: float = 0.025
    """initial learning rate, in (0, 1]"""
    subsample: float = 1e-4
    """subsampling threshold, in [0, 1]; 0: off"""

    def __post_init__(self) -> None:
        check_whole("dim", self.dim, 1, 4096)
        check_whole("window", self.window, 1, 100)
        check_whole("num_negatives", self.num_negatives, 1, 400)
        check_number("learning_rate", self.learning_rate, 0, 1, open_low=True)
        check_number("subsample", self.subsample, 0, 1)

    def as_dict(self) -> dict[str, Any]:
        return {"model": self.name} | asdict(self)


@dataclass(frozen=True, kw_only=True)
class StreamSkipGram(StreamModel):
    """Skip-gram with negative sampling over a stream: rows come with their words and go with them.

    Mikolov et al. 2013, arXiv 1310.4546; one pass, in the order of the stream. The learning rate falls
    as 1 / sqrt(1 + words / rate_words), never below min_learning_rate, so that what is new is learned after a year as
    after a day.

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "skipgram"

    learning_rate: float = 0.15
    """initial learning rate, in (0, 1]"""
    min_learning_rate: float = 0.01
    """smallest learning rate, 0..1"""
    rate_words: int = 300_000
    """words until it falls, 1 or more"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("min_learning_rate", self.min_learning_rate, 0, 1)
        check_whole("rate_words", self.rate_words, 1, 2**62)

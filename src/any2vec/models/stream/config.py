"""Options of models that learn from text without an end, checked at the door. Light: no numba, no NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from any2vec.checks import Number, Whole, check_whole
from any2vec.models.config import ModelConfig


@dataclass(frozen=True, kw_only=True)
class StreamModel(ModelConfig):
    """Options of a model of words that come without an end (abstract).

    Each center draws its own window from 1..window, over the words that subsampling (word2vec's t, by the counts of the
    moment) keeps.
    """

    is_dense: ClassVar[bool] = False
    """whether every batch changes all parameters, and there are no rows"""

    dim: Annotated[int, Whole(1, 4096)] = 100
    """size of the vectors, 1..4096"""
    window: Annotated[int, Whole(1, 100)] = 5
    """context words on each side, 1..100"""
    num_negatives: Annotated[int, Whole(1, 400)] = 5
    """negative samples per positive pair, 1..400"""
    learning_rate: Annotated[float, Number(0, 1, open_low=True)] = 0.025
    """initial learning rate, in (0, 1]"""
    subsample: Annotated[float, Number(0, 1)] = 1e-4
    """subsampling threshold, 0..1; 0: off"""


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
    min_learning_rate: Annotated[float, Number(0, 1)] = 0.01
    """smallest learning rate, 0..1"""
    rate_words: Annotated[int, Whole(1, 2**62)] = 300_000
    """words until it falls, 1 or more"""


@dataclass(frozen=True, kw_only=True)
class StreamNGram(StreamSkipGram):
    """Skip-gram over a stream, of words made of their n-grams, so that a word never seen has a vector (fastText).

    Bojanowski et al. 2017, arXiv 1607.04606. A word's vector is the mean of its own row and of its n-grams' rows.
    The ends of a word count as characters of its n-grams; all buckets are part of the memory.

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "ngram"

    learning_rate: float = 0.075
    """initial learning rate, in (0, 1]"""
    rate_words: int = 1_000_000
    """words until it falls, 1 or more"""
    min_n: Annotated[int, Whole(1, 100)] = 3
    """length of the shortest n-grams, 1 or more"""
    max_n: int = 6
    """length of the longest n-grams, min_n..100"""
    buckets: Annotated[int, Whole(1, 2**31 - 1)] = 200_000
    """rows to hash n-grams to, 1 or more"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("max_n", self.max_n, self.min_n, 100)


@dataclass(frozen=True, kw_only=True)
class StreamCharLstm(StreamModel):
    """Skip-gram over a stream, of words that an LSTM reads byte by byte: no word has a row, and any word has a vector.

    Two generators, one for centers (the result) and one for contexts and negatives; each distinct word of a step is
    encoded once. What is read last counts most; both directions have an LSTM each. Each shared negative is weighed by
    num_negatives over their number.

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "char-lstm"
    is_dense: ClassVar[bool] = True

    learning_rate: float = 0.002
    """learning rate of Adam, in (0, 1]"""
    reading: Literal["forward", "backward", "both"] = "backward"
    """direction in words"""
    hidden: Annotated[int, Whole(1, 4096)] = 256
    """size of an LSTM's state, 1..4096"""
    byte_dim: Annotated[int, Whole(1, 4096)] = 64
    """size of a byte's vector, 1..4096"""
    batch_pairs: Annotated[int, Whole(1, 2**24)] = 2048
    """pairs per step, about, 1 or more"""
    shared_negatives: Annotated[int, Whole(1, 65_536)] = 128
    """negatives of a step, 1..65,536"""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: a GPU if any"""

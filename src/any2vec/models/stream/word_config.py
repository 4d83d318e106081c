"""Options of the models of streams that make vectors of words from their characters. Light: no numba, no NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from any2vec.checks import check_choice, check_whole
from any2vec.models.stream.config import StreamModel, StreamSkipGram
from any2vec.models.words.ngram import check_grams


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
    min_n: int = 3
    """length of the shortest n-grams, 1 or more"""
    max_n: int = 6
    """length of the longest n-grams, min_n..100"""
    buckets: int = 200_000
    """rows to hash n-grams to, 1 or more"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_grams(self.min_n, self.max_n, self.buckets)


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
    hidden: int = 256
    """size of an LSTM's state, 1..4096"""
    byte_dim: int = 64
    """size of a byte's vector, 1..4096"""
    batch_pairs: int = 2048
    """pairs per step, about, 1 or more"""
    shared_negatives: int = 128
    """negatives of a step, 1..65,536"""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: a GPU if any"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("reading", self.reading, ("forward", "backward", "both"))
        check_whole("hidden", self.hidden, 1, 4096)
        check_whole("byte_dim", self.byte_dim, 1, 4096)
        check_whole("batch_pairs", self.batch_pairs, 1, 2**24)
        check_whole("shared_negatives", self.shared_negatives, 1, 65_536)
        check_choice("device", self.device, ("auto", "cpu", "cuda"))

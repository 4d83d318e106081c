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

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "ngram"

    learning_rate: float = 0.075
    """learning rate at the start, in (0, 1]; it falls as 1 / sqrt(1 + words / rate_words)"""
    rate_words: int = 1_000_000
    """words of the stream over which the learning rate begins to fall, 1 and up"""
    min_n: int = 3
    """characters of the shortest n-grams, 1 or more; a word's ends count as characters"""
    max_n: int = 6
    """characters of the longest n-grams, min_n..100"""
    buckets: int = 200_000
    """n-grams are hashed to so many rows, 1 or more; all of them are part of the memory"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_grams(self.min_n, self.max_n, self.buckets)


@dataclass(frozen=True, kw_only=True)
class StreamCharLstm(StreamModel):
    """Skip-gram over a stream, of words that an LSTM reads byte by byte: no word has a row, and any word has a vector.

    Two generators, one for centres (the result) and one for contexts and negatives; each distinct word of a step is
    encoded once.

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "char-lstm"
    is_dense: ClassVar[bool] = True

    learning_rate: float = 0.002
    """learning rate of Adam, in (0, 1]"""
    reading: Literal["forward", "backward", "both"] = "backward"
    """from which end a word's bytes are read; both: by an LSTM each. What is read last counts most"""
    hidden: int = 256
    """numbers of the state of an LSTM, 1..4096"""
    byte_dim: int = 64
    """numbers per byte, 1..4096"""
    batch_pairs: int = 2048
    """pairs of a step, about, 1 or more"""
    shared_negatives: int = 128
    """negatives that the pairs of a step share, each weighed by num_negatives over their number, 1..65,536"""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """where the generators are trained; auto: on a GPU if there is one"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("reading", self.reading, ("forward", "backward", "both"))
        check_whole("hidden", self.hidden, 1, 4096)
        check_whole("byte_dim", self.byte_dim, 1, 4096)
        check_whole("batch_pairs", self.batch_pairs, 1, 2**24)
        check_whole("shared_negatives", self.shared_negatives, 1, 65_536)
        check_choice("device", self.device, ("auto", "cpu", "cuda"))

"""Models over sequences: the options of training, checked at the door. Light: no numba, no NumPy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from any2vec.checks import Number, Whole, check_whole
from any2vec.errors import InputError
from any2vec.models.config import ModelConfig


@dataclass(frozen=True, kw_only=True)
class SequenceModel(ModelConfig):
    """Options of a model that learns from which items stand near each other in sequences (abstract).

    Each center draws its own window from 1..window, over the items that subsampling (word2vec's t) keeps. The learning
    rate decays with the progress of the whole run. kernel block: neighboring centers share their negatives, which is
    fast; classic: each pair draws its own, the reference.
    """

    default_epochs: ClassVar[int] = 5
    is_graph: ClassVar[bool] = False
    architecture: ClassVar[Literal["skipgram", "cbow"]] = "skipgram"
    start_spread: ClassVar[float] = 0.5
    """input rows start uniform in +-start_spread / dim; word2vec has 0.5, gensim 1"""
    default_order: ClassVar[str] = "beta"
    """of buckets, where the table is larger than memory"""
    shared_for_five: ClassVar[int] = 12
    """negatives that a block shares when each pair asks for five, and in proportion"""
    block_centers: ClassVar[int] = 16
    """kept tokens that a block of text holds on average; with walks a block is a walk"""

    dim: Annotated[int, Whole(1, 4096)] = 100
    """size of the vectors, 1..4096"""
    window: Annotated[int, Whole(1, 100)] = 5
    """context items on each side, 1..100"""
    objective: Literal["negative", "hierarchical"] = "negative"
    """negative sampling, or hierarchical softmax"""
    num_negatives: Annotated[int, Whole(1, 400)] = 5
    """negative samples per positive pair, 1..400"""
    learning_rate: Annotated[float, Number(0, 1, open_low=True)] = 0.025
    """initial learning rate, in (0, 1]"""
    min_learning_rate: Annotated[float, Number(0, 1)] = 1e-4
    """final learning rate, 0..learning_rate"""
    subsample: Annotated[float, Number(0, 1)] = 1e-4
    """subsampling threshold, 0..1; 0: off"""
    min_count: Annotated[int, Whole(1, 2**62)] = 5
    """ignore items seen less often, 1 or more"""
    max_vocab: Annotated[int | None, Whole(2, 2**31 - 1)] = None
    """keep so many of the most frequent items, 2 or more"""
    kernel: Literal["block", "classic"] = "block"
    """share negatives in a block, or draw them for each pair"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.objective == "hierarchical" and (self.num_negatives, self.kernel) != (5, "block"):
            raise InputError("num_negatives and kernel belong to negative sampling; leave them out of hierarchical.")

    @property
    def cost(self) -> int:
        """Multiply-adds of one position, roughly."""
        return self.dim * self.window * self.num_negatives


@dataclass(frozen=True, kw_only=True)
class WalkModel(SequenceModel):
    """Options of a model of graph nodes: random walks are its sentences (abstract)."""

    default_epochs: ClassVar[int] = 1
    is_graph: ClassVar[bool] = True
    start_spread: ClassVar[float] = 1.5
    shared_for_five: ClassVar[int] = 24
    """twice as many as for text: a walk meets the same nodes again and again"""

    dim: int = 128
    """size of the vectors, 1..4096"""
    window: int = 10
    """steps of context on each side, 1..100"""
    subsample: float = 0.0
    """subsampling threshold, 0..1; 0: off"""
    min_count: int = field(default=1, metadata={"flag": False})
    """always 1: every node gets a vector"""
    max_vocab: None = field(default=None, metadata={"flag": False})
    walks_per_node: Annotated[int, Whole(1, 100_000)] = 10
    """walks per node and epoch, 1..100,000"""
    walk_length: Annotated[int, Whole(2, 100_000)] = 40
    """nodes of a walk, 2..100,000"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_vocab is not None or self.min_count != 1:
            raise InputError("max_vocab and min_count do not apply to graphs: every node gets a vector.")


@dataclass(frozen=True, kw_only=True)
class SkipGram(SequenceModel):
    """Skip-gram: the context predicts the center word, pair by pair (Mikolov et al. 2013, arXiv 1310.4546).

    Skip-gram over sentences, with negative sampling or hierarchical softmax.

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "skipgram"
    start_spread: ClassVar[float] = 2.0


@dataclass(frozen=True, kw_only=True)
class CBOW(SequenceModel):
    """CBOW: the mean of the context predicts the center word (Mikolov et al. 2013, arXiv 1301.3781, section 3.1).

    Continuous bag of words over sentences, with negative sampling or hierarchical softmax.

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "cbow"
    architecture: ClassVar[Literal["skipgram", "cbow"]] = "cbow"
    start_spread: ClassVar[float] = 6.0
    """A mean of contexts starts smaller than one row: with 0.5 the first epoch learns little (docs/log.md)."""
    block_centers: ClassVar[int] = 32
    """Each center meets its row once, so that a longer block only shares its negatives among more (docs/log.md)."""


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
    min_n: Annotated[int, Whole(1, 100)] = 3
    """length of the shortest n-grams, 1 or more"""
    max_n: int = 6
    """length of the longest n-grams, min_n..100"""
    buckets: Annotated[int, Whole(1, 2**31 - 1)] = 2_000_000
    """rows to hash n-grams to, 1 or more"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("max_n", self.max_n, self.min_n, 100)
        if (self.objective, self.kernel) != ("negative", "block"):
            raise InputError("ngram is trained with negative sampling by blocks; leave out objective and kernel.")


@dataclass(frozen=True, kw_only=True)
class DeepWalk(WalkModel):
    """DeepWalk: skip-gram over uniform random walks (Perozzi, Al-Rfou, Skiena 2014, arXiv 1403.6652).

    Skip-gram over first-order walks; edges are followed in proportion to their weights.

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "deepwalk"


@dataclass(frozen=True, kw_only=True)
class Node2Vec(WalkModel):
    """node2vec: skip-gram over second-order random walks (Grover and Leskovec 2016, arXiv 1607.00653, section 3.2).

    Skip-gram over walks that remember the node they came from: with p above 1 a walk rarely steps back, with p below 1
    it often does; with q above 1 it stays near where it came from, with q below 1 it moves away.

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "node2vec"

    p: Annotated[float, Number(0, 1e6, open_low=True)] = 1.0
    """return parameter, in (0, 1e6]"""
    q: Annotated[float, Number(0, 1e6, open_low=True)] = 1.0
    """in-out parameter, in (0, 1e6]"""

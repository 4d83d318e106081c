"""What all models over sequences share: the options of training, checked at the door. Light: no numba, no NumPy."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

from any2vec.checks import check_choice, check_number, check_whole
from any2vec.errors import InputError


@dataclass(frozen=True, kw_only=True)
class SequenceModel:
    """Options of a model that learns from which items stand near each other in sequences (abstract).

    Each center draws its own window from 1..window, over the items that subsampling (word2vec's t) keeps. The learning
    rate decays with the progress of the whole run. kernel block: neighboring centers share their negatives, which is
    fast; classic: each pair draws its own, the reference.
    """

    name: ClassVar[str] = ""
    default_epochs: ClassVar[int] = 5
    is_graph: ClassVar[bool] = False
    start_spread: ClassVar[float] = 0.5
    """input rows start uniform in +-start_spread / dim; word2vec has 0.5, gensim 1"""
    default_order: ClassVar[str] = "beta"
    """of buckets, where the table is larger than memory"""
    shared_for_five: ClassVar[int] = 12
    """negatives that a block shares when each pair asks for five, and in proportion"""
    block_centers: ClassVar[int] = 16
    """kept tokens that a block of text holds on average; with walks a block is a walk"""

    dim: int = 100
    """size of the vectors, 1..4096"""
    window: int = 5
    """context items on each side, 1..100"""
    objective: Literal["negative", "hierarchical"] = "negative"
    """negative sampling, or hierarchical softmax"""
    num_negatives: int = 5
    """negative samples per positive pair, 1..400"""
    learning_rate: float = 0.025
    """initial learning rate, in (0, 1]"""
    min_learning_rate: float = 1e-4
    """final learning rate, 0..learning_rate"""
    subsample: float = 1e-4
    """subsampling threshold, in [0, 1]; 0: off"""
    min_count: int = 5
    """ignore items seen less often, 1 or more"""
    max_vocab: int | None = None
    """keep so many of the most frequent items, 2 or more"""
    kernel: Literal["block", "classic"] = "block"
    """share negatives in a block, or draw them for each pair"""

    @property
    def architecture(self) -> str:
        """skipgram or cbow"""
        raise NotImplementedError

    def __post_init__(self) -> None:
        for item in fields(self):  # NumPy's numbers become Python's: options are written as JSON
            value = getattr(self, item.name)
            if isinstance(value, Real) and not isinstance(value, int | float):
                object.__setattr__(self, item.name, int(value) if isinstance(value, Integral) else float(value))
        check_whole("dim", self.dim, 1, 4096)
        check_whole("window", self.window, 1, 100)
        check_choice("objective", self.objective, ("negative", "hierarchical"))
        check_whole("num_negatives", self.num_negatives, 1, 400)
        check_number("learning_rate", self.learning_rate, 0, 1, open_low=True)
        check_number("min_learning_rate", self.min_learning_rate, 0, 1)
        check_number("subsample", self.subsample, 0, 1)
        check_whole("min_count", self.min_count, 1, 2**62)
        if self.max_vocab is not None:
            check_whole("max_vocab", self.max_vocab, 2, 2**31 - 1)
        check_choice("kernel", self.kernel, ("block", "classic"))
        if self.objective == "hierarchical" and (self.num_negatives, self.kernel) != (5, "block"):
            raise InputError("num_negatives and kernel belong to negative sampling; leave them out of hierarchical.")

    @property
    def cost(self) -> int:
        """Multiply-adds of one position, roughly."""
        return self.dim * self.window * self.num_negatives

    def as_dict(self) -> dict[str, Any]:
        return {"model": self.name} | asdict(self)


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
    """subsampling threshold, in [0, 1]; 0: off"""
    min_count: int = field(default=1, metadata={"flag": False})
    """always 1: every node gets a vector"""
    max_vocab: None = field(default=None, metadata={"flag": False})
    walks_per_node: int = 10
    """walks per node and epoch, 1..100,000"""
    walk_length: int = 40
    """nodes of a walk, 2..100,000"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("walks_per_node", self.walks_per_node, 1, 100_000)
        check_whole("walk_length", self.walk_length, 2, 100_000)
        if self.max_vocab is not None or self.min_count != 1:
            raise InputError("max_vocab and min_count do not apply to graphs: every node gets a vector.")

"""Models of implicit feedback: the options of training, checked at the door. Light: no numba, no NumPy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from any2vec.checks import Number, Whole
from any2vec.models.config import ModelConfig
from any2vec.models.words.config import SequenceModel

RECOMMEND_MODELS = {
    "bpr": "any2vec.models.recommend.config:BPR",
    "als": "any2vec.models.recommend.config:ALS",
    "item2vec": "any2vec.models.recommend.config:Item2Vec",
}
"""name on the command line -> "module:class" of its config"""


@dataclass(frozen=True, kw_only=True)
class BPR(ModelConfig):
    """Bayesian personalized ranking (Rendle et al. 2009): a user's items should score above other items.

    Matrix factorization by stochastic gradients. For each user-item pair it draws items that the user does not have,
    and trains against the one with the highest score (dynamic negative sampling, Zhang et al. 2013); with one draw
    it is BPR as published. popularity_share: the share of draws by item frequency; the others are
    uniform. The learning rate decays linearly. Weights of interactions are ignored.

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "bpr"
    default_epochs: ClassVar[int] = 60
    start_spread: ClassVar[float] = 0.1
    """rows start uniform within this"""
    is_cosine: ClassVar[bool] = False

    dim: Annotated[int, Whole(1, 4096)] = 64
    """size of the vectors, 1..4096"""
    learning_rate: Annotated[float, Number(0, 10, open_low=True)] = 0.1
    """initial learning rate, in (0, 10]"""
    min_learning_rate: Annotated[float, Number(0, 10)] = 0.01
    """final learning rate, 0..learning_rate"""
    l2: Annotated[float, Number(0, 1000)] = 0.02
    """weight of L2 regularization of the vectors, 0..1000"""
    l2_bias: Annotated[float, Number(0, 1000)] = 0.0
    """weight of L2 regularization of the items' biases, 0..1000"""
    num_negatives: Annotated[int, Whole(1, 1000)] = 8
    """items drawn for a pair, of which the highest is trained, 1..1000"""
    popularity_share: Annotated[float, Number(0, 1)] = 0.0
    """share of negatives by popularity, in [0, 1]"""


@dataclass(frozen=True, kw_only=True)
class ALS(ModelConfig):
    """Alternating least squares over implicit feedback (Hu, Koren, Volinsky 2008).

    A pair of weight w counts 1 + alpha w, any other pair 1. Rows are solved by conjugate gradients (Takács, Pilászy,
    Tikk 2011), those of users, then those of items; the bits do not depend on the number of threads.

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "als"
    default_epochs: ClassVar[int] = 15
    start_spread: ClassVar[float] = 0.1
    is_cosine: ClassVar[bool] = False

    dim: Annotated[int, Whole(1, 4096)] = 64
    """size of the vectors, 1..4096"""
    alpha: Annotated[float, Number(0, 1e6, open_low=True)] = 8.0
    """how much more a pair counts, times its weight, in (0, 1e6]"""
    l2: Annotated[float, Number(0, 1e6, open_low=True)] = 10.0
    """weight of L2 regularization, in (0, 1e6]"""
    cg_steps: Annotated[int, Whole(1, 1000)] = 3
    """steps of conjugate gradients for a row, 1..1000"""


@dataclass(frozen=True, kw_only=True)
class Item2Vec(SequenceModel):
    """item2vec: skip-gram with negative sampling over the items of each user (Barkan and Koenigstein 2016).

    The items of a user are a set: each epoch shuffles them (section 3 of the paper), so that any two
    fall into the window equally often. A user's vector is the mean of its items' unit vectors; items are ranked
    by cosine.

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "item2vec"
    default_epochs: ClassVar[int] = 20
    start_spread: ClassVar[float] = 2.0
    is_cosine: ClassVar[bool] = True

    dim: int = 64
    """size of the vectors, 1..4096"""
    window: int = 40
    """items of the set on each side, 1..100"""
    learning_rate: float = 0.05
    """initial learning rate, in (0, 1]"""
    subsample: float = 1e-4
    """subsampling threshold, 0..1, raised where items are few; 0: off"""
    min_count: int = field(default=1, metadata={"flag": False})
    """always 1: every item gets a vector"""
    max_vocab: None = field(default=None, metadata={"flag": False})


RecommendModel = BPR | ALS | Item2Vec

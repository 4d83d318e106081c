"""Models of clicks: the options of training, checked at the door. Light: no numba, NumPy or PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from any2vec.checks import Number, Whole
from any2vec.errors import InputError
from any2vec.models.config import ModelConfig

CLICK_MODELS = {
    "dlrm": "any2vec.models.clicks.config:DLRM",
    "deepfm": "any2vec.models.clicks.config:DeepFM",
    "fm": "any2vec.models.clicks.config:FactorizationMachine",
    "logistic": "any2vec.models.clicks.config:LogisticRegression",
}
"""name on the command line -> "module:class" of its config"""
_MOST_LAYERS = 16


def layer_sizes(name: str, text: str) -> tuple[int, ...]:
    """Sizes of hidden layers from "512-256-64"; () from "".

    Raises:
        InputError: it is not written like that.
    """
    found = text.split("-") if isinstance(text, str) and text else []
    legal = isinstance(text, str) and all(size.isdecimal() and 1 <= int(size) <= 65_536 for size in found)
    if not legal or len(found) > _MOST_LAYERS:
        raise InputError(
            f"{name} must be up to {_MOST_LAYERS} layer sizes from 1 to 65,536 like 512-256-64, got {text!r}."
        )
    return tuple(int(size) for size in found)


@dataclass(frozen=True, kw_only=True)
class ClickModel(ModelConfig):
    """Options of a model that predicts clicks from categories and numbers (abstract).

    Row-wise optimizers keep one squared gradient for a row.
    """

    default_epochs: ClassVar[int] = 1
    has_weights: ClassVar[bool] = True
    """each row has one more number beside its vector: its weight in a linear part"""
    dense_share: ClassVar[float] = 0.25
    """learning rate of the dense layers over that of the rows, where nobody says it"""

    dim: Annotated[int, Whole(1, 4096)] = 16
    """size of the vectors, 1..4096"""
    learning_rate: Annotated[float, Number(0, 10, open_low=True)] = 0.02
    """learning rate of the rows, in (0, 10]"""
    dense_learning_rate: Annotated[float | None, Number(0, 10, open_low=True)] = None
    """of the dense layers, in (0, 10]; by default a quarter of the rows', for fm and logistic the same"""
    optimizer: Literal["adagrad", "adam", "sgd"] = "adagrad"
    """optimizer of the dense layers and, row-wise, of the rows"""
    batch_size: Annotated[int, Whole(1, 1 << 20)] = 128
    """examples per step and host, 1..1,048,576"""

    @property
    def dense_rate(self) -> float:
        """The learning rate of the dense layers that counts."""
        own = self.dense_learning_rate
        return self.dense_share * self.learning_rate if own is None else own

    @property
    def vector_dim(self) -> int:
        """Numbers of a row that are its vector."""
        return self.dim

    @property
    def width(self) -> int:
        """Numbers of a row that are learned: its vector, and its weight where it has one."""
        return self.vector_dim + self.has_weights


@dataclass(frozen=True, kw_only=True)
class DLRM(ClickModel):
    """DLRM (Naumov et al. 2019): dot products of embedding rows and an MLP of the numbers feed a second MLP.

    The bottom MLP, over the numbers, ends in a layer of dim units; the top MLP, over the dot products, in one of 1.

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "dlrm"
    has_weights: ClassVar[bool] = False

    bottom: str = "128-64"
    """hidden layers of the bottom MLP, like 512-256"""
    top: str = "128-64"
    """hidden layers of the top MLP, like 512-256"""

    def __post_init__(self) -> None:
        super().__post_init__()
        layer_sizes("bottom", self.bottom)
        layer_sizes("top", self.top)


@dataclass(frozen=True, kw_only=True)
class DeepFM(ClickModel):
    """DeepFM (Guo et al. 2017): the sum of a factorization machine and an MLP over the same vectors.

    The MLP ends in a layer of 1 unit.

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "deepfm"

    learning_rate: float = 0.01
    """learning rate of the rows, in (0, 10]"""
    layers: str = "128-64"
    """hidden layers of the MLP, like 400-400"""

    def __post_init__(self) -> None:
        super().__post_init__()
        layer_sizes("layers", self.layers)


@dataclass(frozen=True, kw_only=True)
class FactorizationMachine(ClickModel):
    """Factorization machine (Rendle 2010): a linear part, and the dot products of all pairs of columns.

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "fm"
    dense_share: ClassVar[float] = 1.0

    learning_rate: float = 0.01
    """learning rate of the rows, in (0, 10]"""


@dataclass(frozen=True, kw_only=True)
class LogisticRegression(ClickModel):
    """Logistic regression over categories and numbers: the baseline for other models.

    One weight for each category and number. Its vectors are these weights, of dim 1.

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "logistic"
    dense_share: ClassVar[float] = 1.0

    dim: int = 1
    """always 1: the weight"""
    learning_rate: float = 0.05
    """learning rate of the rows, in (0, 10]"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dim != 1:
            raise InputError(f"dim of logistic is 1, the weight of a category, got {self.dim!r}; leave it out.")

    @property
    def vector_dim(self) -> int:
        """Nothing but the weight."""
        return 0

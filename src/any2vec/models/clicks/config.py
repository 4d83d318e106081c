"""What all models of clicks share: the options of training, checked at the door. Light: no numba, NumPy or PyTorch."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

from any2vec.checks import check_choice, check_number, check_whole
from any2vec.errors import InputError

CLICK_MODELS = {
    "dlrm": "any2vec.models.clicks.dlrm:DLRM",
    "deepfm": "any2vec.models.clicks.deepfm:DeepFM",
    "fm": "any2vec.models.clicks.fm:FactorizationMachine",
    "logistic": "any2vec.models.clicks.logistic:LogisticRegression",
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
class ClickModel:
    """Options of a model that predicts clicks from categories and numbers (abstract).

    Row-wise optimizers keep one squared gradient for a row.
    """

    name: ClassVar[str] = ""
    default_epochs: ClassVar[int] = 1
    has_weights: ClassVar[bool] = True
    """each row has one more number beside its vector: its weight in a linear part"""
    dense_share: ClassVar[float] = 0.25
    """learning rate of the dense layers over that of the rows, where nobody says it"""

    dim: int = 16
    """size of the vectors, 1..4096"""
    learning_rate: float = 0.02
    """learning rate of the rows, in (0, 10]"""
    dense_learning_rate: float | None = None
    """of the dense layers, in (0, 10]; by default a quarter of the rows', for fm and logistic the same"""
    optimizer: Literal["adagrad", "adam", "sgd"] = "adagrad"
    """optimizer of the dense layers and, row-wise, of the rows"""
    batch_size: int = 128
    """examples per step and host, 1..1,048,576"""

    def __post_init__(self) -> None:
        check_whole("dim", self.dim, 1, 4096)
        check_number("learning_rate", self.learning_rate, 0, 10, open_low=True)
        if self.dense_learning_rate is not None:
            check_number("dense_learning_rate", self.dense_learning_rate, 0, 10, open_low=True)
        check_choice("optimizer", self.optimizer, ("adagrad", "adam", "sgd"))
        check_whole("batch_size", self.batch_size, 1, 1 << 20)

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

    def as_dict(self) -> dict[str, Any]:
        return {"model": self.name} | asdict(self)

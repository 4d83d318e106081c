"""DeepFM, a model of clicks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from any2vec.models.clicks.config import ClickModel, layer_sizes


@dataclass(frozen=True, kw_only=True)
class DeepFM(ClickModel):
    """DeepFM (Guo et al. 2017): a factorization machine and a network over the same vectors, added up.

    The MLP ends in a layer of 1 number.

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

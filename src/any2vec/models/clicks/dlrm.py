"""The deep learning recommendation model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from any2vec.models.clicks.config import ClickModel, layer_sizes


@dataclass(frozen=True, kw_only=True)
class DLRM(ClickModel):
    """DLRM (Naumov et al. 2019): rows and a network over the numbers meet in dot products, a second network judges.

    The bottom MLP, over the numbers, ends in a layer of dim numbers, the top MLP, over the dot products, in one of 1.

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

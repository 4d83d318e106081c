"""ConvE: a convolution over head and relation as an image (Dettmers et al. 2018, section 3), by autograd."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch.nn import functional

from any2vec.checks import check_whole
from any2vec.errors import InputError
from any2vec.models.triples.config import TripleModel
from any2vec.models.triples.score import Dense
from any2vec.models.triples.torch_score import TorchScore


@dataclass(frozen=True, kw_only=True)
class ConvE(TripleModel):
    """Vectors of entities and relations by ConvE."""

    name: ClassVar[str] = "conve"
    start_spread: ClassVar[float] = 0.1
    height: ClassVar[int] = 4

    dim: int = 64
    """size of the vectors, a multiple of 4 from 12"""
    filters: int = 16
    """filters of 3 x 3, 1..1024"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("filters", self.filters, 1, 1024)
        if self.dim % self.height or self.dim < 12:
            raise InputError(f"dim of conve must be a multiple of {self.height} from 12, got {self.dim}.")

    def start_dense(self, rng: np.random.Generator) -> Dense:
        width = self.dim // self.height
        inner = self.filters * (2 * self.height - 2) * (width - 2)
        shapes = {"filters": (self.filters, 1, 3, 3), "layer": (self.dim, inner), "bias": (self.dim,)}
        spread = {"filters": 0.5, "layer": inner**-0.5, "bias": 0.0}
        return {name: rng.normal(0, spread[name], shape).astype(np.float32) for name, shape in shapes.items()}

    def make_score(self) -> TorchScore:
        return Convolution()


class Convolution(TorchScore):
    def scores(self, entity_QD, relation_QP, candidate_KD, dense):
        rows = [row.view(len(row), 1, ConvE.height, -1) for row in (entity_QD, relation_QP)]
        found = functional.relu(functional.conv2d(torch.cat(rows, dim=2), dense["filters"]))
        query_QD = functional.relu(functional.linear(found.flatten(1), dense["layer"], dense["bias"]))
        return query_QD @ candidate_KD.T

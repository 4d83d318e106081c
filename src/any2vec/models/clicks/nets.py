"""The dense parts of the models of clicks, as PyTorch modules: numbers and pooled rows in, a logit out.

Legend: B examples, X numbers of an example, F columns of categories, D dim, G = F + 1 vectors with that of the numbers.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from any2vec.errors import InputError
from any2vec.kernels.clicks.pair_dots import pair_dots, pair_dots_back
from any2vec.models.clicks.config import DLRM, ClickModel, DeepFM, layer_sizes


class PairDots(torch.autograd.Function):
    """Dot products of all pairs of vectors: float32 (B, G, D) -> (B, G (G - 1) / 2)."""

    @staticmethod
    def forward(context: Any, vector_BGD: torch.Tensor) -> torch.Tensor:
        vectors = vector_BGD.contiguous()
        context.save_for_backward(vectors)
        size, num_vectors, _ = vectors.shape
        dots = np.empty((size, num_vectors * (num_vectors - 1) // 2), np.float32)
        pair_dots(vectors.detach().numpy(), dots)
        return torch.from_numpy(dots)

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        (vectors,) = context.saved_tensors
        found = np.empty(vectors.shape, np.float32)
        pair_dots_back(vectors.numpy(), gradients[0].contiguous().numpy(), found)
        return torch.from_numpy(found)


def _network(sizes: list[int], ends_in_relu: bool) -> nn.Sequential:
    layers: list[nn.Module] = []
    for size_in, size_out in pairwise(sizes):
        layers += [nn.Linear(size_in, size_out), nn.ReLU()]
    return nn.Sequential(*(layers if ends_in_relu else layers[:-1]))


class DlrmNet(nn.Module):
    """DLRM without its rows."""

    def __init__(self, model: DLRM, num_dense: int, num_columns: int) -> None:
        super().__init__()
        dim, self.has_numbers = model.dim, num_dense > 0
        if self.has_numbers:
            self.bottom = _network([num_dense, *layer_sizes("bottom", model.bottom), dim], True)
        num_vectors = num_columns + self.has_numbers
        num_pairs = num_vectors * (num_vectors - 1) // 2
        self.top = _network([num_pairs + dim * self.has_numbers, *layer_sizes("top", model.top), 1], False)

    def forward(self, dense_BX: torch.Tensor, pooled_BFW: torch.Tensor) -> torch.Tensor:
        if not self.has_numbers:
            return self.top(PairDots.apply(pooled_BFW)).squeeze(1)
        numbers_BD = self.bottom(dense_BX)
        dots_BK = PairDots.apply(torch.cat([numbers_BD[:, None], pooled_BFW], dim=1))
        return self.top(torch.cat([numbers_BD, dots_BK], dim=1)).squeeze(1)


class FmNet(nn.Module):
    """The linear part over numbers and weights of rows; and, where rows have vectors, the dot products of all pairs."""

    def __init__(self, model: ClickModel, num_dense: int) -> None:
        super().__init__()
        self.dim = model.vector_dim
        self.linear = nn.Parameter(torch.zeros(num_dense))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, dense_BX: torch.Tensor, pooled_BFW: torch.Tensor) -> torch.Tensor:
        logit_B = self.bias + pooled_BFW[:, :, self.dim].sum(dim=1) + dense_BX @ self.linear
        if self.dim:  # Rendle 2010, equation 5: half of (square of the sum - sum of the squares)
            vector_BFD = pooled_BFW[:, :, : self.dim]
            total_BD = vector_BFD.sum(dim=1)
            logit_B = logit_B + 0.5 * ((total_BD**2).sum(dim=1) - (vector_BFD**2).sum(dim=(1, 2)))
        return logit_B


class DeepFmNet(nn.Module):
    """DeepFM without its rows."""

    def __init__(self, model: DeepFM, num_dense: int, num_columns: int) -> None:
        super().__init__()
        self.dim = model.dim
        self.machine = FmNet(model, num_dense)
        self.deep = _network([num_columns * model.dim + num_dense, *layer_sizes("layers", model.layers), 1], False)

    def forward(self, dense_BX: torch.Tensor, pooled_BFW: torch.Tensor) -> torch.Tensor:
        vectors = pooled_BFW[:, :, : self.dim].flatten(1)
        return self.machine(dense_BX, pooled_BFW) + self.deep(torch.cat([vectors, dense_BX], dim=1)).squeeze(1)


def make_net(model: ClickModel, num_dense: int, num_columns: int) -> nn.Module:
    """The dense part of a model over X numbers and F columns.

    Raises:
        InputError: there is nothing for it to learn from.
    """
    if num_columns < 1:
        raise InputError(f"{model.name} needs one column of categories at least; the schema names none.")
    if isinstance(model, DLRM):
        if num_columns + (num_dense > 0) < 2:
            raise InputError("dlrm needs two columns of categories, or one and numbers; take deepfm, fm or logistic.")
        return DlrmNet(model, num_dense, num_columns)
    if isinstance(model, DeepFM):
        return DeepFmNet(model, num_dense, num_columns)
    return FmNet(model, num_dense)


def start_values(net: nn.Module, seed: int) -> np.ndarray:
    """Flat start values of a net, float32 (Q,): matrices uniform as Glorot and Bengio 2010, equation 16; vectors 0."""
    found = []
    for number, parameter in enumerate(net.parameters()):
        if parameter.ndim < 2:
            found.append(np.zeros(parameter.numel(), np.float32))
            continue
        limit = float(np.sqrt(6.0 / sum(parameter.shape)))
        draws = np.random.Generator(np.random.Philox(key=[seed, number]))
        found.append(draws.uniform(-limit, limit, parameter.numel()).astype(np.float32))
    return np.concatenate(found)


def share_storage(net: nn.Module, value_Q: np.ndarray, gradient_Q: np.ndarray) -> None:
    """Let the parameters of a net live in value_Q and their gradients in gradient_Q, both float32 (Q,)."""
    values, gradients, at = torch.from_numpy(value_Q), torch.from_numpy(gradient_Q), 0
    for parameter in net.parameters():
        size = parameter.numel()
        parameter.data = values[at : at + size].view(parameter.shape)
        parameter.grad = gradients[at : at + size].view(parameter.shape)
        at += size

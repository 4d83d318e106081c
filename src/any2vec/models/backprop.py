"""GA-MLP by back-propagation: the same network, objective and growth as pdADMM-G's, all layers in turn on one host.

Legend as in `admm_blocks`; X columns of the augmented features, C classes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch.nn import functional

from any2vec.models.admm_network import Course, Weights, grow, start_weights
from any2vec.models.ga_mlp import GAMLP
from any2vec.types import Stats, Work

_KINDS: dict[str, type[torch.optim.Optimizer]] = {
    "gd": torch.optim.SGD, "adadelta": torch.optim.Adadelta, "adagrad": torch.optim.Adagrad, "adam": torch.optim.Adam,
}  # fmt: skip
_ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}


class BackpropLearner:
    """All layers; one epoch is one step on all training nodes. The optimiser begins anew where the network grows.

    The objective is that of pdADMM-G over the number T of training nodes: mean cross-entropy + weight decay / 2T |W|^2.
    """

    def __init__(
        self, model: GAMLP, course: Course, x_TX: np.ndarray, label_T: np.ndarray, num_classes: int, seed: int
    ) -> None:
        self.model = model
        self.course = course
        self._x_TX, self._label_T = torch.from_numpy(x_TX), torch.from_numpy(label_T)
        self._num_classes = num_classes
        self._seed = seed
        self._stage = -1
        self._layers: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._optimiser: torch.optim.Optimizer | None = None

    def run(self, work: Work) -> Stats:
        """One epoch; its loss is the mean cross-entropy before the step."""
        began = time.thread_time()
        stage = self.course.stage(work.epoch)
        if stage != self._stage:
            self._enter(stage, self.weights() if self._stage >= 0 else None)
        assert self._optimiser is not None
        _, _, decay = self.model.penalties(work.epoch, stage)
        nodes = len(self._label_T)
        self._optimiser.zero_grad()
        loss = functional.cross_entropy(self._answer(), self._label_T)
        squares = sum(w_IO.square().sum() for w_IO, _ in self._layers)
        (loss + decay / (2 * nodes) * squares).backward()
        self._optimiser.step()
        return Stats(nodes, float(loss.detach()) * nodes, nodes, time.thread_time() - began)

    def learning_rate(self, progress: float) -> float:
        """Always the same."""
        return self.model.rate

    def settle(self) -> None:
        """Nothing is on its way."""

    def close(self) -> None:
        """There are no threads to end."""

    def weights(self) -> list[Weights]:
        """Of all layers."""
        return [Weights(w_IO.detach().numpy().copy(), b_O.detach().numpy().copy()) for w_IO, b_O in self._layers]

    def state(self) -> dict[str, np.ndarray]:
        """Weights, and what the optimiser keeps, by name."""
        assert self._optimiser is not None
        found: dict[str, np.ndarray] = {}
        for at, pair in enumerate(self._layers):
            for name, tensor in zip("wb", pair, strict=True):
                found[f"layer{at}.{name}"] = tensor.detach().numpy().copy()
                for kept, value in self._optimiser.state[tensor].items():
                    found[f"layer{at}.{name}.{kept}"] = torch.as_tensor(value, dtype=torch.float32).numpy().copy()
        return {name: array if array.ndim == 2 else array.reshape(1, -1) for name, array in found.items()}

    def recall(self, epoch: int, state: dict[str, np.ndarray]) -> None:
        """Go on with an epoch from a state."""
        stage = self.course.stage(max(0, epoch - 1))
        self._enter(stage, None)
        assert self._optimiser is not None
        for at, pair in enumerate(self._layers):
            for name, tensor in zip("wb", pair, strict=True):
                own = f"layer{at}.{name}"
                stored = {
                    key.removeprefix(f"{own}."): value for key, value in state.items() if key.startswith(f"{own}.")
                }
                with torch.no_grad():
                    tensor.copy_(torch.from_numpy(np.array(state[own])).reshape(tensor.shape))
                self._optimiser.state[tensor] |= {
                    kept: torch.from_numpy(np.array(value)).reshape(() if kept == "step" else tensor.shape)
                    for kept, value in stored.items()
                }

    def _enter(self, stage: int, weights: Sequence[Weights] | None) -> None:
        size, self._stage = self.course.sizes[stage], stage
        if weights is None:
            sizes = [self._x_TX.shape[1], *[self.model.width] * (size - 1), self._num_classes]
            weights = start_weights(sizes, self._seed)
        self._layers = [
            (torch.from_numpy(w_IO).requires_grad_(), torch.from_numpy(b_O).requires_grad_())
            for w_IO, b_O in grow(weights, size)
        ]
        parameters = [tensor for pair in self._layers for tensor in pair]
        self._optimiser = _KINDS[self.model.trainer](parameters, lr=self.model.rate)  # type: ignore[call-arg]

    def _answer(self) -> torch.Tensor:
        """Scores of the classes, (T, C)."""
        (w_XO, b_O), f = self._layers[0], _ACTIVATIONS[self.model.activation]
        a_TO = torch.addmm(b_O, self._x_TX, w_XO)
        for _, (w_IO, b_O) in pairwise(self._layers):
            a_TO = torch.addmm(b_O, f(a_TO), w_IO)
        return a_TO

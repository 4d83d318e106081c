"""pdADMM-G, one iteration an epoch, with the layers of a network on hosts in a row.

Legend as in `models/layers/admm/blocks.py`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from any2vec.cluster.grid import Grid
from any2vec.cluster.transport import Transport
from any2vec.models.layers.activation import activation
from any2vec.models.layers.admm.blocks import Steps
from any2vec.models.layers.admm.group import PHASES, AdmmGroup
from any2vec.models.layers.admm.layer import MONITORS, Penalties
from any2vec.models.layers.admm.network import Quantized, make_layers
from any2vec.models.layers.ga_mlp import GAMLP
from any2vec.models.layers.neighbors import neighbors_of
from any2vec.models.layers.network_learner import NetworkLearner
from any2vec.models.layers.weights import Course, Weights
from any2vec.types import State

_LITERAL = Steps(20.0, tries=10)
_TERMS = ("fit", "between", "decay", "risk")
"""of the Lagrangian"""
_FISTA_STEPS, _TOLERANCE = 100, 1e-6


class AdmmLearner(NetworkLearner):
    """One host's layers in pdADMM-G.

    Args:
        dual_is_sent: see `SyncOptions.dual`.
    """

    phases = PHASES
    group: AdmmGroup | None

    def __init__(
        self, model: GAMLP, course: Course, x_TX: np.ndarray, label_T: np.ndarray, num_classes: int, seed: int,
        transport: Transport, dual_is_sent: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(model, course, x_TX, label_T, num_classes, seed, transport)
        self.history: list[dict[int, list[float]]] = []
        """of each epoch: this host's layers, and their monitors in their order; after a resume rank 0 has those of the
        epochs before it, of all layers"""
        self._dual_is_sent = dual_is_sent

    def iterate(self, epoch: int, stage: int) -> float | None:
        """An iteration of all layers; the cross-entropy is that at z of the last layer."""
        self.history.append({})
        if self.group is None:
            return None
        self.group.iterate(Penalties(*self.model.penalties(epoch, stage)))
        layers = self.group.layers
        self.history[-1] = {layer.index: [layer.monitor[name] for name in MONITORS] for layer in layers}
        return None if layers[-1].label_T is None else layers[-1].monitor["risk"]

    def learning_rate(self, progress: float) -> float:
        """There is none; records show nu."""
        return self.model.start_nu

    def memory(self) -> State:
        """The history, float64: a row of epoch, layer and monitors for each layer of each epoch."""
        rows = [
            [epoch, index, *values] for epoch, layers in enumerate(self.history) for index, values in layers.items()
        ]
        return {"history": np.array(rows, np.float64).reshape(-1, 2 + len(MONITORS))}

    def load_state_dict(self, state: State, epoch: int) -> None:
        super().load_state_dict(state, epoch)
        self.history = [{} for _ in range(epoch)]
        if self.transport.rank != 0:
            return
        for name, array in state.items():
            if name.startswith("history@"):
                for number, index, *values in array.tolist():
                    self.history[int(number)][int(index)] = values

    def host_metrics(self) -> dict[str, Any]:
        return super().host_metrics() | {"history": self.history}

    def metrics(self, by_host: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Monitors by epoch, each added up over all layers in their order."""
        found: dict[str, list[float]] = {name: [] for name in MONITORS}
        for epoch in zip(*(host["history"] for host in by_host), strict=True):
            layers = {int(index): values for host in epoch for index, values in host.items()}
            columns = zip(*(layers[index] for index in sorted(layers)), strict=True)
            for name, column in zip(MONITORS, columns, strict=True):
                found[name].append(sum(column))
        return {
            "lagrangian": [sum(values) for values in zip(*(found[name] for name in _TERMS), strict=True)],
            "residual": [value**0.5 for value in found["residual"]],
            "decrease": {name: values for name, values in found.items() if name.startswith(("fell", "rose"))},
        }

    def make(self, weights: Sequence[Weights], held: Sequence[dict[str, np.ndarray]] | None) -> AdmmGroup:
        """Layers as a forward pass leaves them, or as they were."""
        model = self.model
        quantized = None
        if model.quantize != "none":
            grid = Grid(model.grid_values) if model.quantize == "grid" else int(model.quantize)
            quantized = Quantized("p" in model.quantized, "q" in model.quantized, grid)
        first, stop = self.bounds[self.transport.rank], self.bounds[self.transport.rank + 1]
        layers = make_layers(
            weights, self.x_TX, self.label_T, activation(model.activation), _LITERAL if model.literal else Steps(),
            quantized, first, stop, _FISTA_STEPS, _TOLERANCE,
            None if held is None else [float(blocks["reach"][0, 0]) for blocks in held],
        )  # fmt: skip
        if held is not None:
            for layer in layers:
                layer.load_state_dict(held[layer.index], held[layer.index - 1] if layer.index else None)
        return AdmmGroup(layers, self.transport, neighbors_of(self.transport.rank, self.bounds), self._dual_is_sent)

    def seconds_of(self, weights: Weights, is_first: bool, is_last: bool) -> float:
        """The second iteration."""
        size_in, size_out = weights.w_IO.shape
        random = np.random.default_rng(0)
        p_TI = self.x_TX if is_first else random.random((len(self.x_TX), size_in), np.float32)
        network, label_T = [weights], self.label_T
        if not is_last:
            network.append(Weights(random.random((size_out, 2), np.float32), np.zeros(2, np.float32)))
            label_T = label_T % 2
        layer = make_layers(network, p_TI, label_T, activation(self.model.activation), Steps(), None, 0, 1)[0]
        if not is_first:
            layer.on_work(p_TI, np.zeros_like(p_TI))
        now = Penalties(*self.model.penalties(0, 0))
        for _ in range(2):
            began = time.thread_time()
            layer.move_input(now)
            layer.move_inside(now)
            if not is_last:
                assert layer.q_TO is not None
                layer.move_output(layer.q_TO, now)
            seconds = time.thread_time() - began
        return seconds

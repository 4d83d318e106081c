"""What one host does in an epoch of pdADMM-G: an iteration of its layers; where the network grows, all hosts meet.

Legend as in `models/admm_blocks.py`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from any2vec.cluster.grid import Grid
from any2vec.cluster.message import Part
from any2vec.cluster.transport import Transport
from any2vec.models.activation import activation
from any2vec.models.admm_blocks import Steps
from any2vec.models.admm_layer import MONITORS, Layer, Penalties
from any2vec.models.admm_network import Course, Quantised, Weights, grow, make_layers, start_weights
from any2vec.models.ga_mlp import GAMLP
from any2vec.parallel.layer_group import LayerGroup, neighbours_of
from any2vec.plan.layers import deal_layers
from any2vec.types import Stats, Work

_LITERAL = Steps(20.0, tries=10)
_FISTA_STEPS, _TOLERANCE = 100, 1e-6
_GROWTH = "growth"
"""phase of the messages in which hosts tell each other their layers' weights"""


class LayerLearner:
    """One host's layers, from the first epoch to the last.

    Args:
        x_TX, label_T: the training nodes' features and classes, the same on every host.
        dual_is_sent: see `LayerOptions.dual`.
    """

    def __init__(
        self, model: GAMLP, course: Course, x_TX: np.ndarray, label_T: np.ndarray, num_classes: int, seed: int,
        transport: Transport, dual_is_sent: bool = True,
    ) -> None:  # fmt: skip
        self.model = model
        self.course = course
        self.group: LayerGroup | None = None
        """None: this host has no layer at the moment, or training has not begun"""
        self.bounds: list[int] = []
        """host h has layers [bounds[h], bounds[h + 1])"""
        self.history: list[dict[int, list[float]]] = []
        """of each epoch since this process has begun: this host's layers, and their monitors in their order"""
        self._x_TX, self._label_T = x_TX, label_T
        self._first = [x_TX.shape[1], model.width], [model.width, num_classes]
        self._seed = seed
        self._transport = transport
        self._dual_is_sent = dual_is_sent
        self._stage = -1

    def run(self, work: Work) -> Stats:
        """One epoch. Its loss is the mean cross-entropy of the training nodes at z of the last layer."""
        began = time.thread_time()
        stage = self.course.stage(work.epoch)
        if stage != self._stage:
            self._enter(stage, self.weights() if self._stage >= 0 else None)
        if self.group is None:
            self.history.append({})
            return Stats(0, 0.0, 0)
        self.group.iterate(Penalties(*self.model.penalties(work.epoch, stage)))
        layers = self.group.layers
        self.history.append({layer.index: [layer.monitor[name] for name in MONITORS] for layer in layers})
        if layers[-1].label_T is None:
            return Stats(0, 0.0, 0, time.thread_time() - began)
        nodes = len(self._label_T)
        return Stats(nodes, layers[-1].monitor["risk"], nodes, time.thread_time() - began)

    def learning_rate(self, progress: float) -> float:
        """There is none; records show nu."""
        return self.model.start_nu

    def settle(self) -> None:
        """Nothing is on its way afterwards."""
        if self.group is not None:
            self.group.settle()

    def close(self) -> None:
        """There are no threads to end."""

    def weights(self) -> list[Weights]:
        """Of all layers, at every host; all call it together."""
        self.settle()
        own = [] if self.group is None else self.group.layers
        parts = [Part("dense", array) for layer in own for array in (layer.w_IO, layer.b_O)]
        others = self._transport.exchange(dict.fromkeys(range(self._transport.hosts), parts), _GROWTH)
        found = sorted((others | {self._transport.rank: tuple(parts)}).items())
        arrays = [part.array for _, theirs in found for part in theirs]
        return [Weights(w_IO, b_O) for w_IO, b_O in zip(arrays[::2], arrays[1::2], strict=True)]

    def state(self) -> dict[str, np.ndarray]:
        """What this host's layers hold, by name."""
        own = [] if self.group is None else self.group.layers
        return {f"layer{layer.index}.{name}": array for layer in own for name, array in layer.state().items()}

    def recall(self, epoch: int, state: dict[str, np.ndarray]) -> None:
        """Go on with an epoch from what all layers have held after the one before; all hosts call it together."""
        stage = self.course.stage(max(0, epoch - 1))
        held: list[dict[str, np.ndarray]] = [{} for _ in range(self.course.sizes[stage])]
        for name, array in state.items():
            place, _, block = name.partition(".")
            held[int(place.removeprefix("layer"))][block] = np.array(array)
        self._enter(stage, None, [float(blocks["reach"][0, 0]) for blocks in held])
        for layer in [] if self.group is None else self.group.layers:
            layer.recall(held[layer.index], held[layer.index - 1] if layer.index else None)

    def _enter(self, stage: int, weights: Sequence[Weights] | None, reaches: Sequence[float] | None = None) -> None:
        """Take this host's layers of a size.

        weights: of the size before, None: new ones; reaches: see `make_layers`.
        """
        size, self._stage = self.course.sizes[stage], stage
        if weights is None:
            (size_in, width), (_, num_classes) = self._first
            weights = start_weights([size_in, *[width] * (size - 1), num_classes], self._seed)
        weights = grow(weights, size)
        rank, hosts = self._transport.rank, self._transport.hosts
        self.bounds = deal_layers(self._costs([weight.w_IO.shape for weight in weights]), hosts)
        first, stop = self.bounds[rank], self.bounds[rank + 1]
        self.group = None
        if first < stop:
            layers = self._make(weights, first, stop, reaches)
            self.group = LayerGroup(layers, self._transport, neighbours_of(rank, self.bounds), self._dual_is_sent)

    def _make(self, weights: Sequence[Weights], first: int, stop: int, reaches: Sequence[float] | None) -> list[Layer]:
        model = self.model
        quantised = None
        if model.quantize != "none":
            grid = Grid(model.grid_values) if model.quantize == "grid" else int(model.quantize)
            quantised = Quantised("p" in model.quantized, "q" in model.quantized, grid)
        return make_layers(
            weights, self._x_TX, self._label_T, activation(model.activation), _LITERAL if model.literal else Steps(),
            quantised, first, stop, _FISTA_STEPS, _TOLERANCE, reaches,
        )  # fmt: skip

    def _costs(self, shapes: Sequence[tuple[int, ...]]) -> list[float]:
        """Seconds of an iteration of each layer, measured at rank 0 on one of each shape; alike at every host."""
        if self._transport.hosts == 1:
            return [1.0] * len(shapes)
        found: dict[tuple[int, ...], float] = {}
        if self._transport.rank == 0:
            places = {shape: at for at, shape in reversed(list(enumerate(shapes)))}
            found = {shape: self._seconds(shape, at == 0, at == len(shapes) - 1) for shape, at in places.items()}
        own = Part("control", np.array([found.get(shape, 0.0) for shape in shapes]))
        return [float(cost) for cost in self._transport.share([own], _GROWTH)[0].array]

    def _seconds(self, shape: tuple[int, ...], is_first: bool, is_last: bool) -> float:
        """Of the second iteration of a made-up layer."""
        random = np.random.default_rng(0)
        p_TI = self._x_TX if is_first else random.random((len(self._x_TX), shape[0]), np.float32)
        w_IO = random.random(shape, np.float32) - np.float32(0.5)
        weights = [Weights(w_IO, np.zeros(shape[1], np.float32))]
        if not is_last:
            weights.append(Weights(random.random((shape[1], 2), np.float32), np.zeros(2, np.float32)))
        label_T = self._label_T if is_last else self._label_T % 2
        layer = make_layers(weights, p_TI, label_T, activation(self.model.activation), Steps(), None, 0, 1)[0]
        if not is_first:
            layer.hear(p_TI, np.zeros_like(p_TI))
        now = Penalties(*self.model.penalties(0, 0))
        seconds = 0.0
        for _ in range(2):
            began = time.thread_time()
            layer.move_input(now)
            layer.move_inside(now)
            if not is_last:
                assert layer.q_TO is not None
                layer.move_output(layer.q_TO, now)
            seconds = time.thread_time() - began
        return max(seconds, 1e-9)


def monitors_by_epoch(histories: Sequence[Sequence[dict[int, list[float]]]]) -> dict[str, list[float]]:
    """Each monitor by epoch, added up over the layers in their order; histories: of all hosts."""
    told: dict[str, list[float]] = {name: [] for name in MONITORS}
    for epoch in zip(*histories, strict=True):
        layers = {index: values for host in epoch for index, values in host.items()}
        values = [sum(column) for column in zip(*(layers[index] for index in sorted(layers)), strict=True)]
        for name, value in zip(MONITORS, values, strict=True):
            told[name].append(value)
    return told


def times_of(bounds: Sequence[int], seconds: Sequence[Sequence[float]]) -> dict[str, list[float]]:
    """For the summary: of the last size, how many layers each host has had, and the seconds of each layer's updates."""
    return {
        "layers_by_host": [stop - start for start, stop in pairwise(bounds)],
        "seconds_by_layer": [spent for host in seconds for spent in host],
    }

"""One host's layers of a network that grows: who has which, and that all hosts meet where it grows.

Legend: T training nodes, X columns of their features.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from any2vec.cluster.message import Part
from any2vec.cluster.transport import Transport
from any2vec.errors import InputError
from any2vec.models.layers.ga_mlp import GAMLP
from any2vec.models.layers.weights import Course, Weights, grow, start_weights
from any2vec.plan.sharding.layers import layers_of_hosts
from any2vec.types import Service, Span, State, Stats, Work

_GROWTH = "growth"
"""phase of the messages in which hosts tell each other their layers' weights"""


class HeldLayer(Protocol):
    """A layer of this host."""

    index: int

    def state_dict(self) -> State:
        """What a checkpoint keeps of it, weights "w" (I, O) and "b" (1, O) among it."""


class Group(Service, Protocol):
    """Consecutive layers on one host, one or more. Nothing is on its way when they quiesce."""

    seconds: list[float]
    """of this thread, spent in layers and not in waiting, by layer"""

    @property
    def layers(self) -> Sequence[HeldLayer]: ...


class NetworkLearner(ABC):
    """One host's layers, from the first epoch to the last (abstract: how they learn).

    Args:
        x_TX, label_T: the training nodes' features and classes, the same on every host.
    """

    phases: ClassVar[tuple[str, ...]]
    """of the messages between neighbors"""
    group: Group | None
    """None: this host has no layer at the moment, or training has not begun"""

    def __init__(
        self, model: GAMLP, course: Course, x_TX: np.ndarray, label_T: np.ndarray, num_classes: int, seed: int,
        transport: Transport,
    ) -> None:  # fmt: skip
        self.model = model
        self.course = course
        self.group = None
        self.bounds: list[int] = []
        """host h has layers [bounds[h], bounds[h + 1])"""
        self.x_TX, self.label_T = x_TX, label_T
        self.transport = transport
        self._num_classes = num_classes
        self._seed = seed
        self._stage = -1

    def run(self, work: Work[Span]) -> Stats:
        """One epoch; its loss is the training nodes' cross-entropy, sent by the host of the last layer.

        Raises:
            InputError: there is none any more, for the training has diverged.
        """
        began = time.thread_time()
        stage = self.course.stage(work.epoch)
        if stage != self._stage:
            self._enter(stage, self.weights() if self._stage >= 0 else None)
        with np.errstate(over="ignore", invalid="ignore"):
            loss = self.iterate(work.epoch, stage)
        if loss is not None:
            check_finite(np.array(loss), self.model)
        nodes = 0 if loss is None else len(self.label_T)
        return Stats(nodes, loss or 0.0, nodes, time.thread_time() - began)

    @abstractmethod
    def iterate(self, epoch: int, stage: int) -> float | None:
        """One epoch of a stage of the growth; the cross-entropy, summed, at the host of the last layer, else None."""

    @abstractmethod
    def learning_rate(self, progress: float) -> float:
        """What records show."""

    def quiesce(self) -> None:
        """Nothing is on its way afterwards."""
        if self.group is not None:
            self.group.quiesce()

    def close(self) -> None:
        """The layers are not needed any more."""
        self.group = None

    def weights(self) -> list[Weights]:
        """Of all layers, at every host; all call it together."""
        self.quiesce()
        own = [] if self.group is None else [layer.state_dict() for layer in self.group.layers]
        parts = [Part("dense", state[name]) for state in own for name in ("w", "b")]
        others = self.transport.exchange(dict.fromkeys(range(self.transport.hosts), parts), _GROWTH)
        found = sorted((others | {self.transport.rank: tuple(parts)}).items())
        arrays = [part.array for _, theirs in found for part in theirs]
        return [Weights(w_IO, b_1O[0]) for w_IO, b_1O in zip(arrays[::2], arrays[1::2], strict=True)]

    def state_dict(self) -> State:
        """What this host's layers hold, by name."""
        own = [] if self.group is None else self.group.layers
        return {f"layer{layer.index}.{name}": array for layer in own for name, array in layer.state_dict().items()}

    def load_state_dict(self, state: State, epoch: int) -> None:
        """Go on with an epoch from what all layers have held after the one before; all hosts call it together."""
        stage = self.course.stage(max(0, epoch - 1))
        held: list[dict[str, np.ndarray]] = [{} for _ in range(self.course.sizes[stage])]
        for name, array in state.items():
            place, _, block = name.partition(".")
            if block:
                held[int(place.removeprefix("layer"))][block] = np.array(array)
        self._enter(stage, [Weights(blocks["w"], blocks["b"][0]) for blocks in held], held)

    def host_metrics(self) -> dict[str, Any]:
        """What this host has to say for the summary: JSON."""
        return {"seconds": [] if self.group is None else self.group.seconds}

    def metrics(self, by_host: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """What the summary says beyond that, of what all hosts have reported."""
        return {}

    def memory(self) -> State:
        """What each host keeps of its own in a checkpoint."""
        return {}

    @abstractmethod
    def make(self, weights: Sequence[Weights], held: Sequence[dict[str, np.ndarray]] | None) -> Group:
        """This host's layers, see `bounds`, of a network of these weights.

        held: what the layers of a run that goes on have held; None: they are new, or the network has grown.
        """

    @abstractmethod
    def seconds_of(self, weights: Weights, is_first: bool, is_last: bool) -> float:
        """Of this thread, for an iteration of one layer, made up but for its shape."""

    def _enter(
        self, stage: int, weights: Sequence[Weights] | None, held: Sequence[dict[str, np.ndarray]] | None = None
    ) -> None:
        """Take this host's layers of a size.

        weights: of the size before, or of this one; None: new ones. held: see `make`.
        """
        size, self._stage = self.course.sizes[stage], stage
        if weights is None:
            sizes = [self.x_TX.shape[1], *[self.model.width] * (size - 1), self._num_classes]
            weights = start_weights(sizes, self._seed)
        weights = grow(weights, size)
        self.bounds = layers_of_hosts(self._costs([weight.w_IO.shape for weight in weights]), self.transport.hosts)
        first, stop = self.bounds[self.transport.rank], self.bounds[self.transport.rank + 1]
        self.group = self.make(weights, held) if first < stop else None

    def _costs(self, shapes: Sequence[tuple[int, ...]]) -> list[float]:
        """Seconds of an iteration of each layer, measured at rank 0 on one of each shape; alike at every host."""
        if self.transport.hosts == 1:
            return [1.0] * len(shapes)
        found: dict[tuple[int, ...], float] = {}
        if self.transport.rank == 0:
            random = np.random.default_rng(0)
            places = {shape: at for at, shape in reversed(list(enumerate(shapes)))}
            for shape, at in places.items():
                w_IO = random.random(shape, np.float32) - np.float32(0.5)
                weights = Weights(w_IO, np.zeros(shape[1], np.float32))
                found[shape] = max(1e-9, self.seconds_of(weights, at == 0, at == len(shapes) - 1))
        own = Part("control", np.array([found.get(shape, 0.0) for shape in shapes]))
        return [float(cost) for cost in self.transport.share([own], _GROWTH)[0].array]


def check_finite(numbers: np.ndarray, model: GAMLP) -> None:
    """Raise InputError unless all are numbers."""
    if not np.isfinite(numbers).all():
        cure = "lower nu and rho" if model.trainer == "pdadmm" else "lower learning_rate"
        raise InputError(
            f"What is trained are no numbers any more: the training has diverged; {cure}, or scale the "
            "features (normalize)."
        )

"""The layers of one host in back-propagation, in micro-batches through hosts in a row: GPipe's schedule.

Huang et al., arXiv 1811.06965, section 2.3: all micro-batches go up, one after the other, then all come down, the last
one first; so while a host is at one of them its neighbors are at others. Weights change when all are through. Their
gradients are added up from the last micro-batch to the first, the weight decay's behind them, in float32: whichever
host a layer is on, the bits are the same. Activations are kept, not made again.

Legend: B nodes of a micro-batch, C classes, I inputs of the lowest layer here, O outputs of the highest.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from any2vec.cluster.message import Part
from any2vec.cluster.transport import Transport
from any2vec.models.layers.admm.last import risk, risk_gradient
from any2vec.models.layers.backprop.layer import BackpropLayer
from any2vec.models.layers.neighbors import Neighbors, array_from
from any2vec.types import Service

CHANNEL = "pipeline"
PHASES = ("activation", "gradient")
"""what a message between neighbors carries: upwards, and downwards"""


class PipelineGroup(Service):
    """Consecutive layers on one host, one or more.

    Args:
        micros: the micro-batches: features (B, X) and classes int64 (B,) of each, the same on every host.
    """

    def __init__(
        self, layers: Sequence[BackpropLayer], transport: Transport, neighbors: Neighbors,
        micros: Sequence[tuple[np.ndarray, np.ndarray]],
    ) -> None:  # fmt: skip
        self.layers = layers
        self.seconds = [0.0] * len(layers)
        """of this thread, spent in layers and not in waiting, by layer"""
        self._transport = transport
        self._below, self._above = neighbors
        self._micros = micros
        self._num_nodes = sum(len(label_B) for _, label_B in micros)
        self._scores: list[np.ndarray] = []
        """(B, C) of each micro-batch, at the host of the last layer"""

    def iterate(self, decay: float) -> float | None:
        """One step on all nodes; the cross-entropy before it, summed, at the host of the last layer, else None."""
        for micro in range(len(self._micros)):
            self._up(micro)
        loss = None if self._above is not None else self._risk()
        for micro in reversed(range(len(self._micros))):
            self._down(micro)
        self._scores.clear()
        for place, layer in enumerate(self.layers):
            began = time.thread_time()
            layer.step(decay / self._num_nodes)
            self.seconds[place] += time.thread_time() - began
        return loss

    def _risk(self) -> float:
        return sum(risk(score_BC, label_B) for score_BC, (_, label_B) in zip(self._scores, self._micros, strict=True))

    def _up(self, micro: int) -> None:
        features_BX, label_B = self._micros[micro]
        h = features_BX if self._below is None else self._recv(self._below, "activation", len(label_B))
        for place, layer in enumerate(self.layers):
            began = time.thread_time()
            h = layer.up(micro, h)
            self.seconds[place] += time.thread_time() - began
        if self._above is None:
            self._scores.append(h)
        else:
            self._transport.send(self._above, [Part("dense", h)], "activation", CHANNEL)

    def _down(self, micro: int) -> None:
        label_B = self._micros[micro][1]
        if self._above is None:
            gradient: np.ndarray | None = risk_gradient(self._scores[micro], label_B) / np.float32(self._num_nodes)
        else:
            gradient = self._recv(self._above, "gradient", len(label_B))
        for place, layer in reversed(list(enumerate(self.layers))):
            assert gradient is not None
            began = time.thread_time()
            gradient = layer.down(micro, gradient)
            self.seconds[place] += time.thread_time() - began
        if self._below is not None:
            assert gradient is not None
            self._transport.send(self._below, [Part("dense", gradient)], "gradient", CHANNEL)

    def _recv(self, peer: int, phase: str, num_nodes: int) -> np.ndarray:
        ends = self.layers[0].num_inputs if phase == "activation" else self.layers[-1].num_outputs
        part = self._transport.recv(peer, phase, CHANNEL).parts[0]
        return array_from(peer, phase, part.array, (num_nodes, ends), np.dtype(np.float32))

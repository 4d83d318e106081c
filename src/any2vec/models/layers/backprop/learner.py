"""Back-propagation, one step an epoch, with the layers of a network on hosts in a row.

Legend: T training nodes, I inputs and O outputs of a layer, B nodes of a micro-batch.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from any2vec.models.layers.backprop.group import PHASES, PipelineGroup
from any2vec.models.layers.backprop.layer import BackpropLayer
from any2vec.models.layers.neighbors import neighbors_of
from any2vec.models.layers.network_learner import NetworkLearner
from any2vec.models.layers.weights import Weights


class PipelineLearner(NetworkLearner):
    """The objective is that of pdADMM-G over the number T of training nodes: mean cross-entropy + decay / 2T |W|^2.

    The optimizer begins anew where the network grows.
    """

    phases = PHASES
    group: PipelineGroup | None

    def iterate(self, epoch: int, stage: int) -> float | None:
        """One step on all training nodes."""
        if self.group is None:
            return None
        return self.group.iterate(self.model.penalties(epoch, stage)[2])

    def learning_rate(self, progress: float) -> float:
        """Always the same."""
        return self.model.rate

    def make(self, weights: Sequence[Weights], held: Sequence[dict[str, np.ndarray]] | None) -> PipelineGroup:
        """Layers that go on with the weights, and with what their optimizers have held."""
        first, stop = self.bounds[self.transport.rank], self.bounds[self.transport.rank + 1]
        last = len(weights) - 1
        layers = [BackpropLayer(at, weights[at], at == last, self.model) for at in range(first, stop)]
        if held is not None:
            for layer in layers:
                layer.load_state_dict(held[layer.index])
        micros = [(self.x_TX[part], self.label_T[part]) for part in self._micro_batches()]
        return PipelineGroup(layers, self.transport, neighbors_of(self.transport.rank, self.bounds), micros)

    def seconds_of(self, weights: Weights, is_first: bool, is_last: bool) -> float:
        """The second time up and down with all micro-batches."""
        layer = BackpropLayer(0 if is_first else 1, weights, is_last, self.model)
        random = np.random.default_rng(0)
        size_in, size_out = weights.w_IO.shape
        parts = self._micro_batches()
        for _ in range(2):
            inputs = [self.x_TX[part] if is_first else random.random((part.stop - part.start, size_in), np.float32)
                      for part in parts]  # fmt: skip
            gradients = [random.random((len(input_BI), size_out), np.float32) for input_BI in inputs]
            began = time.thread_time()
            for micro, input_BI in enumerate(inputs):
                layer.up(micro, input_BI)
            for micro, gradient_BO in enumerate(gradients):
                layer.down(micro, gradient_BO)
            layer.step(0.0)
            seconds = time.thread_time() - began
        return seconds

    def _micro_batches(self) -> list[slice]:
        """Rows of each, in the nodes' order, as alike in number as can be."""
        nodes, micros = len(self.label_T), self.model.micro_batches
        return [slice(*ends) for ends in pairwise(nodes * micro // micros for micro in range(micros + 1))]

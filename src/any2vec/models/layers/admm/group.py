"""The layers of one host in pdADMM-G, and what it says to its neighbors.

In iteration k a host needs q and u of the layer below from iteration k - 1, and p of the layer above from iteration k,
which is made of nothing else of that iteration: all hosts work at the same time, nobody waits for a chain of others,
and there is no host in the middle. Numbers on a grid travel as places on it, others as they are.

Legend: T training nodes, I inputs and O outputs of a layer.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from any2vec.cluster.grid import Grid
from any2vec.cluster.message import Part
from any2vec.cluster.transport import Transport
from any2vec.models.layers.admm.layer import Layer, Penalties
from any2vec.models.layers.neighbors import Neighbors, array_from
from any2vec.types import Service

CHANNEL = "layers"
PHASES = ("p", "q", "u")
"""what a message between neighbors carries, one array each"""


class AdmmGroup(Service):
    """Consecutive layers on one host, one or more.

    Args:
        sends_u: u travels beside q, as published; else who has the layer above computes it itself, to the same bits.
    """

    def __init__(
        self, layers: Sequence[Layer], transport: Transport, neighbors: Neighbors, sends_u: bool = True
    ) -> None:
        self.layers = layers
        self.seconds = [0.0] * len(layers)
        """of this thread, spent in updates and not in waiting, by layer"""
        self._transport = transport
        self._below, self._above = neighbors
        self._sends_u = sends_u
        self._rho: float | None = None
        """of the iteration whose q has not arrived from the layer below yet"""

    def iterate(self, now: Penalties) -> None:
        """One iteration of all layers.

        The upper half comes first, for it needs nothing from below; then the lowest layer's p, which the host below
        needs at its end. So what a host says has half an iteration to arrive, in either direction.
        """
        upper = len(self.layers) - len(self.layers) // 2
        for layer in reversed(self.layers[upper:]):
            self._move(layer, now)
        self.quiesce()
        for layer in self.layers[:upper]:
            self._move(layer, now)
        for layer, above in zip(reversed(self.layers), [None, *reversed(self.layers)], strict=False):
            if above is not None:
                self._move_output(layer, above.p_TI, now)
                assert layer.q_TO is not None and layer.u_TO is not None
                above.on_work(layer.q_TO, layer.u_TO)
            elif self._above is not None:
                p_TO = self._recv(self._above, "p", layer.z_TO, layer.rules.next_grid)
                self._move_output(layer, p_TO, now)
                assert layer.q_TO is not None and layer.u_TO is not None
                self._send(self._above, "q", layer.q_TO, layer.rules.output_grid)
                if self._sends_u:
                    self._send(self._above, "u", layer.u_TO, None)
        if self._below is not None:
            self._rho = now.rho

    def quiesce(self) -> None:
        """Receive what the layer below has sent of the last iteration: nothing is in flight afterwards."""
        if self._rho is None:
            return
        assert self._below is not None
        first = self.layers[0]
        q_TI = self._recv(self._below, "q", first.p_TI, first.rules.left_grid)
        u_TI = self._recv(self._below, "u", first.p_TI, None) if self._sends_u else first.left_u(q_TI, self._rho)
        first.on_work(q_TI, u_TI)
        self._rho = None

    def _move(self, layer: Layer, now: Penalties) -> None:
        """p, W, b and z; p goes to the host below as soon as it is there."""
        began = time.thread_time()
        layer.move_input(now)
        self._spent(layer, began)
        if layer is self.layers[0] and self._below is not None:
            self._send(self._below, "p", layer.p_TI, layer.rules.input_grid)
        began = time.thread_time()
        layer.move_inside(now)
        self._spent(layer, began)

    def _move_output(self, layer: Layer, next_p_TO: np.ndarray, now: Penalties) -> None:
        began = time.thread_time()
        layer.move_output(next_p_TO, now)
        self._spent(layer, began)

    def _spent(self, layer: Layer, began: float) -> None:
        self.seconds[layer.index - self.layers[0].index] += time.thread_time() - began

    def _send(self, peer: int, phase: str, array: np.ndarray, grid: Grid | None) -> None:
        part = Part("dense", array) if grid is None else grid.pack(array)
        self._transport.send(peer, [part], phase, CHANNEL)

    def _recv(self, peer: int, phase: str, like: np.ndarray, grid: Grid | None) -> np.ndarray:
        """An array of the shape and dtype of `like`."""
        (part,) = self._transport.recv(peer, phase, CHANNEL).parts
        array = part.array if grid is None else grid.unpack(part, like.dtype.type)
        return array_from(peer, phase, array, like.shape, like.dtype)

"""The trainers among the hosts, ranks 0..N - 1, on a channel of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from any2vec.cluster.message import Part
from any2vec.cluster.transport import Transport
from any2vec.errors import HostError


class ProcessGroup:
    """One trainer's end. Servers, ranks N and above, have none.

    Args:
        trainers: N.
        name: of the channel.
    """

    def __init__(self, transport: Transport, trainers: int, name: str = "group") -> None:
        self.transport = transport
        self.trainers = trainers
        self.rank = transport.rank
        self.name = name

    @property
    def others(self) -> list[int]:
        """The other trainers, ascending from the one behind this, so that no trainer is everybody's first."""
        return [(self.rank + step) % self.trainers for step in range(1, self.trainers)]

    def send(self, peer: int, parts: Sequence[Part], phase: str) -> None:
        self.transport.send(peer, parts, phase, self.name)

    def recv(self, peer: int, phase: str | None) -> tuple[Part, ...]:
        """The parts of the next message of a trainer, None: of any phase. HostError as `Transport.recv`."""
        return self.transport.recv(peer, phase, self.name).parts

    def numbers(self, peer: int, part: Part, size: int) -> np.ndarray:
        """The array of a part, float32 (size,). HostError where it is another."""
        if part.array.shape != (size,) or part.array.dtype != np.float32:
            raise HostError(
                f"Rank {peer} sent {part.array.dtype} {part.array.shape} for {size} parameters: the hosts do not run "
                "the same job."
            )
        return part.array

    def barrier(self) -> None:
        """Return once every trainer has come here."""
        if self.rank:
            self.send(0, (), "meet")
            self.recv(0, "meet")
            return
        for peer in range(1, self.trainers):
            self.recv(peer, "meet")
        for peer in range(1, self.trainers):
            self.send(peer, (), "meet")

"""The center of elastic averaging: one more copy of the dense parameters, in slices on the hosts that own them.

Legend: Q parameters, S of a slice, P of a piece of it, T trainers.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np

from any2vec.cluster.message import Part, overhead
from any2vec.cluster.transport import Transport
from any2vec.errors import HostError, InputError
from any2vec.kernels.replicas.replicas import move_center
from any2vec.plan.sharding.sharding import contiguous_bounds
from any2vec.tables.server.client import RowClient
from any2vec.tables.server.served_block import ServedBlock
from any2vec.tables.server.server import RowServer
from any2vec.types import Service

PULL, READ, WRITE, PROGRESS = range(1, 5)
"""operations: a slice, or a piece of it and where it begins, for the difference; nothing for the slice; a slice for
nothing; whether the asker has finished for how often each trainer has pulled and whether it has finished, int64 (2, T)
"""
SMALLEST, MOST_PIECES = 1 << 14, 16
"""numbers of a piece, and pieces of a slice, for which a pull asks at once: while one comes back the next is on its
way, so that a slow link is used in both directions, and syncs follow each other up to twice as fast"""
_NAME = "centre"


class Center(Protocol):
    """What a trainer sees of the center."""

    sent: int
    """bytes of `pull`, heads included"""
    received: int

    def pull(self, seen_Q: np.ndarray) -> np.ndarray:
        """The difference, share * (seen - center), float32 (Q,), by which the center has moved towards `seen`."""

    def read(self) -> np.ndarray:
        """A copy, float32 (Q,)."""

    def write(self, value_Q: np.ndarray) -> None:
        """Put other values in its place."""

    def progress(self, is_done: bool) -> tuple[np.ndarray, np.ndarray]:
        """Tell whether this trainer has finished; (how often each has pulled, int64 (T,), who has finished, bool)."""


class CenterBlock(ServedBlock):
    """A slice at its owner, a `ServedBlock` of its own operations; a row is one parameter.

    It is under a lock, for whoever pulls is a shadow, or waits anyway: no pull is lost.

    Args:
        share: part of a difference by which both sides move, (0, 1).
    """

    def __init__(self, size: int, trainers: int, share: float) -> None:
        self.value = np.zeros(size, np.float32)
        self.share = share
        self.reported_T = np.zeros((2, trainers), np.int64)
        self._lock = threading.Lock()

    @property
    def num_rows(self) -> int:
        return len(self.value)

    @property
    def dim(self) -> int:
        return 1

    def read(self, slot_K: np.ndarray) -> np.ndarray:
        with self._lock:
            return self.value[slot_K][:, None]

    def call(self, operation: int, trainer: int, parts: Sequence[Part]) -> list[Part]:
        """PULL, READ, WRITE and PROGRESS."""
        with self._lock:
            if operation == PULL:
                first = int(parts[1].array[0]) if len(parts) == 2 else 0
                seen_P = parts[0].array if len(parts) == 2 else self._slice(parts)
                value_P = self._piece(first, seen_P)
                difference_P = np.empty_like(seen_P)
                move_center(value_P, seen_P, self.share, difference_P)
                self.reported_T[0, trainer] += first == 0
                return [Part("dense", difference_P)]
            if operation == READ:
                return [Part("dense", self.value.copy())]
            if operation == WRITE:
                self.value[:] = self._slice(parts)
                return []
            if operation == PROGRESS and parts:
                self.reported_T[1, trainer] = int(parts[0].array[0])
                return [Part("control", self.reported_T.copy())]
        raise InputError(f"Operation {operation} with {len(parts)} parts was asked of the center, which knows 1 to 4.")

    def _piece(self, first: int, seen_P: np.ndarray) -> np.ndarray:
        """The numbers from `first` on, as many as a piece has."""
        value_P = self.value[max(0, first) :][: len(seen_P)]
        if first < 0 or value_P.shape != seen_P.shape or seen_P.dtype != np.float32:
            raise InputError(
                f"The slice of the center has {len(self.value)} float32 numbers; got {seen_P.dtype} {seen_P.shape} "
                f"from {first} on."
            )
        return value_P

    def _slice(self, parts: Sequence[Part]) -> np.ndarray:
        array = parts[0].array if parts else np.empty(0)
        if array.shape != self.value.shape or array.dtype != np.float32:
            raise InputError(
                f"The slice of the center has {len(self.value)} float32 numbers, got {array.dtype} {array.shape}."
            )
        return array


class ServedCenter(Service):
    """One host's way to the center, and the server of what it owns of it. Every host makes one, starts and closes it.

    Args:
        size: Q, 1 or more.
        owners: ranks that own slices, none twice; trainers or servers.
        trainers: ranks 0..trainers - 1 pull.
        share: as `CenterBlock`.
        name: of the channel.
    """

    def __init__(
        self, transport: Transport, size: int, owners: Sequence[int], trainers: int, share: float, name: str = _NAME
    ) -> None:
        self.transport = transport
        self.sent = self.received = 0
        bounds = center_bounds(size, owners, transport.hosts)
        self._owned = {rank: slice(bounds[rank], bounds[rank + 1]) for rank in sorted(owners)}
        self._owned = {rank: part for rank, part in self._owned.items() if part.stop > part.start}
        sizes = {rank: part.stop - part.start for rank, part in self._owned.items()}
        self._pieces = {rank: pieces_of(size) for rank, size in sizes.items()}
        self._bytes = pull_bytes([size for rank, size in sizes.items() if rank != transport.rank])
        own = bounds[transport.rank + 1] - bounds[transport.rank]
        self.block = CenterBlock(own, trainers, share)
        self.server = RowServer(transport, {_NAME: self.block}, name=name, trainers=range(trainers))
        self.client = RowClient(self.server, bounds)

    def start(self) -> None:
        """Begin to serve."""
        self.server.start()

    def close(self, error: BaseException | None = None, *, timeout: float | None = None) -> None:
        """This host asks for nothing more; returns when no host does. `timeout` and errors as `RowClient.close`."""
        self.client.close(error, timeout=timeout)

    def pull(self, seen_Q: np.ndarray) -> np.ndarray:
        self.server.check()
        asked = [(rank, self._ask(rank, piece, seen_Q)) for rank, pieces in self._pieces.items() for piece in pieces]
        answers = iter(self.client.call_each(_NAME, PULL, asked))
        found = {
            rank: [Part("dense", np.concatenate([next(answers)[0].array for _ in pieces]))]
            for rank, pieces in self._pieces.items()
        }
        self.sent += self._bytes[0]
        self.received += self._bytes[1]
        return self._join(found)

    def read(self) -> np.ndarray:
        return self._join(self._call(READ, {rank: [] for rank in self._owned}))

    def write(self, value_Q: np.ndarray) -> None:
        self._call(WRITE, self._cut(value_Q.copy()))

    def progress(self, is_done: bool) -> tuple[np.ndarray, np.ndarray]:
        first = next(iter(self._owned))
        ask = Part("control", np.array([is_done], np.int64))
        reported_T = self._call(PROGRESS, {first: [ask]})[first][0].array
        return reported_T[0], reported_T[1] > 0

    def _call(self, operation: int, outgoing: dict[int, list[Part]]) -> dict[int, tuple[Part, ...]]:
        self.server.check()  # raises for a lost host even where all that is asked for is here
        return self.client.call(_NAME, operation, outgoing)

    def _ask(self, rank: int, piece: slice, seen_Q: np.ndarray) -> list[Part]:
        """What pulls a piece of a slice."""
        return [Part("dense", seen_Q[self._owned[rank]][piece]), Part("control", np.array([piece.start], np.int64))]

    def _cut(self, value_Q: np.ndarray) -> dict[int, list[Part]]:
        return {rank: [Part("dense", value_Q[part])] for rank, part in self._owned.items()}

    def _join(self, found: Mapping[int, Sequence[Part]]) -> np.ndarray:
        whole_Q = np.empty(self.client.bounds[-1], np.float32)
        for rank, part in self._owned.items():
            array = found[rank][0].array
            if array.shape != (part.stop - part.start,):
                raise HostError(
                    f"Rank {rank} owns {array.shape} parameters of the center, not {part.stop - part.start}: the hosts "
                    "do not run the same job."
                )
            whole_Q[part] = array
        return whole_Q


def center_bounds(size: int, owners: Sequence[int], hosts: int) -> list[int]:
    """hosts + 1 bounds: rank r owns the parameters [bounds[r], bounds[r + 1]), none where it is no owner.

    Raises:
        InputError: there is no owner, one comes twice, or is no host.
    """
    if not owners or len(set(owners)) < len(owners) or not set(owners) <= set(range(hosts)):
        raise InputError(f"The center is owned by one or more of the {hosts} hosts, each named once; got {owners}.")
    cuts = contiguous_bounds(size, len(owners))
    before = np.cumsum([0, *(rank in owners for rank in range(hosts))])
    return [cuts[count] for count in before.tolist()]


def pieces_of(size: int) -> list[slice]:
    """How a slice of so many numbers, 1 or more, is cut for a pull."""
    bounds = contiguous_bounds(size, min(MOST_PIECES, -(-size // SMALLEST)))
    return [slice(*ends) for ends in pairwise(bounds)]


def pull_bytes(sizes: Sequence[int]) -> tuple[int, int]:
    """(bytes sent, bytes received) when a trainer pulls slices of these sizes from other hosts, heads included."""
    pieces = sum(len(pieces_of(size)) for size in sizes)
    request, answer = overhead(3) + 48 + 8, overhead(2) + 16
    return pieces * request + 4 * sum(sizes), pieces * answer + 4 * sum(sizes)

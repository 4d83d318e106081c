"""Pieces of work that one host deals out to others, with credits: nobody holds more than so many unfinished pieces.

Who deals waits for a peer with credit, and so does whoever fills its queue, back to the source of it all. Peers tell
the end of a piece in their own time. All that is said is arrays; what they mean is the caller's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from any2vec.cluster.message import Part
from any2vec.cluster.transport import LONG_WORK, Transport
from any2vec.errors import HostError

CREDITS = 2
"""pieces that a peer holds: one that it works on, and the next"""
ASSIGN, REST, END, DONE = "deal", "rest", "end", "done"
"""phases: a piece of work; stand still; no piece follows; the answer to the first two"""
_CHANNEL = "deal"


class Done(NamedTuple):
    """What a peer reported at the end of a piece."""

    peer: int
    number: int
    """of the piece, as `WorkQueue.assign` gave it; -1: it rests"""
    parts: tuple[Part, ...]


class WorkQueue:
    """The dealing host's side. For one thread.

    Args:
        peers: ranks, one or more, each of which has a `QueueWorker`.
        credits: pieces that each may hold, 1 or more.
        patience: seconds that the end of a piece may take; None: the transport's.
    """

    def __init__(
        self, transport: Transport, peers: Sequence[int], credits: int = CREDITS, patience: float | None = None
    ) -> None:
        self.transport = transport
        self.peers = tuple(peers)
        self.credits = credits
        self.patience = transport.patience if patience is None else patience
        self.assigned = dict.fromkeys(self.peers, 0)
        """pieces that each peer has been dealt"""
        self._held: dict[int, list[int]] = {peer: [] for peer in self.peers}
        """numbers of the pieces whose end a peer has not reported, oldest first"""
        self._done: list[Done] = []
        self._number = 0

    @property
    def under_way(self) -> int:
        """Pieces that peers hold."""
        return sum(map(len, self._held.values()))

    def assign(self, parts: Sequence[Part], peer: int | None = None) -> int:
        """Send a piece to a peer once it has credit; to the one that holds least, where none is named.

        Returns its number, counted from 0.

        Raises:
            HostError: nobody reported the end of a piece in time, or a host is lost.
        """
        peer = self.least_loaded() if peer is None else peer
        while len(self._held[peer]) >= self.credits:
            self._receive()
        number = self._number
        self._number += 1
        self._held[peer].append(number)
        self.assigned[peer] += 1
        self.transport.send(peer, [_number(number), *parts], ASSIGN, _CHANNEL)
        return number

    def least_loaded(self) -> int:
        """The peer that holds the fewest pieces, among those the one that was dealt the fewest; waits for credit."""
        self._receive_all()
        while min(map(len, self._held.values())) >= self.credits:
            self._receive()
        return min(self.peers, key=lambda peer: (len(self._held[peer]), self.assigned[peer], peer))

    def done(self) -> list[Done]:
        """What was reported since the last call; waits for nothing."""
        self._receive_all()
        done, self._done = self._done, []
        return done

    def quiesce(self, parts: Sequence[Part] = ()) -> list[Done]:
        """Have every peer end its pieces and stand still; returns when all do, with what they reported as `done`.

        What a peer reports of its rest has the number -1. parts: sent with the request.

        Raises:
            HostError: as `assign`.
        """
        for peer in self.peers:
            self._held[peer].append(-1)
            self.transport.send(peer, [_number(-1), *parts], REST, _CHANNEL)
        while self.under_way:
            self._receive()
        return self.done()

    def close(self) -> None:
        """Tell every peer that no piece follows."""
        for peer in self.peers:
            self.transport.send(peer, [_number(-1)], END, _CHANNEL)

    def _receive_all(self) -> None:
        while self.transport.has_message(_CHANNEL):
            self._receive()

    def _receive(self) -> None:
        """Take the next end of a piece that a peer reports."""
        message = self.transport.recv(None, DONE, _CHANNEL, self.patience)
        number = int(message.parts[0].array[0])
        held = self._held.get(message.sender, [])
        if not held or held[0] != number:
            raise HostError(
                f"Rank {message.sender} reported the end of piece {number}, where {held[:1] or 'none'} was due: the "
                "hosts do not run the same job."
            )
        held.pop(0)
        self._done.append(Done(message.sender, number, message.parts[1:]))


class QueueWorker:
    """A peer's side: it takes a piece, works, reports its end, and so on.

    Args:
        work_queue: rank of the host that deals.
    """

    def __init__(self, transport: Transport, work_queue: int) -> None:
        self.transport = transport
        self.work_queue = work_queue
        self._number = -1

    def take(self) -> tuple[str, tuple[Part, ...]]:
        """(ASSIGN, the parts of a piece), or (REST, ()), or (END, ()); waits as long as the dealer has none.

        Raises:
            HostError: the dealer, or another host, is lost.
        """
        message = self.transport.recv(self.work_queue, None, _CHANNEL, LONG_WORK)
        self._number = int(message.parts[0].array[0])
        return message.phase, message.parts[1:]

    def report(self, parts: Sequence[Part] = ()) -> None:
        """The piece has ended, or this host rests."""
        self.transport.send(self.work_queue, [_number(self._number), *parts], DONE, _CHANNEL)


def _number(number: int) -> Part:
    return Part("control", np.array([number], np.int64))

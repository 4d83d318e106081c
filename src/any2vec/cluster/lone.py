"""The transport of a host without peers: gathering and sharing give back what was put in."""

from __future__ import annotations

from collections.abc import Sequence

from any2vec.cluster.message import Message
from any2vec.cluster.transport import Transport


class LoneTransport(Transport):
    """Rank 0 of one."""

    def __init__(self) -> None:
        super().__init__(0, 1)

    def _put(self, peer: int, message: Message) -> None:
        raise AssertionError("a single host has no peer to send to")

    def _get(self, peer: int | None, channel: int, timeout: float) -> Message:
        raise AssertionError("a single host has no peer to receive from")

    def _has(self, channel: int) -> bool:
        return False

    def _await(self, peers: Sequence[int], channel: int) -> None:
        """There are no peers."""

    def close(self) -> None:
        """Nothing to end."""

    def abort(self, reason: str) -> None:
        """Nobody to tell."""

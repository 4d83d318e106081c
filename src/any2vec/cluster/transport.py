"""The transport: every byte between hosts goes through it and is counted. It moves bytes, and never adds numbers."""

from __future__ import annotations

import json
import threading
import time
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np

from any2vec.checks import parse_json
from any2vec.cluster.counters import Counters
from any2vec.cluster.link import LinkModel
from any2vec.cluster.message import Message, Part, check_parts, size_of
from any2vec.errors import Any2VecError, HostError

PATIENCE = 1800.0
"""seconds that a host waits for a message of another that is alive; silence of a dead one is noticed much earlier"""
LONG_WORK = 1e6
"""the same where nobody knows how long the other one's own work takes, as reading the data, or when it will ask, as a
server's trainers: for ever, as hosts go"""


class Transport(ABC):
    """One host's end: rank 0..hosts - 1. Thread-safe; messages from one host on one channel arrive in order.

    Args:
        link: makes every message take as long as it would on such links (emulated, not measured); None: as it comes.
    """

    def __init__(self, rank: int, hosts: int, link: LinkModel | None = None, patience: float = PATIENCE) -> None:
        self.rank = rank
        self.hosts = hosts
        self.link = link
        self.patience = patience
        self.counters = Counters()
        self._lock = threading.Lock()
        self._numbers: Counter[tuple[int, int]] = Counter()
        self._expected: Counter[tuple[int, int]] = Counter()
        self._out_free = self._in_free = 0.0
        """when the line out, and the line in, of an emulated link has carried what was given to it"""

    @abstractmethod
    def _put(self, peer: int, message: Message) -> None:
        """Hand a message to `peer`; may return before it arrives."""

    @abstractmethod
    def _get(self, peer: int | None, channel: int, timeout: float) -> Message:
        """The next message of `peer` (None: of anyone) on a channel. HostError when none comes in time."""

    @abstractmethod
    def _has(self, channel: int) -> bool:
        """Whether a message of anyone has come."""

    @abstractmethod
    def _await(self, peers: Sequence[int], channel: int) -> None:
        """Sleep until there is a message of each peer; may return earlier, and raises nothing: `_get` does."""

    @abstractmethod
    def close(self) -> None:
        """End in good order: what was sent arrives. The hosts close together.

        Raises:
            HostError: a host is lost before it closed, so what it was sent may not have arrived.
        """

    @abstractmethod
    def abort(self, reason: str) -> None:
        """End because this host failed; the reason, one sentence, is sent to the others, where that is possible."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Close, or abort when the block ends by an error."""
        if error is None:
            self.close()
        else:
            self.abort(str(error) if isinstance(error, Any2VecError) else f"{type(error).__name__}: {error}")

    def send(self, peer: int, parts: Sequence[Part], phase: str, channel: str = "") -> None:
        """Send arrays to host `peer`. They must not be changed afterwards; phase: up to 16 ASCII letters."""
        if peer == self.rank or not 0 <= peer < self.hosts:
            raise ValueError(f"host {self.rank} of {self.hosts} cannot send to {peer}")
        check_parts(parts, phase)
        number = _channel_number(channel)
        with self._lock:
            sequence = self._numbers[peer, number]
            self._numbers[peer, number] += 1
            due = self._leave(peer, size_of(parts))
            self.counters.count_sent(peer, phase, parts)
            # Within the lock, for numbers and messages must leave in one order.
            self._put(peer, Message(self.rank, number, sequence, phase, tuple(parts), due))

    def recv(
        self, peer: int | None, phase: str | None = None, channel: str = "", timeout: float | None = None
    ) -> Message:
        """The next message from `peer`, or from anyone (None).

        Raises:
            HostError: the peer is lost or silent, or the hosts are out of step: the message is of another phase.
            MessageError: it arrived damaged.
        """
        message = self._take(peer, phase, channel, timeout)
        self._bring([message])
        return message

    def has_message(self, channel: str = "") -> bool:
        """Whether `recv` of anyone's message on a channel would return at once."""
        return self._has(_channel_number(channel))

    def exchange(
        self, outgoing: Mapping[int, Sequence[Part]], phase: str, channel: str = ""
    ) -> dict[int, tuple[Part, ...]]:
        """`send_all`, then `recv_all`."""
        self.send_all(outgoing, phase, channel)
        return self.recv_all(phase, channel)

    def send_all(self, outgoing: Mapping[int, Sequence[Part]], phase: str, channel: str = "") -> None:
        """Send each other host its parts; none: an empty message."""
        for step in range(1, self.hosts):  # each starts behind itself, so that no host is everybody's first
            peer = (self.rank + step) % self.hosts
            self.send(peer, outgoing.get(peer, ()), phase, channel)

    def recv_all(self, phase: str, channel: str = "") -> dict[int, tuple[Part, ...]]:
        """The parts of the next message of each other host, by rank, ascending.

        Raises:
            HostError, MessageError: as `recv`.
        """
        others = [peer for peer in range(self.hosts) if peer != self.rank]
        self._await(others, _channel_number(channel))
        messages = [self._take(peer, phase, channel, None) for peer in others]
        self._bring(messages)
        return {message.sender: message.parts for message in messages}

    def gather(
        self, parts: Sequence[Part], phase: str, root: int = 0, timeout: float | None = None
    ) -> dict[int, tuple[Part, ...]]:
        """The parts of all hosts by rank, at `root`; {} elsewhere. timeout: seconds for each, None: `patience`."""
        if self.rank != root:
            self.send(root, parts, phase)
            return {}
        found = {peer: self.recv(peer, phase, timeout=timeout).parts for peer in range(self.hosts) if peer != root}
        return dict(sorted((found | {root: tuple(parts)}).items()))

    def share(self, parts: Sequence[Part], phase: str, root: int = 0, timeout: float | None = None) -> tuple[Part, ...]:
        """The parts of `root`, at every host. timeout: as for `gather`."""
        if self.rank != root:
            return self.recv(root, phase, timeout=timeout).parts
        for peer in range(self.hosts):
            if peer != root:
                self.send(peer, parts, phase)
        return tuple(parts)

    def barrier(self, phase: str = "barrier", timeout: float | None = None) -> None:
        """Return once every host has come here. timeout: as for `gather`."""
        self.gather((), phase, timeout=timeout)
        self.share((), phase, timeout=timeout)

    def _take(self, peer: int | None, phase: str | None, channel: str, timeout: float | None) -> Message:
        """The next message, checked and counted."""
        number = _channel_number(channel)
        message = self._get(peer, number, self.patience if timeout is None else timeout)
        with self._lock:
            expected = self._expected[message.sender, number]
            self._expected[message.sender, number] += 1
        if message.sequence != expected or (phase is not None and message.phase != phase):
            raise HostError(
                f"Rank {message.sender} sent message {message.sequence} of phase {message.phase!r} where rank "
                f"{self.rank} expected message {expected} of phase {phase!r}: the hosts do not run the same job."
            )
        self.counters.count_received(message.sender, message.phase, message.parts)
        return message

    def _leave(self, peer: int, num_bytes: int) -> float:
        """When the last byte of a message reaches the peer's line, over an emulated link; 0 without one."""
        if self.link is None:
            return 0.0
        _, latency = self.link.line(self.rank, peer, self.hosts)
        busy = self.link.seconds(num_bytes, self.rank, peer, self.hosts)
        self._out_free = max(self._out_free, time.monotonic()) + busy
        return self._out_free + latency

    def _bring(self, messages: Sequence[Message]) -> None:
        """Wait until this host's own line has taken the messages in, over an emulated link."""
        if self.link is None:
            return
        with self._lock:
            for message in sorted(messages, key=lambda message: message.due):
                busy = self.link.seconds(size_of(message.parts), message.sender, self.rank, self.hosts)
                self._in_free = max(message.due, self._in_free + busy)
            arrival = self._in_free
        time.sleep(max(0.0, arrival - time.monotonic()))


def control(*numbers: float) -> Part:
    """A part of kind control: a few numbers."""
    return Part("control", np.array(numbers, np.float64))


def text_part(text: str) -> Part:
    """A part of kind control: text as UTF-8."""
    return Part("control", np.frombuffer(text.encode(), np.uint8))


def text_of(part: Part) -> str:
    """The text of a part that `text_part` made."""
    return part.array.tobytes().decode()


def _channel_number(name: str) -> int:
    return zlib.crc32(name.encode()) if name else 0


def gather_json(transport: Transport, own: Any, phase: str, timeout: float | None = None) -> list[Any]:
    """The value of each host, by rank, at rank 0; nothing elsewhere. All call it together."""
    found = transport.gather([text_part(json.dumps(own))], phase, timeout=timeout)
    return [parse_json(text_of(parts[0])) for parts in found.values()]


def first_other(transport: Transport, own: str, phase: str) -> int:
    """The first rank that says something else than rank 0, -1: all say the same; all hosts call it together.

    Hosts come from reading what they compare, and wait for each other as long as that takes.
    """
    found = transport.gather([text_part(own)], phase, timeout=LONG_WORK)
    texts = [text_of(parts[0]) for parts in found.values()]
    other = next((rank for rank, text in enumerate(texts) if text != texts[0]), -1)
    return int(transport.share([control(other)], phase, timeout=LONG_WORK)[0].array[0])

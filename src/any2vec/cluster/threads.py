"""Logical hosts: threads of one process, each with its own end of a transport that hands arrays over by reference.

Each message goes to one queue and is asked for by its sender, so what a host reads does not depend on scheduling.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from any2vec.cluster.inbox import Inbox
from any2vec.cluster.link import LinkModel
from any2vec.cluster.message import Message
from any2vec.cluster.transport import PATIENCE, Transport
from any2vec.errors import HostError

Result = TypeVar("Result")


class _Hub:
    """The inboxes of all logical hosts, and who of them is still there."""

    def __init__(self, hosts: int) -> None:
        self.inboxes = [Inbox() for _ in range(hosts)]
        self.failed: list[int] = []
        """ranks of hosts that ended by an error, in their order"""
        self.ended: set[int] = set()

    def end(self, rank: int, failed: bool) -> None:
        """Tell everybody that a host has ended."""
        if failed:
            self.failed.append(rank)
        self.ended.add(rank)
        for inbox in self.inboxes:
            with inbox.lock:
                inbox.wake()


class ThreadTransport(Transport):
    """One logical host's end. Made by `run_logical`."""

    def __init__(self, hub: _Hub, rank: int, hosts: int, link: LinkModel | None, patience: float) -> None:
        super().__init__(rank, hosts, link, patience)
        self._hub = hub

    def _put(self, peer: int, message: Message) -> None:
        self._hub.inboxes[peer].put(message)

    def _get(self, peer: int | None, channel: int, timeout: float) -> Message:
        hub, inbox = self._hub, self._hub.inboxes[self.rank]
        senders = range(self.hosts) if peer is None else (peer,)
        deadline = time.monotonic() + timeout
        with inbox.lock:
            while True:
                message = inbox.take(channel, senders)
                if message is not None:
                    return message
                if hub.failed:
                    raise HostError(f"Logical host {hub.failed[0]} failed, so host {self.rank} cannot go on.")
                if peer is not None and peer in hub.ended:
                    raise HostError(f"Logical host {peer} has ended, and host {self.rank} still waits for it.")
                left = deadline - time.monotonic()
                if left <= 0:
                    who = "any host" if peer is None else f"logical host {peer}"
                    raise HostError(f"Host {self.rank} waited {timeout:g} s for {who}, which sent nothing: a deadlock.")
                inbox.wait(channel, senders, left)

    def _has(self, channel: int) -> bool:
        inbox = self._hub.inboxes[self.rank]
        with inbox.lock:
            return inbox.has(channel, range(self.hosts))

    def _await(self, peers: Sequence[int], channel: int) -> None:
        inbox = self._hub.inboxes[self.rank]
        with inbox.lock:
            if not self._hub.failed and not self._hub.ended.intersection(peers):
                inbox.wait(channel, peers, self.patience, every=True)

    def close(self) -> None:
        """Nothing to end: messages are handed over when they are sent."""

    def abort(self, reason: str) -> None:
        """Nothing to tell: `run_logical` wakes the others."""


def single_host_transport() -> Transport:
    """That of a host without peers: gathering and sharing give back what was put in."""
    return ThreadTransport(_Hub(1), 0, 1, None, PATIENCE)


def run_logical(
    hosts: int, work: Callable[[Transport], Result], link: LinkModel | None = None, patience: float = PATIENCE
) -> list[Result]:
    """Run `work(transport)` once for each logical host; what they return, by rank. Rank 0 is the calling thread.

    Raises:
        Whatever the first host to fail raised; the others are woken and end.
    """
    hub = _Hub(hosts)
    results: dict[int, Result] = {}
    errors: list[BaseException] = []

    def host(rank: int) -> None:
        try:
            results[rank] = work(ThreadTransport(hub, rank, hosts, link, patience))
        except BaseException as error:
            errors.append(error)
            hub.end(rank, failed=True)
        else:
            hub.end(rank, failed=False)

    threads = [
        threading.Thread(target=host, args=(rank,), name=f"host-{rank}", daemon=True) for rank in range(1, hosts)
    ]
    for thread in threads:
        thread.start()
    host(0)  # signals reach the main thread alone
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [results[rank] for rank in range(hosts)]

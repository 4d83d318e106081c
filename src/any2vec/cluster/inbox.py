"""What has arrived at a host and waits to be asked for."""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass

from any2vec.cluster.message import Message


@dataclass(eq=False)
class _Waiter:
    """A thread that sleeps until messages of so many of some senders have come."""

    channel: int
    missing: set[int]
    needed: int
    bell: threading.Condition
    is_woken: bool = False


class Inbox:
    """One queue for each channel and sender, so that what a host reads does not depend on what came first.

    Who asks for a message of anyone gets the one that came first, so that a server keeps nobody waiting for ever. A
    message wakes only the thread that waits for it: with many hosts most of what comes is not what one waits for.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()  # who looks for what is wrong may have to tell of it
        self._queues: defaultdict[tuple[int, int], deque[tuple[int, Message]]] = defaultdict(deque)
        self._arrivals = 0
        self._waiters: list[_Waiter] = []

    def put(self, message: Message) -> None:
        """Add a message, and wake who waits for it."""
        with self.lock:
            self._queues[message.channel, message.sender].append((self._arrivals, message))
            self._arrivals += 1
            for waiter in self._waiters:
                if waiter.channel == message.channel and message.sender in waiter.missing:
                    waiter.missing.discard(message.sender)
                    waiter.needed -= 1
                    if waiter.needed == 0:
                        waiter.bell.notify()

    def take(self, channel: int, senders: Iterable[int]) -> Message | None:
        """The message of any of `senders` that came first; None where none has. Hold the lock."""
        queues = [queue for sender in senders if (queue := self._queues.get((channel, sender)))]
        return min(queues, key=lambda queue: queue[0][0]).popleft()[1] if queues else None

    def has(self, channel: int, senders: Iterable[int]) -> bool:
        """Whether there is a message of any of `senders`. Hold the lock."""
        return any(self._queues.get((channel, sender)) for sender in senders)

    def wait(self, channel: int, senders: Iterable[int], timeout: float, every: bool = False) -> None:
        """Sleep until a message of one of `senders` comes, or there is one of every one; until `wake`, or `timeout` s.

        Hold the lock. It may return too early: look again.
        """
        missing = {sender for sender in senders if not self._queues.get((channel, sender))}
        waiter = _Waiter(channel, missing, len(missing) if every else 1, threading.Condition(self.lock))
        until = time.monotonic() + timeout
        self._waiters.append(waiter)
        try:
            while waiter.needed > 0 and not waiter.is_woken and waiter.bell.wait(until - time.monotonic()):
                pass
        finally:
            self._waiters.remove(waiter)

    def wake(self) -> None:
        """Something else has happened: whoever waits shall look again. Hold the lock."""
        for waiter in self._waiters:
            waiter.is_woken = True
            waiter.bell.notify()

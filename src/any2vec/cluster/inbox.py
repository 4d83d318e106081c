"""What has arrived at a host and waits to be asked for."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Iterable

from any2vec.cluster.message import Message


class Inbox:
    """One queue for each channel and sender, so that what a host reads does not depend on what came first.

    Who asks for a message of anyone gets the one that came first, so that a server keeps nobody waiting for ever.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        """notified when a message has come, and by the owner when something else has happened"""
        self._queues: defaultdict[tuple[int, int], deque[tuple[int, Message]]] = defaultdict(deque)
        self._arrivals = 0

    def put(self, message: Message) -> None:
        with self.changed:
            self._queues[message.channel, message.sender].append((self._arrivals, message))
            self._arrivals += 1
            self.changed.notify_all()

    def take(self, channel: int, senders: Iterable[int]) -> Message | None:
        """The message of any of `senders` that came first; None where none has. Hold `changed`."""
        queues = [queue for sender in senders if (queue := self._queues.get((channel, sender)))]
        return min(queues, key=lambda queue: queue[0][0]).popleft()[1] if queues else None

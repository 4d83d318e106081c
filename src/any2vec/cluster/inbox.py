"""What has arrived at a host and waits to be asked for."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Iterable

from any2vec.cluster.message import Message


class Inbox:
    """One queue for each channel and sender, so that what a host reads does not depend on what came first."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        """notified when a message has come, and by the owner when something else has happened"""
        self._queues: defaultdict[tuple[int, int], deque[Message]] = defaultdict(deque)

    def put(self, message: Message) -> None:
        with self.changed:
            self._queues[message.channel, message.sender].append(message)
            self.changed.notify_all()

    def take(self, channel: int, senders: Iterable[int]) -> Message | None:
        """The next message of the first of `senders` that has sent one; None where none has. Hold `changed`."""
        for sender in senders:
            queue = self._queues.get((channel, sender))
            if queue:
                return queue.popleft()
        return None

"""Topics of servers that speak Kafka's protocol.

Delivery is exactly once: the positions are ours, no group's, so what follows one can be asked for as long as the server
keeps it.
"""

from __future__ import annotations

import time
from typing import Any

from any2vec.errors import InputError
from any2vec.sources.base.address import Address
from any2vec.sources.base.cutter import Position
from any2vec.sources.base.options import SourceOptions
from any2vec.sources.base.pump import MOMENT, Attempts, Batches
from any2vec.sources.base.records import Records, is_utf8
from any2vec.sources.base.source import PacedSource

_MOST_MESSAGES = 512
_MOST_QUEUED = 4096
"""KiB that the client fetches ahead"""
_LOOK_AGAIN = 60.0
"""seconds until new partitions are looked for"""


class _GoneError(Exception):
    """The servers cannot be reached, or do not have the topic."""


class KafkaTopic(PacedSource):
    """Messages of all partitions of a topic: each one line, or one JSON object; its id is PARTITION:OFFSET, or its own.

    Begins with the oldest message. Messages that the server has deleted unread are counted, and it goes on with the
    oldest left. Position: `partitions` (number -> offset of the next message), `number` (messages that came).
    """

    def __init__(self, address: Address, number: int, options: SourceOptions, seed: int) -> None:
        if address.user is not None:
            raise InputError(f"kafka:// addresses take no user, got {address.name}; only open servers are read.")
        if "/" in address.path:
            raise InputError(f"A topic's name holds no /, got {address.path!r}; give kafka://HOST:PORT/TOPIC.")
        super().__init__(address.name, options.rate)
        self._options = options
        hosts = address.host.split(",")
        host = f"[{address.host}]" if ":" in address.host else address.host  # of IPv6
        self._servers = ",".join(hosts if len(hosts) > 1 else [f"{host}:{address.port or 9092}"])
        self._topic = address.path
        self._records = Records(number, options, self._tally)
        self._attempts = Attempts(options.retries, seed, number, self._tally, lambda: self._is_closed)
        self._offsets: dict[int, int] = {}
        self._number = 0
        self._down_since: float | None = None
        self._heard = 0.0
        """when the last message came, or the end of a partition"""

    def _batches(self, position: Position | None) -> Batches:
        from confluent_kafka import KafkaException

        if position is not None:
            self._offsets = {int(partition): int(offset) for partition, offset in position["partitions"].items()}
            self._number = int(position["number"])
        return self._attempts.repeat(self._attempt, (KafkaException, _GoneError), self._warned)

    def _attempt(self) -> Batches:
        from confluent_kafka import Consumer, TopicPartition

        self._down_since, self._heard = None, time.monotonic()
        consumer = Consumer(self._settings())
        try:
            ended: set[int] = set()
            partitions: set[int] = set()
            look_again = 0.0
            while not self._is_closed:
                if time.monotonic() >= look_again:
                    found = yield from self._partitions(consumer)
                    self._attempts.succeeded()
                    if new := found - partitions:
                        consumer.incremental_assign(
                            [TopicPartition(self._topic, part, self._offsets.get(part, -2)) for part in sorted(new)]
                        )  # -2: the oldest
                    partitions, look_again = found | partitions, time.monotonic() + _LOOK_AGAIN
                messages = consumer.consume(min(_MOST_MESSAGES, self._options.most_lines), MOMENT)
                for message in messages:
                    self._add(message, consumer, ended)
                batch = self._records.take({"partitions": self._position(), "number": self._number})
                if batch is not None:
                    self._attempts.succeeded()
                    self._tally.lines += len(batch)
                self._tally.state = "waiting" if batch is None else "reading"
                yield batch
                if not self._options.follow and ended >= partitions:
                    return
                if self._down_since is not None and time.monotonic() - self._down_since > self._options.patience:
                    raise _GoneError("no server answers")
                if not self._options.follow and time.monotonic() - self._heard > self._options.patience:
                    raise _GoneError(f"partition {min(partitions - ended)} of {self._topic} gives nothing")
        finally:
            consumer.close()

    def _settings(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self._servers,
            "group.id": "any2vec",  # the client wants one; nothing is ever committed to it
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",  # so that messages that are gone are counted
            "enable.partition.eof": True,
            "queued.max.messages.kbytes": _MOST_QUEUED,
            "fetch.queue.backoff.ms": 10,
            "socket.timeout.ms": min(300_000, max(1000, int(self._options.patience * 1000))),  # all that it takes
            "log_level": 0,
            "error_cb": self._receive,
        }

    def _receive(self, error: Any) -> None:
        """What the client says of its connections, which it mends itself."""
        from confluent_kafka import KafkaError

        if error.code() == KafkaError._ALL_BROKERS_DOWN and self._down_since is None:
            self._down_since = time.monotonic()
            self._tally.trouble = f"{self.name}: no server answers."
            self._tally.reconnects += 1

    def _partitions(self, consumer: Any) -> Any:
        """The topic's partitions; None is yielded while nobody answers."""
        from confluent_kafka import KafkaException

        until = time.monotonic() + self._options.patience
        while not self._is_closed:
            try:
                topic = consumer.list_topics(self._topic, timeout=MOMENT * 3).topics.get(self._topic)
            except KafkaException as error:
                if time.monotonic() > until or error.args[0].code() >= 0:  # the server itself says no
                    raise
                self._tally.trouble, self._tally.state = f"{self.name}: no server answers.", "retrying"
                yield None
                continue
            if topic is not None and topic.error is None and topic.partitions:
                self._down_since = None
                return set(topic.partitions)
            raise _GoneError(f"there is no topic {self._topic}")
        return set()

    def _position(self) -> dict[str, int]:
        return {str(partition): offset for partition, offset in sorted(self._offsets.items())}

    def _add(self, message: Any, consumer: Any, ended: set[int]) -> None:
        partition, self._heard = message.partition(), time.monotonic()
        if message.error() is not None:
            self._mend(message, consumer, ended)
            return
        self._down_since = None
        ended.discard(partition)
        offset, value = message.offset(), message.value()
        self._offsets[partition] = offset + 1
        self._number += 1
        if value is None:
            self._tally.bad("message without a value")
            return
        self._tally.bytes += len(value)
        if not is_utf8(value):
            self._tally.bad("not UTF-8")
        add = self._records.add_json if self._options.form == "ndjson" else self._records.add
        add(self._number - 1, value, name=f"{partition}:{offset}")

    def _mend(self, message: Any, consumer: Any, ended: set[int]) -> None:
        from confluent_kafka import KafkaError, TopicPartition

        error, partition = message.error(), message.partition()
        if error.code() == KafkaError._PARTITION_EOF:
            ended.add(partition)
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            wanted = self._offsets.get(partition, 0)
            place = TopicPartition(self._topic, partition)
            oldest, end = consumer.get_watermark_offsets(place, self._options.patience)
            self._tally.bad("messages gone", max(1, oldest - wanted))
            self._tally.trouble = f"{self.name}: messages from {partition}:{wanted} to {partition}:{oldest} are gone."
            if wanted > end:  # the topic was made anew
                self._tally.trouble = (
                    f"{self.name}: partition {partition} ends at {end}, before {wanted}, where it was read; it is read "
                    f"anew from {oldest}."
                )
            self._offsets[partition] = oldest
            consumer.incremental_unassign([TopicPartition(self._topic, partition)])
            consumer.incremental_assign([TopicPartition(self._topic, partition, oldest)])
        else:
            self._tally.trouble = f"{self.name}: {error.str()}."
            if not error.retriable():
                raise _GoneError(error.str())

    def _warned(self, error: BaseException) -> str:
        said = error.args[0].str() if error.args and hasattr(error.args[0], "str") else str(error)
        return f"{self.name}: {said}."

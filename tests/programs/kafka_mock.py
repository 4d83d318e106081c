"""A process that owns a mock of Kafka's servers (librdkafka's own), fills a topic as it is told, and is killed.

Run as a program: python kafka_mock.py TOPIC; it prints the servers' addresses, then obeys lines of its standard input:
PARTITION TEXT (a message, acknowledged by a line "ok") until they end.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


class MockKafka:
    """The process, and what is sent to it. A context: it is killed at its end."""

    def __init__(self, topic: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, topic], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        assert self._process.stdout is not None
        self.servers = self._process.stdout.readline().strip()

    def send(self, texts: list[tuple[int, str]]) -> None:
        """Messages: (partition, text without line ends); returns when all are stored."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("".join(f"{partition} {text}\n" for partition, text in texts) + "\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "ok\n"

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> MockKafka:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def main(topic: str) -> None:
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": "mock", "test.mock.num.brokers": 2, "linger.ms": 0, "log_level": 0}
    producer = Producer(settings)
    metadata = producer.list_topics(topic, timeout=30)  # makes it, with librdkafka's four partitions
    print(",".join(f"{broker.host}:{broker.port}" for broker in metadata.brokers.values()), flush=True)
    for line in sys.stdin:
        if not line.strip():
            assert producer.flush(30) == 0
            print("ok", flush=True)
            continue
        partition, _, text = line.rstrip("\n").partition(" ")
        producer.produce(topic, text.encode(), partition=int(partition))
        producer.poll(0)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main(sys.argv[1])

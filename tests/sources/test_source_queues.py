"""Kafka's and Redis's streams, from servers that are killed in the middle."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from any2vec.sources.base.options import SourceOptions
from any2vec.sources.base.source import Source
from any2vec.sources.opening import open_source
from kafka_mock import MockKafka
from line_servers import serving
from redis_server import RedisServer
from source_reading import all_ids, all_texts, read_all, read_lines, read_until

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # uint64 that wraps, uncompiled
ONCE = SourceOptions(follow=False, patience=5.0)


# ---- Kafka ----------------------------------------------------------------------------------------------------------


def kafka(servers: str, options: SourceOptions = ONCE) -> Source:
    pytest.importorskip("confluent_kafka", reason="Kafka sources need pip install 'any2vec[streams]'")
    return open_source(f"kafka://{servers}/news", 0, options)


def spread(first: int, stop: int) -> list[tuple[int, str]]:
    return [(number % 3, f"text {number}") for number in range(first, stop)]


def test_kafka_goes_on_behind_a_position_and_on_other_servers_with_the_same_messages() -> None:
    pytest.importorskip("confluent_kafka", reason="Kafka sources need pip install 'any2vec[streams]'")
    with MockKafka("news") as server:
        server.send(spread(0, 1200))
        found = read_all(kafka(server.servers).batches(None))
        assert sorted(all_texts(found)) == sorted(text.encode() for _, text in spread(0, 1200))
        assert dict(zip(all_ids(found), all_texts(found), strict=True))["1:5"] == b"text 16"
        assert len(set(all_ids(found))) == 1200
        assert len(found) >= 3
        half = found[: len(found) // 2]

        source = kafka(server.servers, SourceOptions(follow=True, patience=1.0, retries=0))
        batches = source.batches(half[-1].position)
        rest = read_lines(batches, 1200 - len(all_ids(half)))
        server.send([(0, '{"id": 7, "text": "late"}')])
        rest += read_lines(batches, 1)
        assert sorted(all_ids(half) + all_ids(rest)) == sorted([*all_ids(found), "0:400"])
        server.kill()
        assert read_all(batches) == []
        metrics = source.metrics()
        assert metrics["state"] == "given up"
        assert metrics["reconnects"] >= 1
        assert "no server answers" in metrics["trouble"] or "refused" in metrics["trouble"]

    with MockKafka("news") as server:
        server.send(spread(0, 1500))
        source = kafka(server.servers)
        more = read_all(source.batches({**rest[-1].position, "partitions": {"0": 400, "1": 400, "2": 400}}))
        assert sorted(all_texts(more)) == sorted(text.encode() for _, text in spread(1200, 1500))
        gone = kafka(server.servers)
        again = read_all(gone.batches({"partitions": {"0": 9999, "1": 500, "2": 500}, "number": 0}))
        assert len(all_ids(again)) == 500
        assert gone.metrics()["bad_by"] == {"messages gone": 1}
        assert (
            "partition 0 ends at 500, before 9999, where it was read; it is read anew from 0"
            in gone.metrics()["trouble"]
        )


def test_kafka_with_json_and_no_topic() -> None:
    pytest.importorskip("confluent_kafka", reason="Kafka sources need pip install 'any2vec[streams]'")
    with MockKafka("news") as server:
        server.send([(0, '{"id": 7, "text": "seven"}'), (0, "nonsense"), (0, '{"text": "own place"}')])
        source = kafka(server.servers, SourceOptions(follow=False, form="ndjson"))
        found = read_all(source.batches(None))
        assert all_ids(found) == ["7", "0:2"]
        assert source.metrics()["bad_by"] == {"not JSON": 1}


def test_a_partition_that_is_refused_is_given_up() -> None:
    pytest.importorskip("confluent_kafka", reason="Kafka sources need pip install 'any2vec[streams]'")
    from confluent_kafka import KafkaError

    refusal = SimpleNamespace(partition=lambda: 0, error=lambda: KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    source: Any = kafka("host:9092")
    with pytest.raises(Exception, match="Topic authorization failed"):
        source._add(refusal, None, set())
    assert "authorization" in source.metrics()["trouble"]
    settings = kafka("[::1]:9092", SourceOptions(patience=86_400))._settings()  # type: ignore[attr-defined]
    assert settings["bootstrap.servers"] == "[::1]:9092" and settings["socket.timeout.ms"] == 300_000


def test_kafka_that_speaks_nonsense() -> None:
    with serving(lambda connection, number: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as server:
        source = kafka(f"127.0.0.1:{server.port}", SourceOptions(follow=True, patience=0.5, retries=1))
        assert read_all(source.batches(None)) == []
    assert source.metrics()["state"] == "given up"
    assert source.metrics()["trouble"]


def test_kafka_says_soon_that_nobody_answers() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # and nobody listens
        source = kafka(f"127.0.0.1:{free.getsockname()[1]}", SourceOptions(follow=True, patience=60.0))
        batches = source.batches(None)
        assert next(batches) is None  # behind the first look for partitions, not behind 60 s
        assert source.metrics()["state"] == "retrying"
        assert source.metrics()["trouble"] == f"{source.name}: no server answers."
        source.close()
        assert read_all(batches) == []


# ---- Redis ----------------------------------------------------------------------------------------------------------


def redis(port: int, options: SourceOptions = ONCE, key: str = "news", before: str = "") -> Source:
    return open_source(f"redis://{before}127.0.0.1:{port}/{key}", 0, options)


def test_redis_goes_on_behind_a_position_and_over_a_kill(tmp_path: Path) -> None:
    pytest.importorskip("redis", reason="Redis sources need pip install 'any2vec[streams]'")
    with RedisServer(tmp_path) as server:

        def add(first: int, stop: int) -> list[str]:
            with server.client() as client, client.pipeline() as pipe:
                for number in range(first, stop):
                    pipe.xadd("news", {"text": f"text {number}", "more": "x"})
                return [id.decode() for id in pipe.execute()]

        ids = add(0, 1300)
        found = read_all(redis(server.port).batches(None))
        assert all_ids(found) == ids
        assert all_texts(found) == [b"text %d" % number for number in range(1300)]
        assert len(found) >= 3

        source = redis(server.port, SourceOptions(follow=True, patience=5.0, retries=30))
        batches = source.batches(found[0].position)
        rest = read_lines(batches, 1300 - len(found[0]))
        assert all_ids(found[:1] + rest) == ids
        server.kill()
        read_until(batches, lambda _: source.metrics()["reconnects"] > 0)
        assert "127.0.0.1" in source.metrics()["trouble"]
        thread = threading.Thread(target=server.start)
        thread.start()
        thread.join()
        late = add(1300, 1310)
        assert all_ids(read_lines(batches, 10)) == late
        source.close()
        assert read_all(batches) == []


def test_redis_entries_of_every_kind(tmp_path: Path) -> None:
    pytest.importorskip("redis", reason="Redis sources need pip install 'any2vec[streams]'")
    with RedisServer(tmp_path, "--requirepass", "secret") as server:
        with server.client(password="secret") as client:
            client.xadd("news", {"text": "one", "id": "own"})
            client.xadd("news", {"other": "none"})
            gone = client.xadd("news", {"text": "gone"})
            client.xadd("news", {"text": b"\xff"})
            client.xadd("news", {"text": b"\0"})
            client.xdel("news", gone)
            client.xadd("json", {"any": '{"text": "jay", "id": 1}'})
            client.set("plain", "a string")
        source = redis(server.port, before=":secret@")
        found = read_all(source.batches(None))
        assert all_texts(found) == [b"one", b"\xff"]
        assert all_ids(found)[0] == "own"
        assert source.metrics()["bad_by"] == {"no field text": 1, "not UTF-8": 1, "NUL bytes": 1}
        found = read_all(
            redis(server.port, SourceOptions(follow=False, form="ndjson"), "json", ":secret@").batches(None)
        )
        assert (all_ids(found), all_texts(found)) == (["1"], [b"jay"])
        for before, key, said in (
            ("", "news", "Authentication required"),
            (":secret@", "plain", "wrong kind of value"),
        ):
            source = redis(server.port, SourceOptions(follow=True, retries=0), key, before)
            assert read_all(source.batches(None)) == []
            assert source.metrics()["state"] == "given up"
            assert said in source.metrics()["trouble"]


@pytest.mark.parametrize(
    "reply", [b"what is this\r\n", b"*99999999\r\n", b"$-5\r\n", b"*1\r\n*2\r\n$4\r\nnews\r\n:5\r\n"]
)
def test_redis_that_speaks_nonsense(reply: bytes) -> None:
    pytest.importorskip("redis", reason="Redis sources need pip install 'any2vec[streams]'")

    def script(connection: socket.socket, number: int) -> None:
        while connection.recv(4096):
            connection.sendall(reply)

    with serving(script) as server:
        source = redis(server.port, SourceOptions(follow=True, patience=0.5, retries=1))
        assert read_all(source.batches(None)) == []
    assert source.metrics()["state"] == "given up"
    assert source.metrics()["trouble"]

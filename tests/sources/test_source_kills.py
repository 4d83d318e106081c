"""After 20 kills, the ids of the lines taken are a permutation of those sent, of each kind of source that says so."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

import source_kills
from any2vec.testing.planted_site import PlantedSite
from kafka_mock import MockKafka
from line_servers import answer, begin_chunks, chunk, request_of, resumed_at, serving
from redis_server import RedisServer

KILLS = 20
COUNT = 4000


def grow(path: Path, until: Callable[[], bool]) -> None:
    """Lines of a file, written in pieces that end anywhere; rotated, when a checkpoint has some of it."""
    kept = path.with_name("checkpoint.json")
    text = b"".join(b"line %d of a file\n" % number for number in range(COUNT))
    piece, rotations = 400, 0
    for start in range(0, len(text), piece):
        with path.open("ab") as file:
            file.write(text[start : start + piece])
            ends_line = text[start : start + piece].endswith(b"\n")
        while start == 40 * piece and not until() and not (kept.exists() and path.name in kept.read_text()):
            time.sleep(0.02)
        if ends_line and rotations < 3 and 40 * piece < start < len(text) - piece:
            for number in range(rotations, 0, -1):
                path.with_name(f"{path.name}.{number}").rename(path.with_name(f"{path.name}.{number + 1}"))
            path.rename(path.with_name(f"{path.name}.1"))
            rotations += 1
        if until():
            break
        time.sleep(0.01)


def offsets_of(line: bytes) -> set[str]:
    """The ids of lines that are their first bytes' numbers."""
    at, found = 0, set()
    for number in range(COUNT):
        found.add(str(at))
        at += len(line % number)
    return found


def serve_bytes(connection: socket.socket, number: int) -> None:
    """Goes on where RESUME says, and breaks after some bytes."""
    stream = b"".join(b"line %d of a socket\n" % line for line in range(COUNT))
    offset = resumed_at(connection)
    for start in range(offset, min(offset + 30_011, len(stream)), 1000):
        connection.sendall(stream[start : min(start + 1000, offset + 30_011)])
        time.sleep(0.005)
    if offset + 30_011 >= len(stream):
        connection.recv(1)


def serve_objects(connection: socket.socket, number: int) -> None:
    """Goes on behind `?after=`, sends every seventh object twice, and breaks within one."""
    path, _ = request_of(connection)
    first = int(path.rpartition("=")[2] or -1) + 1
    begin_chunks(connection)
    for line in range(first, COUNT):
        text = b'{"id": %d, "text": "object %d"}\n' % (line, line)
        chunk(connection, text * (1 + (line % 7 == 0)))
        if line - first == 900:
            chunk(connection, text[:9])
            return
    connection.recv(1)


def serve_document(connection: socket.socket, number: int) -> None:
    """A document that is polled, in another order each time."""
    _, headers = request_of(connection)
    order = sorted(range(COUNT), key=lambda line: (line * (2 * number + 1)) % COUNT)
    body = b"".join(b'{"id": "d%d", "text": "part %d"}\n' % (line, line) for line in order)
    if headers.get("if-none-match") == '"v"':
        answer(connection, b"", "", "304 Not Modified")
    else:
        answer(connection, body, ETag='"v"')


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="each life is a fork")
def test_after_20_kills_what_was_taken_is_a_permutation_of_what_was_sent(tmp_path: Path) -> None:
    pytest.importorskip("httpx", reason="HTTP sources need pip install 'any2vec[streams]'")
    pytest.importorskip("confluent_kafka", reason="Kafka sources need pip install 'any2vec[streams]'")
    pytest.importorskip("redis", reason="Redis sources need pip install 'any2vec[streams]'")
    pytest.importorskip("protego", reason="crawls need pip install 'any2vec[crawl]'")
    pytest.importorskip("resiliparse", reason="crawls need pip install 'any2vec[crawl]'")
    log, over = tmp_path / "app.log", threading.Event()
    log.write_bytes(b"")
    (tmp_path / "redis").mkdir()
    with ExitStack() as stack:
        tcp, http, document = (stack.enter_context(serving(s)) for s in (serve_bytes, serve_objects, serve_document))
        kafka = stack.enter_context(MockKafka("news"))
        kafka.send([(number % 4, f"message {number}") for number in range(COUNT)])
        redis = stack.enter_context(RedisServer(tmp_path / "redis"))
        site = stack.enter_context(PlantedSite(200, ("127.0.0.1", "127.0.0.2")))
        with redis.client() as client, client.pipeline() as pipe:
            for number in range(COUNT):
                pipe.xadd("news", {"text": f"entry {number}", "id": f"r{number}"})
                if number % 5 == 0:  # sent twice
                    pipe.xadd("news", {"text": f"entry {number}", "id": f"r{number}"})
            pipe.execute()
        wanted = {
            str(log): offsets_of(b"line %d of a file\n"),
            f"tcp://127.0.0.1:{tcp.port}?resume=1": offsets_of(b"line %d of a socket\n"),
            f"http://127.0.0.1:{http.port}/?after={{id}}": {str(number) for number in range(COUNT)},
            f"http://127.0.0.1:{document.port}/": {f"d{number}" for number in range(COUNT)},
            f"kafka://{kafka.servers}/news": {f"{part}:{offset}" for part in range(4) for offset in range(COUNT // 4)},
            f"redis://127.0.0.1:{redis.port}/news": {f"r{number}" for number in range(COUNT)},
            f"crawl:{site.start}#pause=0&page_bytes=100000&domains={','.join(site.sites)}": set(site.texts),
        }
        writer = threading.Thread(target=grow, args=(log, over.is_set))
        writer.start()
        arguments = [f"{address}={len(ids)}" for address, ids in wanted.items()]
        program = [sys.executable, source_kills.__file__, str(tmp_path), str(KILLS), "5", *arguments]
        try:
            done = subprocess.run(program, capture_output=True, text=True, timeout=150)
        finally:
            over.set()
            writer.join()
    assert done.returncode == 0, done.stderr
    ends = [int(line.split()[-1]) for line in done.stdout.splitlines()]
    assert ends == [-signal.SIGKILL] * KILLS + [0], done.stdout + done.stderr
    taken = Counter(tuple(line.split(" ")) for line in (tmp_path / "taken").read_text().splitlines())
    assert max(taken.values()) == 1
    for number, (address, ids) in enumerate(wanted.items()):
        assert {id for source, id in taken if source == str(number)} == ids, address
    assert set(json.loads((tmp_path / "checkpoint.json").read_text())["positions"]) == {
        address.partition("#")[0] for address in wanted
    }

"""Sockets: lines once or told, whatever the server does."""

from __future__ import annotations

import contextlib
import socket
import time
from pathlib import Path

import pytest

from any2vec.errors import InputError
from any2vec.sources.base.address import parse_address
from any2vec.sources.base.inflow import Inflow
from any2vec.sources.base.options import SourceOptions
from any2vec.sources.opening import open_source
from line_servers import LineServer, resumed_at, serving
from source_reading import LONG, all_ids, all_texts, read_all, read_lines

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # uint64 that wraps, uncompiled
ONCE = SourceOptions(follow=False, patience=5.0, retries=2)


def test_lines_come_in_whatever_pieces_they_are_sent() -> None:
    def script(connection: socket.socket, number: int) -> None:
        for piece in (b"a l", b"ine\nanother\r\n\nbad \xff byte\nnul\0\nend"):
            connection.sendall(piece)
            time.sleep(0.05)

    with serving(script) as server:
        source = open_source(f"tcp://127.0.0.1:{server.port}", 0, ONCE)
        found = read_all(source.batches(None))
    assert all_texts(found) == [b"a line", b"another", b"bad \xff byte", b"end"]
    assert all_ids(found) == ["0", "7", "17", "33"]
    assert source.metrics()["bad_by"] == {"NUL bytes": 1, "not UTF-8": 1}
    assert source.metrics()["state"] == "ended"
    assert source.delivery == "at most once"


def test_a_unix_socket(tmp_path: Path) -> None:
    with serving(lambda connection, number: connection.sendall(b"one\ntwo\n"), tmp_path / "s") as server:
        assert server.port == 0
        found = read_all(open_source(f"unix://{tmp_path}/s", 0, ONCE).batches(None))
    assert all_texts(found) == [b"one", b"two"]


def test_a_broken_connection_is_made_again_and_half_a_line_dropped() -> None:
    def script(connection: socket.socket, number: int) -> None:
        connection.sendall((b"first\nhal", b"second\n")[min(number, 1)])
        if number == 0:  # RST
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            time.sleep(0.1)

    with serving(script) as server:
        source = open_source(f"tcp://127.0.0.1:{server.port}", 0, SourceOptions(follow=True, retries=3))
        batches = source.batches(None)
        found = read_lines(batches, 2)
        assert all_texts(found) == [b"first", b"second"]
        assert all_ids(found) == ["0", "6"]
        metrics = source.metrics()
        assert metrics["bad_by"] == {"half a line": 1}
        assert metrics["reconnects"] == 1
        assert "127.0.0.1" in metrics["trouble"]
        batches.close()


def test_connections_that_stood_and_were_closed_in_order_are_no_failures() -> None:
    def script(connection: socket.socket, number: int) -> None:
        connection.settimeout(0.3)
        with contextlib.suppress(TimeoutError):
            connection.recv(1)
        if number == 3:
            connection.sendall(b"late\n")

    with serving(script) as server:
        source = open_source(f"tcp://127.0.0.1:{server.port}", 0, SourceOptions(follow=True, retries=1, patience=0.1))
        batches = source.batches(None)
        assert all_texts(read_lines(batches, 1)) == [b"late"]
        batches.close()


def test_resume_goes_on_at_the_byte_behind_the_last_whole_line() -> None:
    stream = b"".join(b"line %d\n" % number for number in range(2000))
    asked: list[int] = []

    def script(connection: socket.socket, number: int) -> None:
        offset = resumed_at(connection)
        asked.append(offset)
        connection.sendall(stream[offset : offset + 5003] if number < 3 else stream[offset:])

    with serving(script) as server:
        source = open_source(f"tcp://127.0.0.1:{server.port}?resume=1", 0, SourceOptions(follow=True))
        batches = source.batches({"offset": stream.index(b"line 10\n")})
        found = read_lines(batches, 1990)
        batches.close()
    assert all_texts(found) == stream.split(b"\n")[10:-1]
    assert all_ids(found) == [str(stream.index(b"line %d\n" % number)) for number in range(10, 2000)]
    assert asked[:2] == [80 - 10, stream.rindex(b"\n", 0, 70 + 5003) + 1]
    assert source.delivery == "exactly once"


def test_resume_goes_on_before_a_line_that_is_too_long_until_its_end_has_come() -> None:
    stream = b"first\n" + b"x" * (5 << 19) + b" tail\nlast\n"

    def script(connection: socket.socket, number: int) -> None:
        offset = resumed_at(connection)
        connection.sendall(stream[offset : offset + (2 << 20)] if number == 0 else stream[offset:])

    with serving(script) as server:
        source = open_source(f"tcp://127.0.0.1:{server.port}?resume=1", 0, SourceOptions(follow=True))
        batches = source.batches(None)
        found = read_lines(batches, 2)
        batches.close()
    assert all_texts(found) == [b"first", b"last"]
    assert all_ids(found) == ["0", str(stream.index(b"last"))]


def test_a_server_that_is_not_there_is_given_up_after_its_retries() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    source = open_source(f"tcp://127.0.0.1:{port}", 0, SourceOptions(follow=True, retries=2))
    begun = time.monotonic()
    assert read_all(source.batches(None)) == []
    assert source.metrics()["state"] == "given up"
    assert source.metrics()["reconnects"] == 2
    assert "refused" in source.metrics()["trouble"]
    assert time.monotonic() - begun >= 0.1 + 0.2  # half of 0.2 s, then half of 0.4 s at least


def test_silence_yields_nothing_and_close_ends_it() -> None:
    with serving(lambda connection, number: connection.recv(1)) as server:
        source = open_source(f"tcp://127.0.0.1:{server.port}", 0, SourceOptions(follow=True))
        batches = source.batches(None)
        assert next(batches) is None
        source.close()
        assert read_all(batches) == []
        assert source.metrics()["state"] == "closed"


def test_an_endless_line_is_skipped() -> None:
    def script(connection: socket.socket, number: int) -> None:
        for _ in range(40):
            connection.sendall(b"x" * (1 << 16))
        connection.sendall(b"\nafter\n")

    with serving(script) as server:
        source = open_source(f"tcp://127.0.0.1:{server.port}", 0, ONCE)
        found = read_all(source.batches(None))
    assert all_texts(found) == [b"after"]
    assert source.metrics()["bad_by"] == {"line too long": 1}


def test_a_slow_consumer_bounds_memory_and_the_server_sees_its_window_close() -> None:
    """The server may send what waits, what the source holds and what the kernel's buffers hold, and no more."""
    sent = [0]

    def script(connection: socket.socket, number: int) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        connection.setblocking(False)
        stalled_since = None
        while not server.is_over.is_set():
            try:
                sent[0] += connection.send(b"0123456789abcde\n" * 4096)
                stalled_since = None
            except BlockingIOError:
                stalled_since = stalled_since or time.monotonic()
                if time.monotonic() - stalled_since > 0.3:
                    stalled.append(sent[0])
                time.sleep(0.01)

    stalled: list[int] = []
    server = LineServer(script)
    most = 1 << 19
    source = open_source(f"tcp://127.0.0.1:{server.port}", 0, SourceOptions(follow=True))
    with Inflow([source], most_bytes=most) as inflow:
        until = time.monotonic() + LONG
        while not stalled and time.monotonic() < until:
            time.sleep(0.02)
            assert inflow.waiting_bytes <= most
        assert stalled
        before = source.metrics()["bytes"]
        assert before <= most + (1 << 18)
        assert sent[0] - before <= 16 << 20  # what the kernel's buffers may grow to, and more
        while source.metrics()["bytes"] <= before + 2 * most and time.monotonic() < until:
            assert inflow.take(LONG) is not None  # and it flows again
    server.close()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("ftp://host/file", "one of tcp, unix, http, https, kafka, redis, rediss, got 'ftp'"),
        ("tcp://host", "tcp://HOST:PORT"),
        ("tcp://host:1/path", "no path"),
        ("tcp://host:99999", "is no address"),
        ("tcp://:80", "names no host"),
        ("tcp://host:1?resum=1", "know these options behind .: resume; got 'resum'"),
        ("tcp://host:1?resume=yes", "resume must be 0 or 1"),
        ("tcp://host:1?resume=", "resume must be 0 or 1"),
        ("unix://relative/path", "three slashes"),
        ("kafka://host:9092", "does not say what to read"),
        ("kafka://me@host:9092/topic", "take no user"),
        ("redis://host", "does not say what to read"),
        ("redis://host/key?db=x", "db must be a number"),
        ("http://", "names no host"),
        ("http://host/{number}", "in braces"),
        ("http://ho st/", "a space or a control character"),
        ("redis://:secret@host", r"'redis://:\*\*\*@host' does not say"),
        ("redis://:se#cret@host/key", r"^What begins with redis:// (is no address|holds a #)"),
        ("redis://host/key#1", "no fragment; write it as %23"),
        ("", "A source is a path"),
    ],
)
def test_an_address_that_is_none_is_said_in_a_sentence(address: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        open_source(address, 0, SourceOptions(follow=True))


def test_a_missing_library_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"need confluent_kafka; in a clone: pip install -e '.\[streams\]'"):
        open_source("kafka://host:9092/topic", 0, SourceOptions(follow=True))


def test_a_password_is_never_a_name() -> None:
    assert parse_address("redis://:secret@host:6379/key").name == "redis://:***@host:6379/key"
    for text, name in (
        ("https://me:p:w@host/x?q=1&api_key=abc&n=2", "https://me:***@host/x?q=1&api_key=***&n=2"),
        ("https://token@host/x", "https://***@host/x"),
        ("http://user:p@ss@host/x", "http://user:***@host/x"),
        ("redis://:p@s:s@host:6379/key", "redis://:***@host:6379/key"),
        ("crawl:https://host/?api_key=abc&page=1#depth=2", "crawl:https://host/?api_key=***&page=1"),
        ("https://host/x@y?access_token=a", "https://host/x@y?access_token=***"),
    ):
        assert parse_address(text).name == name and parse_address(text).text == text
    pytest.importorskip("redis", reason="Redis sources need pip install 'any2vec[streams]'")
    source = open_source("redis://:secret@host:6379/key", 0, SourceOptions(follow=True))
    assert source.name == "redis://:***@host:6379/key"


@pytest.mark.parametrize("password", ["s3cret?x", "s3cret/x", "s3cret#x", "12?s3cret", "12#s3cret", "[s3cret"])
@pytest.mark.parametrize("address", ["redis://u:{}@host/key", "redis://:{}@host/key", "tcp://u:{}@host:1"])
def test_a_password_that_ends_the_host_is_not_in_the_refusal(password: str, address: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_address(address.format(password))
    assert "s3cret" not in str(refused.value) and refused.value.__cause__ is None


def test_a_host_without_an_address_is_reported() -> None:
    source = open_source("tcp://host.invalid:9", 0, SourceOptions(follow=True, retries=0))
    assert read_all(source.batches(None)) == []
    assert "Unknown error" not in source.metrics()["trouble"]
    assert source.metrics()["state"] == "given up"

"""HTTP sources: streams, documents that are polled, and feeds, from servers that keep to nothing."""

from __future__ import annotations

import contextlib
import gzip
import re
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from any2vec.sources.base.cutter import LineBatch
from any2vec.sources.base.options import SourceOptions
from any2vec.sources.base.records import SeenLines
from any2vec.sources.base.source import Source
from any2vec.sources.kinds.feeds import MOST_FEED, BadFeedError, Entry, read_feed
from any2vec.sources.kinds.http import wanted_wait
from any2vec.sources.opening import open_source
from line_servers import LineServer, answer, begin_chunks, chunk, request_of, serving
from source_reading import LONG, all_ids, all_texts, read_all, read_lines, read_until

pytest.importorskip("httpx", reason="HTTP sources need pip install 'any2vec[streams]'")
pytest.importorskip("feedparser", reason="feeds need pip install 'any2vec[streams]'")
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # uint64 that wraps, uncompiled
ONCE = SourceOptions(follow=False, patience=5.0, retries=0)


def source_of(server: LineServer, path: str = "/", options: SourceOptions = ONCE) -> Source:
    return open_source(f"http://127.0.0.1:{server.port}{path}", 0, options)


def read_once(body: bytes, kind: str, options: SourceOptions = ONCE, **headers: str) -> tuple[list[LineBatch], dict]:
    """What one answer gives."""

    def script(connection: socket.socket, number: int) -> None:
        request_of(connection)
        answer(connection, body, kind, **headers)

    with serving(script) as server:
        source = source_of(server, options=options)
        return read_all(source.batches(None)), source.metrics()


def stalls(connection: socket.socket, number: int) -> None:
    """An answer without an end: an object, and then nothing."""
    request_of(connection)
    begin_chunks(connection)
    chunk(connection, ndjson(number))
    connection.recv(1)


def ndjson(*numbers: int) -> bytes:
    return b"".join(b'{"id": %d, "text": "text %d"}\n' % (number, number) for number in numbers)


# ---- one answer -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["application/x-ndjson", "application/json; charset=utf-8", "text/plain", ""])
def test_json_lines_are_reported_by_type_or_look(kind: str) -> None:
    found, metrics = read_once(b"  \n" * (kind == "text/plain") + ndjson(1, 2) + b'{"id": 3, "te', kind)
    assert all_texts(found) == [b"text 1", b"text 2"]
    assert all_ids(found) == ["1", "2"]
    assert metrics["bad_by"] == {"not JSON": 1}
    assert metrics["state"] == "ended"
    assert metrics["delivery"] == "at least once"


def test_plain_lines_and_gzip() -> None:
    body = gzip.compress(b"one\n" + b"two three\n" * 20_000)
    found, metrics = read_once(body, "text/plain", Content_Encoding="gzip")
    assert all_texts(found) == [b"one"] + [b"two three"] * 20_000
    assert metrics["bytes"] == 4 + 10 * 20_000
    keys = {key for batch in found for key in batch.key_N.tolist()}
    assert len(keys) == 2  # a text without an id is known by itself: the same document may come again


@pytest.mark.parametrize(
    ("body", "kind", "why"),
    [
        (b"<!DOCTYPE html><html><body>Sorry</body></html>", "text/html", "HTML, not a feed"),
        (b"Sorry", "text/html; charset=utf-8", "content type text/html"),
        (b"<html><head><title>no</title></head></html>", "application/rss+xml", "HTML, not a feed"),
        (b"\x89PNG" * 100, "image/png", "content type image/png"),
        (b"a,b\n1,2\n", "text/csv", "content type text/csv"),
        (b"<<<<", "application/xml", "not a feed"),
        (b"", "text/xml", "not a feed"),
        (b"\xff\xfe\0\0garbage" * 9, "application/atom+xml", "not a feed"),
    ],
)
def test_what_is_of_the_wrong_type_is_counted_and_skipped(body: bytes, kind: str, why: str) -> None:
    found, metrics = read_once(body, kind)
    assert found == []
    assert metrics["bad_by"] == {why: 1}
    assert metrics["state"] == "ended"


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (b"\x16\x03\x01 what is this\r\n\r\n", "illegal|invalid|malformed"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{}", "without sending complete"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
            "illegal",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd", "incorrect header check"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 4\r\n\r\nabcd", "packed as 'br'"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "404 Not Found"),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", "redirects"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000, "buffer too long"),
        (b"", "disconnected"),
    ],
)
def test_a_server_that_speaks_nonsense_is_tried_again_reported_and_given_up(reply: bytes, said: str) -> None:
    def script(connection: socket.socket, number: int) -> None:
        while True:
            request_of(connection)
            connection.sendall(reply)
            if b"302" not in reply:
                break

    with serving(script) as server:
        source = source_of(server, options=SourceOptions(follow=True, retries=1, patience=5.0))
        assert read_all(source.batches(None)) == []
        metrics = source.metrics()
    assert metrics["state"] == "given up"
    assert metrics["reconnects"] == 1
    assert re.search(said, metrics["trouble"]), metrics["trouble"]


def test_an_endless_line_and_an_endless_feed_are_left() -> None:
    found, metrics = read_once(b"x" * (3 << 20) + b"\n" + ndjson(1), "application/x-ndjson")
    assert all_texts(found) == [b"text 1"]
    assert metrics["bad_by"] == {"line too long": 1}
    found, metrics = read_once(b"<rss>" + b"x" * (MOST_FEED + 1), "application/rss+xml")
    assert found == []
    assert metrics["bad_by"] == {"feed too large": 1}
    bomb = gzip.compress(gzip.compress(b"\0" * (1 << 26)))
    assert len(bomb) < 1 << 12
    found, metrics = read_once(gzip.decompress(bomb), "application/rss+xml", Content_Encoding="gzip")
    assert metrics["bad_by"] == {"feed too large": 1}


# ---- streams --------------------------------------------------------------------------------------------------------


def numbered(count: int, cut: Callable[[int], bytes | None]) -> Callable[[socket.socket, int], None]:
    """A server that sends lines behind `?after=`; cut: what a connection's 50th line is instead, before it breaks."""

    def script(connection: socket.socket, number: int) -> None:
        path, _ = request_of(connection)
        first = int(path.rpartition("=")[2] or -1) + 1
        begin_chunks(connection)
        for line in range(first, count):
            if line - first == 50 and (broken := cut(number)) is not None:
                chunk(connection, broken)
                return
            chunk(connection, ndjson(line))
        connection.recv(1)

    return script


def test_a_stream_goes_on_behind_the_last_id_after_every_break() -> None:
    with serving(numbered(300, lambda number: b'{"id": 9999, "tex')) as server:
        source = source_of(server, "/stream?after={id}", SourceOptions(follow=True, retries=1))
        batches = source.batches(None)
        found = read_lines(batches, 300)
        assert all_ids(found) == [str(number) for number in range(300)]
        assert source.metrics()["bad_by"] == {"half a line": 5}
        assert source.metrics()["reconnects"] >= 5
        assert source.delivery == "exactly once"
        batches.close()
        middle = next(batch for batch in found if batch.offset_N[-1] >= 100)
        again = source_of(server, "/stream?after={id}", SourceOptions(follow=True)).batches(middle.position)
        rest = read_lines(again, 300 - int(middle.offset_N[-1]) - 1)
        assert all_ids(rest) == [str(number) for number in range(int(middle.offset_N[-1]) + 1, 300)]
        assert rest[0].offset_N[0] == middle.offset_N[-1] + 1
        again.close()


def test_an_id_that_is_no_unicode_ends_no_stream() -> None:
    asked = []

    def script(connection: socket.socket, number: int) -> None:
        asked.append(request_of(connection)[0])
        answer(connection, b'{"id": "\\ud800", "text": "one"}\n' if number == 0 else ndjson(2))

    with serving(script) as server:
        batches = source_of(server, "/stream?after={id}", SourceOptions(follow=True, poll=0.05, retries=0)).batches(
            None
        )
        found = read_lines(batches, 2)
        batches.close()
    assert all_texts(found) == [b"one", b"text 2"]
    assert asked[:2] == ["/stream?after=", "/stream?after=%3F"]


def test_duplicates_and_disorder_are_reported_by_ids() -> None:
    def script(connection: socket.socket, number: int) -> None:
        request_of(connection)
        answer(connection, ndjson(3, 1, 2, 3, 1) if number == 0 else ndjson(2, 4, 1, 5))

    with serving(script) as server:
        batches = source_of(server, "/", SourceOptions(follow=True, poll=0.05)).batches(None)
        found = read_lines(batches, 9)
        batches.close()
    seen = SeenLines(100)
    fresh = [
        id for batch in found for line, id in enumerate(all_ids([batch])) if seen.fresh(batch.key_N[line : line + 1])
    ]
    assert fresh == ["3", "1", "2", "4", "5"]


def test_a_trickle_is_not_kept_until_a_batch_is_full() -> None:
    def script(connection: socket.socket, number: int) -> None:
        request_of(connection)
        begin_chunks(connection)
        for line in range(3):
            chunk(connection, ndjson(line))
            assert has_come.acquire(timeout=LONG)
        connection.recv(1)

    has_come = threading.Semaphore(0)
    with serving(script) as server:
        batches = source_of(server, "/", SourceOptions(follow=True, patience=10 * LONG)).batches(None)
        for line in range(3):
            assert all_ids(read_lines(batches, 1)) == [str(line)]
            has_come.release()
        batches.close()


def test_a_stalled_stream_yields_nothing_then_is_asked_again() -> None:
    with serving(stalls) as server:
        source = source_of(server, "/", SourceOptions(follow=True, patience=0.4))
        batches = source.batches(None)
        found = read_lines(batches, 1)
        assert next(batches) is None
        found += read_lines(batches, 1)
        assert all_ids(found) == ["0", "1"]
        assert "ReadTimeout" in source.metrics()["trouble"]
        source.close()
        assert read_all(batches) == []
        assert source.metrics()["state"] == "closed"


def test_a_quiet_stream_is_not_given_up() -> None:
    """However many times patience lasts; but a document that does not come to its end is."""

    def script(connection: socket.socket, number: int) -> None:
        path, _ = request_of(connection)
        if path == "/document":
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 99\r\n\r\n")
        else:
            begin_chunks(connection, "text/plain" if number % 2 else "application/x-ndjson")
        if number in (0, 5):
            chunk(connection, ndjson(number))
        connection.recv(1)

    with serving(script) as server:
        options = SourceOptions(follow=True, patience=0.4, retries=1)
        source = source_of(server, "/", options)
        batches = source.batches(None)
        assert all_ids(read_lines(batches, 2)) == ["0", "5"]
        assert source.metrics()["reconnects"] >= 5
        batches.close()
        document = source_of(server, "/document", options)
        assert read_all(document.batches(None)) == []
        assert document.metrics()["state"] == "given up"


# ---- polling --------------------------------------------------------------------------------------------------------


def test_a_document_is_asked_for_with_its_version_and_another_run_goes_on_so() -> None:
    asked: list[dict[str, str]] = []

    def script(connection: socket.socket, number: int) -> None:
        _, headers = request_of(connection)
        asked.append(headers)
        if headers.get("if-none-match") == '"v1"' and headers.get("if-modified-since") == "yesterday":
            answer(connection, b"", "", "304 Not Modified")
        else:
            answer(connection, ndjson(1, 2), ETag='"v1"', Last_Modified="yesterday")

    with serving(script) as server:
        source = source_of(server, "/", SourceOptions(follow=True, poll=0.02))
        batches = source.batches(None)
        found = read_lines(batches, 2)
        read_until(batches, lambda _: len(asked) >= 3)
        batches.close()
        assert source.metrics()["lines"] == 2
        assert found[-1].position["etag"] == '"v1"'
        again = source_of(server, "/", ONCE)
        assert read_all(again.batches(found[-1].position)) == []
    assert "if-none-match" not in asked[0]
    assert asked[-1]["if-none-match"] == '"v1"'


def test_a_version_is_not_asked_for_at_another_address() -> None:
    asked: list[tuple[str, dict[str, str]]] = []

    def script(connection: socket.socket, number: int) -> None:
        path, headers = request_of(connection)
        asked.append((path, headers))
        if "if-modified-since" in headers:
            answer(connection, b"", "", "304 Not Modified")
        elif path == "/?after=2":
            answer(connection, ndjson(3), Last_Modified="today")
        elif path == "/?after=3":
            answer(connection, b"", "application/x-ndjson", Last_Modified="today", ETag="caf\xe9")
        else:
            answer(connection, ndjson(1, 2), Last_Modified="today")

    with serving(script) as server:
        batches = source_of(server, "/?after={id}", SourceOptions(follow=True, poll=0.02)).batches(None)
        assert all_ids(read_lines(batches, 3)) == ["1", "2", "3"]
        read_until(batches, lambda _: len(asked) >= 4)
        batches.close()
    assert [headers.get("if-modified-since") for _, headers in asked[:4]] == [None, None, None, "today"]
    assert "if-none-match" not in asked[3][1]  # no header may hold it


def test_a_silent_stream_ends_where_it_is_not_followed() -> None:
    with serving(stalls) as server:
        source = source_of(server, "/", SourceOptions(follow=False, patience=0.4))
        assert all_ids(read_all(source.batches(None))) == ["0"]
    assert source.metrics()["state"] == "ended" and "ReadTimeout" in source.metrics()["trouble"]


def test_a_packed_answer_that_breaks_off_is_asked_for_again() -> None:
    whole = gzip.compress(ndjson(*range(2000)))

    def script(connection: socket.socket, number: int) -> None:
        request_of(connection)
        body = whole[: len(whole) // 2] if number == 0 else whole
        connection.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nContent-Encoding: gzip\r\n\r\n" + body
        )

    with serving(script) as server:
        source = source_of(server, "/", SourceOptions(follow=False, retries=1, dedup="id"))
        found = read_all(source.batches(None))
    assert set(all_ids(found)) == {str(number) for number in range(2000)}
    assert "breaks off" in source.metrics()["trouble"] and source.metrics()["reconnects"] == 1


def test_a_busy_server_says_how_long_to_wait() -> None:
    times: list[float] = []

    def script(connection: socket.socket, number: int) -> None:
        request_of(connection)
        times.append(time.monotonic())
        if number == 0:
            answer(connection, b"busy", "text/plain", "503 Service Unavailable", Retry_After="1")
        else:
            answer(connection, ndjson(1))

    with serving(script) as server:
        source = source_of(server, "/", SourceOptions(follow=False, retries=1))
        assert len(read_all(source.batches(None))) == 1
    assert times[1] - times[0] >= 1.0
    assert "503" in source.metrics()["trouble"]
    assert wanted_wait("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    assert wanted_wait(f"1 Jan 2020 00:00:00 +{'9' * 20}") == 0.0
    assert [wanted_wait(text) for text in (None, "soon", "-5", "nan", "1e9", "7")] == [0, 0, 0, 0, 3600, 7]


# ---- feeds ----------------------------------------------------------------------------------------------------------


def rss(*numbers: int) -> bytes:
    items = "".join(
        f"<item><guid>g{number}</guid><title>Title {number}</title>"
        f"<description>&lt;p&gt;Some &lt;b&gt;bold&lt;/b&gt; text &amp;amp; more&lt;/p&gt;</description></item>"
        for number in numbers
    )
    return f'<?xml version="1.0"?><rss version="2.0"><channel><title>c</title>{items}</channel></rss>'.encode()


ATOM = """<?xml version="1.0" encoding="utf-8"?><feed xmlns="http://www.w3.org/2005/Atom"><title>f</title>
<entry><id>urn:2</id><title>Später</title><content type="html">&lt;script&gt;x()&lt;/script&gt;zwei</content></entry>
<entry><title>no id</title><summary>eins</summary></entry><entry><id>urn:0</id></entry></feed>""".encode()


def test_entries_are_texts_the_oldest_first() -> None:
    assert read_feed(rss(2, 1)) == [Entry(f"g{number}", f"Title {number} Some bold text & more") for number in (1, 2)]
    assert read_feed(ATOM) == [Entry(None, "no id eins"), Entry("urn:2", "Später zwei")]
    assert read_feed(ATOM.decode().replace("utf-8", "utf-16").encode("utf-16")) == read_feed(ATOM)


def test_a_feed_gives_what_is_new_at_each_poll() -> None:
    def script(connection: socket.socket, number: int) -> None:
        request_of(connection)
        documents = (rss(2, 1), rss(3, 2, 1), rss(5, 4, 3))
        answer(connection, documents[min(number, 2)], "text/html" if number == 1 else "application/rss+xml")

    with serving(script) as server:
        source = source_of(server, "/", SourceOptions(follow=True, poll=0.02))
        batches = source.batches(None)
        found = read_lines(batches, 5)
        asked = server.count
        read_until(batches, lambda _: server.count > asked + 1)
        batches.close()
    assert all_ids(found) == ["g1", "g2", "g3", "g4", "g5"]
    assert source.metrics()["lines"] == 5


BOMB = b"""<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY a "aaaaaaaaaa">%s]><rss version="2.0"><channel>
<item><title>&j;</title></item></channel></rss>""" % b"".join(
    b'<!ENTITY %c "%s">' % (letter + 1, b"&%c;" % letter * 10) for letter in range(ord("a"), ord("j"))
)


@pytest.mark.parametrize("coding", ["utf-8", "utf-16", "utf-16-be", "utf-7"])
def test_an_entity_bomb_is_refused_or_stays_small(coding: str) -> None:
    document = BOMB.decode().replace('"1.0"?', f'"1.0" encoding="{coding}"?').encode(coding)
    if coding == "utf-7":
        document = document.replace(b"<!E", b"+ADwAIQ-E")
    try:
        assert sum(len(entry.text) for entry in read_feed(document)) < 1000
    except BadFeedError as error:
        assert str(error) == "feed with XML entities" or coding == "utf-7"


@pytest.mark.parametrize("piece", [b"<", b"<a>", b"&", b"<item><title>x", b"<![CDATA[", b'<a href="'])
def test_a_document_that_is_made_to_be_slow_is_not(piece: bytes) -> None:
    begun = time.process_time()
    document: Any = b"<rss version='2.0'><channel><item>" + piece * ((1 << 16) // len(piece))
    with contextlib.suppress(BadFeedError):
        read_feed(document)
    assert time.process_time() - begun < LONG

"""HTTP and HTTPS: streams of JSON objects or lines, and documents that are asked for again and again, feeds among them.

Delivery is exactly once where the address holds `{id}`, which each request has the id of the last line that came in its
place (`?after={id}`; empty in the first): a server that honors it is asked for what follows. Else it is at least once:
what a server repeats within the window of de-duplication is recognized by its id, or its text.

Requests: answers are read piece by piece, in between which the caller goes on; httpx stands behind a generator.
"""

from __future__ import annotations

import asyncio
import codecs
import email.utils
import ssl
import time
import zlib
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import closing
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

from any2vec import _version
from any2vec.errors import InputError
from any2vec.sources.base.address import Address
from any2vec.sources.base.cutter import BLOCK, LineBatch, LineCutter, Position
from any2vec.sources.base.options import SourceOptions
from any2vec.sources.base.pump import MOMENT, Attempts, Batches, idle
from any2vec.sources.base.records import Records
from any2vec.sources.base.source import Delivery, PacedSource
from any2vec.sources.kinds.feeds import MOST_FEED, BadFeedError, read_feed

_T = TypeVar("_T")
_MOST_REDIRECTS = 5


class Exchange:
    """One client, one request after another, in the thread that made it. A context.

    `ask` and `pieces` are generators that yield None while they wait, a tenth of a second each at most; closed there,
    they leave the connection.
    """

    def __init__(self, patience: float) -> None:
        import httpx

        self._loop = asyncio.new_event_loop()
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(patience),
            follow_redirects=True,
            max_redirects=_MOST_REDIRECTS,
            headers={"User-Agent": f"any2vec/{_version.__version__}", "Accept-Encoding": "gzip"},
        )
        self._response: Any = None
        self._raw: AsyncIterator[bytes] | None = None
        self.troubles: tuple[type[BaseException], ...] = (
            httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ssl.SSLError, zlib.error, UnicodeError,
        )  # fmt: skip
        """errors of the server's or the net's making"""
        self.silence = httpx.ReadTimeout
        """the one of them that says: nothing has come for `patience` seconds"""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
            self._loop.run_until_complete(self._client.aclose())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def ask(self, address: str, headers: dict[str, str]) -> Generator[None, None, Any]:
        """GET; the response, its body unread: `status_code` and `headers` count."""
        self.close()
        request = self._client.build_request("GET", address, headers=headers)
        self._response = yield from self._wait(self._client.send(request, stream=True))
        self._raw = self._response.aiter_raw()
        return self._response

    def pieces(self) -> Generator[bytes | None, None, None]:
        """The body, unpacked where it is gzip, in pieces of at most BLOCK bytes.

        Raises:
            zlib.error: it is packed otherwise, damaged, or breaks off.
        """
        unpacked = Unpacked(self._response.headers.get("content-encoding"))
        has_come = False
        while (piece := (yield from self._wait(self._next()))) is not None:
            has_come = True
            yield from unpacked.pieces(piece)
        if has_come and not unpacked.is_whole:
            raise zlib.error("the answer breaks off")

    def close(self) -> None:
        """Close the last response, read or not."""
        if self._response is not None:
            response, self._response, self._raw = self._response, None, None
            self._loop.run_until_complete(response.aclose())

    async def _next(self) -> bytes | None:
        assert self._raw is not None
        return await anext(self._raw, None)

    def _wait(self, work: Coroutine[Any, Any, _T]) -> Generator[None, None, _T]:
        task = self._loop.create_task(work)
        try:
            while True:
                self._loop.run_until_complete(asyncio.wait({task}, timeout=MOMENT))
                if task.done():
                    return task.result()
                yield None
        finally:
            if not task.done():
                task.cancel()
                self._loop.run_until_complete(asyncio.wait({task}))


class Unpacked:
    """Takes gzip off a body, piece by piece.

    Args:
        packing: the header Content-Encoding.

    Raises:
        zlib.error: it is packed otherwise, or (`pieces`) damaged.
    """

    def __init__(self, packing: str | None) -> None:
        packing = (packing or "identity").strip().lower()
        if packing not in ("identity", "gzip", ""):
            raise zlib.error(f"the answer is packed as {packing!r}, where gzip was asked for")
        self._inflater = zlib.decompressobj(31) if packing == "gzip" else None

    @property
    def is_whole(self) -> bool:
        """Whether what came may be all."""
        return self._inflater is None or self._inflater.eof

    def pieces(self, raw: bytes) -> Generator[bytes, None, None]:
        """What some bytes unpack to, at most BLOCK bytes at a time: who stops asking unpacks no more."""
        if self._inflater is None:
            for start in range(0, len(raw), BLOCK):
                yield raw[start : start + BLOCK]
            return
        while raw:
            if self._inflater.eof:  # another member (RFC 1952, 2.2), or what is no part of the body
                if not raw.startswith(b"\x1f"):
                    return
                self._inflater = zlib.decompressobj(31)
            if unpacked := self._inflater.decompress(raw, BLOCK):
                yield unpacked
            raw = self._inflater.unconsumed_tail or self._inflater.unused_data


_JSON_TYPES = ("json", "ndjson", "jsonl", "jsonlines", "json-lines")
_FEED_TYPES = ("rss", "atom", "rdf", "xml")
_LOOKED_AT = ("text/plain", "text/html", "application/xhtml+xml", "application/octet-stream", "")
_BATCH_BYTES = 1 << 16
_LONGEST_REQUESTED_WAIT = 3600.0


class _RefusedError(Exception):
    """The server answers, but not with what was asked for."""


class _SilentError(Exception):
    """An answer that need not end has stood open, and nothing has come for as long as patience lasts."""


class HttpLines(PacedSource):
    """What an HTTP server sends: JSON objects or lines, one a line, or a feed, by content type and first bytes.

    An answer without an end is read as it comes. Where nothing has come of it for `patience` seconds, the source ends,
    or asks again while it is followed, as often as need be; an answer with an end is then asked for again every `poll`
    seconds, with what the server said of its version (ETag, Last-Modified), if the address is still the same. Bodies
    are read in pieces; a feed of more than 4 MiB is refused. An answer of another type is counted and left. Position:
    `number` (of lines and entries that came), `id` (of the last), `etag`, `modified`.
    """

    def __init__(self, address: Address, number: int, options: SourceOptions, seed: int) -> None:
        super().__init__(address.name, options.rate)
        self._address, self._options = address.text, options
        self.delivery: Delivery = "exactly once" if "{id}" in self._address else "at least once"
        if "{" in self._address.replace("{id}", ""):
            raise InputError(f"The one thing in braces that an address may hold is {{id}}, got {address.name}.")
        self._cutter = LineCutter(number, options, self._tally)
        self._records = Records(number, options, self._tally, is_polled=True)
        self._attempts = Attempts(options.retries, seed, number, self._tally, lambda: self._is_closed)
        self._at: dict[str, Any] = {}
        self._given: set[str] = set()
        """entries of the last document of a feed"""

    def _batches(self, position: Position | None) -> Batches:
        self._at = {"number": 0, "id": None, "etag": None, "modified": None, **(position or {})}
        with Exchange(self._options.patience) as exchange:

            def attempt() -> Batches:
                while not self._is_closed:
                    try:
                        yield from self._ask(exchange)
                    except _SilentError as error:  # no failure: a stream may be silent, but its connection may be dead
                        self._attempts.succeeded()
                        self._tally.trouble = str(error)
                        if not self._options.follow:
                            return
                        self._tally.reconnects += 1
                        continue
                    self._attempts.succeeded()
                    if not self._options.follow:
                        return
                    self._tally.state = "waiting"
                    yield from idle(self._options.poll, lambda: self._is_closed)

            yield from self._attempts.repeat(attempt, (*exchange.troubles, _RefusedError), self._warned)

    # ---- one request ------------------------------------------------------------------------------------------------

    def _ask(self, exchange: Exchange) -> Batches:
        headers = {"Accept": "application/x-ndjson, application/rss+xml, application/atom+xml, */*;q=0.5"}
        for header, name in (("If-None-Match", "etag"), ("If-Modified-Since", "modified")):
            if self._at[name]:
                headers[header] = self._at[name]
        id = self._at["id"]
        address = self._address.replace("{id}", quote(id or "", safe="", errors="replace"))
        response = yield from exchange.ask(address, headers)
        if response.status_code in (204, 304):
            return
        if response.status_code != 200:
            self._attempts.least = wanted_wait(response.headers.get("retry-after"))
            raise _RefusedError(f"the server answers {response.status_code} {response.reason_phrase}".strip())
        self._tally.state = "reading"
        form = None
        try:
            with closing(exchange), closing(exchange.pieces()) as pieces:
                form = yield from self._form_of(response, pieces)
                if form == "feed":
                    yield from self._read_feed(pieces)
                elif form is not None:
                    yield from self._read_lines(pieces, form)
                if form is not None and not self._is_closed:
                    is_same = "{id}" not in self._address or self._at["id"] == id  # that is asked for next
                    said = {"etag": response.headers.get("etag"), "modified": response.headers.get("last-modified")}
                    self._at |= {
                        name: text if is_same and (text or "").isascii() else None for name, text in said.items()
                    }
        except exchange.silence as error:
            if form == "feed" or "content-length" in response.headers:
                raise
            raise _SilentError(self._warned(error)) from error
        yield from self._take()

    def _form_of(self, response: Any, pieces: Generator[bytes | None]) -> Generator[None, None, str | None]:
        """lines, ndjson, feed, or None: neither, which is counted. What was looked at is fed to the cutter."""
        self._cutter.restart(0)
        if self._options.form != "auto":
            return self._options.form
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        parts = kind.partition("/")[2].removeprefix("x-").split("+")
        if parts[-1] in _JSON_TYPES:
            return "ndjson"
        if parts[-1] in _FEED_TYPES and "xhtml" not in parts:
            return "feed"
        if kind not in _LOOKED_AT:
            self._tally.bad(f"content type {kind[:60]}")
            return None
        head = b""
        while not head.strip() and len(head) < _BATCH_BYTES and not self._is_closed:
            try:
                piece = next(pieces)
            except StopIteration:
                break
            if piece is None:
                yield None
            else:
                self._cutter.feed(piece)
                head += piece
        head = head.removeprefix(codecs.BOM_UTF8).lstrip()
        if head.startswith(b"<"):
            return "feed"
        if "html" in kind:
            self._tally.bad(f"content type {kind}")
            return None
        return "ndjson" if head.startswith(b"{") else "lines"

    # ---- bodies -----------------------------------------------------------------------------------------------------

    def _read_lines(self, pieces: Generator[bytes | None], form: str) -> Batches:
        add = self._records.add_json if form == "ndjson" else self._add_line
        since = time.monotonic()
        try:
            yield from self._cut(add)
            for piece in pieces:
                if self._is_closed:
                    return
                if piece is not None:
                    self._cutter.feed(piece)
                    yield from self._cut(add)
                if piece is None or time.monotonic() - since > MOMENT:
                    yield from self._take()
                    since = time.monotonic()
                if piece is None:
                    yield None
            self._cutter.finish()
            yield from self._cut(add)
        except Exception:
            yield from self._take()  # what came before the break
            raise
        finally:
            if self._cutter.held:
                self._tally.bad("half a line")
            self._cutter.restart(0)

    def _cut(self, add: Callable[[int, bytes], str | None]) -> Generator[LineBatch]:
        """Take the whole lines that are there as records."""
        while (batch := self._cutter.cut(dict)) is not None:
            text, begin = batch.text_B.tobytes(), 0
            for stop in batch.stop_N.tolist():
                id = add(self._at["number"], text[begin : stop - 1])
                self._at["number"] += 1
                self._at["id"] = id if id is not None else self._at["id"]
                begin = stop
            if self._records.is_full or len(text) >= _BATCH_BYTES // 2:
                yield from self._take()

    def _add_line(self, number: int, line: bytes) -> None:
        self._records.add(number, line)

    def _read_feed(self, pieces: Generator[bytes | None]) -> Batches:
        document = bytearray(self._cutter.rest())
        for piece in pieces:
            if self._is_closed:
                return
            if piece is None:
                yield None
                continue
            document += piece
            self._tally.bytes += len(piece)
            if len(document) > MOST_FEED:
                self._tally.bad("feed too large")
                return
        try:
            entries = read_feed(bytes(document))
        except BadFeedError as error:
            self._tally.bad(str(error))
            return
        given = {entry.id or entry.text for entry in entries}
        for entry in entries:
            if (entry.id or entry.text) in self._given:
                continue
            self._records.add(self._at["number"], entry.text, entry.id)
            self._at["number"] += 1
            self._at["id"] = entry.id if entry.id is not None else self._at["id"]
            if self._records.is_full:
                yield from self._take()
        self._given = given

    def _take(self) -> Generator[LineBatch]:
        batch = self._records.take(dict(self._at))
        if batch is not None:
            self._attempts.succeeded()
            self._tally.lines += len(batch)
            yield batch

    def _warned(self, error: BaseException) -> str:
        return f"{self.name}: {str(error) or type(error).__name__}."


def wanted_wait(header: str | None) -> float:
    """Seconds of a Retry-After header (RFC 9110, 10.2.3), an hour at most; 0 where there is none that can be read."""
    if not header:
        return 0.0
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(header).timestamp() - time.time()
        except (ValueError, OverflowError):
            return 0.0
    return min(max(0.0, seconds), _LONGEST_REQUESTED_WAIT) if seconds == seconds else 0.0

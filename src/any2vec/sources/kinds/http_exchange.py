"""Requests whose answers are read piece by piece, in between which the caller goes on: httpx behind a generator."""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import AsyncIterator, Coroutine, Generator
from types import TracebackType
from typing import Any, Self, TypeVar

from any2vec import _version
from any2vec.sources.base.cutter import BLOCK
from any2vec.sources.base.pump import MOMENT

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
            zlib.error: it is packed otherwise, or damaged.
        """
        packing = self._response.headers.get("content-encoding", "identity").strip().lower()
        if packing not in ("identity", "gzip", ""):
            raise zlib.error(f"the answer is packed as {packing!r}, where gzip was asked for")
        inflater = zlib.decompressobj(31) if packing == "gzip" else None
        while (piece := (yield from self._wait(self._next()))) is not None:
            if inflater is None:
                for start in range(0, len(piece), BLOCK):
                    yield piece[start : start + BLOCK]
                continue
            while piece and not inflater.eof:
                if unpacked := inflater.decompress(piece, BLOCK):
                    yield unpacked
                piece = inflater.unconsumed_tail

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

"""One request of a crawl: bounded in time, bytes and reach. Where a link leads is never trusted."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, NamedTuple

from any2vec import _version
from any2vec.sources.crawl.frontier import Request
from any2vec.sources.crawl.page import BadPageError
from any2vec.sources.crawl.page_process import PageProcess
from any2vec.sources.crawl.robots import MOST_ROBOTS
from any2vec.sources.kinds.http import Unpacked, wanted_wait

_TYPES = ("text/html", "application/xhtml+xml", "text/plain")
_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_HOPS = 5
"""of robots.txt (RFC 9309, 2.3.1.2)"""
_CARRIERS = [
    ipaddress.IPv6Network(text) for text in ("64:ff9b::/96", "64:ff9b:1::/48", "::/96", "::ffff:0:0:0/96", "fec0::/10")
]
"""IPv6 addresses that lead to IPv4 ones (NAT64, IPv4-compatible, IPv4-translated), and the old site-local ones"""
_MOST_ADDRESSES = 4
"""of a host that are tried"""


@dataclass(frozen=True, kw_only=True)
class FetchOptions:
    """What a node has to know of a crawl."""

    patience: float
    """seconds that a request takes at most, and then the reading of its page"""
    page_bytes: int
    contact: str
    reach: tuple[str, ...]
    """kinds of addresses that may be connected to"""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came of a request."""

    kind: str
    url: str
    fault: str = ""
    """site: nobody answers; page: it may be asked for again; bad: it will not be other the next time"""
    why: str = ""
    """of a fault: what `Tally.bad` counts it as, or a sentence"""
    text: str | None = None
    """of a page; of robots.txt, None: there is none"""
    links: tuple[str, ...] = ()
    base: str | None = None
    location: str | None = None
    """where it redirects to, as it stands"""
    wait: float = 0.0
    """seconds that the site asks to wait"""
    bytes: int = 0
    """that came"""


class _Body(NamedTuple):
    """A page as it came."""

    data: bytes
    kind: str
    """the header Content-Type"""
    robots_tag: str
    """the headers X-Robots-Tag, one a line"""


class _FaultError(Exception):
    """A request came to nothing."""

    def __init__(self, fault: str, why: str, wait: float = 0.0) -> None:
        super().__init__(why)
        self.fault, self.wait = fault, wait


def kind_of(address: str) -> str:
    """global, loopback or private; "" for an address that no page is at, or that carries another one inside."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return kind_of(str(found.ipv4_mapped))
        if found.is_loopback:
            return "loopback"
        if found.sixtofour is not None or found.teredo is not None or any(found in carrier for carrier in _CARRIERS):
            return ""
    if found.is_loopback:
        return "loopback"
    if found.is_link_local or found.is_multicast or found.is_unspecified:
        return ""
    if found.is_global:
        return "global"
    return "private" if found.is_private and not found.is_reserved else ""


async def addresses_of(host: str, port: int) -> list[str]:
    """The IP addresses of a host.

    Raises:
        OSError, UnicodeError: nobody knows any.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def reach_of(host: str, port: int) -> tuple[str, ...]:
    """The kinds of addresses that a crawl from this host may connect to: of private ones, only such as all its own are.

    A name that has a public address and a private one, too, is made to open this network.
    """
    try:
        kinds = {kind_of(address) for address in await addresses_of(host, port)}
    except (OSError, UnicodeError):
        kinds = set()
    return tuple(sorted((kinds | {"global"}) - {""})) if len(kinds) == 1 else ("global",)


class Fetcher:
    """Asks for pages, several at a time, in the event loop that runs it.

    Each name is looked up once a request, each of its addresses is checked, and it is the checked address that is
    connected to: no later answer of a name server leads elsewhere. Certificates are verified for the name. There are no
    cookies, no proxies of the environment, and no connection serves a second request: one that was verified for
    another name is never used.
    """

    def __init__(self, options: FetchOptions) -> None:
        import httpx

        self._options = options
        self._reader = PageProcess(options.patience)
        agent = f"any2vec/{_version.__version__}" + (f" (+{options.contact})" if options.contact else "")
        self._headers = {
            "User-Agent": agent, "Accept": "text/html, application/xhtml+xml, text/plain;q=0.5",
            "Accept-Encoding": "gzip", "Connection": "close",
        }  # fmt: skip
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(options.patience, connect=options.patience / _MOST_ADDRESSES),
            follow_redirects=False, trust_env=False,
            limits=httpx.Limits(max_keepalive_connections=0),
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        )  # fmt: skip
        self._connecting = (httpx.ConnectError, httpx.ConnectTimeout)
        self._troubles = (
            httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ssl.SSLError, zlib.error, UnicodeError,
        )  # fmt: skip

    async def close(self) -> None:
        await self._reader.close()
        await self._client.aclose()

    async def fetch(self, request: Request) -> Answer:
        """What comes of a request. Raises nothing that a site can bring about."""
        work = self._robots if request.kind == "robots" else self._page
        try:
            async with asyncio.timeout(self._options.patience):
                found = await work(request)
            return found if isinstance(found, Answer) else await self._read(request, found)
        except _FaultError as error:
            return _failed(request, error.fault, str(error), error.wait)
        except TimeoutError:
            fault = "site" if request.kind == "robots" else "page"
            return _failed(request, fault, f"no answer within {self._options.patience:g} s")
        except BadPageError as error:
            return _failed(request, "bad", str(error))
        except self._connecting as error:
            return _failed(request, "site", f"nobody answers: {str(error) or type(error).__name__}")
        except self._troubles as error:
            return _failed(request, "site" if request.kind == "robots" else "page", _broken(error))

    async def _page(self, request: Request) -> Answer | _Body:
        response = await self._ask(request.url)
        try:
            if response.status_code in _REDIRECTS and "location" in response.headers:
                return Answer(kind="page", url=request.url, location=response.headers["location"])
            _check_status(response)
            kind = response.headers.get("content-type", "text/html")
            if (plain := kind.partition(";")[0].strip().lower()) not in _TYPES:
                raise _FaultError("bad", f"content type {plain[:60]}")
            body, is_whole = await self._body(response, self._options.page_bytes)
            if not is_whole:
                raise _FaultError("bad", "page too large")
        finally:
            await response.aclose()
        return _Body(body, kind, "\n".join(response.headers.get_list("x-robots-tag")))

    async def _read(self, request: Request, found: _Body) -> Answer:
        page = await self._reader.read(*found)
        return Answer(
            kind="page", url=request.url, text=page.text, links=page.links, base=page.base, bytes=len(found.data)
        )  # fmt: skip

    async def _robots(self, request: Request) -> Answer:
        import httpx

        url = request.url
        for _ in range(_MOST_HOPS + 1):
            response = await self._ask(url)
            try:
                if response.status_code in _REDIRECTS and "location" in response.headers:
                    url = str(httpx.URL(url).join(response.headers["location"]))
                    continue
                if 400 <= response.status_code < 500 and response.status_code != 429:
                    return Answer(kind="robots", url=request.url)
                if not 200 <= response.status_code < 300:
                    wait = wanted_wait(response.headers.get("retry-after"))
                    raise _FaultError("site", f"robots.txt is answered by {response.status_code}", wait)
                body, _is_whole = await self._body(response, MOST_ROBOTS)
                text = body.decode("utf-8-sig", "replace")
                return Answer(kind="robots", url=request.url, text=text, bytes=len(body))
            finally:
                await response.aclose()
        return Answer(kind="robots", url=request.url)  # as if there were none (RFC 9309, 2.3.1.2)

    async def _ask(self, url: str) -> Any:
        """The response, its body unread, of an address that was checked."""
        import httpx

        parsed = httpx.URL(url)
        if parsed.scheme not in ("http", "https") or parsed.userinfo or not parsed.host:
            raise _FaultError("bad", "redirect to what is no page")
        host = parsed.raw_host.decode("ascii")
        port = parsed.port or (443 if parsed.scheme == "https" else 80)
        try:
            addresses = await addresses_of(host, port)
        except (OSError, UnicodeError) as error:
            raise _FaultError("site", f"nobody knows {host}") from error
        if not addresses or not all(kind_of(address) in self._options.reach for address in addresses):
            raise _FaultError("bad", "address that is not public")
        headers = self._headers | {"Host": parsed.netloc.decode("ascii")}
        for address in addresses[:_MOST_ADDRESSES]:
            request = self._client.build_request(
                "GET", parsed.copy_with(host=address), headers=headers, extensions={"sni_hostname": host}
            )  # fmt: skip
            try:
                return await self._client.send(request, stream=True)
            except self._connecting as error:
                trouble = error
        raise trouble

    async def _body(self, response: Any, most: int) -> tuple[bytes, bool]:
        """(the first `most` bytes of a body, unpacked; whether that is all)."""
        unpacked, body = Unpacked(response.headers.get("content-encoding")), bytearray()
        pieces: AsyncIterator[bytes] = response.aiter_raw()
        came = 0
        async for raw in pieces:
            came += len(raw)
            for piece in unpacked.pieces(raw):
                body += piece
                if len(body) > most:
                    return bytes(body[:most]), False
            if came > most:
                return bytes(body), False
        if not unpacked.is_whole:
            raise zlib.error("the body ends too early")
        return bytes(body), True


def _check_status(response: Any) -> None:
    status = response.status_code
    if status in (408, 429) or status >= 500:
        raise _FaultError("page", f"HTTP {status}", wanted_wait(response.headers.get("retry-after")))
    if status != 200:
        raise _FaultError("bad", f"HTTP {status}")


def _failed(request: Request, fault: str, why: str, wait: float = 0.0) -> Answer:
    return Answer(kind=request.kind, url=request.url, fault=fault, why=why, wait=wait)


def _broken(error: BaseException) -> str:
    return f"broken answer ({type(error).__name__})"

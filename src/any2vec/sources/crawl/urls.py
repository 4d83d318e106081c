"""URLs of a crawl: its options, one spelling for each page, and which pages belong to it."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from any2vec.checks import check_choice, check_number, check_whole
from any2vec.errors import InputError
from any2vec.sources.base.address import without_secrets

LONGEST_URL = 2000
_HOST = re.compile(r"[A-Za-z0-9._:-]+")
_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


@dataclass(frozen=True, kw_only=True)
class CrawlOptions:
    """Options of one crawl: they stand behind the `#` of its address, which no page's URL has."""

    depth: int = 10
    """links from the start at most, 0..1000"""
    pages: int = 10_000
    """pages that are asked for at most, 1..200,000; as many are known and wait at most"""
    pause: float = 1.0
    """seconds between the end of a request and the next one to the same host, 0..86,400; robots.txt may ask for more"""
    page_bytes: int = 1 << 20
    """bytes of a page at most, unpacked, 1,000..16 MiB; a larger one is left out"""
    redirects: int = 5
    """that lead to a page at most, 0..20"""
    tries: int = 3
    """requests for a page at most, 1..100"""
    domains: str = ""
    """hosts, with commas between them, that are crawled beside the start's own; those below them too; *: any"""
    query: Literal["keep", "drop"] = "keep"
    """whether pages that differ behind `?` are different"""
    contact: str = ""
    """an address that the user agent names"""

    def __post_init__(self) -> None:
        check_whole("depth", self.depth, 0, 1000)
        check_whole("pages", self.pages, 1, 200_000)
        check_number("pause", self.pause, 0, 86_400)
        check_whole("page_bytes", self.page_bytes, 1000, 16 << 20)
        check_whole("redirects", self.redirects, 0, 20)
        check_whole("tries", self.tries, 1, 100)
        check_choice("query", self.query, ("keep", "drop"))
        if not self.contact.isascii() or not self.contact.isprintable():
            raise InputError(f"contact must be printable ASCII, such as an e-mail address, got {self.contact!r}.")


def read_options(text: str) -> CrawlOptions:
    """What stands behind `#`: NAME=VALUE, with & between them.

    Raises:
        InputError: an option is unknown or not legal.
    """
    defaults = {field.name: field.default for field in fields(CrawlOptions)}
    found: dict[str, Any] = {}
    for part in filter(None, text.split("&")):
        name, value = (unquote(one) for one in part.partition("=")[::2])  # a + is itself
        if name not in defaults:
            raise InputError(f"A crawl knows these options behind #: {', '.join(defaults)}; got {name!r}.")
        kind: Any = type(defaults[name])
        try:
            found[name] = kind(value)
        except ValueError as error:
            what = "a whole number" if kind is int else "a number"
            raise InputError(f"{name} of a crawl must be {what}, got {value!r}.") from error
    return CrawlOptions(**found)


def read_start(text: str) -> tuple[str, CrawlOptions]:
    """(start URL, options) of what stands behind `crawl:`.

    Raises:
        InputError: it is no http(s) URL, or an option is wrong.
    """
    start, _, options = text.partition("#")
    wrong = f"A crawl begins at crawl:http(s)://HOST[:PORT]/PATH, got crawl:{without_secrets(start)}."
    try:
        parts = urlsplit(start)
    except ValueError as error:
        raise InputError(wrong) from error
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname:
        raise InputError(wrong)
    if parts.username is not None or parts.password is not None:
        raise InputError("A crawl asks for public pages; take user and password out of its address.")
    if len(start) > LONGEST_URL:
        raise InputError(f"A URL has {LONGEST_URL} characters at most, got {len(start)}.")
    return start, read_options(options)


def normalized(link: str, base: str, query: str = "keep") -> str | None:
    """The one spelling of a link's URL, or None: it is no http(s) URL that can be asked for.

    Resolved against `base`; scheme and host in lower case (RFC 3986, 6.2.2 and 6.2.3), no default port, no dot
    segments, escapes of plain characters undone and others in capitals, no fragment; no query where it is dropped.
    """
    import httpx

    link = re.sub(r"[\t\r\n]", "", link).strip()
    if len(link) > LONGEST_URL:
        return None
    try:
        url = httpx.URL(base).join(link)
        url = url.join(_ESCAPED.sub(_plain, str(url)))  # %2e%2e/ is a dot segment, too
        port = url.port
    except (httpx.InvalidURL, ValueError, TypeError):
        return None
    host = url.raw_host.decode("ascii", "replace")
    if url.scheme not in ("http", "https") or url.userinfo or not _HOST.fullmatch(host) or not _is_port(port):
        return None
    path, _, search = url.raw_path.decode("ascii").partition("?")
    text = f"{url.scheme}://{url.netloc.decode('ascii')}{path}" + (f"?{search}" if search and query == "keep" else "")
    return text if len(text) <= LONGEST_URL else None


def _is_port(port: int | None) -> bool:
    return port is None or 0 < port < 1 << 16


def _plain(escape: re.Match[str]) -> str:
    byte = int(escape[1], 16)
    return chr(byte) if byte in _UNRESERVED else escape[0].upper()


def origin_of(url: str) -> str:
    """scheme://host[:port]: what one robots.txt speaks of. url: a normalized one."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def site_of(url: str) -> str:
    """host[:port], alike for http and https: where one request is under way at a time. url: a normalized one."""
    return urlsplit(url).netloc


class Scope:
    """Which URLs belong to a crawl: those of the start's host and port, and of the domains that its options name."""

    def __init__(self, start: str, options: CrawlOptions) -> None:
        self.own = {site_of(start)}
        """sites of the start"""
        names = [name.strip().lower().strip(".") for name in options.domains.split(",") if name.strip()]
        self._is_any = "*" in names
        self._hosts = frozenset(names)

    def has(self, url: str) -> bool:
        site = site_of(url)
        host = (urlsplit(url).hostname or "").strip(".")
        if self._is_any or site in self.own or site in self._hosts:
            return True
        labels = host.split(".")
        return any(".".join(labels[start:]) in self._hosts for start in range(len(labels)))

"""A Web site on this machine whose pages a crawl must find, each once, and those that it must leave: for its tests.

Regular pages form a tree; each has a special page beside it, whose kind goes round KINDS.
"""

from __future__ import annotations

import gzip
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

KINDS = ("forbidden", "open", "slow", "flaky", "broken", "picture", "moved", "noindex", "large", "foreign")
"""of special pages. Text is wanted of those that are open (allowed below what is forbidden), slow, flaky (the first
request fails), and moved (behind a redirect)"""
WANTED = ("open", "slow", "flaky", "moved")
_CHILDREN = 3
_SLOW = 0.2
_LARGE = 300_000
"""bytes of a large page; it is sent packed, some hundred times smaller"""
_FOOTER = "<footer><p>boilerplate of the footer, copyright boilerplate</p></footer>"
ROBOTS = "User-agent: *\nDisallow: /forbidden/\nAllow: /forbidden/open/\nDisallow: /*.secret$\n"


class Visit(NamedTuple):
    """A request that was served."""

    host: str
    path: str
    begin: float
    """seconds, monotonic"""
    end: float
    """when its answer was ready to be sent: no one can have it earlier"""


class PlantedSite:
    """A site at some loopback addresses, one port each; regular page j stands at address j modulo their number.

    Args:
        pages: in all, regular and special ones alike; 2 or more, even.
        hosts: loopback addresses.
        delay: seconds between requests that robots.txt asks for; None: nothing.
        robots: text of robots.txt in place of ROBOTS.
    """

    def __init__(
        self, pages: int, hosts: tuple[str, ...] = ("127.0.0.1",), delay: float | None = None, robots: str = ROBOTS
    ) -> None:
        self.regular = pages // 2
        self.robots = robots + ("" if delay is None else f"Crawl-delay: {delay}\n")
        self.visits: list[Visit] = []
        self.failed: Counter[str] = Counter()
        self._servers = [self._server(host) for host in hosts]
        self.sites = [f"{host}:{server.server_port}" for host, server in zip(hosts, self._servers, strict=True)]
        self._threads = [threading.Thread(target=server.serve_forever, args=(0.05,)) for server in self._servers]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for server, thread in zip(self._servers, self._threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join()

    @property
    def start(self) -> str:
        """The URL of page 0."""
        return f"http://{self.sites[0]}/"

    @property
    def texts(self) -> dict[str, str]:
        """The URL of each page whose text is wanted -> a word that stands on it alone."""
        found = {}
        for page in range(self.regular):
            found[self.url(page)] = f"page{page}"
            if (kind := _kind(page)) in WANTED:
                place = "landing" if kind == "moved" else "forbidden/open" if kind == "open" else kind
                found[f"http://{self._site(page)}/{place}/{page}"] = f"{kind}{page}"
        return found

    def url(self, page: int) -> str:
        """Of a regular page."""
        return f"http://{self._site(page)}/" + (f"page/{page}" if page else "")

    def html(self, page: int) -> str:
        """A regular page: its children, a way back, its special page, and what is no page."""
        links = [self.url(child) for child in range(_CHILDREN * page + 1, _CHILDREN * page + _CHILDREN + 1)]
        links = [link for link, child in zip(links, range(_CHILDREN * page + 1, self.regular), strict=False)]
        kind = _kind(page)
        place = {
            "open": f"/forbidden/open/{page}", "moved": f"/moved/{page}", "foreign": "http://foreign.invalid/",
            "picture": f"/picture/{page}.png",
        }.get(kind, f"/{kind}/{page}")  # fmt: skip
        links += [place, f"/hidden{page}.secret", f"#part{page}", "../%2e/", "mailto:a@b.invalid", "javascript:x()"]
        return _html(f"page{page}", links)

    def _site(self, page: int) -> str:
        return self.sites[page % len(self.sites)]

    def _server(self, host: str) -> ThreadingHTTPServer:
        site = self

        class Handler(BaseHTTPRequestHandler):
            ready = 0.0

            def do_GET(self) -> None:
                begin = self.ready = time.monotonic()
                try:
                    site.serve(self)
                except OSError:  # whoever asked has gone
                    pass
                finally:
                    site.visits.append(Visit(self.headers.get("Host", ""), self.path, begin, self.ready))

            def log_message(self, format: str, *args: Any) -> None:
                pass

        found = ThreadingHTTPServer((host, 0), Handler)
        found.daemon_threads = True
        return found

    def serve(self, to: Any) -> None:
        """Answer a request."""
        place, _, number = to.path.strip("/").rpartition("/")
        kind = {"forbidden/open": "open", "landing": "moved"}.get(place, place)
        if to.path == "/robots.txt":
            _send(to, self.robots.encode(), "text/plain")
        elif to.path == "/" and to.headers["Host"] != self.sites[0]:
            _send(to, b"", status=404)
        elif to.path == "/" or place == "page":
            _send(to, self.html(int(number or 0)).encode())
        elif place == "moved":
            _send(to, b"", status=302, Location=f"/landing/{number}#here")
        elif place == "picture":
            _send(to, b"\x89PNG", "image/png")
        elif place == "broken" or (place == "flaky" and not self.failed[to.path]):
            self.failed[to.path] += 1
            if int(number) // len(KINDS) % 2:
                _send(to, b"broken", status=500)
            else:
                to.ready = time.monotonic()
                to.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 999\r\n\r\n<p>half")
        elif place == "noindex":
            _send(to, b'<meta name="robots" content="noindex, nofollow"><p>noindex<a href="/lost">x</a>')
        elif place == "large":
            _send(to, gzip.compress(b"<p>large " * (_LARGE // 9)), Content_Encoding="gzip")
        elif kind in ("open", "slow", "flaky", "moved"):
            time.sleep(_SLOW if kind == "slow" else 0)
            _send(to, _html(f"{kind}{number}", ["/"]).encode())
        else:
            _send(to, b"nothing here", status=404)


def _kind(page: int) -> str:
    return KINDS[page % len(KINDS)]


def _html(word: str, links: list[str]) -> str:
    anchors = "".join(f'<li><a href="{link}">boilerplate</a></li>' for link in links)
    return (
        f"<!DOCTYPE html><html><head><title>{word}</title></head><body><nav><ul>{anchors}</ul></nav><main><article>"
        f"<h1>{word}</h1><p>The tea of {word} is in the pot, and the cup is for tea.</p><p>Who drinks it early has "
        f"milk and sugar with it.</p></article></main>{_FOOTER}</body></html>"
    )


def _send(to: Any, body: bytes, kind: str = "text/html; charset=utf-8", status: int = 200, **headers: str) -> None:
    to.ready = time.monotonic()
    to.send_response(status)
    for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
        to.send_header(name.replace("_", "-"), value)
    to.end_headers()
    to.wfile.write(body)

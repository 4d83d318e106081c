"""The frontier of a crawl: which page is asked for next, and of which site. Pure: it is told the time, and asks nobody.

Pages of a site are taken in the order in which they were found, so a crawl of one site is breadth-first.
"""

from __future__ import annotations

import base64
import hashlib
import heapq
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from any2vec.sources.base.cutter import Tally
from any2vec.sources.crawl.robots import Rules
from any2vec.sources.crawl.urls import CrawlOptions, Scope, normalized, origin_of, site_of

MOST_WAITING_BYTES = 16 << 20
"""of URLs that wait"""
_KNOWN_PER_PAGE = 4
"""URLs that are remembered for each page that may be asked for: those that robots.txt forbids are remembered, too"""
_RULES_AGE = 86_400.0
"""seconds after which robots.txt is asked for again (RFC 9309, 2.4)"""
_MOST_RULES = 1000
"""origins whose robots.txt is held"""
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 30.0


class Waiting(NamedTuple):
    """A page that is to be asked for."""

    url: str
    depth: int
    """links from the start"""
    hops: int = 0
    """redirects that led to it"""
    tries: int = 0
    """requests for it that failed"""
    is_again: bool = False
    """for its links alone: it was given before"""


class Request(NamedTuple):
    """What a node is to fetch."""

    kind: Literal["page", "robots"]
    url: str


@dataclass
class _Site:
    """What is known of a host."""

    pages: deque[Waiting] = field(default_factory=deque)
    busy: Waiting | None = None
    """under way, or waits for the robots.txt that is"""
    due: float = 0.0
    failures: int = 0
    """requests in a row that nobody answered"""


class Frontier:
    """Pages that wait, by site, and which were known already.

    A site has one request under way at a time, and rests behind it: `pause`, or what its robots.txt asks for, if that
    is longer; behind failures twice as long each time, up to half a minute.

    Args:
        start: a normalized URL.
        retries: requests to a site that may fail in a row; then its pages wait for another life.
        tally: counts what is left out, and why.
    """

    def __init__(self, start: str, options: CrawlOptions, retries: int, tally: Tally) -> None:
        self.start, self.options = start, options
        self._retries, self._tally = retries, tally
        self._scope = Scope(start, options)
        self._sites: dict[str, _Site] = {}
        self._queue: list[tuple[float, int, str]] = []
        """a heap of the sites that are neither busy nor lost: when one may be asked, number of the entry, site"""
        self._num_queued = 0
        """entries, to the end"""
        self._lost: set[str] = set()
        """sites that were lost at any time"""
        self._rules: dict[str, tuple[float, Rules]] = {}
        """by origin; with the time at which they came"""
        self._known: set[int] = set()
        self._num_waiting = self._bytes = 0
        """pages that wait or are under way, and bytes of their URLs"""
        self.num_held = 0
        """pages that wait for sites that are lost"""
        self.asked = 0
        """pages that were asked for, to the end"""
        self.add(Waiting(start, 0))

    @property
    def is_done(self) -> bool:
        """Nothing is under way, and nothing waits that a site would give."""
        return self._num_waiting == self.num_held

    @property
    def lost(self) -> list[str]:
        """Sites that cannot be reached, and have pages that wait."""
        return [name for name in sorted(self._lost) if self._is_lost(self._sites.get(name, _Site()))]

    @property
    def is_start_lost(self) -> bool:
        """A site of the start cannot be reached: without it there is no crawl."""
        return not self._scope.own.isdisjoint(self.lost)

    def add(self, page: Waiting) -> None:
        """A page is found; what is known, too far, beyond the limits or not of this crawl stays out."""
        if page.depth > self.options.depth or page.hops > self.options.redirects or not self._scope.has(page.url):
            return
        key = _key(page.url)
        if key in self._known:
            return
        room = self.options.pages
        if (
            self.asked + self._num_waiting >= room
            or len(self._known) >= _KNOWN_PER_PAGE * room
            or self._bytes + len(page.url) > MOST_WAITING_BYTES
        ):
            self._tally.bad("link beyond the limit of pages")
            return
        self._known.add(key)
        self._put(page)

    def add_links(self, page: Waiting, links: Sequence[str], base: str | None) -> None:
        """The links of a page. base: what they are relative to, itself relative to the page; None: the page."""
        root = page.url if base is None else normalized(base, page.url) or page.url
        for link in links:
            url = normalized(link, root, self.options.query)
            if url is not None:
                self.add(Waiting(url, page.depth + 1))

    def next(self, now: float) -> Request | None:
        """What may be asked for now, if anything: the robots.txt of an origin before its first page."""
        while self._queue and self._queue[0][0] <= now:
            _, _, name = heapq.heappop(self._queue)
            if (request := self._next_of(self._sites[name], now)) is not None:
                return request
            del self._sites[name]  # it has no page, and has rested
        return None

    def wait(self, now: float) -> float:
        """Seconds until `next` may have something that no answer brings."""
        return max(0.0, self._queue[0][0] - now) if self._queue else math.inf

    def robots(self, request: Request, text: str | None, now: float) -> None:
        """robots.txt has come; None: there is none."""
        origin = origin_of(request.url)
        self._rules.pop(origin, None)
        self._rules[origin] = now, Rules(text)
        if len(self._rules) > _MOST_RULES:
            del self._rules[next(iter(self._rules))]
        site = self._sites[site_of(request.url)]
        site.failures = 0
        site.pages.appendleft(self._free(site, now))

    def done(self, request: Request, now: float, least: float = 0.0) -> Waiting:
        """A page has come, or never will; it waits no more. least: as in `failed`."""
        site = self._sites[site_of(request.url)]
        site.failures = 0
        page = self._free(site, now, least)
        self.asked += not page.is_again
        self._forget(page)
        return page

    def failed(self, request: Request, now: float, least: float = 0.0, is_site: bool = False) -> bool:
        """A request failed. It is made again, behind the others of the site; False: it was the last one.

        least: seconds that the site asks for; is_site: nobody answers there, or its robots.txt cannot be had: as long
        as that is so no page is asked for (RFC 9309, 2.3.1.4), and none is given up.
        """
        site = self._sites[site_of(request.url)]
        if is_site:
            site.failures += 1
            wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(site.failures - 1, 20))
            site.pages.appendleft(self._free(site, now, max(least, wait)))
            if self._is_lost(site):
                self._lose(site_of(request.url), site)
            return True
        assert site.busy is not None
        if site.busy.tries + 1 >= self.options.tries:
            self.done(request, now, least)
            return False
        site.failures = 0
        page = self._free(site, now, least)
        site.pages.append(page._replace(tries=page.tries + 1))
        return True

    def state(self) -> dict[str, Any]:
        """What `load` takes, as JSON knows it; what is under way waits."""
        waiting: list[Waiting] = []
        for site in self._sites.values():
            waiting += [site.busy] if site.busy is not None else []
            waiting += site.pages
        known = np.fromiter(self._known, np.uint64, len(self._known))
        return {
            "waiting": waiting, "known": base64.b64encode(known.tobytes()).decode("ascii"), "asked": self.asked,
            "own": sorted(self._scope.own),
        }  # fmt: skip

    def load(self, state: dict[str, Any]) -> None:
        """Go on as where `state` was asked, with nothing under way."""
        self._sites, self._queue, self._num_waiting, self.num_held, self._bytes = {}, [], 0, 0, 0
        self._known = set(np.frombuffer(base64.b64decode(state["known"]), np.uint64).tolist())
        self.asked, self._scope.own = int(state["asked"]), set(state["own"])
        for page in state["waiting"]:
            self._put(Waiting(*page))

    def again(self) -> None:
        """The start is asked for once more, for the links that it has by now; sites that are lost, too."""
        for name in self.lost:
            self._sites[name].failures = self._retries
            self._enqueue(name, self._sites[name])
        self.num_held = 0
        self._put(Waiting(self.start, 0, is_again=True))

    def redirected(self, page: Waiting, location: str) -> None:
        """A page is elsewhere. The crawl begins where its start leads to: that site belongs to it."""
        url = normalized(location, page.url, self.options.query)
        if url is None:
            return
        if page.depth == 0:
            self._scope.own.add(site_of(url))
        if not page.is_again or _key(url) not in self._known:
            self.add(Waiting(url, page.depth, page.hops + 1))
        elif page.hops < self.options.redirects:
            self._put(Waiting(url, page.depth, page.hops + 1, is_again=True))

    def _next_of(self, site: _Site, now: float) -> Request | None:
        """The next page that robots.txt allows, or that file itself, where its rules are not known or old."""
        while site.pages:
            page = site.pages.popleft()
            known, rules = self._rules.get(origin_of(page.url), (-math.inf, None))
            if rules is None or now - known > _RULES_AGE:
                site.busy = page
                return Request("robots", f"{origin_of(page.url)}/robots.txt")
            if rules.allows(page.url):
                site.busy = page
                return Request("page", page.url)
            self._tally.bad("not allowed by robots.txt")
            self._forget(page)
        return None

    def _put(self, page: Waiting) -> None:
        name = site_of(page.url)
        if (site := self._sites.get(name)) is None:
            site = self._sites[name] = _Site()
            self._enqueue(name, site)
        site.pages.append(page)
        self._num_waiting += 1
        self.num_held += self._is_lost(site)
        self._bytes += len(page.url)

    def _forget(self, page: Waiting) -> None:
        self._num_waiting -= 1
        self._bytes -= len(page.url)

    def _free(self, site: _Site, now: float, least: float = 0.0) -> Waiting:
        """The request of a site is over; what was under way there."""
        page, site.busy = site.busy, None
        assert page is not None
        _, rules = self._rules.get(origin_of(page.url), (0.0, None))
        site.due = now + max(self.options.pause, least, 0.0 if rules is None else rules.delay)
        if not self._is_lost(site):
            self._enqueue(site_of(page.url), site)
        return page

    def _enqueue(self, name: str, site: _Site) -> None:
        self._num_queued += 1
        heapq.heappush(self._queue, (site.due, self._num_queued, name))

    def _lose(self, name: str, site: _Site) -> None:
        """Nobody answers at a site: its pages stay, until it is tried again."""
        self.num_held += len(site.pages)
        if name not in self._lost:
            self._lost.add(name)
            self._tally.bad("host that nobody answers for")

    def _is_lost(self, site: _Site) -> bool:
        return site.failures > self._retries


def _key(url: str) -> int:
    """64 bits: of 800,000 URLs two have the same with a probability of 2e-8."""
    return int.from_bytes(hashlib.blake2b(url.encode(), digest_size=8).digest(), "little")

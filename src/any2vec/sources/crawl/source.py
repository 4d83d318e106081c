"""A crawl as a source: each page one line, whose id is its URL.

Delivery is exactly once: the position holds which pages are known and which of them wait, so that one that was under
way is asked for again, and one that was given is not.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

from any2vec.cluster.transport import Transport
from any2vec.errors import HostError, InputError
from any2vec.sources.base.address import Address, without_secrets
from any2vec.sources.base.cutter import LineBatch, Position
from any2vec.sources.base.options import SourceOptions
from any2vec.sources.base.pump import MOMENT, Batches, idle
from any2vec.sources.base.records import Records
from any2vec.sources.base.source import PacedSource
from any2vec.sources.crawl.fetch import Answer, FetchOptions, reach_of
from any2vec.sources.crawl.frontier import Frontier, Request
from any2vec.sources.crawl.nodes import HostNodes, Nodes, OwnNode, channel_of
from any2vec.sources.crawl.urls import normalized, read_start

_LINGER = 0.25
"""seconds between two batches, at least"""
_SHARE = 20
"""positions take at most one part of so many of the time"""


class Crawler(PacedSource):
    """Pages that links lead to from one on, without their boilerplate.

    Rank 0 has the frontier and asks; nodes on its own or on all other hosts fetch and make text of pages. Position:
    `frontier` (see `Frontier.state`), `number` (of pages given).

    Raises:
        InputError: the address is none to begin at.
    """

    def __init__(self, address: Address, number: int, options: SourceOptions) -> None:
        super().__init__(address.name, options.rate)
        self._given, self.crawl = read_start(address.path)
        self._options, self._channel = options, channel_of(number)
        self._records = Records(number, options, self._tally)
        self._number, self._due = 0, 0.0
        self._spread: tuple[Transport, Sequence[int]] | None = None

    def spread(self, transport: Transport, hosts: Sequence[int]) -> None:
        """Let these hosts fetch, each of which runs its `NodeService` (`crawl_services`). Before `batches`."""
        self._spread = transport, hosts

    @property
    def start(self) -> str:
        """The URL of its first page.

        Raises:
            InputError: there is no such URL.
        """
        found = normalized(self._given, self._given, self.crawl.query)
        if found is None:
            raise InputError(
                f"{without_secrets(self._given)} is no URL of a page; a crawl begins at crawl:http(s)://HOST[:PORT]/PATH."
            )
        return found

    def _batches(self, position: Position | None) -> Batches:
        start = self.start
        frontier = Frontier(start, self.crawl, self._options.retries, self._tally)
        if position is not None:
            frontier.load(position["frontier"])
            self._number = int(position["number"])
        nodes = self._nodes(start)
        try:
            yield from self._follow(frontier, nodes)
        except HostError as error:
            self._tally.trouble, self._tally.state = str(error), "given up"
        finally:
            nodes.close()

    def _nodes(self, start: str) -> Nodes:
        parts = urlsplit(start)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        options = FetchOptions(
            patience=self._options.patience, page_bytes=self.crawl.page_bytes, contact=self.crawl.contact,
            reach=asyncio.run(reach_of(parts.hostname or "", port)),
        )  # fmt: skip
        return OwnNode(options) if self._spread is None else HostNodes(*self._spread, self._channel, options)

    def _follow(self, frontier: Frontier, nodes: Nodes) -> Batches:
        while not self._is_closed:
            yield from self._crawl(frontier, nodes)
            if frontier.is_start_lost or not self._options.follow:
                self._say_what_waits(frontier)
                if not frontier.is_start_lost:
                    break
                self._tally.state = "given up"
                return
            self._tally.state = "waiting"
            yield from idle(self._options.poll, lambda: self._is_closed)
            frontier.again()
        self._tally.state = "closed" if self._is_closed else "ended"

    def _say_what_waits(self, frontier: Frontier) -> None:
        if frontier.num_held and self._number:  # a crawl that has given nothing leaves nothing to go on from
            waits = f"Pages that wait for hosts that nobody answers for: {frontier.num_held:,}; go on with --resume."
            self._tally.trouble = f"{self._tally.trouble or ''} {waits}".strip()

    def _crawl(self, frontier: Frontier, nodes: Nodes) -> Batches:
        """Ask for all that the frontier has, and comes to have."""
        under_way = 0
        while not self._is_closed and not frontier.is_done:
            now = time.monotonic()
            while under_way < nodes.room and (request := frontier.next(now)) is not None:
                nodes.ask(request)
                under_way += 1
            if under_way == 0 and frontier.is_done:
                break
            answer = nodes.take(min(MOMENT, frontier.wait(now)) if under_way < nodes.room else MOMENT)
            if answer is not None:
                under_way -= 1
                self._tally.state = "reading"
                self._read(frontier, answer)
            elif not len(self._records):
                self._tally.state = "waiting"
                yield None
                continue
            if self._records.is_full or time.monotonic() >= self._due:
                yield self._take(frontier)
        yield self._take(frontier)

    def _take(self, frontier: Frontier) -> LineBatch | None:
        if not len(self._records):
            return None
        began = time.monotonic()
        position = {"frontier": frontier.state(), "number": self._number}
        ended = time.monotonic()
        self._due = ended + max(_LINGER, _SHARE * (ended - began))
        batch = self._records.take(position)
        self._tally.lines += len(batch or ())
        return batch

    def _read(self, frontier: Frontier, answer: Answer) -> None:
        """What an answer brings to the frontier, and to the lines."""
        request, now = Request(answer.kind, answer.url), time.monotonic()  # type: ignore[arg-type]
        self._tally.bytes += answer.bytes
        if answer.fault in ("site", "page"):
            self._tally.reconnects += 1
            self._tally.trouble = f"{without_secrets(answer.url)}: {answer.why}."
            if not frontier.failed(request, now, answer.wait, answer.fault == "site"):
                self._tally.bad(answer.why)
            return
        if answer.fault:
            self._tally.bad(answer.why)
            frontier.done(request, now)
            return
        if answer.kind == "robots":
            frontier.robots(request, answer.text, now)
            return
        page = frontier.done(request, now)
        if answer.location is not None:
            frontier.redirected(page, answer.location)
            return
        frontier.add_links(page, answer.links, answer.base)
        if answer.text and not page.is_again:
            self._records.add(self._number, answer.text, id=page.url)
            self._number += 1

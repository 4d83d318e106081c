"""Who fetches the pages of a crawl: a thread of this process, or one of each other host of the job."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from any2vec.checks import parse_json
from any2vec.cluster.transport import LONG_WORK, Transport, text_of, text_part
from any2vec.errors import Any2VecError, HostError
from any2vec.sources.crawl.fetch import Answer, Fetcher, FetchOptions
from any2vec.sources.crawl.frontier import Request

AT_ONCE = 16
"""requests that a node has under way"""
_PHASE = "crawl"
_ENDING = 10.0


def channel_of(number: int) -> str:
    """Where rank 0 and the nodes of a source talk. number: of the run's sources, which."""
    return f"crawl-{number}"


class Nodes(Protocol):
    """Fetches pages. `ask` at most `room` times more than answers were taken."""

    room: int

    def ask(self, request: Request) -> None: ...

    def take(self, timeout: float) -> Answer | None:
        """The next answer; None: none has come within so many seconds.

        Raises:
            HostError: a node is lost.
        """
        ...

    def close(self) -> None: ...


class OwnNode:
    """A thread of this process that fetches."""

    room = AT_ONCE

    def __init__(self, options: FetchOptions, answered: Callable[[Answer], None] | None = None) -> None:
        self._answers: SimpleQueue[Answer] = SimpleQueue()
        self._answered = answered or self._answers.put
        self._options = options
        self._loop = asyncio.new_event_loop()
        self._fetcher: Fetcher | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="crawl", daemon=True)
        self._thread.start()

    def ask(self, request: Request) -> None:
        self._loop.call_soon_threadsafe(self._begin, request)

    def take(self, timeout: float) -> Answer | None:
        try:
            return self._answers.get(timeout=timeout)
        except Empty:
            return None

    def close(self) -> None:
        """Leave what is under way."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_ENDING)

    def _run(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            loop.run_until_complete(self._end())
        finally:
            loop.close()

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._fetcher is not None:
            await self._fetcher.close()

    def _begin(self, request: Request) -> None:
        task = self._loop.create_task(self._fetch(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _fetch(self, request: Request) -> None:
        try:
            if self._fetcher is None:
                self._fetcher = Fetcher(self._options)
            answer = await self._fetcher.fetch(request)
        except Exception as error:  # what no one has thought of costs its page, not the crawl
            why = f"failed ({type(error).__name__})"
            answer = Answer(kind=request.kind, url=request.url, fault="bad", why=why)
        with suppress(Any2VecError):  # nobody is there to be told
            self._answered(answer)


class HostNodes:
    """The nodes of the other hosts of a job: who has fewest requests under way gets the next one.

    A host that is lost ends the job, as for all that its hosts do.
    """

    def __init__(self, transport: Transport, hosts: Sequence[int], channel: str, options: FetchOptions) -> None:
        self._transport, self._channel = transport, channel
        self._under_way: Counter[int] = Counter(dict.fromkeys(hosts, 0))
        self.room = AT_ONCE * len(hosts)
        self._asked: Counter[int] = Counter()
        self._by_url: dict[tuple[str, str], int] = {}
        self._answers: SimpleQueue[Answer | Any2VecError] = SimpleQueue()
        for host in hosts:
            self._send(host, {"begin": asdict(options)})
        self._thread = threading.Thread(target=self._receive, args=(len(hosts),), name=channel, daemon=True)
        self._thread.start()

    def ask(self, request: Request) -> None:
        host = min(self._under_way, key=lambda host: (self._under_way[host], self._asked[host], host))
        self._under_way[host] += 1
        self._asked[host] += 1
        self._by_url[request] = host
        self._send(host, {"ask": request})

    def take(self, timeout: float) -> Answer | None:
        try:
            found = self._answers.get(timeout=timeout)
        except Empty:
            return None
        if not isinstance(found, Answer):
            raise found
        self._under_way[self._by_url.pop((found.kind, found.url))] -= 1
        return found

    def close(self) -> None:
        for host in self._under_way:
            try:
                self._send(host, {"end": True})
            except HostError:  # it is gone, and the job with it
                return
        self._thread.join(_ENDING)

    def _send(self, host: int, about: dict[str, Any]) -> None:
        self._transport.send(host, [text_part(json.dumps(about))], _PHASE, self._channel)

    def _receive(self, hosts: int) -> None:
        try:
            while hosts:
                message = self._transport.recv(None, _PHASE, self._channel, timeout=LONG_WORK)
                about = parse_json(text_of(message.parts[0]))
                if about is None:
                    hosts -= 1
                else:
                    self._answers.put(Answer(**about))
        except Any2VecError as error:
            self._answers.put(error)


class NodeService:
    """A host's node: it fetches what rank 0 asks for, until that has enough. A thread."""

    def __init__(self, transport: Transport, channel: str) -> None:
        self._transport, self._channel = transport, channel
        self._thread = threading.Thread(target=self._serve, name=channel, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Wait for rank 0 to say that it has enough."""
        self._thread.join(_ENDING)

    def _serve(self) -> None:
        node: OwnNode | None = None
        try:
            while "end" not in (about := self._take()):
                if "begin" in about:
                    node = OwnNode(FetchOptions(**about["begin"]), self._tell)
                elif node is not None:
                    node.ask(Request(*about["ask"]))
            if node is not None:
                node.close()
                node = None
            self._send(None)
        except Any2VecError:  # the job is over
            pass
        finally:
            if node is not None:
                node.close()

    def _take(self) -> dict[str, Any]:
        message = self._transport.recv(0, _PHASE, self._channel, timeout=LONG_WORK)
        found: dict[str, Any] = parse_json(text_of(message.parts[0]))
        return found

    def _tell(self, answer: Answer) -> None:
        self._send(asdict(answer))

    def _send(self, about: dict[str, Any] | None) -> None:
        self._transport.send(0, [text_part(json.dumps(about))], _PHASE, self._channel)

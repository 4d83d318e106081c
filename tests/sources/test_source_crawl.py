"""A crawl as a source: the pages of a planted site, each once, from a network that means ill."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import itertools
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import any2vec as a2v
from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import Transport
from any2vec.errors import DataError, InputError
from any2vec.options.hosts import HostOptions
from any2vec.sources.base.cutter import LineBatch
from any2vec.sources.base.options import SourceOptions
from any2vec.sources.crawl import fetch
from any2vec.sources.crawl.fetch import Answer, Fetcher, FetchOptions, kind_of
from any2vec.sources.crawl.frontier import Request
from any2vec.sources.crawl.page import BadPageError, read_page
from any2vec.sources.crawl.page_process import PageProcess
from any2vec.sources.crawl.robots import Rules
from any2vec.sources.crawl.source import Crawler
from any2vec.sources.opening import crawl_services, open_source
from any2vec.tasks.stream.options import StreamOptions
from any2vec.testing.planted_site import PlantedSite
from line_servers import answer, request_of, serving
from naive.crawl.pages import crawl as naive_crawl
from source_reading import all_ids, all_texts, read_all, read_until

for library in ("httpx", "protego", "resiliparse"):
    pytest.importorskip(library, reason="crawls need pip install 'any2vec[crawl]'")
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # uint64 that wraps, uncompiled
ONCE = SourceOptions(patience=10.0, retries=1)
HOSTS = ("127.0.0.1", "127.0.0.2")
PAGES = 60
PACKED = gzip.compress(b"<p>x", mtime=0)


def address_of(site: PlantedSite, **options: object) -> str:
    given = {"pause": 0, "page_bytes": 100_000, "domains": ",".join(site.sites)} | options
    return f"crawl:{site.start}#" + "&".join(f"{name}={value}" for name, value in given.items())


def read(site: PlantedSite, **options: object) -> tuple[list[LineBatch], dict[str, Any]]:
    source = open_source(address_of(site, **options), 0, ONCE)
    return read_all(source.batches(None)), source.metrics()


# ---- a planted site -------------------------------------------------------------------------------------------------


def test_each_allowed_page_comes_once_and_is_what_the_plain_twin_finds() -> None:
    with PlantedSite(PAGES, HOSTS) as site:
        found, metrics = read(site)
        asked = [visit.path for visit in site.visits]
        rules = Rules(site.robots)
        plain = naive_crawl(site.start, site.sites, rules.allows, most=100_000)
    ids = all_ids(found)
    assert len(ids) == len(set(ids)) == metrics["lines"]
    assert set(ids) == set(site.texts) == set(plain)
    for id, text in zip(ids, all_texts(found), strict=True):
        words = text.decode().split()
        assert words[0] == site.texts[id] and "cup" in words and "boilerplate" not in words
    assert not [path for path in asked if not rules.allows(f"{site.start}{path[1:]}") or "lost" in path]
    assert asked.count("/robots.txt") == len(HOSTS)
    assert metrics["state"] == "ended" and metrics["delivery"] == "exactly once"
    assert {"not allowed by robots.txt", "page too large", "content type image/png", "HTTP 500"} <= set(
        metrics["bad_by"]
    )


def test_one_request_a_host_is_under_way_and_a_pause_lies_behind_it() -> None:
    with PlantedSite(20, HOSTS, delay=0.06) as site:
        _, metrics = read(site, pause=0.03)
        visits = sorted(site.visits, key=lambda visit: visit.begin)
    assert metrics["state"] == "ended"
    for host in site.sites:
        own = [visit for visit in visits if visit.host == host]
        rests = [later.begin - earlier.end for earlier, later in itertools.pairwise(own)]
        assert len(rests) > 5
        assert rests[0] >= 0.029 and min(rests[1:]) >= 0.059  # nobody has heard of the delay before the first page
    first, second = ([visit for visit in visits if visit.host == host] for host in site.sites)
    assert second[0].begin < first[-1].begin  # one host does not wait for the other


def test_a_crawl_that_is_lost_anywhere_goes_on_with_nothing_lost_or_twice() -> None:
    with PlantedSite(PAGES, HOSTS) as site:
        ids: list[str] = []
        position, lives = None, 0
        while True:
            source = open_source(address_of(site), 0, SourceOptions(patience=10.0, rate=60.0))  # 12 lines a batch
            batches = source.batches(position)
            found = read_until(batches, lambda found: len(found) > 0)
            batches.close()  # type: ignore[attr-defined]
            if not found:
                break
            ids += all_ids(found)
            position, lives = found[-1].position, lives + 1
    assert lives > 3
    assert sorted(ids) == sorted(site.texts)


def test_hosts_share_the_pages_and_each_is_fetched_by_one() -> None:
    with PlantedSite(PAGES, HOSTS) as site:
        address = address_of(site)

        def live(transport: Transport) -> Any:
            if transport.rank:
                for service in (services := crawl_services(transport, [address])):
                    service.start()
                for service in services:
                    service.close()
                return transport.counters.messages_sent["crawl"]
            source = open_source(address, 0, ONCE)
            assert isinstance(source, Crawler)
            source.spread(transport, [1, 2])
            found = read_all(source.batches(None))
            return all_ids(found)

        ids, *answers = run_logical(3, live)
        asked = [(visit.host, visit.path) for visit in site.visits]
    assert sorted(ids) == sorted(site.texts)
    assert min(answers) > len(asked) // 4
    again = [place for place in set(asked) if asked.count(place) > 1]
    assert all(re.match("/(flaky|broken)/", path) for _, path in again)


def test_a_stream_is_trained_on_pages_and_goes_on_where_it_was(tmp_path: Path) -> None:
    with PlantedSite(PAGES, HOSTS) as site:

        def train(**more: Any) -> Any:
            options = StreamOptions(min_count=1, log_ids=True, batch_bytes=1000, **more)
            return a2v.stream(
                a2v.StreamSkipGram(dim=4), address_of(site), out=tmp_path / "run", options=options, storage="20MB",
                reading=SourceOptions(rate=100.0), hosts=HostOptions(logical_hosts=2),
            )  # fmt: skip

        train(steps=1)
        result = train(resume=True)
        assert result.summary["ended_by"] == "sources"
        assert result.summary["bytes_by_phase"]["crawl"] > 0
        assert train(resume=True).summary["steps"] == result.summary["steps"]
    trained = [line.split()[1] for line in (tmp_path / "run" / "trained.ids").read_text().splitlines()]
    assert sorted(trained) == sorted(site.texts)


def test_what_is_followed_is_looked_at_again_for_new_links() -> None:
    pages = {"/": b'<p>start <a href="/1">x</a>', "/1": b"<p>one", "/2": b"<p>two"}

    def script(connection: socket.socket, number: int) -> None:
        path, _ = request_of(connection)
        if path in pages:
            answer(connection, pages[path], "text/html")
            if path == "/1":
                pages["/"] = b'<p>start <a href="/2">x</a>'
        else:
            answer(connection, b"", "text/plain", "404 Not Found")

    with serving(script) as server:
        options = SourceOptions(follow=True, poll=0.05, patience=10.0)
        batches = open_source(f"crawl:http://127.0.0.1:{server.port}#pause=0", 0, options).batches(None)
        found = read_until(batches, lambda found: len(all_ids(found)) >= 3)
        batches.close()  # type: ignore[attr-defined]
    assert all_texts(found) == [b"start x", b"one", b"two"]


def test_a_dead_link_ends_no_crawl_that_is_followed() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dead = f"127.0.0.1:{unused.getsockname()[1]}"
        looks = itertools.count()

        def script(connection: socket.socket, number: int) -> None:
            path, _ = request_of(connection)
            if path == "/robots.txt":
                answer(connection, b"", "text/plain", "404 Not Found")
            else:
                new = f"<a href=/{next(looks)}>x</a>" if path == "/" else ""
                answer(connection, f"<p>{path}{new}<a href=http://{dead}/>x</a>".encode(), "text/html")

        with serving(script) as server:
            options = SourceOptions(follow=True, poll=0.05, patience=10.0, retries=0)
            source = open_source(f"crawl:http://127.0.0.1:{server.port}#pause=0&domains={dead}", 0, options)
            batches = source.batches(None)
            found = read_until(batches, lambda found: len(all_ids(found)) >= 4)
            batches.close()  # type: ignore[attr-defined]
    assert len(set(all_ids(found))) >= 4
    assert source.metrics()["bad_by"] == {"host that nobody answers for": 1}


# ---- bad input ------------------------------------------------------------------------------------------------------


def test_a_site_that_forbids_all_gives_nothing_and_is_asked_for_nothing() -> None:
    with PlantedSite(10, robots="User-agent: *\nDisallow: /\n") as site:
        found, metrics = read(site)
        with pytest.raises(DataError, match="the sources held none"):
            a2v.stream(a2v.StreamSkipGram(dim=4), address_of(site), storage="20MB")
    assert found == [] and metrics["bad_by"] == {"not allowed by robots.txt": 1}
    assert {visit.path for visit in site.visits} == {"/robots.txt"}


def test_a_site_that_is_not_there_is_given_up() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        source = open_source(f"crawl:http://127.0.0.1:{unused.getsockname()[1]}/#pause=0", 0, ONCE)
        assert read_all(source.batches(None)) == []
    metrics = source.metrics()
    assert metrics["state"] == "given up" and metrics["reconnects"] == 2
    assert "nobody answers" in metrics["trouble"] and "wait" not in metrics["trouble"]  # nothing is kept of it


def test_a_site_that_stops_leaves_pages_that_wait() -> None:
    def script(connection: socket.socket, number: int) -> None:
        path, _ = request_of(connection)
        if path == "/":
            answer(connection, b"<p>start <a href=/1>x</a><a href=/2>x</a><a href=/3>x</a>", "text/html")
        else:
            answer(connection, b"", "text/plain", "404 Not Found")

    with serving(script) as server:
        address = f"crawl:http://127.0.0.1:{server.port}/#pause=0.6"
        source = open_source(address, 0, SourceOptions(patience=10.0, retries=0))
        batches = source.batches(None)
        found = read_until(batches, lambda found: len(found) > 0)
        batches.close()  # type: ignore[attr-defined]
    assert read_all(source.batches(found[-1].position)) == []
    metrics = source.metrics()
    assert metrics["state"] == "given up"
    assert "nobody answers" in metrics["trouble"]
    assert metrics["trouble"].endswith("Pages that wait for hosts that nobody answers for: 3; go on with --resume.")


def test_a_start_that_is_not_found_is_named() -> None:
    def script(connection: socket.socket, number: int) -> None:
        request_of(connection)
        answer(connection, b"", "text/plain", "404 Not Found")

    with serving(script) as server, pytest.raises(DataError, match=r"left out \(HTTP 404: 1\)\.$"):
        a2v.stream(a2v.StreamSkipGram(dim=4), f"crawl:http://127.0.0.1:{server.port}/#pause=0", storage="20MB")


def test_a_missing_library_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"need httpx and protego and resiliparse; .* pip install -e '.\[crawl\]'"):
        open_source("crawl:http://a.test/", 0, ONCE)


@pytest.mark.parametrize("address", ["crawl:", "crawl:a.test", "crawl:http://a\\b/", "crawl:http://a.test:0/"])
def test_a_start_that_is_none_is_said_before_anything_starts(address: str) -> None:
    with pytest.raises(InputError, match=r"crawl:http\(s\)://HOST"):
        open_source(address, 0, ONCE)


# ---- one request ----------------------------------------------------------------------------------------------------


def fetched(
    body: bytes, kind: str = "text/html", status: str = "200 OK", path: str = "/x", patience: float = 10.0,
    **headers: str,
) -> Answer:  # fmt: skip
    """What comes of a request that is answered so."""

    def script(connection: socket.socket, number: int) -> None:
        request_of(connection)
        answer(connection, body, kind, status, **headers)

    with serving(script) as server:
        return ask(f"http://127.0.0.1:{server.port}{path}", patience)


def ask(url: str, patience: float = 10.0, reach: tuple[str, ...] = ("global", "loopback")) -> Answer:
    kind: Any = "robots" if url.endswith("/robots.txt") else "page"

    async def once() -> Answer:
        fetcher = Fetcher(FetchOptions(patience=patience, page_bytes=10_000, contact="me@a.test", reach=reach))
        try:
            return await fetcher.fetch(Request(kind, url))
        finally:
            await fetcher.close()

    return asyncio.run(once())


def test_a_page_is_its_text_and_links() -> None:
    found = fetched(b"<title>t</title><p>A cup of tea.<a href='/y'>more</a>")
    assert (found.fault, found.text, found.links) == ("", "A cup of tea.more", ("/y",))
    assert fetched(b"plain <text>", "text/plain").text == "plain <text>"
    assert fetched("<p>für".encode("latin-1"), "text/html; charset=ISO-8859-1").text == "für"
    assert fetched(b"<p>zipped", Content_Encoding="identity").text == "zipped"
    assert fetched(gzip.compress(b"<p>zipped"), Content_Encoding="gzip").text == "zipped"
    members = gzip.compress(b"<p>") + gzip.compress(b"zip" * 3000) + gzip.compress(b"ped") + bytes(9)
    assert fetched(members, Content_Encoding="gzip").text == "zip" * 3000 + "ped"


@pytest.mark.parametrize(
    ("body", "more", "fault", "why"),
    [
        (b"x", {"kind": "image/png"}, "bad", "content type image/png"),
        (b"x", {"kind": "application/json"}, "bad", "content type application/json"),
        (b"x", {"status": "404 Not Found"}, "bad", "HTTP 404"),
        (b"x", {"status": "206 Partial Content"}, "bad", "HTTP 206"),
        (b"x", {"status": "503 Service Unavailable", "Retry_After": "7"}, "page", "HTTP 503"),
        (b"<p>" + b"x" * 10_001, {}, "bad", "page too large"),
        (gzip.compress(b"x" * (64 << 20), mtime=0), {"Content_Encoding": "gzip"}, "bad", "page too large"),
        (PACKED + PACKED[:-9], {"Content_Encoding": "gzip"}, "page", "broken answer (error)"),
        (PACKED[:-9], {"Content_Encoding": "gzip"}, "page", "broken answer (error)"),
        (b"x", {"Content_Encoding": "br"}, "page", "broken answer (error)"),
        (b"<b>" * 600, {}, "bad", "page of too many elements"),
        (b"x", {"status": "503 No", "path": "/robots.txt"}, "site", "robots.txt is answered by 503"),
    ],
)
def test_what_is_no_page_is_said(body: bytes, more: dict[str, str], fault: str, why: str) -> None:
    found = fetched(body, **more)  # type: ignore[arg-type]
    assert (found.fault, found.why, found.text) == (fault, why, None)
    assert found.wait == (7.0 if "Retry_After" in more else 0.0)


def test_robots_txt_that_is_not_there_is_none_and_a_long_one_is_cut() -> None:
    assert fetched(b"x", status="404 Not Found", path="/robots.txt").text is None
    assert len(fetched(b"#" * (1 << 20), path="/robots.txt").text or "") == 500 << 10


def test_a_request_says_who_asks_and_takes_no_longer_than_it_may() -> None:
    seen: list[dict[str, str]] = []

    def script(connection: socket.socket, number: int) -> None:
        seen.append(request_of(connection)[1])
        for _ in range(100):  # a byte now and then, for ever
            connection.sendall(b"H" if len(seen) > 1 else b"HTTP/1.1 200 OK\r\n" if not seen[1:] else b"")
            time.sleep(0.05)

    with serving(script) as server:
        begun = time.monotonic()
        found = ask(f"http://127.0.0.1:{server.port}/", patience=0.4)
    assert time.monotonic() - begun < 4.0
    assert (found.fault, found.why) == ("page", "no answer within 0.4 s")
    assert re.fullmatch(r"any2vec/\S+ \(\+me@a\.test\)", seen[0]["user-agent"])
    assert "cookie" not in seen[0]


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1", "loopback"), ("127.8.9.1", "loopback"), ("::1", "loopback"), ("::ffff:127.0.0.1", "loopback"),
        ("10.1.2.3", "private"), ("192.168.0.1", "private"), ("172.16.0.1", "private"), ("fd00::1", "private"),
        ("169.254.169.254", ""), ("fe80::1%eth0", ""), ("0.0.0.0", ""), ("::", ""), ("224.0.0.1", ""),
        ("240.0.0.1", ""),
        ("2002:7f00:1::", ""), ("64:ff9b::7f00:1", ""),
        ("64:ff9b:1::7f00:1", ""), ("::7f00:1", ""), ("::ffff:0:7f00:1", ""), ("fec0::1", ""),
        ("255.255.255.255", ""),
        ("93.184.216.34", "global"), ("2606:2800:220:1::1", "global"), ("::ffff:93.184.216.34", "global"),
    ],
)  # fmt: skip
def test_kinds_of_addresses(address: str, kind: str) -> None:
    assert kind_of(address) == kind


@pytest.mark.parametrize(
    ("addresses", "reach"),
    [
        (["93.184.216.34"], ("global",)), (["127.0.0.1", "::1"], ("global", "loopback")),
        (["10.0.0.1"], ("global", "private")), (["93.184.216.34", "127.0.0.1"], ("global",)),
        (["10.0.0.1", "127.0.0.1"], ("global",)), (["10.0.0.1", "169.254.169.254"], ("global",)), ([], ("global",)),
    ],
)  # fmt: skip
def test_a_crawl_reaches_private_addresses_if_its_start_has_no_other(
    addresses: list[str], reach: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def found(host: str, port: int) -> list[str]:
        return addresses

    monkeypatch.setattr(fetch, "addresses_of", found)
    assert asyncio.run(fetch.reach_of("a.test", 80)) == reach


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:7f00:1]"])
def test_a_crawl_of_public_pages_connects_to_no_private_address(host: str) -> None:
    with serving(lambda connection, number: None) as server:
        found = ask(f"http://{host}:{server.port}/", reach=("global",))
        assert found.fault in ("bad", "site") and "nobody answers" not in found.why
        assert server.count == 0


def test_a_redirect_leads_to_no_other_kind_of_address() -> None:
    def script(connection: socket.socket, number: int) -> None:
        path, _ = request_of(connection)
        where = "http://169.254.169.254/robots.txt" if path == "/robots.txt" else "http://10.0.0.1/"
        answer(connection, b"", "", "302 Found", Location=where)

    with serving(script) as server:
        start = f"crawl:http://127.0.0.1:{server.port}/#pause=0&domains=*"
        source = open_source(start, 0, ONCE)
        assert read_all(source.batches(None)) == []
        assert server.count == 1
    assert source.metrics()["bad_by"] == {"address that is not public": 1}


def test_a_name_is_looked_up_once_and_what_was_checked_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts: list[str] = []

    async def addresses(host: str, port: int) -> list[str]:
        hosts.append(host)
        return ["127.0.0.1"]

    monkeypatch.setattr(fetch, "addresses_of", addresses)
    seen: list[str] = []

    def script(connection: socket.socket, number: int) -> None:
        seen.append(request_of(connection)[1]["host"])
        answer(connection, b"<p>named", "text/html")

    with serving(script) as server:
        assert ask(f"http://name.test:{server.port}/").text == "named"
    assert hosts == ["name.test"]
    assert seen == [f"name.test:{server.port}"]


# ---- text of pages --------------------------------------------------------------------------------------------------


def html(body: str, head: str = "") -> Any:
    return read_page(f"<html><head>{head}</head><body>{body}</body></html>".encode(), "text/html")


def test_boilerplate_is_left_out() -> None:
    long = "The water must be hot for some time, and the leaves must lie in it. " * 3
    found = html(
        "<header>banner</header><nav><ul><li><a href='/h'>home</a></li></ul></nav><aside class=sidebar>aside</aside>"
        f"<main><article><h1>Tea</h1><p>{long}</p><p>A <b>cup</b>.</p></article></main><script>x()</script>"
        "<div id='cookie-banner'>cookies</div><footer>footer</footer>"
    )
    assert found.text == f"Tea {long}A cup."
    assert found.links == ("/h",)


@pytest.mark.parametrize(
    ("content", "has_text", "has_links"),
    [("noindex", False, True), ("NoFollow", True, False), ("none", False, False), ("all", True, True)],
)
def test_a_page_says_what_may_be_done_with_it(content: str, has_text: bool, has_links: bool) -> None:
    found = html("<p>x<a href='/y'>y</a>", f"<meta name=Robots content='{content}, x'>")
    assert (bool(found.text), bool(found.links)) == (has_text, has_links)
    found = read_page(b"<p>x<a href='/y'>y</a>", "text/html", content)
    assert (bool(found.text), bool(found.links)) == (has_text, has_links)


def formatting(count: int) -> bytes:
    """A page whose parser makes all the elements that came before anew at each one: memory by the square of them."""
    return b"".join(b"<b x=%d><p>" % n for n in range(count))


@pytest.mark.parametrize(
    ("body", "patience"), [(formatting(3000), 60.0), (b"<font><a>x" * 100_000, 0.5)], ids=["memory", "time"]
)
def test_a_page_that_is_made_to_end_its_reader_is_left_and_the_next_one_is_read(body: bytes, patience: float) -> None:
    async def read() -> None:
        process = PageProcess(patience)
        begun = time.process_time()
        try:
            assert (await process.read(b"<p>one", "text/html")).text == "one"
            first = process.process
            reading = asyncio.create_task(process.read(body, "text/html"))
            moments = 0
            while not reading.done():  # the event loop goes on meanwhile
                await asyncio.sleep(0.01)
                moments += 1
            with pytest.raises(BadPageError, match="too long or too much memory"):
                await reading
            assert moments > 5 and time.process_time() - begun < 5.0
            assert first is not None and first.returncode is not None
            assert (await process.read(b"<p>two<a href=/x>", "text/html")).links == ("/x",)
        finally:
            await process.close()

    asyncio.run(read())


def test_the_process_that_reads_pages_ends_with_its_parent() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "any2vec.sources.crawl.page_process"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.read(4)  # it is there
    process.stdin.close()
    assert process.wait(30.0) == 0
    process.stdout.close()


@pytest.mark.parametrize(
    ("tag", "has_text", "has_links"),
    [
        ("any2vec: noindex", False, True), ("Any2Vec : NoIndex, nofollow", False, False), ("*: none", False, False),
        ("other: noindex, nofollow", True, True), ("other: noindex\nnofollow", True, False),
        ("other: noindex, any2vec: nofollow", True, False), ("max-snippet: 9, noindex", False, True),
        ("unavailable_after: Fri, 25 Jun 2010 15:00:00 PST, nofollow", True, False),
    ],
)  # fmt: skip
def test_a_header_says_to_whom_it_speaks(tag: str, has_text: bool, has_links: bool) -> None:
    found = read_page(b"<p>x<a href='/y'>y</a>", "text/html", tag)
    assert (bool(found.text), bool(found.links)) == (has_text, has_links)
    answered = fetched(b"<p>x<a href='/y'>y</a>", X_Robots_Tag=tag.replace("\n", "\r\nX-Robots-Tag: "))
    assert (bool(answered.text), bool(answered.links)) == (has_text, has_links)


def test_links_are_relative_to_the_base() -> None:
    assert html("<a href=x>", "<base href='/deep/'>").base == "/deep/"


@pytest.mark.parametrize(
    "body", [b"<div>", b"<a href=x>", b"<table>", b"<b><i><p>", b"<a x=1 ", b"&amp;", b"<!--", b"<p>x ", b"\0\xff<"]
)
def test_a_page_that_is_made_to_be_slow_is_not(body: bytes) -> None:
    begun = time.process_time()
    with contextlib.suppress(BadPageError):
        read_page(body * (200_000 // len(body)), "text/html; charset=none-such")
    assert time.process_time() - begun < 5.0

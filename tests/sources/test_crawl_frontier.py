"""What a crawl asks for, when, and what it never asks for: URLs, rules of robots.txt, and the frontier. No network."""

from __future__ import annotations

import json
import time

import pytest

from any2vec.errors import InputError
from any2vec.sources.base.cutter import Tally
from any2vec.sources.crawl.frontier import Frontier, Request, Waiting
from any2vec.sources.crawl.robots import Rules
from any2vec.sources.crawl.urls import CrawlOptions, Scope, normalized, read_start

pytest.importorskip("httpx", reason="crawls need pip install 'any2vec[crawl]'")
pytest.importorskip("protego", reason="crawls need pip install 'any2vec[crawl]'")
A, B = "http://a.test", "http://b.test:81"


# ---- URLs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("link", "url"),
    [
        ("c#part", "http://a.test/b/c"),
        ("../x/./y?q=1&r=2#", "http://a.test/x/y?q=1&r=2"),
        ("HTTP://A.Test:80", "http://a.test/"),
        ("https://a.test:443/?", "https://a.test/"),
        ("//b.test:81/z", "http://b.test:81/z"),
        (" /s pace\n", "http://a.test/s%20pace"),
        ("/%7euser/%2E%2e/%c3%a4", "http://a.test/%C3%A4"),
        ("/a%2fb%3Fc?d%26=%7e", "http://a.test/a%2Fb%3Fc?d%26=~"),
        ("/x?", "http://a.test/x"),
        ("http://bücher.test/", "http://xn--bcher-kva.test/"),
        ("", "http://a.test/b/d"),
        ("http://[::1]:8080/", "http://[::1]:8080/"),
    ],
)
def test_a_page_has_one_spelling(link: str, url: str) -> None:
    found = normalized(link, "http://a.test/b/d")
    assert found == url
    assert normalized(url, "http://other.test/") == url


@pytest.mark.parametrize(
    "link",
    ["mailto:a@b.test", "javascript:x()", "ftp://a.test/", "file:///etc/passwd", "data:text/html,x", "http://u:p@a.test/",
     "http://a.test:0/", "http://a.test:99999/", "http://a\\b/", "x" * 2001, "http://a.test/" + "ä" * 500, "http://[::1"],
)  # fmt: skip
def test_what_is_no_page_is_no_link(link: str) -> None:
    assert normalized(link, A) is None


def test_a_query_is_kept_or_dropped() -> None:
    assert normalized("/?b=2&a=1", A) == f"{A}/?b=2&a=1"
    assert normalized("/?b=2&a=1", A, "drop") == f"{A}/"


def test_a_crawl_keeps_to_its_domains() -> None:
    assert [Scope(f"{A}/", CrawlOptions()).has(url) for url in (f"{A}/x", "https://a.test/", f"{A}:8/", B)] == [
        True, True, False, False,
    ]  # fmt: skip
    scope = Scope(f"{A}/", CrawlOptions(domains="c.test, b.test:81"))
    inside = [f"{B}/", "http://c.test/", "http://w.c.test:9/", "http://b.test/", "http://xc.test/", "http://test/"]
    assert [scope.has(url) for url in inside] == [True, True, True, False, False, False]
    assert Scope(f"{A}/", CrawlOptions(domains="*")).has("http://anywhere.test/")


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("ftp://a.test/", "begins at crawl:http"),
        ("", "begins at crawl:http"),
        ("http:///x", "begins at crawl:http"),
        ("http://u:p@a.test/", "take user and password out"),
        (f"{A}/#depth=x", "depth of a crawl must be a whole number, got 'x'"),
        (f"{A}/#depth=-1", "depth must be"),
        (f"{A}/#pages=0", "pages must be"),
        (f"{A}/#pause=nan", "pause must be"),
        (f"{A}/#page_bytes=1000000000", "page_bytes must be"),
        (f"{A}/#query=some", "query must be"),
        (f"{A}/#dept=3", "got 'dept'"),
        (f"{A}/#depth", "whole number, got ''"),
        (f"{A}/#pause=long", "pause of a crawl must be a number"),
        ("http://[::1", "begins at crawl:http"),
        (f"{A}/#=", "knows these options"),
        (f"{A}/#contact=a%0Ab", "contact must be printable"),
    ],
)
def test_a_wrong_start_is_refused(address: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        read_start(address)


def test_options_stand_behind_the_hash() -> None:
    start, options = read_start(f"{A}/?q=1#depth=3&pause=0.5&query=drop&domains=b.test,c.test")
    assert start == f"{A}/?q=1"
    assert options == CrawlOptions(depth=3, pause=0.5, query="drop", domains="b.test,c.test")
    assert read_start(f"{A}/#contact=me+crawl@x.test&&depth=%32")[1] == CrawlOptions(contact="me+crawl@x.test", depth=2)


# ---- robots.txt -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "path", "is_allowed"),
    [
        (None, "/x", True),
        ("", "/x", True),
        ("User-agent: *\nDisallow: /\n", "/x", False),
        ("User-agent: *\nDisallow:\n", "/x", True),
        ("User-agent: *\nDisallow: /a\nAllow: /a/b\n", "/a/b/c", True),  # the longest match, not the first
        ("User-agent: *\nDisallow: /*.pdf$\n", "/a/x.pdf", False),
        ("User-agent: *\nDisallow: /*.pdf$\n", "/a/x.pdf?y", True),
        ("User-agent: any2vec\nDisallow: /a\n\nUser-agent: *\nDisallow: /\n", "/b", True),
        ("User-agent: any2vec\nDisallow: /a\n\nUser-agent: *\nAllow: /\n", "/a", False),
        ("\0\ufffd<html>", "/x", True),
        ("User-agent: *\nCrawl-delay: 3600\n", "/x", True),
        ("User-agent: *\nCrawl-delay: 86400\n", "/x", False),  # it wants no crawler
    ],
)
def test_robots_txt_is_obeyed(text: str | None, path: str, is_allowed: bool) -> None:
    assert Rules(text).allows(f"{A}{path}") is is_allowed


@pytest.mark.parametrize(
    ("line", "delay"),
    [("Crawl-delay: 2.5", 2.5), ("Request-rate: 1/4", 4.0), ("Crawl-delay: nan", 0.0), ("Crawl-delay: 1e999", 0.0)],
)
def test_a_site_says_how_often(line: str, delay: float) -> None:
    assert Rules(f"User-agent: *\n{line}\n").delay == delay


# ---- the frontier ---------------------------------------------------------------------------------------------------


def frontier(start: str = f"{A}/", retries: int = 3, **options: object) -> tuple[Frontier, Tally]:
    tally = Tally()
    return Frontier(start, CrawlOptions(**options), retries, tally), tally  # type: ignore[arg-type]


def page(url: str) -> Request:
    return Request("page", url)


def test_robots_txt_comes_first_then_one_page_at_a_time_with_a_pause() -> None:
    front, _ = frontier(pause=2.0, domains="b.test:81")
    robots = front.next(0.0)
    assert robots == Request("robots", f"{A}/robots.txt")
    assert front.next(100.0) is None  # it is under way
    front.robots(robots, None, 10.0)
    assert front.wait(10.5) == 1.5
    assert front.next(11.9) is None
    assert front.next(12.0) == page(f"{A}/")
    front.add_links(front.done(page(f"{A}/"), 13.0), ["/x", f"{B}/", "/y"], None)
    assert front.next(14.0) == Request("robots", f"{B}/robots.txt")  # another site waits for nobody
    assert front.next(14.0) is None
    assert front.next(15.0) == page(f"{A}/x")
    assert front.next(99.0) is None and not front.is_done


def test_a_site_may_ask_for_a_longer_pause_and_for_time() -> None:
    front, _ = frontier(pause=1.0)
    front.robots(front.next(0.0), "User-agent: *\nCrawl-delay: 7\n", 0.0)  # type: ignore[arg-type]
    assert front.wait(0.0) == 7.0
    assert front.next(7.0) == page(f"{A}/")
    assert front.failed(page(f"{A}/"), 8.0, least=60.0)
    assert front.wait(8.0) == 60.0


def test_rules_are_asked_for_again_after_a_day() -> None:
    front, _ = frontier(pause=0.0)
    front.robots(front.next(0.0), None, 0.0)  # type: ignore[arg-type]
    assert front.next(86_401.0) == Request("robots", f"{A}/robots.txt")


def crawled(front: Frontier, links: dict[str, list[str]], robots: str | None = None) -> list[str]:
    """The pages that are asked for, in their order."""
    found, now = [], 0.0
    while (request := front.next(now)) is not None:
        now += 1.0
        if request.kind == "robots":
            front.robots(request, robots, now)
        else:
            found.append(request.url)
            front.add_links(front.done(request, now), links.get(request.url, []), None)
    assert front.is_done
    return found


def test_pages_come_breadth_first_each_once_and_none_that_is_forbidden() -> None:
    links = {f"{A}/": ["/1", "/2#a", "/no", "/1"], f"{A}/1": ["/3", "/"], f"{A}/2": ["/3", "/4?x", "/2#b"]}
    front, tally = frontier(pause=0.0)
    found = crawled(front, links, "User-agent: *\nDisallow: /no\n")
    assert found == [f"{A}/{name}" for name in ("", "1", "2", "3", "4?x")]
    assert tally.metrics()["bad_by"] == {"not allowed by robots.txt": 1}


@pytest.mark.parametrize(("options", "count"), [({"depth": 2}, 3), ({"depth": 0}, 1), ({"pages": 4}, 4)])
def test_a_crawl_has_an_end(options: dict[str, int], count: int) -> None:
    links = {f"{A}/" + "x" * depth: ["/" + "x" * (depth + 1)] for depth in range(50)}
    assert len(crawled(frontier(pause=0.0, **options)[0], links)) == count


def test_redirects_have_an_end_and_the_start_may_move() -> None:
    front, _ = frontier(pause=0.0, redirects=2)
    front.robots(front.next(0.0), None, 0.0)  # type: ignore[arg-type]
    for hop in range(2):
        request = front.next(0.0)
        assert request is not None
        front.redirected(front.done(request, 0.0), f"/hop{hop}")
    request = front.next(0.0)
    assert request == page(f"{A}/hop1")
    front.redirected(front.done(request, 0.0), "/hop2")
    assert front.is_done
    front, _ = frontier(pause=0.0)
    front.robots(front.next(0.0), None, 0.0)  # type: ignore[arg-type]
    front.redirected(front.done(front.next(0.0), 0.0), f"{B}/")  # type: ignore[arg-type]
    assert front.next(0.0) == Request("robots", f"{B}/robots.txt")


def test_a_page_that_fails_is_tried_again_behind_the_others() -> None:
    front, _ = frontier(pause=0.0, tries=2)
    front.robots(front.next(0.0), None, 0.0)  # type: ignore[arg-type]
    front.add_links(front.done(front.next(0.0), 0.0), ["/1", "/2"], None)  # type: ignore[arg-type]
    assert front.next(0.0) == page(f"{A}/1") and front.failed(page(f"{A}/1"), 0.0)
    assert front.next(0.0) == page(f"{A}/2") and front.done(page(f"{A}/2"), 0.0)
    assert front.next(0.0) == page(f"{A}/1") and not front.failed(page(f"{A}/1"), 0.0)
    assert front.is_done and front.asked == 3


def test_a_site_that_nobody_answers_for_is_left_with_its_pages() -> None:
    front, _ = frontier(pause=0.0, retries=2)
    waits = []
    for _ in range(3):
        now = sum(waits)
        request = front.next(now)
        assert request == Request("robots", f"{A}/robots.txt")
        assert front.failed(request, now, is_site=True)
        waits.append(front.wait(now))
    assert waits == pytest.approx([0.2, 0.4, float("inf")])
    assert front.is_done and front.lost == ["a.test"] and front.is_start_lost
    assert front.next(99.0) is None
    again, _ = frontier(pause=0.0)
    again.load(json.loads(json.dumps(front.state())))
    assert again.next(0.0) == Request("robots", f"{A}/robots.txt")


def test_what_is_kept_goes_on_where_it_was_and_what_was_under_way_waits() -> None:
    links = {f"{A}/": [f"/{n}" for n in range(9)] + [f"{B}/"], f"{A}/3": ["/x", "/0"], f"{B}/": [f"{A}/", f"{A}/y"]}
    whole = crawled(frontier(pause=0.0, domains="b.test:81")[0], links)
    for stop in range(2 * len(whole)):
        front, _ = frontier(pause=0.0, domains="b.test:81")
        found = []
        for _ in range(stop):
            if (request := front.next(0.0)) is None:
                break
            if request.kind == "robots":
                front.robots(request, None, 0.0)
            else:
                found.append(request.url)
                front.add_links(front.done(request, 0.0), links.get(request.url, []), None)
        front.next(0.0)  # under way, and lost
        again, _ = frontier(pause=0.0, domains="b.test:81")
        again.load(json.loads(json.dumps(front.state())))
        found += crawled(again, links)
        assert sorted(found) == sorted(whole)
        assert again.asked == len(whole)


def test_the_start_is_asked_for_again_for_its_links_alone() -> None:
    front, _ = frontier(pause=0.0)
    assert crawled(front, {f"{A}/": ["/1"]}) == [f"{A}/", f"{A}/1"]
    front.again()
    assert crawled(front, {f"{A}/": ["/1", "/2"]}) == [f"{A}/", f"{A}/2"]
    assert front.asked == 3
    front.again()
    front.redirected(front.done(front.next(0.0), 0.0), "/1")  # type: ignore[arg-type]
    front.add_links(front.done(front.next(0.0), 0.0), ["/3"], None)  # type: ignore[arg-type]
    assert front.next(0.0) == page(f"{A}/3")
    assert Waiting(f"{A}/", 0).is_again is False


def test_a_start_that_redirects_in_a_circle_is_left() -> None:
    front, _ = frontier(pause=0.0, redirects=3)
    crawled(front, {})
    front.again()
    hops = 0
    while (request := front.next(0.0)) is not None:
        front.redirected(front.done(request, 0.0), "/")
        hops += 1
    assert hops == 4 and front.is_done and front.asked == 1


def test_a_host_that_is_lost_keeps_its_pages_until_the_next_look_and_no_other_waits_for_it() -> None:
    front, tally = frontier(pause=0.0, retries=0, domains="*")
    dead = Request("robots", f"{B}/robots.txt")
    assert crawled(front, {}) == [f"{A}/"]
    front.add(Waiting(f"{B}/x", 1))
    assert front.next(100.0) == dead and front.failed(dead, 100.0, is_site=True)
    front.add(Waiting(f"{B}/y", 1))
    assert front.is_done and front.next(999.0) is None
    assert front.lost == ["b.test:81"] and not front.is_start_lost
    front.again()
    assert not front.is_done
    asked = [front.next(1000.0), front.next(1000.0)]
    assert set(asked) == {dead, page(f"{A}/")}
    assert front.failed(dead, 1000.0, is_site=True) and front.done(page(f"{A}/"), 1000.0)
    assert front.is_done and front.lost == ["b.test:81"]
    front.again()
    assert dead in (front.next(2000.0), front.next(2000.0))
    front.robots(dead, None, 2000.0)
    assert front.next(2001.0) == page(f"{B}/x") and not front.lost
    assert tally.metrics()["bad_by"] == {"host that nobody answers for": 1}


def test_a_crawl_of_many_hosts_looks_at_few_of_them() -> None:
    front, _ = frontier(pause=0.0, domains="*", pages=50_000)
    for number in range(40_000):
        front.add(Waiting(f"http://h{number}.test/", 1))
    begun = time.process_time()
    for _ in range(1000):
        assert front.next(0.0) is not None and front.wait(0.0) == 0.0 and not front.is_done
    assert time.process_time() - begun < 1.0

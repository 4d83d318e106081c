"""The row about a crawl whose hosts are killed: a planted site of this machine, each allowed page once, no other."""

from __future__ import annotations

import importlib.util
import itertools
import os
import signal
import time
from collections import Counter
from pathlib import Path

from any2vec.testing.planted_site import PlantedSite
from benchmarks.bench import Bench
from benchmarks.machine.namespaces import last_line, wait_for
from benchmarks.streams.faults import await_so, fresh, process_of
from benchmarks.table import Measure, NotMeasuredError, Reading, Row, RowError

PAGES, KILLS = 2000, 6
HOSTS = ("127.0.0.1", "127.0.0.2")
DELAY = 0.01
"""seconds behind a request that robots.txt asks for"""
SLACK = 0.001
"""seconds by which two clocks of one machine may differ, as they see the ends of a connection"""
RANKS = (1, 2, 0)
"""who is killed, in turn: both trainers' hosts crawl, and rank 0 has the frontier"""
LIMIT = 900.0


def crawl_with_kills(bench: Bench) -> list[Reading]:
    """A stream of two crawling hosts, one process of which is killed now and then; it starts again by itself."""
    missing = [name for name in ("httpx", "protego", "resiliparse") if importlib.util.find_spec(name) is None]
    if missing:
        raise NotMeasuredError(f"a crawl needs {' and '.join(missing)}")
    pages, kills = (40, 1) if bench.tiny else (300, 2) if bench.quick else (PAGES, KILLS)
    out = fresh(bench, "crawl")
    with PlantedSite(pages, HOSTS, delay=DELAY) as site:
        began = time.monotonic()
        killed = _crawl(bench, site, out, kills)
        seconds = time.monotonic() - began
        wanted, visits = set(site.texts), sorted(site.visits, key=lambda visit: visit.begin)
    trained = [line.split(" ", 1)[1] for line in (out / "trained.ids").read_text().splitlines()]
    lost, twice, other = len(wanted - set(trained)), len(trained) - len(set(trained)), len(set(trained) - wanted)
    forbidden = [visit.path for visit in visits if _is_forbidden(visit.path)]
    early = sum(
        later.begin - earlier.end < DELAY - SLACK
        for host in site.sites
        for earlier, later in itertools.pairwise([visit for visit in visits if visit.host == host])
        if "robots.txt" not in earlier.path
    )
    kinds = Counter(visit.path.strip("/").partition("/")[0] or "start" for visit in visits)
    bench.runs["crawl"] = {
        "pages": pages, "killed": killed, "lost": lost, "twice": twice, "other": other, "forbidden": len(forbidden),
        "early": early, "requests": dict(kinds), "seconds": seconds,
    }  # fmt: skip
    named = ", ".join(f"{name} {count}×" for name, count in Counter(killed).items())
    return [
        Reading(
            value=lost + twice + other,
            text=f"{lost} lost, {twice} twice, {other} others of {len(wanted):,} allowed pages; killed: {named}",
        ),
        Reading(value=len(forbidden), text=f"{len(forbidden)} of {len(visits):,} requests"),
        Reading(value=early, text=f"{early} of {len(visits):,} requests"),
        Reading(value=len(visits) / seconds, text=f"{len(visits) / seconds:.0f}/s, {seconds:.0f} s with all restarts"),
    ]


def _crawl(bench: Bench, site: PlantedSite, out: Path, kills: int) -> list[str]:
    """Run it to its end; the ranks that were killed."""
    options = f"pause={DELAY}&page_bytes=100000&depth=50&domains={','.join(site.sites)}"
    command = [
        "stream", "skipgram", f"crawl:{site.start}#{options}", "--dim", 16, "--memory", "20MB", "--threads", 1,
        "--linger", 0.2, "--batch-bytes", 4000, "--min-count", 2, "--out", out, "--quiet", "--log-ids",
        "--checkpoint-seconds", 0.2, "--hosts", 2, "--restarts", kills,
    ]  # fmt: skip
    killed: list[str] = []
    with bench.job(command) as (job, errors):
        for step in range(kills):
            rank = RANKS[step % len(RANKS)]
            share = len(site.texts) * (step + 1) // (kills + 2)
            await_so(job, errors, lambda share=share: _count(out / "trained.ids") >= share)  # type: ignore[misc]
            os.kill(process_of(job.pid, rank), signal.SIGKILL)
            killed.append(f"rank {rank}")
        codes = wait_for([job], LIMIT)
        said = last_line(errors)
    if codes != [0]:
        raise RowError(f"the crawl ended with {codes}: {said[:200]}")
    return killed


def _count(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _is_forbidden(path: str) -> bool:
    """Whether it must not be asked for: by robots.txt, or because the page that alone leads there says nofollow."""
    return (path.startswith("/forbidden/") and not path.startswith("/forbidden/open/")) or (
        path.endswith(".secret") or path == "/lost"
    )


ROWS = (
    Row(
        name="crawler",
        measures=(
            Measure(
                name="two crawling hosts, processes killed: allowed pages lost, trained twice, or not of the site",
                relation="<=", target=0,
            ),
            Measure(name="pages asked for that are not allowed", relation="<=", target=0),
            Measure(
                name="requests to a host beside another one, or before its Crawl-delay is over", relation="<=", target=0
            ),
            Measure(name="requests", relation="", wording="shown"),
        ),
        run=crawl_with_kills,
        minutes=4,
    ),
)  # fmt: skip

"""Rows about streams that go wrong: a source that stalls, and a reader, trainer, server or rank 0 that is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench, family
from benchmarks.machine.namespaces import last_line, wait_for
from benchmarks.table import Measure, Reading, Row, RowError

SOURCES, STALLED = 3, 2
LINES_A_SECOND = 400
WORDS = 20
"""of a planted line"""
BEHIND = 2.5
"""seconds of what comes that may be waiting, in a steady run: a batch, and the second of a record"""
STEADY = 10.0
"""seconds that are measured before the stall and behind it"""
SETTLE = 4.0
"""seconds for queues to fill, or to run empty"""
KILLED_LINES = 6000
"""of each of two sources"""
KILLED_RATE = 700
"""lines a second of each: about nine seconds, so that there is time to kill somebody"""
ROLES = {"reader": None, "trainer": 1, "server": 3, "rank 0": 0}
"""role -> rank of two trainers and a server; None: it has none"""
LIMIT = 240.0
LONGEST_SILENCE = 60.0
"""seconds without a record, on a machine that is busy, before a run counts as still"""


def one_source_stalls(bench: Bench) -> list[Reading]:
    """Words a second over those of the sources that are left, before and behind the stall."""
    found = {sync: _stalled(bench, sync) for sync in ("async", "sync")}
    bench.runs["stalls"] = found
    readings = []
    for one in found.values():
        if not one["before"]:
            raise RowError(f"no word was trained in {LONGEST_SILENCE:g} s before the source stalled")
        left = one["before"] * (SOURCES - 1) / SOURCES
        ratio = one["after"] / left
        text = f"{ratio:.2f}× ({one['before']:,.0f} words/s before, {one['after']:,.0f} behind; share {left:,.0f})"
        readings.append(Reading(value=ratio, text=f"{text}; staleness {one['staleness']}"))
    return readings


def _stalled(bench: Bench, sync: str) -> dict[str, Any]:
    """A run over files that grow at a rate, one of which stops growing."""
    steady = 3.0 if bench.quick else STEADY
    settle = 1.0 if bench.tiny else SETTLE
    out = fresh(bench, f"stall-{sync}")
    with tempfile.TemporaryDirectory() as name:
        paths = [Path(name) / f"source-{number}.txt" for number in range(SOURCES)]
        for path in paths:
            path.touch()
        command = [
            "stream", "skipgram", *paths, "--follow", "--memory", "40MB", "--threads", 1, "--hosts", 2,
            "--sync", sync, "--batch-bytes", 16384, "--min-count", 2, "--dedup", "none", "--out", out, "--quiet",
        ]  # fmt: skip
        with bench.job(command) as (job, errors), _feeding(paths) as (stalls, fed):
            # What was written while the run began is trained first, faster than lines come.
            behind = BEHIND * SOURCES * LINES_A_SECOND
            await_so(job, errors, lambda: _words(out)[1] > WORDS * max(behind, sum(fed) - behind))
            time.sleep(settle)
            before = _pace(out, steady)
            stalls[STALLED].set()
            time.sleep(settle)
            after = _pace(out, steady)
            staleness = _record(out).get("staleness")
            os.kill(job.pid, signal.SIGTERM)
            codes = wait_for([job], LIMIT)
            said = last_line(errors)
    if codes != [0]:
        raise RowError(f"the stream with a stalled source ended with {codes}: {said[:200]}")
    return {"before": before, "after": after, "staleness": staleness}


@contextmanager
def _feeding(paths: Sequence[Path]) -> Iterator[tuple[list[threading.Event], list[int]]]:
    """Threads that let files grow by planted lines, at a rate: for each an event that ends it, and its lines."""
    from any2vec.testing.planted_stream import PlantedStream

    planted = PlantedStream(words_per_line=WORDS)
    stalls, fed = [threading.Event() for _ in paths], [0 for _ in paths]

    def feed(number: int, path: Path) -> None:
        line, step = number << 30, LINES_A_SECOND // 20
        due = time.monotonic()
        with path.open("ab", buffering=0) as file:
            while not stalls[number].wait(max(0.0, due - time.monotonic())):
                file.write(planted.text(line, line + step))
                line, due = line + step, due + step / LINES_A_SECOND
                fed[number] += step

    threads = [threading.Thread(target=feed, args=pair, daemon=True) for pair in enumerate(paths)]
    for thread in threads:
        thread.start()
    try:
        yield stalls, fed
    finally:
        for stall in stalls:
            stall.set()
        for thread in threads:
            thread.join()


def _pace(out: Path, seconds: float) -> float:
    """Words a second over the next so many seconds, or more until there is a record behind the first one."""
    (began, words), first = _words(out), time.monotonic()
    time.sleep(seconds)
    while _words(out)[0] <= began and time.monotonic() < first + LONGEST_SILENCE:
        time.sleep(0.1)
    (ended, more), last = _words(out), time.monotonic()
    span = ended - began
    return (more - words) / (span if span > 0 else last - first)


def _words(out: Path) -> tuple[float, int]:
    """(seconds, words) of the last record."""
    record = _record(out)
    return float(record.get("seconds", 0.0)), int(record.get("words", 0))


def _record(out: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((out / "progress.jsonl").read_text().splitlines()[-1]))
    except (OSError, ValueError, IndexError):
        return {}


def kill_any_role(bench: Bench) -> list[Reading]:
    """Lines lost or trained twice where a process is killed: the rest goes on, or the job does from its checkpoint."""
    sources = _sources(bench)
    readings = [_killed(bench, sources, role) for role in list(ROLES)[: 2 if bench.tiny else None]]
    readings += readings[-1:] * (len(ROLES) - len(readings))
    return [*readings, _ends_clearly(bench, sources)]


def _killed(bench: Bench, sources: Sequence[Path], role: str) -> Reading:
    out = fresh(bench, f"kill-{role.replace(' ', '-')}")
    with bench.job(_command(sources, out, "--restarts", 2)) as (job, errors):
        await_so(job, errors, lambda: (out / "checkpoint.safetensors").exists())
        time.sleep(0.5)
        os.kill(process_of(job.pid, ROLES[role]), signal.SIGKILL)
        began = time.monotonic()
        codes = wait_for([job], LIMIT)
        seconds, said = time.monotonic() - began, last_line(errors).replace(f"{out}/", "DIR/")
    if codes != [0]:
        return Reading(value=float("inf"), text=f"ended with {codes}: {said[:150]}")
    summary = json.loads((out / "stream.json").read_text())["summary"]
    again = sum(one["reconnects"] for one in summary["sources"].values())
    missing, twice = _wrong_ids(sources, out)
    bench.runs[role] = {"seconds": seconds, "said": said, "readers again": again, "missing": missing, "twice": twice}
    how = f"the reader was started again ({again}), the rest went on" if role == "reader" else f"“{said[:110]}”"
    return Reading(
        value=missing + twice,
        text=f"{missing} lost, {twice} twice of {len(_ids(sources)):,} lines; {how}; whole after {seconds:.0f} s",
    )


def _ends_clearly(bench: Bench, sources: Sequence[Path]) -> Reading:
    """Without restarts: how the job ends, and what a resume makes of it."""
    out = fresh(bench, "kill-plain")
    with bench.job(_command(sources, out)) as (job, errors):
        await_so(job, errors, lambda: (out / "checkpoint.safetensors").exists())
        time.sleep(0.5)
        os.kill(process_of(job.pid, ROLES["trainer"]), signal.SIGKILL)
        began = time.monotonic()
        codes = wait_for([job], LIMIT)
        seconds, said = time.monotonic() - began, last_line(errors).replace(f"{out}/", "DIR/")
    with bench.job(_command(sources, out, "--resume")) as (job, errors):
        again = wait_for([job], LIMIT)
    missing, twice = _wrong_ids(sources, out)
    bench.runs["no restarts"] = {"seconds": seconds, "codes": codes, "said": said, "resumed": again}
    is_clear = codes[0] not in (0, None) and "Rank 1" in said and "--resume" in said and again == [0]
    text = f"ended after {seconds:.1f} s with {codes[0]}: “{said[:200]}”; resumed: {missing} lost, {twice} twice"
    return Reading(value=missing + twice if is_clear else float("inf"), text=text)


def _command(sources: Sequence[Path], out: Path, *more: object) -> list[object]:
    return [
        "stream", "skipgram", *sources, "--dim", 16, "--memory", "20MB", "--threads", 1, "--linger", 0.2,
        "--batch-bytes", 4000, "--min-count", 2, "--out", out, "--quiet", "--log-ids", "--checkpoint-seconds", 0.2,
        "--rate", KILLED_RATE, "--hosts", 2, "--servers", 1, "--readers", "processes", *more,
    ]  # fmt: skip


def _sources(bench: Bench) -> list[Path]:
    """Two files of planted lines."""
    from any2vec.testing.planted_stream import PlantedStream

    planted, lines = PlantedStream(words_per_line=12), KILLED_LINES // 3 if bench.tiny else KILLED_LINES

    def write(path: Path, number: int) -> None:
        planted.write(path, number * lines, (number + 1) * lines)

    return [bench.made(f"stream-kills-{number}.txt", lambda path, n=number: write(path, n)) for number in range(2)]  # type: ignore[misc]


def _ids(sources: Sequence[Path]) -> list[str]:
    """What trained.ids holds where every line was trained: source, byte offset."""
    found = []
    for number, path in enumerate(sources):
        at = 0
        for line in path.read_bytes().splitlines(keepends=True):
            found.append(f"{number} {at}")
            at += len(line)
    return found


def _wrong_ids(sources: Sequence[Path], out: Path) -> tuple[int, int]:
    """(lines that were not trained, lines that were trained more than once)."""
    trained = (out / "trained.ids").read_text().splitlines()
    return len(set(_ids(sources)) - set(trained)), len(trained) - len(set(trained))


def process_of(pid: int, rank: int | None) -> int:
    """The process of a rank below a running job; None: a reader's."""
    for one in family(pid)[1:]:
        try:
            command = Path(f"/proc/{one}/cmdline").read_bytes().split(b"\0")
            environment = Path(f"/proc/{one}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        is_reader = b"any2vec.sources.reader" in command
        if is_reader if rank is None else not is_reader and f"RANK={rank}".encode() in environment:
            return one
    raise RowError(f"no process of {'a reader' if rank is None else f'rank {rank}'} was found")


def fresh(bench: Bench, name: str) -> Path:
    """A run folder in which nothing is left of a former run."""
    out = bench.scratch(f"streams-{name}")
    shutil.rmtree(out, ignore_errors=True)
    return out


def await_so(job: subprocess.Popen[str], errors: Path, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not is_so():
        if job.poll() is not None:
            raise RowError(f"the run ended before anything could happen to it: {last_line(errors)[:200]}")
        if time.monotonic() > deadline:
            raise RowError(f"the run had not begun after {LIMIT:g} s")
        time.sleep(0.02)


ROWS = (
    Row(
        name="one-source-stalls",
        measures=(
            Measure(
                name="asynchronous: words/s behind the stall over the remaining sources' share", relation=">=",
                target=0.9, unit="x",
            ),
            Measure(name="synchronous: the same", relation="", wording="shown"),
        ),
        run=one_source_stalls,
        minutes=2,
    ),
    Row(
        name="kill-any-role",
        measures=(
            *(
                Measure(name=f"{role} killed (kill -9): lines lost or trained twice", relation="<=", target=0)
                for role in ROLES
            ),
            Measure(
                name="trainer killed, no restarts: a sentence that names it, then --resume", relation="<=", target=0,
                wording="none lost, none twice",
            ),
        ),
        run=kill_any_role,
        minutes=4,
    ),
)  # fmt: skip

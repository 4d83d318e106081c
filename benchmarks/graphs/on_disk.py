"""Rows about features on disk, in a control group that holds a quarter of them: epochs beside those in memory."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.bench import Bench
from benchmarks.graphs.learned.runs import Graph
from benchmarks.graphs.planted import write_graph
from benchmarks.machine.cages import cage
from benchmarks.table import Measure, Reading, Row, RowError, number, ratio_reading

NODES, COLUMNS, DEGREE = 2_000_000, 512, 18.5
"""4.1 GB of float32; rows of 2 KB"""
TRAIN, TEST = 20_000, 20_000
ROOM = 800_000_000
"""bytes besides a quarter of the features and the adjacency"""
DISKS = {"disk as it is": None, "throttled to 500 MB/s": 500_000_000}
"""bytes/s"""
THREADS, SEEDS = 2, (1, 2, 3)
PATIENCE = 4
"""times as long as others a run from disk may take: it ends with scores of all nodes, from features on a slow disk"""
TINY, QUICK = (2_000, 32, 300, 300), (260_000, 512, 2_000, 2_000)
"""(nodes, columns, training nodes, test nodes)"""


class _Case(NamedTuple):
    what: str
    flags: tuple[object, ...]
    epochs: int
    target: float


CASES = {
    "features-on-disk": _Case("2 layers of 128, fan-outs 10,5", ("--hidden", 128, "--fanouts", "10,5"), 8, 0.25),
    "features-on-disk-labor": _Case(
        "LABOR, 2 layers of 128, fan-outs 10,5",
        ("--hidden", 128, "--fanouts", "10,5", "--sampling", "labor"), 8, 0.35,
    ),
    "features-on-disk-deep": _Case(
        "3 layers of 256, fan-outs 10,10,5", ("--hidden", 256, "--num-layers", 3, "--fanouts", "10,10,5"), 3, 0.7,
    ),
}  # fmt: skip


def folder_of(bench: Bench) -> tuple[Path, dict[str, Any]]:
    """The graph, written once, and what it comes to."""
    nodes, columns, train, test = TINY if bench.tiny else QUICK if bench.quick else (NODES, COLUMNS, TRAIN, TEST)
    plain = bench.made(f"planted-{nodes}.npz", lambda target: write_graph(target, nodes, DEGREE))
    out = bench.folder / f"on-disk-{nodes}"

    def write(target: Path) -> None:
        done = bench.ours("any2vec_disk_graph.py", plain, columns, train, test, out)
        target.write_text(json.dumps(done.result))

    sizes = bench.made(f"on-disk-{nodes}.json", write)
    return out, json.loads(sizes.read_text())


def limit_of(sizes: dict[str, Any]) -> int:
    """Bytes that a run may use."""
    return int(sizes["feature_bytes"]) // 4 + int(sizes["adjacency_bytes"]) + ROOM


def epochs(name: str, bench: Bench) -> list[Reading]:
    """Alternating runs: features in memory, and a quarter of them there; on the disk as it is, and throttled."""
    folder, sizes = folder_of(bench)
    return of_disks(bench, lambda disk: _beside(bench, folder, sizes, CASES[name], disk))


def of_disks(bench: Bench, read: Callable[[str], Reading]) -> list[Reading]:
    """A reading of each; where nothing is judged, the one that needs all limits tells whether both start."""
    return [read([*DISKS][-1])] * len(DISKS) if bench.quick else [*map(read, DISKS)]


def _beside(bench: Bench, folder: Path, sizes: dict[str, Any], case: _Case, disk: str) -> Reading:
    pairs = [_pair(bench, folder, sizes, case, disk, seed) for seed in (SEEDS[:1] if bench.quick else SEEDS)]
    bench.runs[disk] = pairs
    found = ratio_reading(
        [one["memory"] for one in pairs], [one["disk"] for one in pairs], "s an epoch", peer="from disk"
    )
    last = pairs[-1]["last"]
    if not bench.tiny and not last["bytes_read"]:
        raise RowError("all features were in memory")
    accuracy = statistics.fmean(one["last"]["test_accuracy"] for one in pairs)
    return Reading(
        value=found.value, text=f"{found.text}; {_about(last, last['epochs'])}; test accuracy {accuracy:.1%}"
    )


def _pair(bench: Bench, folder: Path, sizes: dict[str, Any], case: _Case, disk: str, seed: int) -> dict[str, Any]:
    """Seconds of an epoch, one side behind the other, and the summary of the run from disk; kept, so that a row that
    was cut short goes on."""
    limit, num = limit_of(sizes), 1 if bench.quick else case.epochs
    flags = ("--batch-size", 256, "--epochs", num, "--threads", THREADS, *case.flags, "--seed", seed)

    def make() -> dict[str, Any]:
        plain = bench.any2vec("train", "graphsage", folder, *flags).result
        with cage(folder, limit, DISKS[disk]) as held:
            last = bench.any2vec(
                "train", "graphsage", folder, *flags, "--memory", limit, "--residency", "belady", wrap=held.wrap,
                limit=PATIENCE * bench.limit,
            ).result  # fmt: skip
            peak = held.peak_bytes
        seconds = {"memory": plain["train_seconds"] / num, "disk": last["train_seconds"] / num}
        return seconds | {"last": last, "plain": plain, "limit": limit, "peak": peak}

    return bench.kept("features-on-disk", [*Graph("planted", folder).known_as, disk, *map(str, (*flags, limit))], make)


def _about(run: dict[str, Any], num: int) -> str:
    rows, share, gigabytes = (
        run["rows_read"] / num,
        run["rows_missed"] / run["rows_read"],
        run["bytes_read"] / num / 1e9,
    )
    read = f"{number(rows)} rows an epoch, {share:.0%} of them from disk, {gigabytes:.2f} GB"
    spent = run.get("seconds_by_stage") or {}
    stages = ", ".join(f"{name.replace('_', ' ')} {one / num:.2g} s" for name, one in spent.items() if one)
    return f"{read}; {stages} an epoch" if stages else read


def served(bench: Bench) -> list[Reading]:
    """Rows with another checksum than their own, of all that runs were given, by residency."""
    folder, sizes = folder_of(bench)
    rows = sizes["nodes"] // 4
    done = bench.ours("any2vec_served.py", folder, rows, 1 if bench.quick else 2).result
    bench.runs["served"] = done
    wrong = sum(one["wrong"] for one in done["policies"].values())
    parts = ", ".join(f"{name} {one['missed'] / one['served']:.0%}" for name, one in done["policies"].items())
    total = sum(one["served"] for one in done["policies"].values())
    return [Reading(value=wrong, text=f"{wrong} of {number(total)} rows; from disk: {parts}")]


def _row(name: str, minutes: float) -> Row:
    case = CASES[name]
    what = (
        f"Epoch in memory over the same with features of 4.1 GB on disk ({COLUMNS} columns, {NODES:,} nodes), "
        f"{case.what}, batches of 256, {THREADS} threads, control group of a quarter + adjacency + 800 MB, Belady, {{}}"
    )
    measures = tuple(Measure(name=what.format(disk), relation=">=", target=case.target, unit="x") for disk in DISKS)
    return Row(name=name, measures=measures, run=partial(epochs, name), minutes=minutes, keeps_runs=True)


ROWS = (
    _row("features-on-disk", 15),
    _row("features-on-disk-labor", 15),
    _row("features-on-disk-deep", 240),
    Row(
        name="features-served",
        measures=(
            Measure(
                name="Rows of features served in training with another checksum than their own, a quarter of the rows "
                "in memory, two threads, five residencies", relation="<=", wording="none",
            ),
        ),
        run=served, minutes=6,
    ),
)  # fmt: skip

"""The row about adjacency on disk beside features on disk, in a control group that holds a quarter of both: epochs
beside those in memory."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.graphs.learned.runs import Graph
from benchmarks.graphs.on_disk import COLUMNS, DISKS, NODES, PATIENCE, ROOM, SEEDS, THREADS, folder_of, of_disks
from benchmarks.machine.cages import cage
from benchmarks.table import Measure, Reading, Row, RowError, number, ratio_reading

EPOCHS = 8
FLAGS = ("--batch-size", 256, "--threads", THREADS, "--hidden", 128, "--fanouts", "10,5")
TARGET = 0.25
"""that of features on disk alone, with the adjacency in memory"""


def limits_of(sizes: dict[str, Any]) -> tuple[int, int]:
    """(bytes that a run may use: those of the rows with the adjacency in memory, less the adjacency; bytes of lists in
    memory, a quarter of them)."""
    return int(sizes["feature_bytes"]) // 4 + ROOM, int(sizes["adjacency_bytes"]) // 4


def epochs(bench: Bench) -> list[Reading]:
    """Alternating runs: all in memory, and a quarter of features and of lists; on the disk as it is, and throttled."""
    folder, sizes = folder_of(bench)
    return of_disks(bench, lambda disk: _beside(bench, folder, sizes, disk))


def _beside(bench: Bench, folder: Path, sizes: dict[str, Any], disk: str) -> Reading:
    pairs = [_pair(bench, folder, sizes, disk, seed) for seed in (SEEDS[:1] if bench.quick else SEEDS)]
    bench.runs[disk] = pairs
    found = ratio_reading(
        [one["memory"] for one in pairs], [one["disk"] for one in pairs], "s an epoch", peer="from disk"
    )
    last = pairs[-1]["last"]
    if not last["lists_missed"]:
        raise RowError("all lists were in memory")
    accuracy = statistics.fmean(one["last"]["test_accuracy"] for one in pairs)
    return Reading(value=found.value, text=f"{found.text}; {_about(last)}; test accuracy {accuracy:.1%}")


def _pair(bench: Bench, folder: Path, sizes: dict[str, Any], disk: str, seed: int) -> dict[str, Any]:
    """Seconds of an epoch, one side behind the other, and the summaries of the runs; kept, so that a row that was cut
    short goes on."""
    (limit, lists), num = limits_of(sizes), 1 if bench.quick else EPOCHS
    flags = (*FLAGS, "--epochs", num, "--seed", seed)
    more = "--memory", limit, "--residency", "belady", "--adjacency", "disk", "--neighbor-cache", lists

    def make() -> dict[str, Any]:
        plain = bench.any2vec("train", "graphsage", folder, *flags).result
        with cage(folder, limit, DISKS[disk]) as held:
            last = bench.any2vec(
                "train", "graphsage", folder, *flags, *more, wrap=held.wrap, limit=PATIENCE * bench.limit
            ).result
            peak = held.peak_bytes
        seconds = {"memory": plain["train_seconds"] / num, "disk": last["train_seconds"] / num}
        return seconds | {"last": last, "plain": plain, "limit": limit, "peak": peak}

    request = *Graph("planted", folder).known_as, disk, *map(str, (*flags, *more))
    return bench.kept("adjacency-on-disk", request, make)


def _about(run: dict[str, Any]) -> str:
    num, read = run["epochs"], f"{run['adjacency_bytes_read'] / run['epochs'] / 1e6:,.1f} MB"
    rows = f"{run['rows_missed'] / run['rows_read']:.0%} of the rows, {run['bytes_read'] / num / 1e9:.2f} GB"
    stages = ", ".join(
        f"{name.replace('_', ' ')} {one / num:.2g} s" for name, one in run["seconds_by_stage"].items() if one
    )
    return f"{number(run['lists_missed'] / num)} lists an epoch from disk, {read}, and {rows}; {stages} an epoch"


ROWS = (
    Row(
        name="adjacency-on-disk",
        measures=tuple(
            Measure(
                name=f"Epoch in memory over the same with features of 4.1 GB ({COLUMNS} columns, {NODES:,} nodes) and "
                f"adjacency on disk, 2 layers of 128, fan-outs 10,5, batches of 256, {THREADS} threads, control group "
                f"of a quarter + 800 MB, Belady, a quarter of the lists in memory, {disk}",
                relation=">=", target=TARGET, unit="x",
            )
            for disk in DISKS
        ),
        run=epochs, minutes=15, keeps_runs=True,
    ),
)  # fmt: skip

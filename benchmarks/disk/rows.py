"""Rows about runs whose table is larger than memory: what they need, and how fast they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.machine.cages import cage
from benchmarks.table import Measure, Reading, Row, ratio_reading

COLUMNS = 129
"""of a row: dim 128, and Adagrad's state"""
ENTITIES, EDGES = 8_400_000, 12_000_000
"""of a sparse graph, whose table is 4.3 GB: a ring through all, and others"""
ROOM = 400_000_000
"""bytes besides a quarter of the table"""
PAIRS, THREADS, NEGATIVES = 3, 2, 100
PARTITIONS, CAPACITY = 16, 4
THROTTLE = 500_000_000
"""bytes/s from the disk, and as many to it"""


def memory(bench: Bench) -> list[Reading]:
    """One epoch of a graph from a text file to vectors on disk, in a control group that is small."""
    entities, edges, room = (600_000, 300_000, 600_000_000) if bench.quick else (ENTITIES, EDGES, ROOM)
    entities, edges, room = (300_000, 20_000, 480_000_000) if bench.tiny else (entities, edges, room)
    text = bench.made(f"sparse-{entities}.tsv", lambda target: write_sparse(target, entities, edges))
    table_bytes = 4 * COLUMNS * entities
    limit = table_bytes // 4 + room
    out = bench.scratch("larger")
    with cage(out.parent, limit) as held:
        done = bench.any2vec(
            "train", "dot", text, "--dim", COLUMNS - 1, "--epochs", 1, "--num-negatives", NEGATIVES,
            "--threads", THREADS, "--memory", limit, "--out", out, "--overwrite", wrap=held.wrap,
        ).result  # fmt: skip
        peaks, peak, moved = dict(held.peaks), held.peak_bytes, held.disk_bytes
    bench.runs |= {"train": done, "limit": limit, "peaks": peaks, "peak": peak, "disk": moved}
    assert done["rows"] == entities and done["table_bytes"] == table_bytes
    shape = f"p = {done['partitions']}, c = {done['capacity']}"
    return [
        Reading(value=table_bytes / 1e9, text=f"{table_bytes / 1e9:.2f} GB, {entities:,} nodes, dim {COLUMNS - 1}"),
        Reading(
            value=peaks["rss"] / limit,
            text=f"{peaks['rss'] / 1e6:,.0f} of {limit / 1e6:,.0f} MB, {shape}; with pages of files "
            f"{peak / 1e6:,.0f} MB; {done['items_per_s']:,.0f} edges/s",
        ),
        Reading(
            value=moved["Read"] / done["bytes_read"],
            text=f"{moved['Read'] / 1e9:.1f} GB of {done['bytes_read'] / 1e9:.1f} GB of partitions, and what else is "
            "read",
        ),
    ]


def write_sparse(path: Path, entities: int, edges: int) -> None:
    """A ring through all nodes, so that none is missing, and planted edges."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import csv

    from any2vec.testing.planted_triples import PlantedTriples

    piece = 1 << 20
    planted = PlantedTriples(entities=entities, relations=1, zipf=0.0)
    with path.open("wb") as file:
        form = csv.WriteOptions(include_header=False, delimiter="\t")
        for start in range(0, entities, piece):
            node = np.arange(start, min(start + piece, entities))
            csv.write_csv(pa.table({"src": node, "dst": (node + 1) % entities}), file, form)
        for start in range(0, edges, piece):
            triple_M3 = planted.triples(start, min(start + piece, edges))
            csv.write_csv(pa.table({"src": triple_M3[:, 0], "dst": triple_M3[:, 2]}), file, form)


def speed(bench: Bench) -> list[Reading]:
    """Alternating runs, in memory and with c = p / 4 of the partitions there; throttled, as it comes, and a graph."""
    knowledge = ("--model", "complex", "--relations", 100)
    graph = ("--model", "dot", "--relations", 1)
    return [
        _beside(bench, "throttled", knowledge, THROTTLE),
        _beside(bench, "unthrottled", knowledge, None),
        _beside(bench, "graph", graph, None),
    ]


def _beside(bench: Bench, name: str, model: tuple[object, ...], disk_bps: int | None) -> Reading:
    entities, epochs = (20_000, 1) if bench.quick else (100_000, 2)
    entities = 1_000 if bench.tiny else entities
    out = bench.scratch("out-of-core")
    run: tuple[Any, ...] = (
        "any2vec_out_of_core.py", "--folder", out, "--entities", entities, "--triples", 20 * entities, "--dim",
        COLUMNS - 1, "--num-negatives", NEGATIVES, "--threads", THREADS, "--epochs", epochs, *model,
    )  # fmt: skip
    rates: dict[str, list[float]] = {"memory": [], "disk": []}
    for _ in range(1 if bench.quick else PAIRS):
        rates["memory"].append(bench.ours(*run).result["items_per_s"])
        with cage(out.parent, disk_bps=disk_bps) as held:
            done = bench.ours(*run, "--partitions", PARTITIONS, "--capacity", CAPACITY, wrap=held.wrap).result
            moved = held.disk_bytes
        rates["disk"].append(done["items_per_s"])
    bench.runs[name] = {"triples/s": rates, "last": done, "disk": moved}
    found = ratio_reading(rates["disk"], rates["memory"], "triples/s", peer="in memory")
    waited = done["seconds_waited"] / done["train_seconds"]
    rest = (
        f"; {moved['Read'] / 1e9:.2f} GB read, {moved['Write'] / 1e9:.2f} GB written, {waited:.1%} of the time waited"
    )
    return Reading(value=found.value, text=found.text + rest)


_WHAT = f"20 edges a node, dim {COLUMNS - 1}, {NEGATIVES} negatives, p = {PARTITIONS}, c = {CAPACITY}, O_DIRECT"

ROWS = (
    Row(
        name="memory",
        measures=(
            Measure(name="table and Adagrad's state of a graph, one epoch", relation=">=", target=4, wording="≥ 4 GB"),
            Measure(
                name="peak anonymous memory over the limit of the control group, a quarter of it + 400 MB: text to "
                "vectors, partitions derived from --memory",
                relation="<=", target=1, unit="x",
            ),
            Measure(
                name="bytes that the kernel has read from the disk over those of the partitions read: none came from "
                "the page cache",
                relation=">=", target=1, unit="x",
            ),
        ),
        run=memory,
        minutes=6,
    ),
    Row(
        name="speed-out-of-core",
        measures=(
            Measure(
                name=f"triples/s over the run in memory, disk throttled to 500 MB/s: ComplEx, 100 relations, {_WHAT}",
                relation=">=", target=0.85, unit="x",
            ),
            Measure(name="the same, disk as it is", relation=">=", target=0.95, unit="x"),
            Measure(
                name="the same for a plain graph, where in memory all edges of a node share a step's scores",
                relation="", wording="reported",
            ),
        ),
        run=speed,
        minutes=20,
    ),
)  # fmt: skip

"""Rows about runs whose table is larger than memory: what they need, and how fast they are."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench, Done, Wrap
from benchmarks.machine.cages import cage
from benchmarks.table import Measure, Reading, Row, ratio_reading
from benchmarks.words import text as words

COLUMNS = 129
"""of a row: dim 128, and Adagrad's state"""
ENTITIES, EDGES = 8_400_000, 12_000_000
"""of a sparse graph, whose table is 4.3 GB: a ring through all, and others"""
ROOM = 400_000_000
"""bytes besides a quarter of the table"""
PAIRS, THREADS, NEGATIVES = 3, 2, 100
PARTITIONS, CAPACITY = 16, 4
DISKS = {"throttled": 500_000_000, "unthrottled": None}
"""bytes/s from the disk, and as many to it"""
QUARTER = 0.25
"""of the table of words: the partitions that are trained, and those that come and go"""


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


def speed(bench: Bench, model: tuple[object, ...]) -> list[Reading]:
    """Alternating runs, in memory and with c = p / 4 of the partitions there; throttled, and as the disk is."""
    return [_beside(bench, name, model, disk_bps) for name, disk_bps in DISKS.items()]


def words_speed(bench: Bench) -> list[Reading]:
    """Likewise skip-gram over a text, one epoch a run."""
    words.warm_up(bench, "skipgram")
    return [_words_beside(bench, name, disk_bps) for name, disk_bps in DISKS.items()]


def _words_beside(bench: Bench, name: str, disk_bps: int | None) -> Reading:
    out = bench.scratch("words-out-of-core")
    rates: dict[str, list[float]] = {"memory": [], "disk": []}
    for seed in range(1, 2 if bench.quick else 1 + PAIRS):
        rates["memory"].append(words.train_ours(bench, "skipgram", seed, epochs=1, threads=THREADS).items_per_s)
        with cage(out.parent, disk_bps=disk_bps) as held:
            done = words_in_parts(bench, out, seed, epochs=1, wrap=held.wrap).result
            moved = held.disk_bytes
        rates["disk"].append(done["items_per_s"])
    return _ratio(bench, name, rates, done, moved, "words/s")


def words_in_parts(bench: Bench, out: Path, seed: int, epochs: int, wrap: Wrap | None = None) -> Done:
    """Skip-gram with a quarter of its table in memory."""
    return bench.ours(
        "any2vec_words_table.py", "--text", bench.words(), "--out", out, "--share", QUARTER, *words.MODEL, *words.RATE,
        "--epochs", epochs, "--threads", THREADS, "--seed", seed, wrap=wrap,
    )  # fmt: skip


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
    return _ratio(bench, name, rates, done, moved, "triples/s")


def _ratio(
    bench: Bench, name: str, rates: dict[str, list[float]], done: dict[str, Any], moved: dict[str, int], unit: str
) -> Reading:
    """done: the summary of the last run from the disk; moved: bytes that the kernel saw."""
    bench.runs[name] = {unit: rates, "last": done, "disk": moved}
    found = ratio_reading(rates["disk"], rates["memory"], unit, peer="in memory")
    waited = done["seconds_waited"] / done["train_seconds"]
    shape = f"p = {done['partitions']}, c = {done['capacity']}, order {done['order']}"
    rest = f"{moved['Read'] / 1e9:.2f} GB read, {moved['Write'] / 1e9:.2f} GB written, {waited:.1%} of the time waited"
    return Reading(value=found.value, text=f"{found.text}; {rest}; {shape}")


_WHAT = f"20 edges a node, dim {COLUMNS - 1}, {NEGATIVES} negatives, p = {PARTITIONS}, c = {CAPACITY}, O_DIRECT"


def _speed_measures(unit: str, what: str) -> tuple[Measure, ...]:
    return (
        Measure(
            name=f"{unit} over the run in memory, disk throttled to 500 MB/s: {what}", relation=">=", target=0.85,
            unit="x",
        ),
        Measure(name="the same, disk as it is", relation=">=", target=0.95, unit="x"),
    )  # fmt: skip


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
        measures=_speed_measures("triples/s", f"ComplEx, 100 relations, {_WHAT}"),
        run=partial(speed, model=("--model", "complex", "--relations", 100)),
        minutes=3,
    ),
    Row(
        name="speed-out-of-core-graph",
        measures=_speed_measures(
            "edges/s", f"a plain graph, where in memory all edges of a node share a step's scores, {_WHAT}"
        ),
        run=partial(speed, model=("--model", "dot", "--relations", 1)),
        minutes=2,
    ),
    Row(
        name="speed-out-of-core-words",
        measures=_speed_measures(
            "words/s", f"skip-gram, text-enwiki2015, dim {words.DIM}, a quarter of the table in memory, O_DIRECT"
        ),
        run=words_speed,
        minutes=5,
    ),
)  # fmt: skip

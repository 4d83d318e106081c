"""The row about the cache that looks ahead: whether Bagpipe is synchronous training."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np

from benchmarks.bench import ONE_BLAS_THREAD, Bench, run
from benchmarks.table import Measure, Reading, Row

EXACT_STREAM = {"columns": 8, "rows": 2000, "dense": 4, "zipf": 1.1, "multi_valued": 2}
EXACT_EXAMPLES = 12_000
EXACT_OPTIONS = {"dim": 8, "batch_size": 64, "bottom": "32", "top": "32"}
LOOK_AHEAD = (1, 3, 10, 200)
OPTIMIZERS = ("sgd", "adagrad", "adam")
PROCESSES = (("sgd", 2, 1), ("adagrad", 2, 1), ("adam", 2, 1), ("adagrad", 3, 0))
"""optimizer, trainers and servers of the runs as real processes, with a look-ahead of 10"""


def bagpipe_exact(bench: Bench) -> list[Reading]:
    """Numbers that differ in any bit from synchronous training without a cache."""
    quick = bench.quick
    asked = (
        "--stream", json.dumps(EXACT_STREAM), "--examples", EXACT_EXAMPLES // 6 if quick else EXACT_EXAMPLES,
        "--options", json.dumps(EXACT_OPTIONS), "--optimizers", *(OPTIMIZERS[:1] if quick else OPTIMIZERS),
        "--trainers", *((2,) if quick else (1, 2, 3)), "--servers", *((1,) if quick else (0, 1)),
        "--look-ahead", *(LOOK_AHEAD[:1] if quick else LOOK_AHEAD),
    )  # fmt: skip
    found = bench.kept("clicks", asked, lambda: bench.ours("any2vec_bagpipe.py", *asked).result)
    runs = found["runs"]
    differ = sum(sum(one["differ"].values()) for one in runs)
    compared = sum(sum(one["of"].values()) for one in runs)
    apart = {
        f"{optimizer}, {trainers} trainers, {servers} servers": _as_processes(bench, optimizer, trainers, servers)
        for optimizer, trainers, servers in (PROCESSES[:1] if quick else PROCESSES)
    }
    bench.runs |= {"logical hosts": runs, "processes": apart}
    return [
        Reading(
            value=differ,
            text=f"{differ} of {compared:,} numbers differ in {len(runs)} runs (tables with the optimizers' state, and "
            f"dense weights; look-ahead {', '.join(sorted({str(one['look_ahead']) for one in runs}, key=int))})",
        ),
        Reading(
            value=sum(apart.values()), text=f"{sum(apart.values())} bytes of the results differ; {'; '.join(apart)}"
        ),
    ]


def _as_processes(bench: Bench, optimizer: str, trainers: int, servers: int) -> int:
    """Bytes of vectors and dense layers that differ, each host a process."""
    clicks = bench.made("clicks-exact.tsv", _write_clicks)
    folders = []
    for cache in ("none", "bagpipe:10"):
        out = bench.scratch(f"clicks-{cache.replace(':', '-')}")
        command = [
            sys.executable, "-m", "any2vec", "train", "dlrm", clicks, "--schema", clicks.with_suffix(".toml"),
            "--hosts", trainers, "--servers", servers, "--sync", "bsp", "--cache", cache,
            "--threads", 1, "--optimizer", optimizer, "--out", out, "--overwrite", "--json", "--quiet",
            *(word for name, value in EXACT_OPTIONS.items() for word in (f"--{name.replace('_', '-')}", value)),
        ]  # fmt: skip
        run([str(word) for word in command], os.environ | ONE_BLAS_THREAD | {"ANY2VEC_CACHE": str(bench.cache)})
        folders.append(out)
    return sum(_differing(*(folder / name for folder in folders)) for name in RESULTS)


RESULTS = ("vectors.safetensors", "dense.safetensors")


def _differing(one: Path, other: Path) -> int:
    first, second = one.read_bytes(), other.read_bytes()
    if len(first) != len(second):
        return max(len(first), len(second))
    return int((np.frombuffer(first, np.uint8) != np.frombuffer(second, np.uint8)).sum())


def _write_clicks(target: Path) -> None:
    from any2vec.testing.planted_clicks import PlantedClicks, write_tsv

    write_tsv(PlantedClicks(EXACT_EXAMPLES // 3, **EXACT_STREAM), target)


ROWS = (
    Row(
        name="bagpipe-exact",
        measures=(
            Measure(
                name="bagpipe against bsp without a cache: 1, 2, 3 trainers, trainers or a server own the rows, three "
                "optimizers, logical hosts",
                relation="<=", wording="identical bits",
            ),
            Measure(name="the same as processes", relation="<=", wording="identical bits"),
        ),
        run=bagpipe_exact,
        minutes=6,
        keeps_runs=True,
    ),
)  # fmt: skip

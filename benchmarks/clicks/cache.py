"""Rows about caches of trained rows: what HET's bounds save and cost, and whether Bagpipe is synchronous training."""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench import ONE_BLAS_THREAD, Bench, run
from benchmarks.clicks.runs import planted_runs
from benchmarks.table import Measure, Reading, Row

COLUMNS, ROWS_OF_A_COLUMN, DIM, BATCH, TRAINERS = 26, 100_000, 16, 2048, 2
SHARE = 0.1
"""of all rows that a trainer's cache holds"""
STEPS, LONG = 600, 1000
"""batches of a trainer; and of one run of each stream, which shows whether the saving is stable by then: rows that
nobody has read before become rarer, and so do rows that the cache makes itself, for nobody has changed them"""
TEST = 200_000
ZIPFS = {1.3: 0.8, 1.1: 0.7}
"""exponent of the stream -> share of the bytes that is to be saved"""
BOUND, BOUNDS = 100, (0, 1, 10, 100, 1000)
SEEDS = range(1, 9)
"""one run in a few ends 0.002 of AUC above the others of its kind, whatever the bound (docs/log.md)"""
OPTIONS = {"dim": DIM, "batch_size": BATCH, "learning_rate": 0.02, "bottom": "32", "top": "64-32"}
"""bytes of rows do not depend on the dense layers, so they are small here"""
SPREAD = {"logical_hosts": TRAINERS, "servers": 1, "sync": "fr-ma:1", "cache_rows": SHARE, "rounds_per_epoch": 1}
"""dense layers are averaged at every step, as in HET; trainers flush at the end alone"""
EXACT_STREAM = {"columns": 8, "rows": 2000, "dense": 4, "zipf": 1.1, "multi_valued": 2}
EXACT_EXAMPLES = 12_000
EXACT_OPTIONS = {"dim": 8, "batch_size": 64, "bottom": "32", "top": "32"}
LOOK_AHEAD = (1, 3, 10, 200)
OPTIMIZERS = ("sgd", "adagrad", "adam")
PROCESSES = (("sgd", 2, 1), ("adagrad", 2, 1), ("adam", 2, 1), ("adagrad", 3, 0))
"""optimizer, trainers and servers of the runs as real processes, with a look-ahead of 10"""


def het_bytes(bench: Bench) -> list[Reading]:
    """Bytes of rows against no cache, AUC against bound 0, bytes against a cache that knows the whole trace."""
    readings = [_saving(bench, zipf) for zipf in ZIPFS]
    losses = {zipf: _auc_lost(bench, zipf) for zipf in ZIPFS}
    over = {zipf: _counted(_run(bench, zipf, BOUND)) / _ideal(bench, zipf) for zipf in ZIPFS}
    curves = {zipf: _curve(bench, zipf) for zipf in ZIPFS}
    old_reads = {zipf: _run(bench, zipf, BOUND, push_bound=0) for zipf in ZIPFS}
    bench.runs["options"] = {"spread": SPREAD, "model": OPTIONS, "steps": _steps(bench), "test": _test(bench)}
    bench.runs["targets"] = {str(zipf): share for zipf, share in ZIPFS.items()}
    bench.runs["bytes over those of the ideal cache"] = {str(zipf): ratio for zipf, ratio in over.items()}
    worst = max(losses, key=lambda zipf: abs(losses[zipf]["auc"]))
    reported = "; ".join(
        f"Zipf {zipf}: AUC {loss['auc']:+.5f} ± {loss['error']:.5f} (seeds {loss['by_seed']}), normalized entropy "
        f"{loss['entropy']:+.4f}"
        for zipf, loss in losses.items()
    )
    shown = "; ".join(
        f"Zipf {zipf}: " + ", ".join(f"{bound}: {100 * point['saved']:.1f} %" for bound, point in curve.items())
        for zipf, curve in curves.items()
    )
    beside = "; ".join(f"Zipf {zipf}: {_warned(bench, zipf, found)}" for zipf, found in old_reads.items())
    return [
        *readings,
        Reading(value=abs(losses[worst]["auc"]), text=reported),
        Reading(value=max(over.values()), text=", ".join(f"Zipf {zipf}: {of:.3f}×" for zipf, of in over.items())),
        Reading(value=curves[1.3][BOUND]["saved"], text=shown),
        Reading(value=_saved(bench, 1.3, old_reads[1.3]), text=beside),
    ]


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


def _saving(bench: Bench, zipf: float) -> Reading:
    """Share of the bytes of no cache that bound 100 saves: the least of two lengths of the stream."""
    steps = (_steps(bench),) if bench.quick else (STEPS, LONG)
    found = {number: _run(bench, zipf, BOUND, steps=number) for number in steps}
    bench.runs[f"Zipf {zipf}, saved by steps"] = {
        str(number): _saved(bench, zipf, run) for number, run in found.items()
    }
    text = "; ".join(f"{number} batches {_warned(bench, zipf, run)}" for number, run in found.items())
    return Reading(value=min(_saved(bench, zipf, run) for run in found.values()), text=text)


def _auc_lost(bench: Bench, zipf: float) -> dict[str, Any]:
    """Mean differences of bound 100 to bound 0, over seeds, on examples that neither has seen."""
    seeds = SEEDS[:1] if bench.quick else SEEDS
    pairs = [(_run(bench, zipf, BOUND, seed=seed), _run(bench, zipf, 0, seed=seed)) for seed in seeds]
    auc = [late["auc"] - exact["auc"] for late, exact in pairs]
    entropy = [late["normalised_entropy"] - exact["normalised_entropy"] for late, exact in pairs]
    bench.runs[f"Zipf {zipf}, by seed: bound {BOUND} and bound 0"] = [
        [{name: side[name] for name in ("auc", "normalised_entropy", "log_loss")} for side in pair] for pair in pairs
    ]
    by_seed = " ".join(f"{difference:+.4f}" for difference in auc)
    error = statistics.stdev(auc) / len(auc) ** 0.5 if len(auc) > 1 else 0.0
    return {"auc": statistics.fmean(auc), "error": error, "by_seed": by_seed, "entropy": statistics.fmean(entropy)}


def _curve(bench: Bench, zipf: float) -> dict[int, dict[str, float]]:
    """Bound -> share saved, and quality."""
    bounds = (0, BOUND) if bench.quick else BOUNDS
    curve = {}
    for bound in bounds:
        found = _run(bench, zipf, bound)
        curve[bound] = {"saved": _saved(bench, zipf, found), "auc": found["auc"], "log_loss": found["log_loss"]}
    bench.runs[f"Zipf {zipf}, by bound"] = {str(bound): point for bound, point in curve.items()}
    bench.runs[f"Zipf {zipf}, counts at bound {BOUND}"] = _run(bench, zipf, BOUND)["rows_of_hosts"]
    return curve


def _run(
    bench: Bench, zipf: float, bound: int | None, seed: int = 1, steps: int = 0, push_bound: int | None = None
) -> dict[str, Any]:  # fmt: skip
    """One run with a cache of a bound; None: without a cache."""
    steps, held = steps or _steps(bench), _test(bench)
    size = steps * BATCH * TRAINERS
    start = (seed - 1) * (_steps(bench) * BATCH * TRAINERS + held)
    hosts = SPREAD | {"cache": "none" if bound is None else f"het:{bound}"}
    test = (start + size, start + size + held)
    cut = (start, start + size), test
    found = planted_runs(bench, _stream(bench, zipf), *cut, OPTIONS, [hosts], seed, push_bound)
    one: dict[str, Any] = found["runs"][0]
    return one


def _warned(bench: Bench, zipf: float, found: Mapping[str, Any]) -> str:
    metrics = found["rows_of_hosts"]
    rows = metrics["rows_up"] + metrics["rows_down"]
    return (
        f"−{100 * _saved(bench, zipf, found):.1f} %: {_corpus(found) / 1e6:.0f} MB, of them metadata "
        f"{100 * (1 - rows / _counted(found)):.0f} %; AUC {found['auc']:.4f}"
    )


def _saved(bench: Bench, zipf: float, found: Mapping[str, Any]) -> float:
    """Of what the same batches would have sent without a cache: so many bytes for each distinct row of each batch."""
    short = _run(bench, zipf, None, steps=min(20, _steps(bench)))
    phases = short["bytes_by_phase"]
    each = (phases["pull"] + phases["push"]) / short["rows_of_hosts"]["rows_pulled"]
    bench.runs[f"Zipf {zipf}, bytes of a row without a cache"] = each
    metrics = found["rows_of_hosts"]
    reads = sum(metrics.get(name, 0) for name in ("hits", "refreshes", "misses", "passed", "shared"))
    return 1 - _corpus(found) / (each * reads)


def _corpus(found: Mapping[str, Any]) -> int:
    """Bytes of the cache's messages, their heads included."""
    size: int = found["bytes_by_phase"]["call"]
    return size


def _counted(found: Mapping[str, Any]) -> int:
    """The same without heads of messages, as the ideal is counted."""
    return sum(found["rows_of_hosts"][name] for name in ("rows_up", "rows_down", "metadata_up", "metadata_down"))


def _ideal(bench: Bench, zipf: float) -> int:
    """Bytes with the hottest rows of the whole trace in each cache from first to last, and one bound for all rows: it
    does not even send what ours does for young rows."""
    from any2vec.testing.planted_clicks import PlantedClicks
    from benchmarks.clicks.ideal_cache import hottest, ideal_traffic

    steps = _steps(bench)

    def make() -> dict[str, int]:
        clicks = PlantedClicks(steps * BATCH * TRAINERS, **_stream(bench, zipf))

        def trace() -> Iterator[list[np.ndarray]]:
            for step in range(steps):
                starts = (BATCH * (step + steps * trainer) for trainer in range(TRAINERS))
                yield [np.unique(clicks.batch(start, start + BATCH).id_M) for start in starts]

        is_kept_V = hottest(trace(), clicks.num_rows, round(SHARE * clicks.num_rows))
        traffic = ideal_traffic(trace(), is_kept_V, DIM + 1, BOUND, BOUND, makes_fresh=True, is_even=True)
        return traffic._asdict() | {"num_bytes": traffic.num_bytes}

    found = bench.kept("clicks-ideal", [zipf, steps], make)
    bench.runs[f"Zipf {zipf}, ideal cache"] = found
    return int(found["num_bytes"])


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


def _stream(bench: Bench, zipf: float) -> dict[str, Any]:
    return {"columns": COLUMNS, "rows": 1000 if bench.tiny else ROWS_OF_A_COLUMN, "zipf": zipf}


def _steps(bench: Bench) -> int:
    return 2 if bench.tiny else 8 if bench.quick else STEPS


def _test(bench: Bench) -> int:
    return TEST // 100 if bench.tiny else TEST // 10 if bench.quick else TEST


_SHAPE = f"26 columns × 100 k rows, dim 16, batch 2048, {TRAINERS} trainers, 1 server, cache of 10 % of the rows"
ROWS = (
    Row(
        name="het-bytes",
        measures=(
            *(
                Measure(
                    name=f"{_SHAPE}, {STEPS} and {LONG} batches each, Zipf {zipf}: row bytes, metadata counted, that "
                    f"bound {BOUND} saves of those without a cache",
                    relation=">=", target=share, wording=f"≥ {100 * share:.0f} %",
                )
                for zipf, share in ZIPFS.items()
            ),
            Measure(
                name=f"AUC of bound 100 less bound 0, held out, mean of {len(SEEDS)} seeds", relation="<=",
                target=0.001, wording="within 0.001",
            ),
            Measure(
                name="bytes over those of the ideal cache with the bound for all rows", relation="<=", target=1.1,
                unit="x",
            ),
            Measure(name="bytes saved by bound", relation="", wording="reported"),
            Measure(
                name="a cache that tolerates old reads alone (pull bound 100, push bound 0)", relation="",
                wording="reported",
            ),
        ),
        run=het_bytes,
        minutes=25,
        keeps_runs=True,
    ),
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

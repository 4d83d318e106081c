"""Rows about HET's cache of trained rows: what its bounds save, and what they cost."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.bench import Bench
from benchmarks.clicks.ideal_cache import Traffic, hottest, ideal_traffic
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
SEEDS = tuple(range(1, 9))
"""one run in a few ends 0.002 of AUC above the others of its kind, whatever the bound (docs/log.md)"""
OTHER_SEEDS = (3, 4, 5)
"""of the variants: seeds 1 and 2 chose the share of young rows' updates"""
OPTIONS = {"dim": DIM, "batch_size": BATCH, "learning_rate": 0.02, "bottom": "32", "top": "64-32"}
"""bytes of rows do not depend on the dense layers, so they are small here"""
SPREAD = {"logical_hosts": TRAINERS, "servers": 1, "sync": "fr-ma:1", "cache_rows": SHARE, "rounds_per_epoch": 1}
"""dense layers are averaged at every step, as in HET; trainers flush at the end alone"""
EXACT, JUDGED = "het:0", f"het:{BOUND}"
VARIANTS = {
    "het-oracle": (f"{JUDGED}:static", "rows that occur most in all data, those to come included, stay"),
    "het-young": (f"het-young:{BOUND}", "a bound of 0.3 of the updates that a row has had, from 20 to 100"),
    "het-occurrences": (f"het-occurrences:{BOUND}", "an update is an occurrence of a row, not a batch that has it"),
}
"""row -> its cache, and how it differs from that of het-bytes"""


@dataclass(frozen=True)
class Case:
    """A run of so many batches a trainer, on the part of its stream that belongs to its seed."""

    zipf: float
    cache: str
    steps: int
    seed: int = 1
    push_bound: int | None = None
    """where it is not the pull bound"""


def het_bytes(bench: Bench) -> list[Reading]:
    """Bytes of rows against no cache, AUC against bound 0, bytes against a cache that knows the whole trace."""
    lengths = (_steps(bench),) if bench.quick else (STEPS, LONG)
    judged = {zipf: Case(zipf, JUDGED, _steps(bench)) for zipf in ZIPFS}
    saving = [_saving(bench, [replace(case, steps=steps) for steps in lengths]) for case in judged.values()]
    losses = [_auc_lost(bench, case, SEEDS) for case in judged.values()]
    over = {zipf: _over_ideal(bench, case) for zipf, case in judged.items()}
    curves = {zipf: _curve(bench, case) for zipf, case in judged.items()}
    old_reads = {zipf: replace(case, push_bound=0) for zipf, case in judged.items()}
    bench.runs["options"] = {"spread": SPREAD, "model": OPTIONS, "steps": _steps(bench), "test": _test(bench)}
    bench.runs["targets"] = {str(zipf): share for zipf, share in ZIPFS.items()}
    shown = "; ".join(
        f"Zipf {zipf}: " + ", ".join(f"{bound}: {100 * point['saved']:.1f} %" for bound, point in curve.items())
        for zipf, curve in curves.items()
    )
    return [
        *saving,
        *losses,
        Reading(value=max(over.values()), text=", ".join(f"Zipf {zipf}: {of:.3f}×" for zipf, of in over.items())),
        Reading(value=curves[1.3][BOUND]["saved"], text=shown),
        Reading(
            value=_saved(bench, old_reads[1.3]),
            text="; ".join(f"Zipf {zipf}: {_told(bench, case)}" for zipf, case in old_reads.items()),
        ),
    ]


def variant(name: str, bench: Bench) -> list[Reading]:
    """What another cache saves and costs at the same bound, on other parts of the streams."""
    cases = [Case(zipf, VARIANTS[name][0], _steps(bench), OTHER_SEEDS[0]) for zipf in ZIPFS]
    return [
        *(_saving(bench, [case]) for case in cases),
        *(_auc_lost(bench, case, OTHER_SEEDS) for case in cases),
        Reading(
            value=max(_over_ideal(bench, case) for case in cases),
            text="; ".join(
                f"Zipf {case.zipf}: {_over_ideal(bench, case):.3f}×, het-bytes' cache on the same batches "
                f"{_over_ideal(bench, other):.3f}× and {_told(bench, other)}"
                for case, other in ((case, replace(case, cache=JUDGED)) for case in cases)
            ),
        ),
    ]


def _saving(bench: Bench, cases: Sequence[Case]) -> Reading:
    """Share of the bytes without a cache that is saved: the least of several lengths of the stream."""
    saved = {case.steps: _saved(bench, case) for case in cases}
    bench.runs[f"Zipf {cases[0].zipf}, saved by steps"] = {str(steps): share for steps, share in saved.items()}
    bench.runs[f"Zipf {cases[0].zipf}, counts"] = _run(bench, cases[0])["rows_of_hosts"]
    text = "; ".join(f"{case.steps} batches {_told(bench, case)}" for case in cases)
    return Reading(value=min(saved.values()), text=text)


def _auc_lost(bench: Bench, case: Case, seeds: Sequence[int]) -> Reading:
    """Differences to bound 0, a seed each, on examples that neither has seen."""
    pairs = [
        [_run(bench, replace(case, cache=cache, seed=seed)) for cache in (case.cache, EXACT)]
        for seed in (seeds[:1] if bench.quick else seeds)
    ]
    auc = [late["auc"] - exact["auc"] for late, exact in pairs]
    entropy = statistics.fmean(late["normalized_entropy"] - exact["normalized_entropy"] for late, exact in pairs)
    bench.runs[f"Zipf {case.zipf}, by seed: {case.cache} and bound 0"] = [
        [{name: side[name] for name in ("auc", "normalized_entropy", "log_loss")} for side in pair] for pair in pairs
    ]
    each = " ".join(f"{difference:+.4f}" for difference in auc)
    text = f"{statistics.fmean(auc):+.5f}: by seed {each}; normalized entropy {entropy:+.4f}"
    return Reading.within(auc, text)


def _curve(bench: Bench, case: Case) -> dict[int, dict[str, float]]:
    """Bound -> share saved, and quality."""
    curve = {}
    for bound in (0, BOUND) if bench.quick else BOUNDS:
        at = replace(case, cache=f"het:{bound}")
        found = _run(bench, at)
        curve[bound] = {"saved": _saved(bench, at), "auc": found["auc"], "log_loss": found["log_loss"]}
    bench.runs[f"Zipf {case.zipf}, by bound"] = {str(bound): point for bound, point in curve.items()}
    return curve


def _run(bench: Bench, case: Case) -> dict[str, Any]:
    """The run, or what is kept of it."""
    start, stop = _part(bench, case)
    cut, hosts = ((start, stop), (stop, stop + _test(bench))), SPREAD | {"cache": case.cache}
    found = planted_runs(bench, _stream(bench, case.zipf), *cut, OPTIONS, [hosts], case.seed, case.push_bound)
    one: dict[str, Any] = found["runs"][0]
    return one


def _part(bench: Bench, case: Case) -> tuple[int, int]:
    """Examples of the stream that a case trains on; those that are held out are behind them."""
    start = (case.seed - 1) * (_steps(bench) * BATCH * TRAINERS + _test(bench))
    return start, start + case.steps * BATCH * TRAINERS


def _told(bench: Bench, case: Case) -> str:
    found = _run(bench, case)
    metrics = found["rows_of_hosts"]
    rows = metrics["rows_up"] + metrics["rows_down"]
    return (
        f"saves {100 * _saved(bench, case):.1f} %: {_whole(found) / 1e6:.0f} MB, of them metadata "
        f"{100 * (1 - rows / _counted(found)):.0f} %; AUC {found['auc']:.4f}"
    )


def _saved(bench: Bench, case: Case) -> float:
    return 1 - _whole(_run(bench, case)) / _without_cache(bench, case)


def _without_cache(bench: Bench, case: Case) -> float:
    """Bytes of the same batches without a cache: so many for each distinct row of each batch, both ways, but no values
    of a row that nobody has changed yet, which a worker can make without a cache, too."""
    short = _run(bench, replace(case, cache="none", steps=min(20, _steps(bench)), push_bound=None))
    phases = short["bytes_by_phase"]
    each = (phases["pull"] + phases["push"]) / short["rows_of_hosts"]["rows_pulled"]
    traffic = _traffic(bench, case, 0.0)
    bench.runs[f"Zipf {case.zipf}, {case.steps} batches without a cache"] = {
        "bytes of a row": each, "reads": traffic.reads, "pulled": traffic.pulled
    }  # fmt: skip
    return each * traffic.reads - 4 * DIM * (traffic.reads - traffic.pulled)


def _over_ideal(bench: Bench, case: Case) -> float:
    """Bytes over those with the hottest rows of the whole trace in each cache from first to last."""
    ideal = _traffic(bench, case, SHARE)
    bench.runs[f"Zipf {case.zipf}, ideal cache"] = ideal._asdict()
    return _counted(_run(bench, case)) / ideal.num_bytes


def _traffic(bench: Bench, case: Case, share: float) -> Traffic:
    """What a cache sends that holds this share of the rows, those that the case's whole trace reads most."""

    def make() -> dict[str, int]:
        from any2vec.testing.planted_clicks import PlantedClicks

        first, stop = _part(bench, case)
        clicks = PlantedClicks(stop, **_stream(bench, case.zipf))

        def trace() -> Iterator[list[np.ndarray]]:
            for step in range(case.steps):
                starts = (first + BATCH * (step + case.steps * trainer) for trainer in range(TRAINERS))
                yield [np.unique(clicks.batch(start, start + BATCH).id_M) for start in starts]

        kept = round(share * clicks.num_rows)
        is_kept_V = hottest(trace(), clicks.num_rows, kept) if kept else np.zeros(clicks.num_rows, bool)
        return ideal_traffic(trace(), is_kept_V, DIM + 1, BOUND, BOUND, makes_fresh=True)._asdict()

    asked = [_stream(bench, case.zipf), case.steps, case.seed, share]
    return Traffic(**bench.kept("clicks-ideal", asked, make))


def _whole(found: Mapping[str, Any]) -> int:
    """Bytes of the cache's messages, their heads included."""
    size: int = found["bytes_by_phase"]["call"]
    return size


def _counted(found: Mapping[str, Any]) -> int:
    """The same without heads of messages, as the ideal is counted."""
    return sum(found["rows_of_hosts"][name] for name in ("rows_up", "rows_down", "metadata_up", "metadata_down"))


def _stream(bench: Bench, zipf: float) -> dict[str, Any]:
    return {"columns": COLUMNS, "rows": 1000 if bench.tiny else ROWS_OF_A_COLUMN, "zipf": zipf}


def _steps(bench: Bench) -> int:
    return 2 if bench.tiny else 8 if bench.quick else STEPS


def _test(bench: Bench) -> int:
    return TEST // 100 if bench.tiny else TEST // 10 if bench.quick else TEST


def _saving_measures(what: str, lengths: str) -> tuple[Measure, ...]:
    return tuple(
        Measure(
            name=f"{what}, {lengths} batches each, Zipf {zipf}: row bytes, metadata counted, saved of those without a "
            "cache, where rows that nobody has changed are not fetched either",
            relation=">=", target=share, wording=f"≥ {100 * share:.0f} %",
        )
        for zipf, share in ZIPFS.items()
    )  # fmt: skip


def _auc_measures(seeds: Sequence[int]) -> tuple[Measure, ...]:
    return tuple(
        Measure(
            name=f"Zipf {zipf}: AUC less that of bound 0, held out, {len(seeds)} seeds", relation="<=", target=0.001,
            wording="within 0.001", is_accuracy=True,
        )
        for zipf in ZIPFS
    )  # fmt: skip


_SHAPE = f"26 columns × 100 k rows, dim 16, batch 2048, {TRAINERS} trainers, 1 server, 10 % of the rows, bound {BOUND}"
ROWS = (
    Row(
        name="het-bytes",
        measures=(
            *_saving_measures(f"{_SHAPE}, those read most so far are kept", f"{STEPS} and {LONG}"),
            *_auc_measures(SEEDS),
            Measure(
                name="bytes over those of the ideal cache, which holds the rows that the whole trace reads most",
                relation="<=", target=1.1, unit="x",
            ),
            Measure(name="bytes saved by bound", relation="", wording="reported"),
            Measure(
                name="a cache that tolerates old reads alone (pull bound 100, push bound 0)", relation="",
                wording="reported",
            ),
        ),
        run=het_bytes,
        minutes=30,
        keeps_runs=True,
        settings="a stream of another seed",
    ),
    *(
        Row(
            name=name,
            measures=(
                *_saving_measures(f"as het-bytes, but {how} (`--cache {cache}`)", f"{STEPS}"),
                *_auc_measures(OTHER_SEEDS),
                Measure(name="bytes over those of the ideal cache", relation="", wording="reported"),
            ),
            run=partial(variant, name),
            minutes=7,
            keeps_runs=True,
            settings="other parts of the streams",
        )
        for name, (cache, how) in VARIANTS.items()
    ),
)  # fmt: skip

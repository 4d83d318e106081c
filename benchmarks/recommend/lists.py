"""Rows about quality: Recall@20 and NDCG@20 beside the library implicit, all items ranked, each side tuned alike."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.bench import Bench
from benchmarks.recommend.sets import SETS, parts
from benchmarks.table import Measure, Reading, Row
from benchmarks.tuning import best_from_zero, best_inside

SEEDS, DIM = (1, 2, 3), 64
EPOCHS = {"bpr": 100, "als": 15}
"""implicit's defaults, of both sides"""
GRIDS: dict[str, dict[str, tuple[float, ...]]] = {
    "bpr": {"learning_rate": (0.02, 0.05, 0.125), "l2": (0.004, 0.01, 0.025)},
    "als": {"alpha": (2.0, 8.0, 32.0), "l2": (0.4, 2.0, 10.0)},
}
"""of both sides, named and meant as any2vec does; one setting after the other, twice"""
FROM_ZERO = {("bpr", "l2")}
"""(model, setting) that may be none at all"""
CHOOSING = {"bpr": SEEDS[:1], "als": SEEDS}
"""seeds whose mean on the validation cut chooses: ALS of alpha 2 and 4 differ there by less than seeds do"""
Side = Callable[..., dict[str, Any]]


def _ours(bench: Bench, *asked: object) -> dict[str, Any]:
    return bench.ours("any2vec_lists.py", *asked).result


def _theirs(bench: Bench, *asked: object) -> dict[str, Any]:
    return bench.peer("implicit", "implicit_lists.py", *asked).result


def _run(bench: Bench, side: Side, model: str, name: str, is_chosen: bool, seed: int, **settings: float) -> Any:
    settings = {"dim": DIM, "epochs": 2 if bench.quick else EPOCHS[model]} | settings
    return side(bench, parts(bench, name, is_chosen), model, seed, json.dumps(settings))


def _chosen(bench: Bench, side: Side, model: str, name: str) -> dict[str, float]:
    """The settings of the highest mean NDCG on the validation cut."""
    found = {setting: grid[1] for setting, grid in GRIDS[model].items()}
    if bench.quick:
        return found
    scores: dict[str, Any] = {}
    for _ in range(2):
        for setting, grid in GRIDS[model].items():

            def score(value: float, setting: str = setting) -> float:
                given = found | {setting: value}
                scored = []
                for seed in CHOOSING[model]:
                    key = side, model, name, seed, json.dumps(given, sort_keys=True)
                    scored.append(bench.once(key, partial(_run, bench, side, model, name, True, seed, **given))["ndcg"])
                return statistics.fmean(scored)

            search = best_from_zero if (model, setting) in FROM_ZERO else best_inside
            found[setting], scores[setting] = search(grid, score)
    bench.runs[f"{name} {side.__name__}"] = {"chosen": found, "scores": scores}
    return found


def beside(model: str, bench: Bench) -> list[Reading]:
    readings = []
    for name in SETS:
        chosen = {side: _chosen(bench, side, model, name) for side in (_theirs, _ours)}
        found: dict[Side, list[Any]] = {_theirs: [], _ours: []}
        for seed in SEEDS[:1] if bench.quick else SEEDS:
            for side, settings in chosen.items():
                found[side].append(_run(bench, side, model, name, False, seed, **settings))
        bench.runs[name] = {side.__name__: runs for side, runs in found.items()}
        for metric in ("recall", "ndcg"):
            ours, theirs = ([run[metric] for run in found[side]] for side in (_ours, _theirs))
            text = f"{statistics.fmean(ours):.4f} / implicit {statistics.fmean(theirs):.4f}"
            readings.append(Reading.of_seeds([mine - other for mine, other in zip(ours, theirs, strict=True)], text))
    return readings


def _row(model: str, minutes: float) -> Row:
    measures = tuple(
        Measure(
            name=f"{name}, {model}, dim {DIM}, {EPOCHS[model]} epochs: {metric}@20 over all items, less implicit's",
            relation=">=", target=0.0, is_accuracy=True,
        )
        for name in SETS for metric in ("Recall", "NDCG")
    )  # fmt: skip
    settings = "each side's, over the same grid, on a tenth of each user's training items"
    return Row(name=model, measures=measures, run=partial(beside, model), minutes=minutes, settings=settings)


ROWS = (_row("bpr", 120), _row("als", 60))

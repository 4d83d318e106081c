"""The row about what synchronization behind the workers costs in quality: many logical trainers, one pass, held out.

Every trainer sees 1/N of the examples once, so a model of more trainers is worse, however they agree; what is judged is
whether the shadow is worse than the same rule carried out by the workers themselves, every 5 iterations.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.bench import Bench
from benchmarks.clicks.runs import planted_runs
from benchmarks.table import Measure, Reading, Row

RULES = ("easgd", "ma", "bmuf")
TRAINERS = (1, 2, 4, 8, 16)
SEEDS = (1, 2, 3)
EVERY = 5
STREAM = {"columns": 8, "rows": 1000, "dense": 4, "zipf": 1.2}
TRAIN, TEST = 200_000, 100_000
"""examples of a seed's slice of the stream, and of the next one, on which its models are scored"""
OPTIONS = {
    "dim": 8, "bottom": "32", "top": "64-32", "batch_size": 128, "learning_rate": 0.05, "dense_learning_rate": 0.02,
}  # fmt: skip


@dataclass(frozen=True)
class Lead:
    """Normalized entropy of the shadow less that of its twin at a fixed rate: below 0 the shadow is better."""

    mean: float
    """over seeds and numbers of trainers"""
    error: float
    """its standard error"""
    by_trainers: dict[int, float]
    """means over seeds"""
    error_of_one: float
    """standard error of each of those"""


def lead(shadow: Mapping[int, Sequence[float]], fixed: Mapping[int, Sequence[float]]) -> Lead:
    """Paired: both sides of a difference have the seed, the slices and the number of trainers in common.

    Args: {trainers: normalized entropies in the order of seeds}. What differs between numbers of trainers is no error,
    and is not counted as one: the variance of the mean is that of each number's mean, added up. Three seeds alone say
    little about a single number of trainers, so for those the variance is pooled over all that are more than one (one
    trainer agrees with nobody, and hardly differs).
    """
    pairs = {count: [one - two for one, two in zip(shadow[count], fixed[count], strict=True)] for count in shadow}
    means = {count: statistics.fmean(found) for count, found in pairs.items()}
    seeds = min(len(found) for found in pairs.values())
    spread = {count: statistics.variance(found) if seeds > 1 else 0.0 for count, found in pairs.items()}
    many = [found for count, found in spread.items() if count > 1] or [0.0]
    error = math.sqrt(sum(spread.values()) / seeds) / len(means)
    return Lead(statistics.fmean(means.values()), error, means, math.sqrt(statistics.fmean(many) / seeds))


def chance(one: Mapping[int, Sequence[float]], other: Mapping[int, Sequence[float]]) -> float:
    """Standard deviation of a run whose rule, seed and slices are the same: threads take turns as they happen to."""
    pairs = [
        (first - second) ** 2
        for count in one
        if count > 1
        for first, second in zip(one[count], other[count], strict=True)
    ]
    return math.sqrt(statistics.fmean(pairs) / 2)


def shadow_quality(bench: Bench) -> list[Reading]:
    """Normalized entropy of three rules, behind the workers and every 5 iterations."""
    seeds, trainers = (SEEDS[:1], TRAINERS[:2]) if bench.quick else (SEEDS, TRAINERS)
    found = {(seed, count): _runs(bench, seed, count) for count in trainers for seed in seeds}
    entropies = {
        name: {count: [found[seed, count]["entropy"][name] for seed in seeds] for count in trainers}
        for name in (*map(shadow, RULES), *map(fixed, RULES))
    }
    one = [found[seed, 1]["entropy"]["one trainer"] for seed in seeds]
    floor = [found[seed, 1]["floor"] for seed in seeds]
    bench.runs |= {"stream": STREAM, "options": OPTIONS, "train": TRAIN, "test": TEST, "seeds": list(seeds)}
    bench.runs["entropy"] = entropies | {"one trainer": {1: one}, "Bayes floor": {1: floor}}
    bench.runs["syncs"] = {f"seed {seed}, {count} trainers": run["syncs"] for (seed, count), run in found.items()}
    bench.runs["seconds of training, other work beside it"] = sum(run["seconds"] for run in found.values())
    readings = [_reading(rule, entropies, found) for rule in RULES]
    most = max(trainers)
    cost = {name: statistics.fmean(by_count[most]) - statistics.fmean(one) for name, by_count in entropies.items()}
    text = ", ".join(f"{name} {value:+.4f}" for name, value in cost.items())
    alone = statistics.fmean(one)
    # Without momentum both are the mean of the replicas: two runs of one rule.
    noise = chance(entropies[fixed("ma")], entropies[fixed("bmuf")])
    bounds = (
        f"one trainer {alone:.4f}, Bayes floor {statistics.fmean(floor):.4f}; {most} trainers less one: {text}; "
        f"a run again, by chance of its threads: ± {noise:.4f}"
    )
    return [*readings, Reading(value=alone, text=bounds)]


def shadow(rule: str) -> str:
    return f"shadow-{rule}"


def fixed(rule: str) -> str:
    return f"fr-{rule}:{EVERY}"


def _reading(rule: str, entropies: Any, found: Any) -> Reading:
    """One rule's figures."""
    ours, theirs = entropies[shadow(rule)], entropies[fixed(rule)]
    known = lead(ours, theirs)
    means = [statistics.fmean(statistics.fmean(values) for values in side.values()) for side in (ours, theirs)]
    by_count = ", ".join(f"{count}: {value:+.4f}" for count, value in known.by_trainers.items())
    gaps = {count: [] for count in ours}
    for (_, count), run in found.items():
        gaps[count].append(run["syncs"][shadow(rule)]["gap"])
    reported = ", ".join(f"{statistics.fmean(values):.1f}" for values in gaps.values())
    return Reading(
        value=known.mean,
        target=2 * known.error,
        text=f"{means[0]:.4f} / FR-{EVERY} {means[1]:.4f}: {known.mean:+.5f} ± {known.error:.5f}; "
        f"by trainers {by_count} (each ± {known.error_of_one:.4f}); measured gaps {reported}",
    )


def _runs(bench: Bench, seed: int, count: int) -> dict[str, Any]:
    """All rules with so many trainers on one seed's slices, in one process."""
    size, held = (TRAIN // 40, TEST // 10) if bench.quick else (TRAIN, TEST)
    size, held = (TRAIN // 200, TEST // 100) if bench.tiny else (size, held)
    start = (seed - 1) * (size + held)
    names = [*map(shadow, RULES), *map(fixed, RULES)]
    hosts: list[dict[str, Any] | None] = [{"logical_hosts": count, "sync": name} for name in names]
    if count == 1:
        names, hosts = [*names, "one trainer"], [*hosts, None]
    cut = (start, start + size), (start + size, start + size + held)
    found = planted_runs(bench, STREAM, *cut, OPTIONS, hosts, seed)
    runs = dict(zip(names, found["runs"], strict=True))
    syncs = {name: _syncs(run["dense_of_hosts"], count) for name, run in runs.items() if "dense_of_hosts" in run}
    return {
        "entropy": {name: run["normalised_entropy"] for name, run in runs.items()},
        "floor": found["bayes"]["normalised_entropy"],
        "seconds": sum(run["seconds"] for run in runs.values()),
        "syncs": syncs,
    }


def _syncs(metrics: Mapping[str, Any], count: int) -> dict[str, float]:
    """What was measured of syncs, a trainer."""
    return {
        "gap": metrics["sync_gap_mean"],
        "syncs": metrics["syncs"] / count,
        "iterations": metrics["iterations"] / count,
    }


ROWS = (
    Row(
        name="shadow-quality",
        measures=(
            *(
                Measure(
                    name=f"one pass of {TRAIN:,} planted examples, 1 to 16 logical trainers, 3 seeds, held-out "
                    f"normalized entropy: {shadow(rule)} less {fixed(rule)}",
                    relation="<=", wording="≤ 2 standard errors",
                )
                for rule in RULES
            ),
            Measure(
                name="the same of one trainer, of true probabilities, and what 16 trainers cost",
                relation="", wording="reported",
            ),
        ),
        run=shadow_quality,
        minutes=25,
        keeps_runs=True,
    ),
)  # fmt: skip

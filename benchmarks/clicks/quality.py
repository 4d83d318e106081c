"""Rows about what synchronization behind the workers costs in quality: many logical trainers, one pass, held out.

Every trainer sees 1/N of the examples once, so a model of more trainers is worse, however they agree; what is judged is
whether the shadow is worse than the same rule carried out by the workers themselves, every 5 iterations, for each
number of trainers by itself. Rules are those of ShadowSync: replicas interpolate towards the result (`blend`). Block
momentum is not zero; how much it is, is tuned for each side on seeds that do not judge.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.bench import Bench
from benchmarks.clicks.runs import planted_runs
from benchmarks.table import Measure, Reading, Row
from benchmarks.tuning import best_inside

RULES = ("easgd", "ma", "bmuf")
OWN = ("ma", "bmuf")
"""rules of which any2vec has a form of its own, `shift`"""
TRAINERS = (2, 4, 8, 16)
SEEDS = (1, 2, 3, 4, 5)
EVERY = 5
CARRIED = (0.5, 1.0, 2.0, 4.0)
"""tried for every side: m / (1 - m) of block momentum m, what a step of the model adds to those behind it"""
TUNE_SEEDS, TUNE_TRAINERS = (11, 12, 13), 8
STREAM = {"columns": 8, "rows": 1000, "dense": 4, "zipf": 1.2}
TRAIN, TEST = 200_000, 100_000
"""examples of a seed's slice of the stream, and of the next one, on which its models are scored"""
OPTIONS = {
    "dim": 8, "bottom": "32", "top": "64-32", "batch_size": 128, "learning_rate": 0.05, "dense_learning_rate": 0.02,
}  # fmt: skip
CHOSEN = f"momentum of each side: seeds {', '.join(map(str, TUNE_SEEDS))}, {TUNE_TRAINERS} trainers"

Entropies = Mapping[int, Sequence[float]]
"""number of trainers -> normalized entropies in the order of seeds"""


def shadow_quality(bench: Bench) -> list[Reading]:
    """Normalized entropy of ShadowSync's three rules, behind the workers less every 5 iterations."""
    seeds, trainers = _asked(bench)
    sides = [_published(bench, rule) for rule in RULES]
    names = [name for pair in sides for name in pair]
    found = _entropies(bench, names)
    alone = [_runs(bench, seed, 1, [None]) for seed in seeds]
    one = [run["runs"][0]["normalized_entropy"] for run in alone]
    floor = [run["bayes"]["normalized_entropy"] for run in alone]
    bench.runs |= {"stream": STREAM, "options": OPTIONS, "train": TRAIN, "test": TEST, "seeds": list(seeds)}
    bench.runs["entropy"] = found | {"one trainer": {1: one}, "Bayes floor": {1: floor}}
    readings = [
        reading
        for ours, theirs in sides
        for reading in _padded(compare(found[ours], found[theirs], f"{ours} / {theirs}"))
    ]
    most, mean = max(trainers), statistics.fmean(one)
    cost = ", ".join(f"{name} {statistics.fmean(by_count[most]) - mean:+.4f}" for name, by_count in found.items())
    text = f"one trainer {mean:.4f}, Bayes floor {statistics.fmean(floor):.4f}; {most} trainers less one: {cost}"
    return [*readings, Reading(value=mean, text=text)]


def shadow_shift(bench: Bench) -> list[Reading]:
    """The same of any2vec's own form, which takes nothing back of what workers do while a sync runs."""
    names = [_name("shadow", rule, "shift", _momentum(bench, "shadow", rule, "shift")) for rule in OWN]
    against = [_published(bench, rule) for rule in OWN]
    ours = _entropies(bench, names)
    others = _entropies(bench, [name for rule in RULES for name in _published(bench, rule)])
    bench.runs["entropy"] = ours
    return [
        reading
        for name, (published, fixed) in zip(names, against, strict=True)
        for other in (fixed, published)
        for reading in _padded(compare(ours[name], others[other], f"{name} / {other}"))
    ]


def compare(ours: Entropies, theirs: Entropies, names: str) -> list[Reading]:
    """One reading a number of trainers. Paired: both sides of a difference have the seed and the slices in common."""
    readings = []
    for count, values in ours.items():
        pairs = list(zip(values, theirs[count], strict=True))
        means = [statistics.fmean(side) for side in zip(*pairs, strict=True)]
        difference = means[0] - means[1]
        text = f"{names}: {means[0]:.4f} / {means[1]:.4f}, {difference:+.5f}"
        readings.append(Reading.of_seeds([one - two for one, two in pairs], text))
    return readings


def _asked(bench: Bench) -> tuple[Sequence[int], Sequence[int]]:
    """Seeds and numbers of trainers."""
    return (SEEDS[:1], TRAINERS[:1]) if bench.quick else (SEEDS, TRAINERS)


def _padded(readings: list[Reading]) -> list[Reading]:
    """A quick row has fewer numbers of trainers, whose figures stand for the others."""
    return readings + readings[-1:] * (len(TRAINERS) - len(readings))


def _published(bench: Bench, rule: str) -> tuple[str, str]:
    """A rule behind the workers, and carried out by them, by their names."""
    ours = _name("shadow", rule, "blend", _momentum(bench, "shadow", rule, "blend"))
    return ours, _name("fr", rule, "", _momentum(bench, "fr", rule, ""))


def _momentum(bench: Bench, when: str, rule: str, merge: str) -> float:
    """The block momentum at which a side is best on the seeds that tune; 0 where the rule has none."""
    if rule != "bmuf":
        return 0.0
    if bench.quick:
        return 0.5

    def score(carried: float) -> float:
        name = _name(when, rule, merge, carried / (1 + carried))
        found = [_runs(bench, seed, TUNE_TRAINERS, [{"sync": name}])["runs"][0] for seed in TUNE_SEEDS]
        return -statistics.fmean(run["normalized_entropy"] for run in found)

    best, scores = best_inside(CARRIED, score)
    tried = {f"{carried / (1 + carried):.3f}": -score for carried, score in sorted(scores.items())}
    bench.runs[f"{when}-{rule} {merge}".strip() + ", entropy by momentum"] = tried
    return best / (1 + best)


def _name(when: str, rule: str, merge: str, momentum: float) -> str:
    """As a run is told it."""
    parts = [f"{when}-{rule}", *([str(EVERY)] if when == "fr" else []), *([merge] if merge and rule != "easgd" else [])]
    return ":".join([*parts, *([f"momentum={momentum:g}"] if momentum else [])])


def _entropies(bench: Bench, names: Sequence[str]) -> dict[str, dict[int, list[float]]]:
    """Of each side, by number of trainers."""
    seeds, trainers = _asked(bench)
    found: dict[str, dict[int, list[float]]] = {name: {count: [] for count in trainers} for name in names}
    for count in trainers:
        for seed in seeds:
            runs = _runs(bench, seed, count, [{"sync": name} for name in names])["runs"]
            for name, run in zip(names, runs, strict=True):
                found[name][count].append(run["normalized_entropy"])
                bench.runs[f"{name}, seed {seed}, {count} trainers"] = _syncs(run["dense_of_hosts"], count)
    return found


def _runs(bench: Bench, seed: int, count: int, ways: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    """Runs with so many trainers on one seed's slices, in one process; None: one trainer alone."""
    size, held = (TRAIN // 40, TEST // 10) if bench.quick else (TRAIN, TEST)
    size, held = (TRAIN // 200, TEST // 100) if bench.tiny else (size, held)
    start = (seed - 1) * (size + held)
    hosts = [None if way is None else {"logical_hosts": count, **way} for way in ways]
    cut = (start, start + size), (start + size, start + size + held)
    return planted_runs(bench, STREAM, *cut, OPTIONS, hosts, seed)


def _syncs(metrics: Mapping[str, Any], count: int) -> dict[str, float]:
    """What was measured of syncs, a trainer."""
    return {
        "gap": metrics["sync_gap_mean"],
        "syncs": metrics["syncs"] / count,
        "iterations": metrics["iterations"] / count,
    }


def _measures(what: str) -> tuple[Measure, ...]:
    return tuple(
        Measure(
            name=f"one pass of {TRAIN:,} planted examples, {count} logical trainers, {len(SEEDS)} seeds, held-out "
            f"normalized entropy: {what}",
            relation="<=", is_accuracy=True,
        )
        for count in TRAINERS
    )  # fmt: skip


ROWS = (
    Row(
        name="shadow-quality",
        measures=(
            *(measure for rule in RULES for measure in _measures(f"S-{rule.upper()} less FR-{rule.upper()}-{EVERY}")),
            Measure(
                name="the same of one trainer, of true probabilities, and what 16 trainers cost",
                relation="", wording="reported",
            ),
        ),
        run=shadow_quality,
        minutes=60,
        settings=CHOSEN,
        keeps_runs=True,
    ),
    Row(
        name="shadow-shift",
        measures=tuple(
            measure
            for rule in OWN
            for other in (f"FR-{rule.upper()}-{EVERY}", f"S-{rule.upper()}")
            for measure in _measures(f"{rule.upper()} by shift, any2vec's own, less {other}")
        ),
        run=shadow_shift,
        minutes=25,
        settings=CHOSEN,
        keeps_runs=True,
    ),
)  # fmt: skip

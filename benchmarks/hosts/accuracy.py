"""Accuracy of many logical hosts against one: what each rule loses, at the end and by epoch, and for how many bytes."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks.bench import Bench
from benchmarks.hosts.word_runs import (
    CHOSEN,
    HOSTS,
    ONE,
    Setting,
    best_rate,
    curve_of,
    judged_runs,
    lead,
    run_of_words,
    run_on_hosts,
    sent_of,
)
from benchmarks.table import Measure, Reading, Row
from benchmarks.tuning import best_inside
from benchmarks.words.halves import JUDGE

WHOLE = Setting(epochs=16, rounds=48, words=None)
LOSSLESS = replace(WHOLE, seeds=(1, 2, 3, 4, 5, 6))
"""six, for with three the interval is as wide as what may be lost"""
PART = Setting(epochs=6, rounds=12, words=4_000_000)
RULES, BASELINES = ("blend", "adasum", "spectral"), ("mean", "sum")
NODE_HOSTS, NODE_EPOCHS = 16, 16
NODES = {"dim": 200, "window": 5, "num_negatives": 15, "walks_per_node": 10, "walk_length": 40}
NODE_GRID = (0.0125, 0.025, 0.05, 0.1)
NODE_SEEDS, NODE_TUNING_SEED = (1, 2, 3), 11


def accuracy(setting: Setting, rules: Sequence[str], bench: Bench) -> list[Reading]:
    """Each rule's lead over one host."""
    one, *ours = _all(bench, setting, rules)
    return [lead(runs, one, _named(bench, setting, rule)) for rule, runs in zip(rules, ours, strict=True)]


def cheap(setting: Setting, rule: str, bench: Bench) -> list[Reading]:
    """The lead of a rule with 8 bits, and its bytes over those of 12 full rounds."""
    one, ours = bench.each(lambda side: judged_runs(bench, setting, *side), ((ONE, None), (rule, {"bits": 8})))
    hosts = {"logical_hosts": 4 if bench.quick else HOSTS, "sync": rule, "rounds_per_epoch": 12}
    full = run_of_words(bench, 0.05, hosts, setting.text(bench), 1, setting.seeds[0])
    ratio = sent_of(ours[0]) / len(ours[0]["curve"]) / sent_of(full)
    return [lead(ours, one, f"{_named(bench, setting, rule)}, 8 bits"), Reading(value=ratio, text=f"{ratio:.2f}×")]


def early_epochs(bench: Bench) -> list[Reading]:
    """The smallest lead of each rule over the mean in any epoch; the curves of all, means over seeds."""
    sides = (ONE, *RULES, *BASELINES)
    runs = dict(zip(sides, _all(bench, WHOLE, sides[1:]), strict=True))
    by_seed = {side: [curve_of(run, JUDGE) for run in found] for side, found in runs.items()}
    curves = {side: list(map(statistics.fmean, zip(*found, strict=True))) for side, found in by_seed.items()}
    bench.runs["curves"] = curves
    text = "; ".join(f"{side} {' '.join(f'{score:.1f}' for score in curve)}" for side, curve in curves.items())
    readings = []
    for rule in RULES:
        leads = [min(a - b for a, b in zip(mine, mean, strict=True))
                 for mine, mean in zip(by_seed[rule], by_seed["mean"], strict=True)]  # fmt: skip
        shown = f"{statistics.fmean(leads):+.2f} at least" + ("" if readings else f"; by epoch: {text}")
        readings.append(Reading.of_seeds(leads, shown))
    return readings


def accuracy_nodes(bench: Bench) -> list[Reading]:
    """BlogCatalog by DeepWalk, the default rule: the worst of the differences of micro-F1 at 30, 60 and 90 % labels."""
    sides: tuple[dict[str, Any], ...] = ({}, {"logical_hosts": 4 if bench.quick else NODE_HOSTS})
    (rate, one), (own, many) = bench.each(partial(_node_runs, bench), sides)
    leads = {share: [mine[share] - other[share] for mine, other in zip(many, one, strict=True)] for share in one[0]}
    worst = min(leads, key=lambda share: statistics.fmean(leads[share]))
    text = "; ".join(f"{share} {statistics.fmean(found):+.2f}" for share, found in leads.items())
    base = statistics.fmean(run[worst] for run in one)
    shown = f"{statistics.fmean(leads[worst]):+.2f} at worst ({worst}, one host {base:.2f}): {text}"
    return [Reading.of_seeds(leads[worst], f"{shown}; rates {rate:g} and {own:g}")]


def _node_runs(bench: Bench, hosts: dict[str, Any]) -> tuple[float, list[dict[str, float]]]:
    """The rate that is best with a seed and splits of its own, and the scores of the judged seeds."""

    def scores(rate: float, seed: int) -> dict[str, float]:
        options = (NODES | {"dim": 16, "walks_per_node": 1} if bench.quick else NODES) | {"learning_rate": rate}
        graph = "ppi" if bench.quick else "blogcatalog"
        labels = bench.data(f"graph-{graph}/{graph}.labels.txt.gz")
        run = run_on_hosts(
            bench, "DeepWalk", options, hosts or None, bench.edges(graph), NODE_EPOCHS, seed, ("--labels", labels)
        )
        found: dict[str, float] = run["curve"][-1]
        return found

    def score(rate: float) -> float:
        return statistics.fmean(scores(rate, NODE_TUNING_SEED).values())

    rate, tried = (NODE_GRID[1], {}) if bench.quick else best_inside(NODE_GRID, score, bench.each)
    bench.runs[f"{'hosts' if hosts else ONE} by learning rate"] = tried
    return rate, bench.each(lambda seed: scores(rate, seed), NODE_SEEDS[:2] if bench.quick else NODE_SEEDS)


def _all(bench: Bench, setting: Setting, rules: Sequence[str]) -> list[list[dict[str, Any]]]:
    """The runs of one host and those of each rule."""
    return bench.each(lambda side: judged_runs(bench, setting, side), (ONE, *rules))


def _named(bench: Bench, setting: Setting, rule: str) -> str:
    return f"{rule} (rate {best_rate(bench, setting, rule):g}, of one host {best_rate(bench, setting, ONE):g})"


def _below(name: str, most: float) -> Measure:
    """A lead over one host that may be so far below 0."""
    return Measure(name=name, relation=">=", target=-most, wording=f"≥ −{most:g} points", is_accuracy=True)


def _reported(name: str) -> Measure:
    return Measure(name=name, relation="", wording="reported")


_TEXT = f"text-enwiki2015, {HOSTS} logical hosts, {WHOLE.epochs} epochs, {WHOLE.rounds} rounds each: mean of five"
_BYTES = Measure(name="its bytes of an epoch over those of 12 full rounds", relation="<=", target=1, unit="x")
ROWS = (
    Row(
        name="accuracy",
        measures=(
            _below(f"{_TEXT}, blend (AdaSum for frequent rows, sum for rare ones) less one host", 0.5),
            _below("the same, AdaSum", 0.5),
            _below("the same, spectral, the default", 0.5),
        ),
        run=partial(accuracy, WHOLE, RULES),
        minutes=150,
        settings=CHOSEN,
        keeps_runs=True,
    ),
    Row(
        name="accuracy-baselines",
        measures=tuple(_reported(f"{_TEXT}, {rule} less one host") for rule in BASELINES),
        run=partial(accuracy, WHOLE, BASELINES),
        minutes=90,
        settings=CHOSEN,
        keeps_runs=True,
    ),
    Row(
        name="accuracy-nodes",
        measures=(
            _below(f"BlogCatalog, {NODE_HOSTS} logical hosts: micro-F1, the default rule less one host", 0.3),
        ),
        run=accuracy_nodes,
        minutes=60,
        settings="rates: other seed and splits",
        keeps_runs=True,
    ),
    Row(
        name="accuracy-per-byte",
        measures=(_below(f"{_TEXT}, blend with 8 bits less one host", 1.0), _BYTES),
        run=partial(cheap, WHOLE, "blend"),
        minutes=60,
        settings=CHOSEN,
        keeps_runs=True,
    ),
    Row(
        name="early-epochs",
        measures=(
            Measure(
                name="blend less the tuned mean, worst epoch", relation=">=", target=0,
                wording="never below", is_accuracy=True,
            ),
            _reported("AdaSum less the tuned mean, worst epoch"),
            _reported("spectral less the tuned mean, worst epoch"),
        ),
        run=early_epochs,
        minutes=240,
        settings=CHOSEN,
        keeps_runs=True,
    ),
    Row(
        name="no-loss",
        measures=(
            _below(f"{_TEXT}, spectral less one host", 0.3),
        ),
        run=partial(accuracy, LOSSLESS, ("spectral",)),
        minutes=150,
        settings=CHOSEN,
        keeps_runs=True,
    ),
    Row(
        name="no-loss-per-byte",
        measures=(_below(f"{_TEXT}, spectral with 8 bits less one host", 0.5), _BYTES),
        run=partial(cheap, LOSSLESS, "spectral"),
        minutes=150,
        settings=CHOSEN,
        keeps_runs=True,
    ),
    Row(
        name="no-loss-part",
        measures=(
            _below(
                f"the first 4 M words, {HOSTS} logical hosts, {PART.epochs} epochs, {PART.rounds} rounds each: "
                "mean of five, spectral less one host", 0.3,
            ),
            _reported("the same, blend less one host"),
        ),
        run=partial(accuracy, PART, ("spectral", "blend")),
        minutes=40,
        settings=CHOSEN,
        keeps_runs=True,
    ),
)  # fmt: skip

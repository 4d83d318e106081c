"""What 32 hosts lose against one, by rule: rates by one half of each word set, judged by the other halves, 3 seeds.

Rates are chosen on the first 2 M words, where a round has as many words a host as in the run that is judged.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.hosts.accuracy import HOSTS, ONE, WORDS, first_words, run_on_hosts, sent_of
from benchmarks.table import Measure, Reading, Row
from benchmarks.tuning import best_inside
from benchmarks.words.halves import JUDGE, TUNE, cut_sets

SEEDS = (1, 2, 3)
GRID = (0.0375, 0.05, 0.075, 0.1, 0.15)
"""rates tried for every side; it grows where the best is an end of it"""
TUNING_EPOCHS = 8


@dataclass(frozen=True)
class Setting:
    """Of a row: how long runs are, and how often hosts agree."""

    epochs: int
    rounds: int
    """an epoch"""
    tuning_rounds: int
    """of an epoch of 2 M words"""
    words: int | None
    """from the beginning of the text; None: all"""


WHOLE = Setting(epochs=16, rounds=48, tuning_rounds=6, words=None)
PART = Setting(epochs=6, rounds=12, tuning_rounds=6, words=4_000_000)


def no_loss(setting: Setting, rules: Sequence[str], with_bytes: bool, bench: Bench) -> list[Reading]:
    """Each rule's lead over one host; with_bytes: the first one's with 8 bits, too, and what that sends."""
    text = bench.words() if setting.words is None else first_words(bench, setting.words)
    seeds = SEEDS[:2] if bench.quick else SEEDS

    def runs(who: str, more: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        rate = _best_rate(bench, setting, who)
        return [
            _run(bench, who, rate, text, setting.epochs, {"rounds_per_epoch": setting.rounds, **(more or {})}, seed)
            for seed in seeds
        ]

    one = runs(ONE)
    readings = [_lead(runs(who), one, f"{who} (rate {_best_rate(bench, setting, who):g})") for who in rules]
    if with_bytes:
        cheap = runs(rules[0], {"bits": 8})
        full = _run(bench, rules[0], 0.05, text, 1, {"rounds_per_epoch": 12}, SEEDS[0])
        ratio = sent_of(cheap[0]) / (1 if bench.quick else setting.epochs) / sent_of(full)
        readings += [_lead(cheap, one, f"{rules[0]}, 8 bits"), Reading(value=ratio, text=f"{ratio:.2f}×")]
    return readings


def _lead(ours: Sequence[Mapping[str, Any]], one: Sequence[Mapping[str, Any]], name: str) -> Reading:
    """The mean over the seeds, within two standard errors."""
    leads = [_score(mine, JUDGE) - _score(other, JUDGE) for mine, other in zip(ours, one, strict=True)]
    both = [statistics.fmean(_score(run, JUDGE) for run in runs) for runs in (ours, one)]
    return Reading.of_seeds(leads, f"{statistics.fmean(leads):+.2f}: {name} {both[0]:.2f} / one host {both[1]:.2f}")


def _best_rate(bench: Bench, setting: Setting, who: str) -> float:
    """The learning rate that scores best on the halves that tune, after the first 2 M words."""

    def score(rate: float) -> float:
        more = {"rounds_per_epoch": setting.tuning_rounds}
        return _score(_run(bench, who, rate, first_words(bench), TUNING_EPOCHS, more, SEEDS[0]), TUNE)

    def tune() -> float:
        best, scores = (GRID[1], {}) if bench.quick else best_inside(GRID, score)
        bench.runs[f"{who} by learning rate"] = scores
        return best

    return float(bench.once(("rate by half", setting, who), tune))


def _run(
    bench: Bench, who: str, rate: float, data: Path, epochs: int, more: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    """One run, scored by both halves."""
    hosts = None if who == ONE else {"logical_hosts": 4 if bench.quick else HOSTS, "sync": who, **more}
    options, halves = WORDS | {"learning_rate": rate}, _halves(bench)
    return run_on_hosts(bench, "SkipGram", options, hosts, data, 1 if bench.quick else epochs, seed, halves)


def _halves(bench: Bench) -> Path:
    """The folder of the sets' halves."""
    target = bench.scratch("halves")

    def cut() -> Path:
        cut_sets(bench.data("wordeval"), target)
        return target

    return Path(bench.once("halves", cut))


def _score(run: Mapping[str, Any], half: str) -> float:
    return statistics.fmean(run["curve"][-1][half].values())


def _row(name: str, what: str, setting: Setting, rules: Sequence[str], with_bytes: bool, minutes: float) -> Row:
    judged, *others = rules
    measures = [
        Measure(
            name=f"{what}: mean of five, {judged} less one host", relation=">=", target=-0.3, wording="≥ −0.3",
            is_accuracy=True,
        ),
        *(Measure(name=f"the same, {rule} less one host", relation="") for rule in others),
    ]  # fmt: skip
    if with_bytes:
        measures += [
            Measure(
                name=f"the same, {judged} at 8 bits less one host", relation=">=", target=-0.5, wording="≥ −0.5",
                is_accuracy=True,
            ),
            Measure(name="its bytes of an epoch over those of 12 full rounds", relation="<=", target=1, unit="x"),
        ]  # fmt: skip
    run: Callable[[Bench], list[Reading]] = partial(no_loss, setting, rules, with_bytes)
    settings = "rates: first 2 M words, the other half of each word set"
    return Row(name=name, measures=tuple(measures), run=run, minutes=minutes, keeps_runs=True, settings=settings)


ROWS = (
    _row(
        "no-loss", f"text-enwiki2015, {HOSTS} logical hosts, {WHOLE.epochs} epochs, {WHOLE.rounds} rounds", WHOLE,
        ("spectral", "blend", "adasum"), True, 600,
    ),
    _row(
        "no-loss-part",
        f"the first 4 M words, {HOSTS} logical hosts, {PART.epochs} epochs, {PART.rounds} rounds", PART,
        ("spectral", "blend"), False, 90,
    ),
)  # fmt: skip

"""Runs of words on logical hosts and on one, scored by epoch, each side at a learning rate of its own.

Rates are chosen on the first 2 M words by one half of each word set, and what counts is judged by the other halves.
There a round has as many words a host as in the runs that are judged.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.table import Reading
from benchmarks.tuning import best_inside
from benchmarks.words.halves import JUDGE, TUNE, halves

HOSTS = 32
WORDS = {"dim": 100, "window": 5, "num_negatives": 5, "subsample": 1e-4, "min_count": 5}
ONE = "one host"
GRID = (0.0125, 0.025, 0.05, 0.1, 0.2)
"""rates tried for every side; it grows where the best is an end of it, and is halved beside the best"""
LARGEST_RATE = 1.0
"""that programs take; rules that are still too slow with it stay there"""
TUNING_WORDS = 2_000_000
CHOSEN = "rates: first 2 M words, the other half of each word set"


@dataclass(frozen=True)
class Setting:
    """How long the judged runs of a row are, how often hosts agree, and what tells the rates."""

    epochs: int
    rounds: int
    """an epoch"""
    words: int | None
    """from the beginning of the text; None: all"""
    tuning_epochs: int = 8
    tuning_rounds: int = 6
    """of an epoch of 2 M words"""
    seeds: tuple[int, ...] = (1, 2, 3)

    def text(self, bench: Bench) -> Path:
        """The judged one."""
        return bench.words() if self.words is None else first_words(bench, self.words)


def judged_runs(
    bench: Bench, setting: Setting, side: str, more: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """A run of a side for each seed, at its best rate.

    side: `ONE`, what hosts agree by, or a cache of 30 % of the rows; more: options of its hosts.
    """
    rate, text = best_rate(bench, setting, side), setting.text(bench)
    options = {"rounds_per_epoch": setting.rounds, **(more or {})}

    def one(seed: int) -> dict[str, Any]:
        return _run(bench, side, rate, text, setting.epochs, options, seed)

    return bench.each(one, setting.seeds[:2] if bench.quick else setting.seeds)


def best_rate(bench: Bench, setting: Setting, side: str) -> float:
    """The learning rate that scores best on the halves that tune, after the first 2 M words."""

    def score(rate: float) -> float:
        text, more = first_words(bench), {"rounds_per_epoch": setting.tuning_rounds}
        taken = min(rate, LARGEST_RATE)
        return score_of(_run(bench, side, taken, text, setting.tuning_epochs, more, setting.seeds[0]), TUNE)

    def tune() -> tuple[float, dict[float, float]]:
        if bench.quick:
            return GRID[2], {}
        best, scores = best_inside(GRID, score, bench.each)
        return min(best, LARGEST_RATE), {min(rate, LARGEST_RATE): found for rate, found in scores.items()}

    best, scores = bench.once(("rate", setting.tuning_epochs, setting.tuning_rounds, side), tune)
    bench.runs[f"{side} by learning rate"] = scores
    return float(best)


def lead(ours: Sequence[Mapping[str, Any]], one: Sequence[Mapping[str, Any]], name: str) -> Reading:
    """The mean over the seeds of ours less one host's, by the halves that judge, within two standard errors."""
    leads = [score_of(mine, JUDGE) - score_of(other, JUDGE) for mine, other in zip(ours, one, strict=True)]
    both = [statistics.fmean(score_of(run, JUDGE) for run in runs) for runs in (ours, one)]
    sent = sent_of(ours[0]) / len(ours[0]["curve"]) / 1e9
    text = f"{statistics.fmean(leads):+.2f}: {name} {both[0]:.2f} / one host {both[1]:.2f}, {sent:.2f} GB an epoch"
    return Reading.of_seeds(leads, text)


def score_of(run: Mapping[str, Any], half: str) -> float:
    """The mean of the five measures at the end, in points."""
    return curve_of(run, half)[-1]


def curve_of(run: Mapping[str, Any], half: str) -> list[float]:
    """That of each epoch."""
    return [statistics.fmean(scores[half].values()) for scores in run["curve"]]


def sent_of(run: Mapping[str, Any]) -> int:
    """Bytes between hosts, the last gathering of the result apart."""
    return sum(run["bytes_by_kind"].values()) - run["bytes_by_phase"].get("gather", 0)


def first_words(bench: Bench, words: int = TUNING_WORDS) -> Path:
    """The first words of the corpus, by default 2 M."""
    size = "" if words == TUNING_WORDS else f"-{words}"
    name = f"enwiki2015.quick-tuning{size}.txt" if bench.quick else f"enwiki2015.tuning{size}.txt"
    return bench.made(name, lambda target: _copy_words(bench.words(), target, words))


def run_on_hosts(
    bench: Bench, model: str, options: Mapping[str, Any], hosts: Mapping[str, Any] | None, data: Path, epochs: int,
    seed: int, scored: tuple[object, ...],
) -> dict[str, Any]:  # fmt: skip
    """One kept run, scored as the script is told."""
    epochs = 1 if bench.quick else epochs
    request = [model, dict(options), hosts, data.name, epochs, seed, str(scored[0])]

    def make(*more: object) -> dict[str, Any]:
        return bench.ours(
            "any2vec_hosts.py", "--model", model, "--options", json.dumps(options), "--hosts", json.dumps(hosts),
            "--data", data, "--epochs", epochs, "--seed", seed, "--threads", 1, *scored, *more,
        ).result  # fmt: skip

    def goes_as(run: dict[str, Any]) -> bool:
        """Its first epoch ends with the very scores that it had."""
        return bool(run["curve"]) and make("--stop-after", 1)["curve"] == run["curve"][:1]

    found = bench.kept("hosts", request, make, goes_as)
    bench.runs[json.dumps(request[:6])] = found
    return found


def run_of_words(
    bench: Bench, rate: float, hosts: Mapping[str, Any] | None, text: Path, epochs: int, seed: int
) -> dict[str, Any]:
    """One kept run of skip-gram, scored by both halves."""
    options = WORDS | {"learning_rate": rate}
    return run_on_hosts(bench, "SkipGram", options, hosts, text, epochs, seed, ("--halves", halves(bench)))


def _run(
    bench: Bench, side: str, rate: float, text: Path, epochs: int, more: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    how = {"cache": side, "cache_rows": 0.3} if side.startswith("het") else {"sync": side}
    hosts = None if side == ONE else {"logical_hosts": 4 if bench.quick else HOSTS, **how, **more}
    return run_of_words(bench, rate, hosts, text, epochs, seed)


def _copy_words(source: Path, target: Path, most: int) -> None:
    words = 0
    with source.open("rb") as lines, target.open("wb") as out:
        for line in lines:
            if words >= most:
                break
            words += len(line.split())
            out.write(line)

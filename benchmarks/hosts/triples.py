"""Rows about models of triples on several hosts that hold all rows: policies that came from words and from clicks."""

from __future__ import annotations

import shutil
import statistics
from dataclasses import dataclass
from typing import Any

from benchmarks.bench import Bench
from benchmarks.disk.triples_quality import FB15K237, triples_of
from benchmarks.hosts.word_runs import CHOSEN as CHOSEN_RATES
from benchmarks.hosts.word_runs import HOSTS as WORD_HOSTS
from benchmarks.hosts.word_runs import ONE, Setting, best_rate, judged_runs, lead
from benchmarks.table import Measure, Reading, Row

HOSTS, SEEDS = 4, (1, 2, 3)
MODEL = ("--dim", 64, "--num-negatives", 500, "--batch-size", 500, "--epochs", 8)
ROUNDS = 34
"""of an epoch: 8 batches of each host between two; chosen on the validation triples (docs/log.md)"""
CLOSE = 0.005
"""of mean reciprocal rank, that a merge rule may lose to one host"""
BOUNDS = (0, 8, 100)
CACHED = Setting(epochs=8, rounds=6, words=2_000_000)
AT_ROUNDS = ("--rounds-per-epoch", ROUNDS)
CHOSEN = "adasum-symmetric"
"""best of the rules on the validation triples, and the default"""


@dataclass(frozen=True)
class Way:
    """One agreement, by its name and its flags."""

    name: str
    flags: tuple[object, ...]
    hosts: int = HOSTS


WAYS = (
    Way(CHOSEN, ("--sync", CHOSEN, *AT_ROUNDS)),
    Way(f"{CHOSEN}, 8 hosts", ("--sync", CHOSEN, *AT_ROUNDS), 8),
    Way("adasum", ("--sync", "adasum", *AT_ROUNDS)),
    Way("blend", ("--sync", "blend", *AT_ROUNDS)),
    Way("blend, 8 bits", ("--sync", "blend", "--bits", 8, *AT_ROUNDS)),
    Way("blend behind the training", ("--sync", "shadow-blend")),
    *(Way(f"HET's cache of 30 % of the rows, bound {bound}", ("--cache", f"het:{bound}", "--cache-rows", 0.3))
      for bound in BOUNDS),
)  # fmt: skip


@dataclass(frozen=True)
class Found:
    """Mean reciprocal ranks by seed, and the bytes that a run sent, a mean over seeds."""

    ranks: list[float]
    sent: float

    def beside(self, one: Found) -> Reading:
        """Our mean less the other's; unresolved where two standard errors around it hold the target."""
        lost = [own - other for own, other in zip(self.ranks, one.ranks, strict=True)]
        sides = f"{statistics.fmean(self.ranks):.4f} / one host {statistics.fmean(one.ranks):.4f}"
        return Reading.of_seeds(lost, f"{statistics.fmean(lost):+.4f}: {sides}; {self.sent / 1e9:.2f} GB")


def crossings(bench: Bench) -> list[Reading]:
    """Mean reciprocal rank of the test triples less that of one host, by way; bytes of a run."""
    one, *found = bench.each(lambda way: _found(bench, way), (Way(ONE, (), 1), *WAYS))
    return [way.beside(one) for way in found]


def _found(bench: Bench, way: Way) -> Found:
    runs = bench.each(lambda seed: _run(bench, way, seed), SEEDS[:1] if bench.quick else SEEDS)
    sent = statistics.fmean(sum(run["train"].get("bytes_by_kind", {}).values()) for run in runs)
    return Found([run["evaluate"]["mrr"] for run in runs], sent)


def _run(bench: Bench, way: Way, seed: int) -> dict[str, Any]:
    train, valid, test = (triples_of(bench, FB15K237.archive, side) for side in ("train", "valid", "test"))
    flags = ("--dim", 16, "--epochs", 1, "--batch-size", 100) if bench.quick else MODEL
    flags = (*flags, *(("--logical-hosts", way.hosts) if way.hosts > 1 else ()), *way.flags, "--seed", seed)

    def make() -> dict[str, Any]:
        out = bench.scratch(f"crossing-{way.name.replace(' ', '-')}-{seed}")
        command = ("train", "complex", train, *flags, "--threads", 1, "--out", out, "--overwrite")
        trained = bench.any2vec(*command).result
        judged = bench.any2vec("evaluate", out, "--task", "triples", "--data", test, "--known", valid).result
        shutil.rmtree(out)
        return {"train": trained, "evaluate": judged}

    found = bench.kept("triples", [FB15K237.archive, bench.quick, *map(str, flags)], make)
    bench.runs[f"{way.name} {seed}"] = found
    return found


def cached_words(bench: Bench) -> list[Reading]:
    """Mean of the five word measures with HET's cache on hosts less that of one host, and bytes of a run."""
    sides = (*(f"het:{bound}" for bound in BOUNDS), "blend")
    one, *found = bench.each(lambda side: judged_runs(bench, CACHED, side), (ONE, *sides))
    return [
        lead(runs, one, f"{side} (rate {best_rate(bench, CACHED, side):g})")
        for runs, side in zip(found, sides, strict=True)
    ]


ROWS = (
    Row(
        name="crossings",
        measures=(
            Measure(
                name=f"FB15k-237, ComplEx, {HOSTS} logical hosts, {CHOSEN}: MRR less one host",
                relation=">=", target=-CLOSE, wording=f"≥ −{CLOSE}", is_accuracy=True,
            ),
            Measure(
                name="the same on 8 logical hosts", relation=">=", target=-CLOSE, wording=f"≥ −{CLOSE}",
                is_accuracy=True,
            ),
            *(Measure(name=f"the same, {way.name}", relation="", wording="reported") for way in WAYS[2:]),
        ),
        run=crossings,
        minutes=25,
        settings="validation triples, one seed",
        keeps_runs=True,
    ),
    Row(
        name="cached-words",
        measures=(
            *(Measure(name=f"first 2 M words, {WORD_HOSTS} logical hosts: mean of five, HET's cache of 30 % of the "
                           f"rows, bound {bound}, less one host", relation="", wording="reported") for bound in BOUNDS),
            Measure(name="the same, blend with all rows on each host", relation="", wording="reported"),
        ),
        run=cached_words,
        minutes=25,
        settings=CHOSEN_RATES,
        keeps_runs=True,
    ),
)  # fmt: skip

"""Rows about models of triples on several hosts that hold all rows: policies that came from words and from clicks."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.bench import Bench
from benchmarks.disk.triples_quality import FB15K237, triples_of
from benchmarks.hosts.accuracy import WORDS, final_score, first_words, run_on_hosts
from benchmarks.table import Measure, Reading, Row

HOSTS, SEEDS = 4, (1, 2, 3)
MODEL = ("--dim", 64, "--num-negatives", 500, "--batch-size", 500, "--epochs", 8)
ROUNDS = 34
"""of an epoch: 8 batches of each host between two; chosen on the validation triples (docs/log.md)"""
CLOSE = 0.005
"""of mean reciprocal rank, that a merge rule may lose to one host"""
BOUNDS = (0, 8, 100)
WORD_EPOCHS = 8


AT_ROUNDS = ("--rounds-per-epoch", ROUNDS)
CHOSEN = "adasum-symmetric"
"""best of the rules on the validation triples, and the default"""


@dataclass(frozen=True)
class Way:
    """One agreement, by its name and its flags."""

    name: str
    flags: tuple[object, ...]


WAYS = (
    Way(CHOSEN, ("--sync", CHOSEN, *AT_ROUNDS)),
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
    one = _found(bench, Way("one host", ()))
    return [_found(bench, Way(way.name, ("--logical-hosts", HOSTS, *way.flags))).beside(one) for way in WAYS]


def _found(bench: Bench, way: Way) -> Found:
    train, valid, test = (triples_of(bench, FB15K237.archive, side) for side in ("train", "valid", "test"))
    flags = ("--dim", 16, "--epochs", 1, "--batch-size", 100) if bench.quick else MODEL
    ranks, sent = [], []
    for seed in _seeds(bench):
        out = bench.scratch(f"crossing-{seed}")
        run = bench.any2vec("train", "complex", train, *flags, *way.flags, "--threads", 1, "--seed", seed, "--out", out,
                            "--overwrite").result  # fmt: skip
        judged = bench.any2vec("evaluate", out, "--task", "triples", "--data", test, "--known", valid).result
        bench.runs[f"{way.name} {seed}"] = {"train": run, "evaluate": judged}
        ranks.append(judged["mrr"])
        sent.append(sum(run.get("bytes_by_kind", {}).values()))
    return Found(ranks, statistics.fmean(sent))


def cached_words(bench: Bench) -> list[Reading]:
    """Mean of the five word measures with HET's cache on hosts less that of one host, and bytes of a run."""
    text, epochs = first_words(bench), 1 if bench.quick else WORD_EPOCHS

    def score(hosts: Mapping[str, Any] | None) -> tuple[float, int]:
        found = run_on_hosts(bench, "SkipGram", WORDS, hosts, text, epochs)
        return final_score(found), sum(found.get("bytes_by_kind", {}).values())

    one, _ = score(None)
    ways = [{"logical_hosts": HOSTS, "cache": f"het:{bound}", "cache_rows": 0.3} for bound in BOUNDS]
    found = [score(way) for way in (*ways, {"logical_hosts": HOSTS, "sync": "blend"})]
    return [
        Reading(value=mine - one, text=f"{mine - one:+.2f}: {mine:.2f} / one host {one:.2f}; {sent / 1e9:.2f} GB")
        for mine, sent in found
    ]


def _seeds(bench: Bench) -> tuple[int, ...]:
    return SEEDS[:1] if bench.quick else SEEDS


ROWS = (
    Row(
        name="crossings",
        measures=(
            Measure(
                name=f"FB15k-237, ComplEx, {HOSTS} logical hosts, {CHOSEN}: MRR less one host",
                relation=">=", target=-CLOSE, wording=f"≥ −{CLOSE}", is_accuracy=True,
            ),
            *(Measure(name=f"the same, {way.name}", relation="", wording="reported") for way in WAYS[1:]),
        ),
        run=crossings,
        minutes=20,
        settings="validation triples, one seed",
    ),
    Row(
        name="cached-words",
        measures=(
            *(Measure(name=f"first 2 M words, {HOSTS} logical hosts, HET's cache of 30 % of the rows, bound {bound}: "
                           "mean of five less one host", relation="", wording="reported") for bound in BOUNDS),
            Measure(name="the same, blend with all rows on each host", relation="", wording="reported"),
        ),
        run=cached_words,
        minutes=20,
        keeps_runs=True,
    ),
)  # fmt: skip

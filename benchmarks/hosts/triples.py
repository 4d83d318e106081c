"""Rows about models of triples on several hosts that hold all rows: policies that came from words and from clicks."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.bench import Bench
from benchmarks.disk.triples_quality import FB15K237, triples_of
from benchmarks.table import Measure, Reading, Row

HOSTS, SEEDS = 4, (1, 2, 3)
MODEL = ("--dim", 64, "--num-negatives", 500, "--batch-size", 500, "--epochs", 8)
ROUNDS = 34
"""of an epoch: 8 batches of each host between two; chosen on the validation triples (docs/log.md)"""
CLOSE = 0.005
"""of mean reciprocal rank, that a merge rule may lose to one host"""


@dataclass(frozen=True)
class Way:
    """One agreement, by its name and its flags."""

    name: str
    flags: tuple[object, ...]


AT_ROUNDS = ("--rounds-per-epoch", ROUNDS)
WAYS = (
    Way("adasum", ("--sync", "adasum", *AT_ROUNDS)),
    Way("adasum-symmetric", ("--sync", "adasum-symmetric", *AT_ROUNDS)),
    Way("blend", ("--sync", "blend", *AT_ROUNDS)),
    Way("blend, 8 bits", ("--sync", "blend", "--bits", 8, *AT_ROUNDS)),
    Way("blend behind the training", ("--sync", "shadow-blend")),
)
_RULES = ("adasum", "adasum-symmetric", "blend")


def crossings(bench: Bench) -> list[Reading]:
    """Mean reciprocal rank of the test triples, by way a mean over seeds, beside one host; bytes of a run."""
    one, _ = _mean(bench, Way("one host", ()))
    found = {way.name: _mean(bench, Way(way.name, ("--logical-hosts", HOSTS, *way.flags))) for way in WAYS}
    best = max(_RULES, key=lambda name: found[name][0])
    readings = [
        Reading(value=mrr, text=f"{mrr:.4f} / one host {one:.4f}; {sent / 1e9:.2f} GB in all")
        for mrr, sent in found.values()
    ]
    lost = found[best][0] - one
    return [Reading(value=lost, text=f"{lost:+.4f} ({best}, {len(_seeds(bench))} seeds)"), *readings]


def _mean(bench: Bench, way: Way) -> tuple[float, float]:
    """(mean reciprocal rank, bytes that were sent) over seeds."""
    train, valid, test = (triples_of(bench, FB15K237.archive, side) for side in ("train", "valid", "test"))
    flags = ("--dim", 16, "--epochs", 1, "--batch-size", 100) if bench.quick else MODEL
    ranks, sent = [], []
    for seed in _seeds(bench):
        out = bench.scratch(f"crossing-{way.name.replace(' ', '-')}-{seed}")
        run = bench.any2vec("train", "complex", train, *flags, *way.flags, "--threads", 1, "--seed", seed, "--out", out,
                            "--overwrite").result  # fmt: skip
        judged = bench.any2vec("evaluate", out, "--task", "triples", "--data", test, "--known", valid).result
        bench.runs[f"{way.name} {seed}"] = {"train": run, "evaluate": judged}
        ranks.append(judged["mrr"])
        sent.append(sum(run.get("bytes_by_kind", {}).values()))
    return sum(ranks) / len(ranks), sum(sent) / len(sent)


def _seeds(bench: Bench) -> tuple[int, ...]:
    return SEEDS[:1] if bench.quick else SEEDS


ROWS = (
    Row(
        name="crossings",
        measures=(
            Measure(
                name=f"FB15k-237, ComplEx, {HOSTS} logical hosts: MRR by the best merge rule less one host",
                relation=">=", target=-CLOSE, wording=f"≥ −{CLOSE}",
            ),
            *(Measure(name=f"the same, {way.name}: MRR", relation="", wording="reported") for way in WAYS),
        ),
        run=crossings,
        minutes=60,
    ),
)  # fmt: skip

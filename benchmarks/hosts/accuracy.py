"""Accuracy of many logical hosts against one: every epoch, every combiner, and what it costs in bytes."""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.bench import ROOT, Bench
from benchmarks.table import Measure, Reading, Row

HOSTS, EPOCHS = 32, 16
NODE_HOSTS = 16
WORDS = {"dim": 100, "window": 5, "num_negatives": 5, "subsample": 1e-4, "min_count": 5}
NODES = {
    "dim": 200, "window": 5, "num_negatives": 15, "learning_rate": 0.025, "walks_per_node": 10, "walk_length": 40,
}  # fmt: skip
FEW_BYTES = {"bits": 8, "rounds_per_epoch": 96}
"""how agreements get cheap: 8-bit changes with error feedback, twice as often"""
ONE = "one host"
RATES = {
    ONE: (0.025, 0.05), "adasum": (0.05, 0.075), "blend": (0.05, 0.075), "mean": (0.2, 0.4), "sum": (0.001, 0.004),
}  # fmt: skip
"""learning rates tried for each, on the first 2 M words"""
TUNING_WORDS, TUNING_EPOCHS = 2_000_000, 8


def accuracy_words(bench: Bench) -> list[Reading]:
    """Mean of the five word measures at 32 hosts less that of one host, by combiner; each at its own learning rate."""
    scores = {who: final_score(_words(bench, who)) for who in RATES}
    lead = scores["adasum"] - scores[ONE]
    text = ", ".join(f"{who} {score:.2f} (rate {best_rate(bench, who):g})" for who, score in scores.items())
    ours = scores["blend"] - scores[ONE]
    return [Reading(value=lead, text=f"{lead:+.2f}: {text}"), Reading(value=ours, text=f"{ours:+.2f}")]


def accuracy_nodes(bench: Bench) -> list[Reading]:
    """BlogCatalog by DeepWalk on 16 hosts: the worst difference of micro-F1 at 30, 60 and 90 % labels to one host."""
    one, many = _nodes(bench, None)["curve"][-1], _nodes(bench, {"sync": "adasum"})["curve"][-1]
    worst = min(many[share] - one[share] for share in one)
    text = "; ".join(f"{share} {many[share]:.2f} / one host {one[share]:.2f}" for share in one)
    return [Reading(value=worst, text=f"{worst:+.2f} at worst: {text}")]


def accuracy_per_byte(bench: Bench) -> list[Reading]:
    """With no more bytes than 12 rounds an epoch of the same scheme send in full precision."""
    one, cheap = final_score(_words(bench, ONE)), _words(bench, "blend", FEW_BYTES)
    full = _words(bench, "adasum", {"rounds_per_epoch": 12}, epochs=1)
    spent, budget = sent_of(cheap) / len(cheap["curve"]), sent_of(full)
    score = final_score(cheap)
    what = f"blend, {FEW_BYTES['bits']} bits, {FEW_BYTES['rounds_per_epoch']} rounds"
    return [
        Reading(value=score - one, text=f"{score:.2f} / one host {one:.2f} ({score - one:+.2f}); {what}"),
        Reading(
            value=spent / budget, text=f"{spent / budget:.2f}×: {spent / 1e9:.2f} / {budget / 1e9:.2f} GB an epoch"
        ),
    ]


def early_epochs(bench: Bench) -> list[Reading]:
    """The smallest lead of our rule, and of AdaSum, over the mean in any epoch; the curves of all."""
    curves = {who: _curve(_words(bench, who)) for who in RATES}
    curves["blend, 8 bits, 96 rounds"] = _curve(_words(bench, "blend", FEW_BYTES))
    bench.runs["curves"] = curves
    text = "; ".join(f"{name} {' '.join(f'{score:.1f}' for score in curve)}" for name, curve in curves.items())
    ours, adasum = (_least_lead(curves[who], curves["mean"]) for who in ("blend", "adasum"))
    return [
        Reading(value=ours, text=f"{ours:+.2f} at least; by epoch: {text}"),
        Reading(value=adasum, text=f"{adasum:+.2f} at least"),
    ]


def _least_lead(curve: list[float], other: list[float]) -> float:
    return min(one - two for one, two in zip(curve, other, strict=True))


def _words(bench: Bench, who: str, more: Mapping[str, Any] | None = None, epochs: int = EPOCHS) -> dict[str, Any]:
    """A run on the whole corpus: one host, or 32 that agree as `who` says."""
    options = WORDS | {"learning_rate": best_rate(bench, who)}
    return run_on_hosts(
        bench, "SkipGram", options, _spread(bench, who, more or {}), bench.words(), 1 if bench.quick else epochs
    )


def _spread(bench: Bench, who: str, more: Mapping[str, Any]) -> dict[str, Any] | None:
    return None if who == ONE else {"logical_hosts": 4 if bench.quick else HOSTS, "sync": who} | dict(more)


def best_rate(bench: Bench, who: str) -> float:
    """The learning rate that scores best on the first 2 M words."""

    def tune() -> float:
        scores = {}
        for rate in RATES[who][:1] if bench.quick else RATES[who]:
            options, epochs = WORDS | {"learning_rate": rate}, 1 if bench.quick else TUNING_EPOCHS
            found = run_on_hosts(bench, "SkipGram", options, _spread(bench, who, {}), first_words(bench), epochs)
            scores[rate] = final_score(found)
        bench.runs[f"{who} by learning rate"] = scores
        return max(scores, key=lambda rate: scores[rate])

    return float(bench.once(("best rate", who), tune))


def _nodes(bench: Bench, hosts: Mapping[str, Any] | None) -> dict[str, Any]:
    spread = None if hosts is None else {"logical_hosts": 4 if bench.quick else NODE_HOSTS, **hosts}
    options = NODES | {"dim": 16, "walks_per_node": 1} if bench.quick else NODES
    return run_on_hosts(bench, "DeepWalk", options, spread, bench.edges(_graph(bench)), 1 if bench.quick else EPOCHS)


def first_words(bench: Bench, words: int = TUNING_WORDS) -> Path:
    """The first words of the corpus, by default 2 M."""
    size = "" if words == TUNING_WORDS else f"-{words}"
    name = f"enwiki2015.quick-tuning{size}.txt" if bench.quick else f"enwiki2015.tuning{size}.txt"
    return bench.made(name, lambda target: _copy_words(bench.words(), target, words))


def run_on_hosts(
    bench: Bench, model: str, options: Mapping[str, Any], hosts: Mapping[str, Any] | None, data: Path, epochs: int,
    seed: int = 1, halves: Path | None = None,
) -> dict[str, Any]:  # fmt: skip
    """One run, scored by epoch; halves: by both halves of the word sets, which that folder has.

    What ran before with the same code and settings is taken from its file.
    """
    whole = ("--wordeval", bench.data("wordeval")) if model == "SkipGram" else ("--labels", _labels(bench))
    scored = whole if halves is None else ("--halves", halves)
    request = [model, dict(options), hosts, data.name, epochs, seed, halves is not None, bench.quick]
    name = hashlib.sha256(json.dumps([request, sources()], sort_keys=True).encode()).hexdigest()[:16]

    def make() -> dict[str, Any]:
        done = bench.ours(
            "any2vec_hosts.py", "--model", model, "--options", json.dumps(options), "--hosts", json.dumps(hosts),
            "--data", data, "--epochs", epochs, "--seed", seed, "--threads", 1, *scored,
        )  # fmt: skip
        return {"request": request} | done.result

    found = bench.kept(f"hosts-{name}.json", make)
    bench.runs[json.dumps(request[:6])] = found
    return found


def sources() -> str:
    """Hash of the code that these figures depend on."""
    digest = hashlib.sha256()
    for room in ("kernels", "sync", "models"):
        for path in sorted((ROOT / "src" / "any2vec" / room).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _graph(bench: Bench) -> str:
    return "ppi" if bench.quick else "blogcatalog"


def _labels(bench: Bench) -> Path:
    return bench.data(f"graph-{_graph(bench)}/{_graph(bench)}.labels.txt.gz")


def _curve(run: Mapping[str, Any]) -> list[float]:
    return [statistics.fmean(scores.values()) for scores in run["curve"]]


def final_score(run: Mapping[str, Any]) -> float:
    return _curve(run)[-1]


def sent_of(run: Mapping[str, Any]) -> int:
    """Bytes between hosts, the last gathering of the result apart."""
    return sum(run["bytes_by_kind"].values()) - run["bytes_by_phase"].get("gather", 0)


def _copy_words(source: Path, target: Path, most: int) -> None:
    words = 0
    with source.open("rb") as lines, target.open("wb") as out:
        for line in lines:
            if words >= most:
                break
            words += len(line.split())
            out.write(line)


ROWS = (
    Row(
        name="accuracy",
        measures=(
            Measure(
                name=f"text-enwiki2015, {HOSTS} logical hosts, {EPOCHS} epochs: mean of five, AdaSum less one host",
                relation=">=", target=-0.5, wording="≥ −0.5 points",
            ),
            Measure(
                name="the same of our own rule, blend (AdaSum for frequent rows, sum for rare ones)",
                relation=">=", target=-0.5, wording="≥ −0.5 points",
            ),
        ),
        run=accuracy_words,
        minutes=40,
        settings="rates: first 2 M words, all scores",
        keeps_runs=True,
    ),
    Row(
        name="accuracy-nodes",
        measures=(
            Measure(
                name=f"BlogCatalog, {NODE_HOSTS} logical hosts: micro-F1, AdaSum less one host",
                relation=">=", target=-0.5, wording="≥ −0.5 points",
            ),
        ),
        run=accuracy_nodes,
        minutes=10,
        settings="published",
        keeps_runs=True,
    ),
    Row(
        name="accuracy-per-byte",
        measures=(
            Measure(name="mean of five less one host's", relation=">=", target=-1.0, wording="≥ −1 point"),
            Measure(name="bytes of an epoch over those of 12 full rounds", relation="<=", target=1, unit="x"),
        ),
        run=accuracy_per_byte,
        minutes=25,
        settings="rates: first 2 M words, all scores",
        keeps_runs=True,
    ),
    Row(
        name="early-epochs",
        measures=(
            Measure(
                name="our rule, blend, less the tuned mean, worst epoch", relation=">=", target=0, wording="never below"
            ),
            Measure(name="AdaSum less the tuned mean, worst epoch", relation="", wording="reported"),
        ),
        run=early_epochs,
        minutes=1,
        settings="rates: first 2 M words, all scores",
        keeps_runs=True,
    ),
)  # fmt: skip

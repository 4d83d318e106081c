"""The row about words that were never seen: planted forms, and the rare words of RW after one pass over real text."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.bench import Bench
from benchmarks.streams.models import BATCH, BYTE_DIM, HIDDEN, RARE, first_text
from benchmarks.table import Measure, Reading, Row
from benchmarks.tuning import best_inside
from benchmarks.words.text import DIM, SEEDS, WINDOW

STEMS, TOPICS, LINES, TUNING_LINES = 200, 50, 60_000, 20_000
PLANTED = ("--dim", 50, "--window", 10, "--subsample", 0, "--memory", "300MB", "--threads", 1)
CHARACTERS = ("--hidden", HIDDEN, "--byte-dim", BYTE_DIM, "--batch-pairs", BATCH)
TOP = 10
MODELS = ("char-lstm", "ngram")
READINGS = ("backward", "forward", "both")
TUNING_SEED = 4
TUNING_SUFFIXES = ("", "al", "dom", "est", "ful", "ism", "ity", "or")
"""none of those that judge"""
GRID = {"char-lstm": (0.001, 0.002, 0.004), "ngram": (0.04, 0.08, 0.16)}


def unseen_words(bench: Bench) -> list[Reading]:
    """The share of forms found, seed by seed, as chosen on other suffixes and stems; then RW with the defaults."""
    chosen = {model: _chosen(bench, model) for model in MODELS}
    seeds = SEEDS[:1] if bench.quick else SEEDS
    found = {model: [_found(bench, model, seed, chosen[model]) for seed in seeds] for model in MODELS}
    rare = {model: _rare(bench, model) for model in MODELS}
    bench.runs["stems found"], bench.runs["rare words"], bench.runs["chosen"] = found, rare, chosen
    text_of_rare = "; ".join(
        f"{model} {100 * (one['spearman'] or 0):.1f} ({one['covered']:,} of {one['pairs']:,} pairs)"
        for model, one in rare.items()
    )
    covered = min(one["covered"] / one["pairs"] for one in rare.values())
    ahead = 100 * ((rare["char-lstm"]["spearman"] or 0) - (rare["ngram"]["spearman"] or 0))
    return [
        *(Reading.of_seeds(shares, _shown(shares, chosen[model])) for model, shares in found.items()),
        Reading(value=covered, text=f"{100 * covered:.0f} %"),
        Reading(value=ahead, text=f"{ahead:+.1f} points: {text_of_rare}"),
    ]


def _shown(shares: list[float], flags: tuple[object, ...]) -> str:
    each = ", ".join(f"{100 * share:.1f}" for share in shares)
    how = " ".join(str(flag).removeprefix("--") for flag in flags)
    return f"{100 * statistics.fmean(shares):.1f} % ({each}; {how})"


def _chosen(bench: Bench, model: str) -> tuple[object, ...]:
    """The direction (at the default rate), then the rate, that find most on suffixes that do not judge."""
    if bench.quick:
        return ("--learning-rate", GRID[model][1])

    def score(rate: float, *reading: object) -> float:
        return _found(bench, model, TUNING_SEED, ("--learning-rate", rate, *reading), is_tuning=True)

    reading: tuple[object, ...] = ()
    if model == "char-lstm":
        by_reading = {name: score(GRID[model][1], "--reading", name) for name in READINGS}
        reading = ("--reading", max(by_reading, key=lambda name: by_reading[name]))
        bench.runs["char-lstm by direction"] = by_reading
    rate, scores = best_inside(GRID[model], lambda rate: score(rate, *reading))
    bench.runs[f"{model} by learning rate"] = scores
    return ("--learning-rate", rate, *reading)


def _found(bench: Bench, model: str, seed: int, flags: tuple[object, ...], is_tuning: bool = False) -> float:
    """Share of the forms never seen whose stem is among the nearest of those that were."""
    from any2vec.embeddings import Embeddings
    from any2vec.testing.planted_stream import SUFFIXES, PlantedStream

    lines = 500 if bench.quick else TUNING_LINES if is_tuning else LINES
    planted = PlantedStream(
        seed=seed, stems=10 if bench.quick else STEMS, topics=TOPICS, form_share=0.3, topic_share=0.4,
        suffixes=TUNING_SUFFIXES if is_tuning else SUFFIXES,
    )  # fmt: skip
    text = bench.made(f"planted-forms-{lines}-{seed}.txt", lambda path: planted.write(path, 0, lines))
    out = bench.scratch(f"planted-{model}")
    more = CHARACTERS if model == "char-lstm" else ()
    bench.any2vec(
        "stream", model, text, "--out", out, *PLANTED, *more, *flags, "--seed", seed, "--overwrite", "--quiet"
    )
    embeddings = Embeddings.load(out)
    pairs = [(form, stem) for form, stem in planted.unseen() if stem in embeddings]
    near = embeddings.nearest([form for form, _ in pairs], TOP) if pairs else []
    hits = sum(stem in [key for key, _ in answer] for (_, stem), answer in zip(pairs, near, strict=True))
    return hits / len(planted.unseen())


def _rare(bench: Bench, model: str) -> dict[str, Any]:
    """RW after one pass over the first part of the corpus."""
    out = bench.scratch(f"rare-{model}")
    flags = CHARACTERS if model == "char-lstm" else ()
    bench.any2vec(
        "stream", model, first_text(bench), "--out", out, "--dim", DIM, "--window", WINDOW, *flags,
        "--threads", 1, "--overwrite", "--quiet",
    )  # fmt: skip
    return bench.any2vec("evaluate", out, "--task", "similarity", "--data", bench.data(f"wordeval/{RARE}")).result


ROWS = (
    Row(
        name="unseen words",
        measures=(
            *(
                Measure(
                    name=f"planted forms never seen: their stem in the top {TOP}, {model}, 3 seeds", relation=">=",
                    target=0.9, wording="≥ 90 %", is_accuracy=True,
                )
                for model in MODELS
            ),
            Measure(name="RW: pairs covered", relation=">=", target=1, wording="100 %"),
            Measure(
                name="RW, Spearman after one pass over 4 M words: char-lstm less ngram", relation="",
                wording="above ngram, or said why not",
            ),
        ),
        run=unseen_words,
        minutes=30,
        settings="other suffixes and stems",
    ),
)  # fmt: skip

"""The row about PIP loss: whether it tells good vectors from bad ones, and whether it goes with word similarity."""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench import Bench
from benchmarks.table import Measure, Reading, Row
from benchmarks.words.text import RATE, SIMILARITY, SUBSAMPLE, WINDOW

NUM_NEGATIVES = 5
DIMS, QUICK_DIMS = (10, 25, 50, 100, 200), (4, 8, 16, 32)
SHOWN, QUICK_SHOWN = 100, 16
"""the dimension at which good and bad vectors are compared"""
TEXT_BYTES = 24_000_000
SETS = ("MEN", "WS-353")


@dataclass(frozen=True)
class Judged:
    """One table of vectors: relative PIP as it is and at the best scale, and its scores in points."""

    relative: float
    scaled: float
    scores: dict[str, float]


def pip(bench: Bench) -> list[Reading]:
    from any2vec.data.io.direct import Spill
    from any2vec.data.text.text import encode_text
    from any2vec.embeddings import Embeddings
    from any2vec.evaluate.words.dimension import expected_curve, noise_of_halves, unbiased_signal
    from any2vec.evaluate.words.target import FIRST_PART, SECOND_PART, count_pairs
    from any2vec.evaluate.words.target_options import TargetOptions

    text = _text(bench)
    options = {
        "window": WINDOW, "num_negatives": NUM_NEGATIVES, "subsample": SUBSAMPLE,
        "max_vocab": 2000 if bench.quick else 10_000,
    }  # fmt: skip
    dims, shown = (QUICK_DIMS, QUICK_SHOWN) if bench.quick else (DIMS, SHOWN)
    trained = {dim: _trained(bench, text, dim, options) for dim in dims}
    with Spill() as spill:
        pairs = count_pairs(encode_text(text, cache_dir=bench.cache), lambda key: True, TargetOptions(**options), spill)
        target = pairs.sppmi()
        value, vector = target.top_pairs(max(dims) + max(dims) // 4)
        factors = {dim: vector[:, :dim] * np.sqrt(np.abs(value[:dim])) for dim in dims}
        positive = np.flatnonzero(value > 0)
        best = vector[:, positive[:shown]] * np.sqrt(value[positive[:shown]])
        draw = np.random.default_rng(1)
        good = trained[shown]
        order = draw.permutation(len(good))
        tables = {
            "optimum": Embeddings(pairs.keys, best),
            "svd": Embeddings(pairs.keys, factors[shown]),
            "trained": good,
            "other words'": Embeddings(list(good.keys), good.vectors[order], good.output[order]),
            "random": Embeddings(pairs.keys, draw.standard_normal((len(pairs.keys), shown))),
            "zero": Embeddings(pairs.keys, np.zeros((len(pairs.keys), shown))),
        }
        sides = {name: _judged(bench, one, pairs) for name, one in tables.items()}
        by_dim = {
            "trained": {dim: _judged(bench, one, pairs) for dim, one in trained.items()},
            "svd": {dim: _judged(bench, Embeddings(pairs.keys, rows), pairs) for dim, rows in factors.items()},
        }
        noise = noise_of_halves(pairs.sppmi(FIRST_PART), pairs.sppmi(SECOND_PART)) * target.num_rows**0.5
    chosen, even = (expected_curve(np.abs(value), noise, signal=how) for how in (None, unbiased_signal))
    bench.runs["sides"] = {name: asdict(one) for name, one in sides.items()}
    bench.runs["by_dim"] = {side: {dim: asdict(one) for dim, one in runs.items()} for side, runs in by_dim.items()}
    bench.runs["dimension"] = {"dim": chosen.dim, "even_noise": even.dim, "curve": chosen.relative_R1.tolist()}
    return [
        *_orders(sides), *(_correlation(by_dim[side], side) for side in ("trained", "svd")),
        _choice(chosen.dim, even.dim, len(value), by_dim),
    ]  # fmt: skip


def _text(bench: Bench) -> Path:
    """The first 24 MB of the corpus (4 M words), or what it is for a quick run."""

    def write(path: Path) -> None:
        with bench.words().open("rb") as source:
            path.write_bytes(source.read(TEXT_BYTES).rsplit(b"\n", 1)[0] + b"\n")

    return bench.words() if bench.quick else bench.made("enwiki2015.pip.txt", write)


def _trained(bench: Bench, text: Path, dim: int, options: dict[str, Any]) -> Any:
    from any2vec.embeddings import Embeddings

    out = bench.scratch(f"pip-{dim}")
    flags = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
    bench.any2vec(
        "train", "skipgram", text, "--dim", dim, "--out", out, *flags, *RATE,
        "--epochs", 1 if bench.quick else 5, "--threads", 1, "--overwrite",
    )  # fmt: skip
    return Embeddings.load(out)


def _judged(bench: Bench, embeddings: Any, pairs: Any) -> Judged:
    from any2vec.evaluate.words.pip import pip_of_pairs
    from any2vec.evaluate.words.similarity import evaluate_similarity

    found = pip_of_pairs(embeddings, pairs, references=False)
    files = {name: bench.data(f"wordeval/{SIMILARITY[name]}") for name in SETS}
    scores = {name: evaluate_similarity(embeddings, file).mean for name, file in files.items()}
    points = {name: 0.0 if score is None else 100 * score for name, score in scores.items()}
    return Judged(found.relative, found.relative_scaled, points)


def _orders(sides: dict[str, Judged]) -> list[Reading]:
    """The order at the best scale, which is judged, and the figures as they are."""
    scaled = [one.scaled for one in sides.values()]
    is_sane = all(before <= after + 1e-9 for before, after in itertools.pairwise(scaled))
    at_best = ", ".join(f"{name} {one.scaled:.4f}" for name, one in sides.items())
    as_is = ", ".join(f"{name} {one.relative:.4g}" for name, one in sides.items())
    return [Reading(value=float(is_sane), text=at_best), Reading(value=sides["trained"].relative, text=as_is)]


def _correlation(runs: dict[int, Judged], side: str) -> Reading:
    """Spearman over dimensions of relative PIP (trained: at the best scale) with the scores; -1 is perfect."""
    from any2vec.evaluate.words.similarity import spearman

    losses = np.array([one.scaled if side == "trained" else one.relative for one in runs.values()])
    found = {name: spearman(losses, np.array([one.scores[name] for one in runs.values()])) or 0.0 for name in SETS}
    figures = "; ".join(
        f"{dim}: {loss:.4f}, " + ", ".join(f"{one.scores[name]:.1f}" for name in SETS)
        for (dim, one), loss in zip(runs.items(), losses, strict=True)
    )
    text = ", ".join(f"{name} {value:+.2f}" for name, value in found.items())
    return Reading(value=float(np.mean(list(found.values()))), text=f"{text} ({figures})")


def _choice(dim: int, even: int, most: int, by_dim: dict[str, dict[int, Judged]]) -> Reading:
    """What `any2vec dimension` says, beside where the scores are best."""
    best = {
        f"{name} of {side}": max(runs, key=lambda dim: runs[dim].scores[name])
        for side, runs in by_dim.items()
        for name in SETS
    }
    limit = f"{most} or more" if even == most else str(even)
    reported = ", ".join(f"{name} {of}" for name, of in best.items())
    return Reading(value=float(dim), text=f"{dim}, {limit} for even noise; best: {reported}")


_TARGET = "SPPMI, text-enwiki2015, first 4 M words, 10,000 words, k = 5"
ROWS = (
    Row(
        name="pip",
        measures=(
            Measure(
                name=f"relative PIP at the best scale against {_TARGET}, dim 100", relation=">=", target=1,
                wording="optimum ≤ SVD ≤ trained ≤ other words' ≤ random ≤ zero = 1",
            ),
            Measure(name="the same as they are, balanced", relation="", wording="reported"),
            Measure(
                name="trained skip-gram: Spearman of that PIP with WS-353 and MEN over dimensions", relation="",
                wording="reported",
            ),
            Measure(
                name="factors of the SVD: Spearman of relative PIP with WS-353 and MEN over dimensions", relation="",
                wording="reported",
            ),
            Measure(name="`any2vec dimension` and the dimensions that score best", relation="", wording="reported"),
        ),
        run=pip,
        minutes=5,
    ),
)  # fmt: skip

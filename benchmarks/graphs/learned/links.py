"""The row about what graph networks learn without classes: links, and vectors, beside PyTorch Geometric's."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.table import Measure, Reading, Row

SEEDS = (1, 2, 3, 4, 5)
GRAPHS = {"cora_ml": ("graph-citation-full", 30), "photo": ("graph-amazon", 5)}
"""name -> (folder of the data, epochs of links; of vectors half as many on both sides)"""
SHAPE = ("--hidden", 64, "--fanouts", "10,5", "--batch-size", 512, "--dropout", 0, "--sample-key", "batch")
HALF, POINTS = 0.5, 100


def _folder(bench: Bench, name: str) -> Path:
    edges, features = (bench.data(f"{GRAPHS[name][0]}/{name}.{kind}") for kind in ("edges.txt.gz", "features.npz"))

    def build() -> Path:
        out = bench.scratch(f"links-{name}")
        bench.any2vec("graph", "build", edges, "--features", features, "--out", out, "--overwrite")
        return out

    found: Path = bench.once(("graph folder without classes", name), build)
    return found


def without_classes(bench: Bench) -> list[Reading]:
    """Points that any2vec has more than PyG, seed by seed: AUC of links; micro-F1 of what vectors tell of classes."""
    readings = []
    for name, (data, most) in GRAPHS.items():
        folder, labels = _folder(bench, name), bench.data(f"{data}/{name}.labels.txt.gz")
        epochs = 1 if bench.quick else most
        found: dict[str, list[float]] = {key: [] for key in ("links", "PyG links", "vectors", "PyG vectors")}
        for seed in SEEDS[:1] if bench.quick else SEEDS:
            arrays, text = bench.scratch(f"links-{name}-{seed}.npz"), bench.scratch(f"links-{name}-{seed}.txt")
            bench.ours("any2vec_link_split.py", folder, seed, arrays)
            ours = _run(bench, folder, "links", seed, epochs)
            theirs = bench.peer("pyg", "pyg_links.py", "links", arrays, epochs, seed).result
            found["links"].append(POINTS * ours["test_auc"])
            found["PyG links"].append(POINTS * theirs["test_auc"])
            half, out = max(1, epochs // 2), bench.scratch(f"vectors-{name}-{seed}")
            _run(bench, folder, "unsupervised", seed, half, "--out", out, "--overwrite")
            bench.peer("pyg", "pyg_links.py", "unsupervised", arrays, half, seed, text)
            found["vectors"].append(_probed(bench, out, labels))
            found["PyG vectors"].append(_probed(bench, text, labels))
        bench.runs[name] = found
        readings += [_beside(found[kind], found[f"PyG {kind}"]) for kind in ("links", "vectors")]
    return readings


def _run(bench: Bench, folder: Path, objective: str, seed: int, epochs: int, *more: object) -> dict[str, Any]:
    flags = ("--objective", objective, "--seed", seed, "--threads", 1, "--epochs", epochs)
    return bench.any2vec("train", "graphsage", folder, *flags, *SHAPE, *more).result


def _probed(bench: Bench, vectors: Path, labels: Path) -> float:
    """Points of micro-F1 of a logistic regression on half of the nodes."""
    done = bench.any2vec("evaluate", vectors, "--task", "nodes", "--data", labels, "--fractions", HALF)
    return float(POINTS * done.result["scores"][0]["micro_f1"])


def _beside(ours: Sequence[float], theirs: Sequence[float]) -> Reading:
    differences = [one - other for one, other in zip(ours, theirs, strict=True)]
    means = f"{statistics.fmean(ours):.2f} / PyG {statistics.fmean(theirs):.2f}"
    return Reading.of_seeds(differences, f"{statistics.fmean(differences):+.2f}: {means}")


def _measures() -> tuple[Measure, ...]:
    what = f"GraphSAGE, 2 layers of 64, fan-outs 10,5, batches of 512, {len(SEEDS)} seeds"
    kinds = (
        "links, AUC of the test edges",
        "vectors without classes, micro-F1 by half of the nodes",
    )
    return tuple(
        Measure(name=f"{name}, {what}: {kind}, less PyG's, points", relation=">=", target=-0.3, is_accuracy=True)
        for name in GRAPHS
        for kind in kinds
    )


ROWS = (Row(name="accuracy-links", measures=_measures(), run=without_classes, minutes=25),)

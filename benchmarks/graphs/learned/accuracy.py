"""Rows about what graph networks learn: beside PyTorch Geometric with the same settings, by the way of sampling, and
beside what can be known at best."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from any2vec.testing.planted_graph import PlantedGraph
from benchmarks.bench import Bench
from benchmarks.table import Measure, Reading, Row, number

SEEDS = (1, 2, 3, 4, 5)
EPOCHS = 200
GRAPHS = ("cora", "citeseer", "photo")
MODELS = ("gcn", "graphsage")
ATTENDING = ("--hidden", 64, "--dropout", 0.6, "--learning-rate", 0.005)
PUBLISHED: dict[str, tuple[object, ...]] = {"gat": ATTENDING, "gatv2": ATTENDING, "gin": ("--hidden", 64)}
"""model -> flags: of attention those of Velickovic et al. 2018 on these graphs; GIN has no published ones for them"""
CITED = ("cora", "citeseer")
SAMPLES: dict[str, tuple[object, ...]] = {
    "a key an epoch": (), "a key a batch": ("--sample-key", "batch"), "LABOR": ("--sampling", "labor"),
}  # fmt: skip
"""ways to sample -> flags"""
SPLITS = 10
SAMPLED = ("--fanouts", "10,5", "--batch-size", 32, "--epochs", 30)
POINTS = 100
SUBGRAPH_EPOCHS = 30
CUT = {"photo": 5, "computers": 7}
"""graph -> batches of an epoch of 32 training nodes each"""
JOINED = 10
PLANTED = {"blocks": "degree-corrected blocks", "ring": "a ring"}
"""kind of planted graph -> in words"""
LEARNERS: dict[str, tuple[object, ...]] = {
    "graphsage": ("--fanouts", "10,5", "--batch-size", 256, "--epochs", 60),
    "gcn": ("--sampling", "full-graph", "--epochs", EPOCHS),
    "gat": ("--sampling", "full-graph", "--hidden", 64, "--epochs", EPOCHS),
}  # fmt: skip
"""model -> flags; nothing was chosen on these graphs"""
WAYS = ("parts of the graph", "parts with a hop around them", "random walks", "random walks, all alike", "full graph")


def folder_of(bench: Bench, graph: str, split: int = 0) -> Path:
    """The graph as `any2vec graph build` writes it; undirected, of Photo and Computers one of their ten splits."""
    is_cited = graph in CITED
    names = ("edges.txt.gz", "features.npz", "labels.txt.gz", "split.txt.gz" if is_cited else "splits.npz")
    files = [bench.data(f"graph-{'planetoid' if is_cited else 'amazon'}/{graph}.{name}") for name in names]
    flags = () if is_cited else ("--split-index", split)

    def build() -> Path:
        out = bench.scratch(f"graph-{graph}-{split}")
        bench.any2vec(
            "graph", "build", files[0], "--features", files[1], "--labels", files[2], "--split", files[3], *flags,
            "--out", out, "--overwrite",
        )  # fmt: skip
        return out

    found: Path = bench.once(("graph folder", graph, split), build)
    return found


def beside_pyg(bench: Bench) -> list[Reading]:
    """Points of test accuracy that any2vec has more, seed by seed; both sides: full graph, hidden 128, best epoch."""
    return _beside_pyg(bench, GRAPHS, dict.fromkeys(MODELS, ()))


def published_beside_pyg(bench: Bench) -> list[Reading]:
    """The same of attention with its published settings, and of GIN."""
    return _beside_pyg(bench, CITED, PUBLISHED)


def _beside_pyg(bench: Bench, graphs: Sequence[str], flags: Mapping[str, tuple[object, ...]]) -> list[Reading]:
    epochs, readings = 5 if bench.quick else EPOCHS, []
    for graph in graphs:
        folder = folder_of(bench, graph)
        for model, more in flags.items():
            theirs = [
                bench.ours("pyg_full_graph.py", folder, model, epochs, seed).result["test_accuracy"]
                for seed in _seeds(bench)
            ]
            ours = [
                _run(bench, folder, model, seed, "--sampling", "full-graph", "--epochs", epochs, *more)["test_accuracy"]
                for seed in _seeds(bench)
            ]
            bench.runs[f"{graph} {model}"] = {"any2vec": ours, "PyG": theirs}
            text = f"{_points(ours)} / PyG {_points(theirs)}"
            differences = [POINTS * (one - other) for one, other in zip(ours, theirs, strict=True)]
            readings.append(Reading.of_seeds(differences, f"{statistics.fmean(differences):+.2f}: {text}"))
    return readings


def by_sample(bench: Bench) -> list[Reading]:
    """Points of test accuracy, and rows of features read, of GraphSAGE on Photo; each less a key a batch's.

    A seed and split differs by some two points from another, so there are twenty: each of the ten splits twice.
    """
    flags = ("--fanouts", "10,5", "--batch-size", 32, "--epochs", 2) if bench.quick else SAMPLED
    cases = [(0, 1)] if bench.quick else [*product(range(SPLITS), SEEDS[:2])]
    found = {
        name: [_run(bench, folder_of(bench, "photo", split), "graphsage", seed, *flags, *more) for split, seed in cases]
        for name, more in SAMPLES.items()
    }
    accuracies = {name: [run["test_accuracy"] for run in runs] for name, runs in found.items()}
    rows = {name: statistics.fmean(run["rows_read"] for run in runs) for name, runs in found.items()}
    bench.runs |= {"accuracies": accuracies, "rows read": rows}
    plain, readings = accuracies["a key a batch"], []
    for name in ("a key an epoch", "LABOR"):
        differences = [POINTS * (one - other) for one, other in zip(accuracies[name], plain, strict=True)]
        text = f"{statistics.fmean(differences):+.2f}: {_points(accuracies[name])} / a key a batch {_points(plain)}"
        text += f"; {number(rows[name])} rows read of {number(rows['a key a batch'])}"
        readings.append(Reading.of_seeds(differences, text))
    return readings


def _flags(way: str, batches: int) -> tuple[object, ...]:
    """As many steps a run as with neighbors: that, and not the test, has chosen the numbers."""
    parts = (
        "--sampling",
        "cluster",
        "--num-parts",
        batches * JOINED,
        "--parts-per-batch",
        JOINED,
        "--epochs",
        SUBGRAPH_EPOCHS,
    )
    walks = ("--sampling", "walks", "--batch-size", 32, "--epochs", SUBGRAPH_EPOCHS)
    return {
        "neighbors": ("--fanouts", "10,5", "--batch-size", 32, "--epochs", SUBGRAPH_EPOCHS),
        "parts of the graph": parts, "parts with a hop around them": (*parts, "--halo", 1),
        "random walks": walks, "random walks, all alike": (*walks, "--sample-coverage", 0),
        "full graph": ("--sampling", "full-graph", "--epochs", SUBGRAPH_EPOCHS * batches),
    }[way]  # fmt: skip


def beside_neighbors(bench: Bench) -> list[Reading]:
    """Points of test accuracy, seed by seed, of each way less those of sampled neighbors."""
    readings = []
    for graph, batches in CUT.items():
        found = {way: _runs(bench, graph, *_flags(way, batches)) for way in ("neighbors", *WAYS)}
        accuracies = {way: [POINTS * run["test_accuracy"] for run in runs] for way, runs in found.items()}
        rows = {way: statistics.fmean(run["rows_read"] for run in runs) for way, runs in found.items()}
        bench.runs[graph] = {"accuracies": accuracies, "rows read": rows}
        plain = accuracies["neighbors"]
        for way in WAYS:
            differences = [one - other for one, other in zip(accuracies[way], plain, strict=True)]
            text = f"{statistics.fmean(differences):+.2f}: {statistics.fmean(accuracies[way]):.2f} / neighbors "
            text += f"{statistics.fmean(plain):.2f}; {number(rows[way])} rows read of {number(rows['neighbors'])}"
            readings.append(Reading.of_seeds(differences, text))
    return readings


def _runs(bench: Bench, graph: str, *flags: object) -> list[dict[str, Any]]:
    if bench.quick:
        flags = (*flags[: flags.index("--epochs")], *flags[flags.index("--epochs") + 2 :], "--epochs", 2)
    folder = folder_of(bench, graph)
    return [_run(bench, folder, "graphsage", seed, *flags) for seed in _seeds(bench)]


def beside_bayes(bench: Bench) -> list[Reading]:
    """Points of test accuracy above the Bayes accuracy of features alone, seed by seed, each with a graph of its own;
    beside them a bound and an estimate of what is possible with the graph (`any2vec.testing.planted_graph`)."""
    readings = []
    for kind in PLANTED:
        graphs = {seed: PlantedGraph(600 if bench.quick else 4000, kind=kind, seed=seed) for seed in _seeds(bench)}
        folders = {seed: _planted_folder(bench, graph, kind, seed) for seed, graph in graphs.items()}
        tests = {seed: (graph.split_N == 2).nonzero()[0] for seed, graph in graphs.items()}
        bounds = [graph.bound(tests[seed]) for seed, graph in graphs.items()]
        estimates = [graph.estimate(tests[seed]) for seed, graph in graphs.items()]
        alone = next(iter(graphs.values())).features_alone()
        bench.runs[kind] = {"features alone": alone, "bound": bounds, "belief propagation": estimates}
        for model, flags in LEARNERS.items():
            flags = (*flags[:-1], 3) if bench.quick else flags
            found = [_run(bench, folder, model, seed, *flags)["test_accuracy"] for seed, folder in folders.items()]
            bench.runs[kind][model] = found
            text = f"{_points(found)} / features alone {_points([alone])}; with the graph: belief propagation "
            text += f"(estimate) {_points(estimates)}, bound {_points(bounds)}"
            readings.append(Reading.of_seeds([POINTS * (one - alone) for one in found], text))
    return readings


def _planted_folder(bench: Bench, graph: PlantedGraph, kind: str, seed: int) -> Path:
    out, source = bench.scratch(f"planted-{kind}-{seed}"), bench.scratch(f"planted-{kind}-{seed}-files")
    graph.write(source)
    bench.any2vec(
        "graph", "build", source / "edges.tsv", "--features", source / "x.npy", "--labels", source / "labels.tsv",
        "--split", source / "split.npz", "--out", out, "--overwrite",
    )  # fmt: skip
    return out


def _seeds(bench: Bench) -> Sequence[int]:
    return SEEDS[:1] if bench.quick else SEEDS


def _run(bench: Bench, folder: Path, model: str, seed: int, *flags: object) -> dict[str, Any]:
    return bench.any2vec("train", model, folder, "--seed", seed, "--threads", 1, *flags).result


def _points(accuracies: Sequence[float]) -> str:
    return f"{POINTS * statistics.fmean(accuracies):.2f}"


def _of_each(graphs: Iterable[str], models: Iterable[str], hidden: int) -> tuple[Measure, ...]:
    return tuple(
        Measure(
            name=f"{graph}, {model}, full graph, hidden {hidden}, {EPOCHS} epochs, {len(SEEDS)} seeds: test accuracy "
            "less PyG's, points",
            relation=">=", target=-0.3, is_accuracy=True,
        )
        for graph, model in product(graphs, models)
    )  # fmt: skip


ROWS = (
    Row(name="accuracy", measures=_of_each(GRAPHS, MODELS, 128), run=beside_pyg, minutes=15),
    Row(name="accuracy-attention", measures=_of_each(CITED, PUBLISHED, 64), run=published_beside_pyg, minutes=15),
    Row(
        name="sample-keys",
        measures=(
            Measure(
                name="Photo, graphsage, fan-outs 10,5, batches of 32, 10 splits, 2 seeds each: test accuracy of a key "
                "an epoch, the default, less that of a key a batch, points",
                relation=">=", target=-0.3, is_accuracy=True,
            ),
            Measure(name="the same of LABOR", relation="", wording="reported"),
        ),
        run=by_sample, minutes=8,
    ),
    Row(
        name="accuracy-subgraphs",
        measures=tuple(
            Measure(
                name=f"{graph}, graphsage, {way}, as many steps as with neighbors (10,5, batches of 32, "
                f"{SUBGRAPH_EPOCHS} epochs), {len(SEEDS)} seeds: test accuracy less that of neighbors, points",
                relation="", wording="reported",
            )
            for graph, way in product(CUT, WAYS)
        ),
        run=beside_neighbors, minutes=10, settings="steps: as many as with neighbors",
    ),
    Row(
        name="accuracy-planted",
        measures=tuple(
            Measure(
                name=f"{words}, planted, {model}, {len(SEEDS)} graphs: test accuracy less the Bayes accuracy of "
                "features alone, points (beside it a bound and an estimate with the graph)",
                relation=">=", target=0, is_accuracy=True,
            )
            for words, model in product(PLANTED.values(), LEARNERS)
        ),
        run=beside_bayes, minutes=6,
    ),
)  # fmt: skip

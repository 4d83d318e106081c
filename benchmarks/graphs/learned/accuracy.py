"""Rows about what graph networks learn: beside PyTorch Geometric with the same settings, by the way of sampling, and
beside what can be known at best."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from any2vec.testing.planted_graph import PlantedGraph
from benchmarks.bench import Bench
from benchmarks.graphs.learned.runs import (
    OURS,
    POINTS,
    PYG,
    SEEDS,
    Asked,
    Graph,
    beside,
    kept_runs,
    of_any2vec,
    of_script,
    points,
    seeds_of,
)
from benchmarks.table import Measure, Reading, Row, number

EPOCHS = 200
GRAPHS = ("cora", "citeseer", "photo")
MODELS = ("gcn", "graphsage")
ATTENDING = ("--hidden", 64, "--dropout", 0.6, "--learning-rate", 0.005)
PUBLISHED: dict[str, tuple[object, ...]] = {"gat": ATTENDING, "gatv2": ATTENDING, "gin": ("--hidden", 64)}
"""model -> flags: of attention those of Velickovic et al. 2018 on these graphs; GIN has no published ones for them"""
CITED = ("cora", "citeseer")
SAMPLES: dict[str, tuple[object, ...]] = {
    "a key a batch": ("--sample-key", "batch"), "a key an epoch": (), "LABOR": ("--sampling", "labor"),
}  # fmt: skip
"""ways to sample -> flags; the others are compared with the first"""
SPLITS = 10
SAMPLED = ("--fanouts", "10,5", "--batch-size", 32, "--epochs", 30)
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
    return _beside_pyg(bench, GRAPHS, MODELS)


def published_beside_pyg(bench: Bench) -> list[Reading]:
    """The same of attention with its published settings, and of GIN."""
    return _beside_pyg(bench, CITED, PUBLISHED)


def _beside_pyg(bench: Bench, graphs: Iterable[str], models: Iterable[str]) -> list[Reading]:
    def graph_of(name: str, seed: int) -> Graph:
        return Graph(name, folder_of(bench, name))

    found = whole_graph(bench, [*product(graphs, models)], graph_of, 5 if bench.quick else EPOCHS)
    return [beside(ours, theirs) for ours, theirs in found]


def whole_graph(
    bench: Bench, cases: Sequence[tuple[str, str]], graph_of: Callable[[str, int], Graph], epochs: int
) -> list[tuple[list[float], list[float]]]:
    """Of each case points of test accuracy of any2vec and of PyG, seed by seed: full graph, PyG's settings on both
    sides, of the epoch with the highest validation accuracy.

    cases: (graph, model); graph_of: of a name and a seed.
    """
    asked: dict[tuple[str, str, str], list[Asked]] = {}
    for name, model in cases:
        graphs = {seed: graph_of(name, seed) for seed in seeds_of(bench)}
        flags = ("--sampling", "full-graph", "--epochs", epochs, *PUBLISHED.get(model, ()))
        asked[name, model, OURS] = [of_any2vec(bench, graph, model, seed, *flags) for seed, graph in graphs.items()]
        asked[name, model, PYG] = [
            of_script(bench, OURS, "pyg_full_graph.py", graph, model, epochs, seed) for seed, graph in graphs.items()
        ]
    found = {key: points(runs) for key, runs in kept_runs(bench, asked).items()}
    bench.runs |= {f"{name} {model}": {side: found[name, model, side] for side in (OURS, PYG)} for name, model in cases}
    return [(found[name, model, OURS], found[name, model, PYG]) for name, model in cases]


def by_sample(bench: Bench) -> list[Reading]:
    """Points of test accuracy, and rows of features read, of GraphSAGE on Photo; each less a key a batch's.

    A seed and split differs by some two points from another, so there are twenty: each of the ten splits twice.
    """
    flags = ("--fanouts", "10,5", "--batch-size", 32, "--epochs", 2) if bench.quick else SAMPLED
    cases = [(0, 1)] if bench.quick else [*product(range(SPLITS), SEEDS[:2])]
    graphs = {split: Graph(f"photo {split}", folder_of(bench, "photo", split)) for split, _ in cases}
    found = kept_runs(
        bench,
        {
            name: [of_any2vec(bench, graphs[split], "graphsage", seed, *flags, *more) for split, seed in cases]
            for name, more in SAMPLES.items()
        },
    )
    accuracies = {name: points(runs) for name, runs in found.items()}
    rows = {name: statistics.fmean(run["rows_read"] for run in runs) for name, runs in found.items()}
    bench.runs |= {"accuracies": accuracies, "rows read": rows}
    plain, *others = accuracies
    return [
        beside(
            accuracies[name], accuracies[plain], f"; {number(rows[name])} rows read of {number(rows[plain])}",
            peer=plain,
        )
        for name in others
    ]  # fmt: skip


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
    found = kept_runs(
        bench,
        {
            (graph, way): _asked(bench, graph, *_flags(way, batches))
            for graph, batches in CUT.items() for way in ("neighbors", *WAYS)
        },
    )  # fmt: skip
    accuracies = {key: points(runs) for key, runs in found.items()}
    rows = {key: statistics.fmean(run["rows_read"] for run in runs) for key, runs in found.items()}
    readings = []
    for graph in CUT:
        ways = ("neighbors", *WAYS)
        bench.runs[graph] = {
            "accuracies": {way: accuracies[graph, way] for way in ways},
            "rows read": {way: rows[graph, way] for way in ways},
        }
        plain = graph, "neighbors"
        for way in WAYS:
            note = f"; {number(rows[graph, way])} rows read of {number(rows[plain])}"
            readings.append(beside(accuracies[graph, way], accuracies[plain], note, peer="neighbors"))
    return readings


def _asked(bench: Bench, name: str, *flags: object) -> list[Asked]:
    if bench.quick:
        flags = (*flags[: flags.index("--epochs")], *flags[flags.index("--epochs") + 2 :], "--epochs", 2)
    graph = Graph(name, folder_of(bench, name))
    return [of_any2vec(bench, graph, "graphsage", seed, *flags) for seed in seeds_of(bench)]


def beside_bayes(bench: Bench) -> list[Reading]:
    """Points of test accuracy above the Bayes accuracy of features alone, seed by seed, each with a graph of its own;
    beside them a bound and an estimate of what is possible with the graph (`any2vec.testing.planted_graph`)."""
    asked: dict[tuple[str, str], list[Asked]] = {}
    about = {}
    for kind in PLANTED:
        graphs = {seed: PlantedGraph(600 if bench.quick else 4000, kind=kind, seed=seed) for seed in seeds_of(bench)}
        folders = {seed: _planted_folder(bench, graph, kind, seed) for seed, graph in graphs.items()}
        for model, flags in LEARNERS.items():
            flags = (*flags[:-1], 3) if bench.quick else flags
            asked[kind, model] = [
                of_any2vec(bench, Graph(f"{kind} {seed}", folder), model, seed, *flags)
                for seed, folder in folders.items()
            ]
        tests = {seed: (graph.split_N == 2).nonzero()[0] for seed, graph in graphs.items()}
        about[kind] = {
            "features alone": POINTS * next(iter(graphs.values())).features_alone(),
            "bound": [POINTS * graph.bound(tests[seed]) for seed, graph in graphs.items()],
            "belief propagation": [POINTS * graph.estimate(tests[seed]) for seed, graph in graphs.items()],
        }
    found = {key: points(runs) for key, runs in kept_runs(bench, asked).items()}
    bench.runs |= {kind: about[kind] | {model: found[kind, model] for model in LEARNERS} for kind in PLANTED}
    return [_above(found[case], about[case[0]]) for case in asked]


def _above(accuracies: Sequence[float], about: dict[str, Any]) -> Reading:
    alone, bound, estimate = (about[name] for name in ("features alone", "bound", "belief propagation"))
    text = f"{statistics.fmean(accuracies):.2f} / features alone {alone:.2f}; with the graph: belief propagation "
    text += f"(estimate) {statistics.fmean(estimate):.2f}, bound {statistics.fmean(bound):.2f}"
    return Reading.of_seeds([one - alone for one in accuracies], text)


def _planted_folder(bench: Bench, graph: PlantedGraph, kind: str, seed: int) -> Path:
    out, source = bench.scratch(f"planted-{kind}-{seed}"), bench.scratch(f"planted-{kind}-{seed}-files")
    graph.write(source)
    bench.any2vec(
        "graph", "build", source / "edges.tsv", "--features", source / "x.npy", "--labels", source / "labels.tsv",
        "--split", source / "split.npz", "--out", out, "--overwrite",
    )  # fmt: skip
    return out


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
    Row(name="accuracy", measures=_of_each(GRAPHS, MODELS, 128), run=beside_pyg, minutes=40, keeps_runs=True),
    Row(
        name="accuracy-attention", measures=_of_each(CITED, PUBLISHED, 64), run=published_beside_pyg, minutes=15,
        keeps_runs=True,
    ),
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
        run=by_sample, minutes=3, keeps_runs=True,
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
        run=beside_neighbors, minutes=10, keeps_runs=True, settings="steps: as many as with neighbors",
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
        run=beside_bayes, minutes=8, keeps_runs=True,
    ),
)  # fmt: skip

"""The row about what graph networks learn without classes: links, and vectors, beside PyTorch Geometric's."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.graphs.learned.runs import (
    OURS,
    PYG,
    SEEDS,
    Asked,
    Graph,
    beside,
    kept_runs,
    of_any2vec,
    points,
    seeds_of,
    versions,
)
from benchmarks.table import Measure, Reading, Row

GRAPHS = {"cora_ml": ("graph-citation-full", 30, 69, 15), "photo": ("graph-amazon", 5, 53, 2)}
"""name -> (folder of the data, epochs of links on both sides, of vectors by any2vec and by PyG): any2vec's are of
walks, one from each node, PyG's of edges, so that both learn as many pairs"""
RATES = {
    ("cora_ml", "links", OURS): 0.001, ("cora_ml", "links", PYG): 0.001,
    ("cora_ml", "vectors", OURS): 0.001, ("cora_ml", "vectors", PYG): 0.001,
    ("photo", "links", OURS): 0.0003, ("photo", "links", PYG): 0.0003,
    ("photo", "vectors", OURS): 0.0003, ("photo", "vectors", PYG): 0.0003,
}  # fmt: skip
"""of Adam: the best of three to five of 0.0001, 0.0003, 0.001, 0.003 and 0.01, with one tried on either side of it, by
seed 11, which judges nothing: by AUC of the validation edges, and by micro-F1 of the same nodes (docs/log.md)"""
SHAPE = ("--hidden", 64, "--fanouts", "10,5", "--batch-size", 512, "--dropout", 0, "--sample-key", "batch")
HALF = 0.5
SCRIPT = "pyg_links.py"
SCORES = {"links": "test_auc", "vectors": "micro_f1"}
"""what is learned -> name of what is judged"""


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
    asked: dict[tuple[str, str, str], list[Asked]] = {}
    for name, (data, *epochs) in GRAPHS.items():
        graph, labels = Graph(name, _folder(bench, name)), bench.data(f"{data}/{name}.labels.txt.gz")
        of_links, of_walks, of_edges = [1] * len(epochs) if bench.quick else epochs
        for seed in seeds_of(bench):
            runs = {
                ("links", OURS): of_any2vec(bench, graph, "graphsage", seed, *_flags("links", name, of_links)),
                ("links", PYG): _links_by_pyg(bench, graph, of_links, seed),
                ("vectors", OURS): _vectors(bench, graph, labels, of_walks, seed),
                ("vectors", PYG): _vectors_by_pyg(bench, graph, labels, of_edges, seed),
            }
            for (kind, side), run in runs.items():
                asked.setdefault((name, kind, side), []).append(run)
    found = {key: points(runs, SCORES[key[1]]) for key, runs in kept_runs(bench, asked).items()}
    bench.runs |= {" ".join(key): scores for key, scores in found.items()}
    return [beside(found[name, kind, OURS], found[name, kind, PYG]) for name in GRAPHS for kind in SCORES]


def _flags(what: str, name: str, epochs: int) -> tuple[object, ...]:
    objective, rate = "links" if what == "links" else "unsupervised", RATES[name, what, OURS]
    return ("--objective", objective, "--epochs", epochs, *SHAPE, "--learning-rate", rate)


def _vectors(bench: Bench, graph: Graph, labels: Path, epochs: int, seed: int) -> Asked:
    flags, out = _flags("vectors", graph.name, epochs), bench.scratch(f"vectors-{graph.name}-{seed}")
    run = of_any2vec(bench, graph, "graphsage", seed, *flags, "--out", out, "--overwrite")

    def make() -> dict[str, float]:
        run.make()
        return _probed(bench, out, labels)

    return Asked(
        (*of_any2vec(bench, graph, "graphsage", seed, *flags).request, *_probe(labels)), ("vectors", OURS), make
    )


def _links_by_pyg(bench: Bench, graph: Graph, epochs: int, seed: int) -> Asked:
    def make() -> dict[str, Any]:
        return _by_pyg(bench, graph, "links", epochs, seed)

    return Asked(_request(graph, "links", epochs, seed), ("links", PYG), make)


def _vectors_by_pyg(bench: Bench, graph: Graph, labels: Path, epochs: int, seed: int) -> Asked:
    def make() -> dict[str, float]:
        out = bench.scratch(f"vectors-{graph.name}-{seed}.txt")
        _by_pyg(bench, graph, "vectors", epochs, seed, out)
        return _probed(bench, out, labels)

    return Asked((*_request(graph, "vectors", epochs, seed), *_probe(labels)), ("vectors", PYG), make)


def _request(graph: Graph, what: str, epochs: int, seed: int) -> tuple[object, ...]:
    """What PyG is asked."""
    return SCRIPT, *versions("pyg"), *graph.known_as, what, RATES[graph.name, what, PYG], epochs, seed


def _probe(labels: Path) -> tuple[object, ...]:
    """What a request says of how vectors are judged."""
    return "probed", HALF, hashlib.sha256(labels.read_bytes()).hexdigest()[:16]


def _by_pyg(bench: Bench, graph: Graph, what: str, epochs: int, seed: int, *out: Path) -> dict[str, Any]:
    """On the edges that any2vec does not hold out."""
    arrays = bench.scratch(f"{what}-{graph.name}-{seed}.npz")
    bench.ours("any2vec_link_split.py", graph.folder, seed, arrays)
    rate = RATES[graph.name, what, PYG]
    return bench.peer("pyg", SCRIPT, what, arrays, rate, epochs, seed, *out).result


def _probed(bench: Bench, vectors: Path, labels: Path) -> dict[str, float]:
    """Micro-F1 of a logistic regression on half of the nodes."""
    done = bench.any2vec("evaluate", vectors, "--task", "nodes", "--data", labels, "--fractions", HALF)
    return {"micro_f1": float(done.result["scores"][0]["micro_f1"])}


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


ROWS = (
    Row(
        name="accuracy-links",
        measures=_measures(),
        run=without_classes,
        minutes=35,
        keeps_runs=True,
        settings="rates of each side: seed 11",
    ),
)

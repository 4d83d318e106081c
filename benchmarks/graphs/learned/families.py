"""Rows about what graph networks learn on families of featured graphs, beside PyTorch Geometric with the same settings.

Seed s reads split s - 1 of the ten that the data have, on both sides. Graphs are made undirected, as is usual for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.graphs.learned.accuracy import whole_graph
from benchmarks.graphs.learned.runs import POINTS, SEEDS, Graph, beside
from benchmarks.table import Measure, Reading, Row

MODELS = ("gcn", "graphsage", "gat", "gin")


@dataclass(frozen=True)
class _Graph:
    """A graph of the data folder."""

    folder: str
    ending: str = "txt"
    """of its files of edges and classes"""
    floor: float = 0.0
    """share of the test nodes that a closed form gets right (README of the data, splits 0 to 2)"""
    has_splits: bool = True
    """False: one graph of several languages, of which one trains, one validates and the rest test"""


GRAPHS = {
    "computers": _Graph("graph-amazon", floor=0.824),
    "physics": _Graph("graph-coauthor-physics", floor=0.903),
    "cora_ml": _Graph("graph-citation-full", floor=0.776),
    "citeseer_full": _Graph("graph-citation-full", floor=0.804),
    "dblp": _Graph("graph-citation-full", floor=0.674),
    "github": _Graph("graph-musae-github", "csv", floor=0.786),
    "facebook": _Graph("graph-musae-facebook", "csv", floor=0.714),
    "twitch": _Graph("graph-twitch", has_splits=False),
    "chameleon_filtered": _Graph("graph-heterophily"),
    "squirrel_filtered": _Graph("graph-heterophily"),
    "actor": _Graph("graph-heterophily"),
    "tolokers": _Graph("graph-heterophily"),
}
FAMILIES: dict[str, tuple[tuple[str, ...], int, float]] = {
    "accuracy-copurchase": (("computers",), 100, 60),
    "accuracy-citation": (("cora_ml", "citeseer_full", "dblp"), 100, 90),
    "accuracy-heterophily": (("chameleon_filtered", "squirrel_filtered", "actor", "tolokers"), 100, 60),
    "accuracy-coauthor": (("physics",), 30, 240),
    "accuracy-musae": (("github", "facebook", "twitch"), 30, 480),
}
"""row -> graphs, epochs, rough minutes"""
LANGUAGES = {"DE": "train", "ENGB": "val"}
"""of Twitch's graphs: what their nodes are for; those of all others test"""


def _across_languages(bench: Bench, labels: Path) -> Path:
    """A file of the split by language."""
    import gzip

    def write(target: Path) -> None:
        fields = [line.split() for line in gzip.decompress(labels.read_bytes()).decode().splitlines()]
        target.write_text("".join(f"{node} {LANGUAGES.get(language, 'test')}\n" for node, _, language in fields))

    return bench.made("twitch.split.txt", write)


def _two_columns(bench: Bench, labels: Path) -> Path:
    """Its classes alone: the third column is the language."""
    import gzip

    def write(target: Path) -> None:
        lines = gzip.decompress(labels.read_bytes()).decode().splitlines()
        target.write_text("".join(f"{' '.join(line.split()[:2])}\n" for line in lines))

    return bench.made("twitch.labels.txt", write)


def _folder(bench: Bench, name: str, split: int) -> Path:
    """The graph with one split, as `any2vec graph build` writes it."""
    graph = GRAPHS[name]
    at = f"{graph.folder}/{name}"
    edges, features, labels = (
        bench.data(f"{at}.{kind}") for kind in (f"edges.{graph.ending}.gz", "features.npz", f"labels.{graph.ending}.gz")
    )
    if graph.has_splits:
        flags = ("--labels", labels, "--split", bench.data(f"{at}.splits.npz"), "--split-index", split)
    else:
        flags = ("--labels", _two_columns(bench, labels), "--split", _across_languages(bench, labels))

    def build() -> Path:
        out = bench.scratch(f"graph-{name}-{split}")
        bench.any2vec("graph", "build", edges, "--features", features, *flags, "--out", out, "--overwrite")
        return out

    found: Path = bench.once(("graph folder", name, split), build)
    return found


def beside_pyg(graphs: tuple[str, ...], epochs: int, bench: Bench) -> list[Reading]:
    """Points of test accuracy that any2vec has more than PyG, seed by seed."""

    def graph_of(name: str, seed: int) -> Graph:
        split = seed - 1 if GRAPHS[name].has_splits else 0
        return Graph(f"{name} {split}", _folder(bench, name, split))

    cases = [*product(graphs, MODELS)]
    asked = cases[-1:] if bench.tiny else cases  # that one starts is told by one
    found = whole_graph(bench, asked, graph_of, 2 if bench.quick else epochs)
    readings = []
    for (name, _), (ours, theirs) in zip(asked, found, strict=True):
        floor = GRAPHS[name].floor
        readings.append(beside(ours, theirs, f"; closed form {POINTS * floor:.1f}" if floor else ""))
    return readings * (len(cases) // len(readings))


def _row(name: str) -> Row:
    graphs, epochs, minutes = FAMILIES[name]
    run: Callable[[Any], list[Reading]] = partial(beside_pyg, graphs, epochs)
    measures = tuple(
        Measure(
            name=f"{graph}, {model}, full graph, {epochs} epochs, {len(SEEDS)} seeds"
            f"{' with a split each' if GRAPHS[graph].has_splits else ', trained on German'}: test accuracy less PyG's, "
            "points",
            relation=">=", target=-0.3, is_accuracy=True,
        )
        for graph, model in product(graphs, MODELS)
    )  # fmt: skip
    return Row(name=name, measures=measures, run=run, minutes=minutes, keeps_runs=True)


ROWS = tuple(map(_row, FAMILIES))

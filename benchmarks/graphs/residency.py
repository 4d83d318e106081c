"""Rows about which rows of features stand in memory: counted misses, the fill charged."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.bench import Bench
from benchmarks.graphs.planted import write_directed, write_ring
from benchmarks.graphs.speed import graph as with_hubs
from benchmarks.table import Measure, Reading, Row, number

NUM_NODES, DEGREE, EPOCHS = 200_000, 18.5, 5
SHARES, ORDERS = (0.05, 0.1, 0.2), ("random", "proximity")
FOR_GOOD = ("degree", "reverse-pagerank", "weighted-reverse-pagerank", "presampled")
POLICIES = (*FOR_GOOD, "fifo", "lru", "lfu", "window", "belady")


class _Graph(NamedTuple):
    name: str
    file: Callable[[Bench], Path]
    batch: int
    train: float = 0.1
    """share of its nodes that train"""


def _planted(name: str, write: Callable[..., None], bench: Bench) -> Path:
    num = 4000 if bench.quick else NUM_NODES
    return bench.made(f"{name}-{num}.npz", lambda target: write(target, num, DEGREE))


GRAPHS = (
    _Graph("planted, large diameter", partial(_planted, "ring", write_ring), 128),
    _Graph("planted communities with hubs", partial(with_hubs, num_nodes=NUM_NODES), 128),
    _Graph("musae-github", lambda bench: bench.data("graph-musae-github/github.edges.csv.gz"), 64),
    _Graph("dblp", lambda bench: bench.data("graph-dblp/dblp.ungraph.gz"), 64),
)
FEW = _Graph("planted, directed, 1 % train", partial(_planted, "directed", write_directed), 128, 0.01)


def _found(
    bench: Bench, graph: _Graph, shares: Sequence[float] = SHARES, orders: Sequence[str] = ORDERS,
    policies: Sequence[str] = POLICIES,
) -> list[dict[str, Any]]:  # fmt: skip
    epochs = 2 if bench.quick else EPOCHS
    lists = [json.dumps(one) for one in (shares, orders, policies)]
    asked = graph.file(bench), graph.train, graph.batch, epochs, *lists
    found: list[dict[str, Any]] = bench.ours("any2vec_residency.py", *asked).result["found"]
    bench.runs[graph.name] = found
    return found


def _text(graph: _Graph, one: dict[str, Any], *names: str) -> str:
    missed = ", ".join(f"{name} {number(one['missed'][name])}" for name in names or POLICIES)
    rows = f"{one['share']:.0%} of {one['nodes']:,} rows, {one['order']} order, {number(one['rows'])} rows a batch"
    return f"{graph.name}, {rows}: {missed}"


def _worst(found: list[tuple[_Graph, dict[str, Any]]], over: str, under: str) -> Reading:
    """The largest ratio of two policies' misses."""
    graph, one = max(found, key=lambda pair: pair[1]["missed"][over] / pair[1]["missed"][under])
    ratio = one["missed"][over] / one["missed"][under]
    return Reading(value=ratio, text=f"{ratio:.2f}: {_text(graph, one)}")


def _beside_belady(missed: dict[str, float]) -> dict[str, float]:
    """The same with the fewest misses of a policy that does not know what is read next."""
    return missed | {"best other": min(missed[name] for name in POLICIES if name not in ("window", "belady"))}


def residency(bench: Bench) -> list[Reading]:
    found = [(graph, one) for graph in GRAPHS for one in _found(bench, graph)]
    plain = [(graph, one) for graph, one in found if one["order"] == "random"]
    others = [(graph, one | {"missed": _beside_belady(one["missed"])}) for graph, one in found]
    largest = [(graph, one) for graph, one in plain if one["share"] == SHARES[-1]]
    readings = [_worst(others, "belady", "best other"), _worst(found, "window", "belady"),
                _worst(largest, "window", "degree")]  # fmt: skip
    for graph in GRAPHS[:2]:
        two = {one["order"]: one for known, one in found if known is graph and one["share"] == SHARES[-1]}
        near, chance = two["proximity"], two["random"]
        ratio = near["missed"]["fifo"] / chance["missed"]["fifo"]
        parts = [_text(graph, one, "fifo", "degree", "belady") for one in (near, chance)]
        text = f"{ratio:.2f}: {parts[0]}; {parts[1]}; {near['sequences']} sequences"
        readings.append(Reading(value=ratio, text=text))
    few = [(FEW, one) for one in _found(bench, FEW) if one["order"] == "random"]
    return [*readings, _worst(few, "weighted-reverse-pagerank", "degree")]


def by_cluster(bench: Bench) -> list[Reading]:
    """Rows that FIFO misses with the seeds of a cluster together, over random and over proximity order."""
    readings, policies = [], ("fifo", "degree", "belady")
    for graph in GRAPHS[:2]:
        found = _found(bench, graph, SHARES[-1:], (*ORDERS, "cluster"), policies)
        chance, near, own = (next(one for one in found if one["order"] == order) for order in (*ORDERS, "cluster"))
        texts = [_text(graph, one, *policies) for one in (own, chance, near)]
        for other in (chance, near):
            ratio = own["missed"]["fifo"] / other["missed"]["fifo"]
            text = f"{ratio:.2f}: {'; '.join(texts)}; {own['about']}"
            readings.append(Reading(value=ratio, text=text))
    return readings


def _measure(name: str, target: float = 0.0) -> Measure:
    return Measure(name=name, relation="<=" if target else "", target=target, unit="x")


ROWS = (
    Row(
        name="residency",
        measures=(
            _measure("Rows of features missed, fill charged, fan-outs 10,10, 5 epochs, 4 graphs, random and proximity "
                     "order, 5, 10 and 20 % of the rows: Belady over the best other, worst case", 1.0),
            _measure("Belady that looks ahead as runs do by default over one that knows all, worst case", 1.25),
            _measure("Belady that looks ahead as runs do over rows by degree, 20 %, random order, worst case", 0.75),
            _measure("FIFO, 20 %, proximity order over random order, graph of large diameter", 0.6),
            _measure("the same on a graph with hubs"),
            _measure("weighted reverse PageRank over degree, directed graph, 1 % of the nodes train, worst case", 1.0),
        ),
        run=residency, minutes=2, settings="look-ahead: other planted graphs",
    ),
    Row(
        name="order-cluster",
        measures=(
            _measure("FIFO, 20 % of the rows, fan-outs 10,10, 5 epochs: rows missed with --batch-order cluster over "
                     "random order, graph of large diameter"),
            _measure("the same over proximity order"),
            _measure("the same over random order on a graph with hubs"),
            _measure("the same over proximity order on a graph with hubs"),
        ),
        run=by_cluster, minutes=4, settings="parts: the command's default",
    ),
)  # fmt: skip

"""Rows about speed: sampled edges beside PyG and DGL, two threads, LABOR, and random rows of features."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench, Done
from benchmarks.graphs.planted import write_graph
from benchmarks.table import Measure, Reading, Row, number, ratio_reading

GRAPHS = ((200_000, "15,10"), (1_000_000, "15,10,5"))
"""(nodes, fan-outs); 18 neighbors a node"""
PAIRS, ROUNDS, BATCHES = 5, 3, 12


def graph(bench: Bench, num_nodes: int) -> Path:
    num_nodes = 20_000 if bench.quick else num_nodes
    return bench.made(f"planted-{num_nodes}.npz", lambda target: write_graph(target, num_nodes, 18.5))


def _sides(bench: Bench, place: int, other: Callable[..., Done], *more: object) -> tuple[list[Any], list[Any]]:
    """Results of any2vec and the other side, in turn."""
    num_nodes, fanouts = GRAPHS[place]
    asked = graph(bench, num_nodes), fanouts, 2 if bench.quick else BATCHES, 1 if bench.quick else ROUNDS
    ours, theirs = [], []
    for _ in range(1 if bench.quick else PAIRS):
        theirs.append(other(*asked, 1).result)
        ours.append(bench.ours("any2vec_neighbors.py", *asked, 1, *more).result)
    bench.runs[fanouts] = {"any2vec": ours, "other": theirs}
    return ours, theirs


def _speeds(found: list[Any]) -> list[float]:
    return [statistics.median(one["edges_per_s"]) for one in found]


def beside(peer: str, environment: str, script: str, bench: Bench) -> list[Reading]:
    """Edges/s over a peer's, each of its own batches, whose sizes stand beside."""
    readings = []
    for place in range(len(GRAPHS)):
        ours, theirs = _sides(bench, place, partial(bench.peer, environment, script))
        reading = ratio_reading(_speeds(ours), _speeds(theirs), "edges/s", peer=peer)
        sizes = [f"{number(one[-1]['nodes'])} nodes, {number(one[-1]['edges'])} edges" for one in (ours, theirs)]
        readings.append(Reading(value=reading.value, text=f"{reading.text}; a batch {sizes[0]}; of {peer} {sizes[1]}"))
    return readings


def threads(bench: Bench) -> list[Reading]:
    def two(*asked: object) -> Done:
        return bench.ours("any2vec_neighbors.py", *asked[:-1], 2)

    readings = []
    for place in range(len(GRAPHS)):
        one, both = _sides(bench, place, two)
        assert (one[-1]["nodes"], one[-1]["edges"]) == (both[-1]["nodes"], both[-1]["edges"])
        readings.append(ratio_reading(_speeds(both), _speeds(one), "edges/s", peer="one thread"))
    return readings


def labor(bench: Bench) -> list[Reading]:
    readings = []
    for place in range(len(GRAPHS)):
        found, uniform = _sides(bench, place, partial(bench.ours, "any2vec_neighbors.py"), "labor")
        share = found[-1]["nodes"] / uniform[-1]["nodes"]
        speed = ratio_reading(_speeds(found), _speeds(uniform), "edges/s", peer="uniform")
        readings.append(Reading(value=share, text=f"{share:.3f} of {number(uniform[-1]['nodes'])}; speed {speed.text}"))
    return readings


def gather(bench: Bench) -> list[Reading]:
    asked = (50_000, 10_000, 2) if bench.quick else (1_000_000, 200_000, 15)
    found = bench.ours("any2vec_gather.py", *asked).result
    bench.runs["milliseconds"] = found
    pairs = (("any2vec", "index_select(out=)"), ("any2vec, 8 bits", "index_select"))
    return [ratio_reading(found[other], found[mine], "ms", peer="any2vec") for mine, other in pairs]


def _measures(what: str, relation: str = "", target: float = 0.0, unit: str = "x") -> tuple[Measure, ...]:
    names = (f"{what}, fan-outs {fanouts}, {nodes:,} nodes, batches of 1,024" for nodes, fanouts in GRAPHS)
    return tuple(Measure(name=name, relation=relation, target=target, unit=unit) for name in names)


ROWS = (
    Row(
        name="sampler", measures=_measures("Sampled edges/s over PyG with pyg-lib, one thread", ">=", 5.0),
        run=partial(beside, "PyG", "pyg", "pyg_neighbors.py"), minutes=6,
    ),
    Row(
        name="sampler-dgl", measures=_measures("Sampled edges/s over DGL 2.1, int64, one thread", ">=", 4.0),
        run=partial(beside, "DGL", "dgl", "dgl_neighbors.py"), minutes=6,
    ),
    Row(
        name="sampler-threads", measures=_measures("Sampled edges/s, two threads over one, same batches", ">=", 1.8),
        run=threads, minutes=4,
    ),
    Row(name="labor", measures=_measures("Distinct nodes of LABOR's batches over those of uniform ones"), run=labor,
        minutes=5),
    Row(
        name="gather",
        measures=(
            Measure(name="200,000 random rows of 512 B of 1 M over torch's index_select(out=), one thread",
                    relation=">=", target=1.4, unit="x"),
            Measure(name="Rows kept in 8 bits, as float32, over torch's index_select of float32",
                    relation=">=", target=3.5, unit="x"),
        ),
        run=gather, minutes=2,
    ),
)  # fmt: skip

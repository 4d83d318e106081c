"""A row about modules of users' own: all nodes layer by layer beside the forward over the whole graph."""

from __future__ import annotations

import statistics

from benchmarks.bench import Bench
from benchmarks.graphs.speed import graph
from benchmarks.table import Measure, Reading, Row, RowError, number

NODES, HIDDEN, ROUNDS = 200_000, 128, 3
SHAPES = 8
"""of modules, at least"""


def inference_zoo(bench: Bench) -> list[Reading]:
    rounds, hidden = (1, 64) if bench.quick else (ROUNDS, HIDDEN)
    zoo = bench.ours("any2vec_zoo.py", graph(bench, NODES), hidden, rounds, 1).result["zoo"]
    bench.runs["zoo"] = zoo
    if lost := [name for name, one in zoo.items() if "why_whole" in one]:
        raise RowError(f"{lost[0]} was not cut into layers: {zoo[lost[0]]['why_whole']}")
    readings = []
    for which in ("difference", "limited_difference"):
        name = max(zoo, key=lambda one, which=which: zoo[one][which])
        readings.append(Reading(value=zoo[name][which], text=f"{zoo[name][which]:.1e}, of {name}"))
    ratios = {name: one["whole"] / one["layers"] for name, one in zoo.items()}
    said = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    readings.append(Reading(value=statistics.median(ratios.values()), text=said))
    counts = [
        f"{name} {one['limited'] / one['layers']:.2f}x ({one['batches']} batches, {one['halved']} made again)"
        for name, one in zoo.items()
    ]
    limit = number(max(one["limit_bytes"] for one in zoo.values()))
    readings.append(Reading(value=len(zoo), text=f"{len(zoo)} within {limit} bytes; time: {', '.join(counts)}"))
    return readings


_WHAT = f"planted graph of {NODES:,} nodes, 3 layers of {HIDDEN}, one thread"
ROWS = (
    Row(
        name="inference-zoo", minutes=6, run=inference_zoo,
        measures=(
            Measure(name=f"Modules of PyG's layers, {_WHAT}: scores layer by layer off those of the forward over all "
                    "nodes, of the largest score", relation="<=", target=1e-5, unit=""),
            Measure(name="the same within 0.9 of what the widest layer takes", relation="<=", target=1e-5, unit=""),
            Measure(name="time of the forward over that layer by layer, both by our kernels, median of shapes",
                    relation="", target=0.0, unit="x"),
            Measure(name="shapes that end within 0.9 of what the widest layer takes", relation=">=", target=SHAPES,
                    unit=""),
        ),
    ),
)  # fmt: skip

"""Rows about whole epochs, whole graphs and all nodes: beside PyTorch Geometric and DGL on a planted graph."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.bench import Bench
from benchmarks.graphs.speed import graph
from benchmarks.table import Measure, Reading, Row, number, ratio_reading

NODES, PAIRS, ROUNDS = 200_000, 5, 2
EPOCHS = ((2, 128, "15,10", 12), (3, 256, "15,10,5", 4))
"""(layers, hidden, fan-outs, batches of 1,024)"""
THREADS = (1, 2)
ORDERS = ("degree", "rcm", "communities", "metis", "gcod")
OURS = "any2vec"
SCRIPTS = {OURS: "any2vec_networks.py", "pyg": "pyg_networks.py", "dgl": "dgl_networks.py"}
Side = Callable[..., Any]


def _seconds(side: str, bench: Bench, what: str, shape: tuple[int, int], threads: int, *more: object) -> dict[str, Any]:
    """Of one side's script, which is named like its environment: seconds of rounds, and their median."""
    asked = SCRIPTS[side], what, graph(bench, NODES), *shape, 1 if bench.quick else ROUNDS, threads, *more
    done = bench.ours(*asked) if side == OURS else bench.peer(side, *asked)
    return done.result | {"middle": statistics.median(done.result["seconds"])}


def _beside(bench: Bench, name: str, ours: Side, *theirs: Side, peer: str) -> Reading:
    """How many times as fast as the faster of a peer's set-ups, in alternating runs."""
    mine, other, runs = [], [], []
    for _ in range(1 if bench.quick else PAIRS):
        found = [side() for side in theirs]
        runs.append([ours(), *found])
        mine.append(runs[-1][0]["middle"])
        other.append(min(one["middle"] for one in found))
    bench.runs[name] = runs
    reading = ratio_reading(other, mine, "s", peer="any2vec")
    nodes = [f"{number(one['nodes'])} nodes" for one in runs[-1][:2] if "nodes" in one]
    sizes = f"; a batch {nodes[0]}, of {peer} {nodes[1]}" if len(nodes) == 2 else ""
    return Reading(value=reading.value, text=reading.text + sizes)


def epochs(peer: str, side: str, bench: Bench) -> list[Reading]:
    readings = []
    for layers, hidden, fanouts, batches in EPOCHS:
        batches = 2 if bench.quick else batches
        for threads in THREADS:
            ways = ((threads, 0),) if threads == 1 else ((threads, 0), (threads - 1, 1))
            asked = bench, "epochs", (layers, hidden)
            theirs = [partial(_seconds, side, *asked, own, fanouts, batches, workers) for own, workers in ways]
            ours = partial(_seconds, OURS, *asked, threads, fanouts, batches)
            readings.append(_beside(bench, f"{layers} layers, {threads} threads", ours, *theirs, peer=peer))
    return readings


def whole(what: str, sides: tuple[tuple[str, str, str], ...], shape: tuple[int, int], bench: Bench) -> list[Reading]:
    """sides: (peer's name, its environment, what its script is asked)."""
    readings = []
    for peer, side, asked in sides:
        ours = partial(_seconds, OURS, bench, what, shape, 1)
        theirs = partial(_seconds, side, bench, asked, shape, 1)
        readings.append(_beside(bench, f"{what} {peer} {asked}", ours, theirs, peer=peer))
    return readings


def own_module(bench: Bench) -> list[Reading]:
    """Seconds of PyG's loader over ours."""
    readings = []
    batches, rounds, pairs = (2, 1, 1) if bench.quick else (6, ROUNDS, PAIRS)
    for model in ("graphsage", "gat"):
        asked = model, graph(bench, NODES), batches, rounds
        found: dict[str, list[float]] = {"pyg": [], "any2vec": [], "accelerated": []}
        for _ in range(pairs):
            for loader, seconds in found.items():
                call = partial(bench.peer, "pyg") if loader == "pyg" else bench.ours
                seconds.append(statistics.median(call("pyg_module.py", "seconds", loader, *asked).result["seconds"]))
        bench.runs[f"seconds {model}"] = found
        for loader in ("any2vec", "accelerated"):
            readings.append(ratio_reading(found["pyg"], found[loader], "s", peer=loader))
    return readings


def spmm(bench: Bench) -> list[Reading]:
    found = bench.ours("any2vec_spmm.py", graph(bench, NODES), 2 if bench.quick else 15).result
    bench.runs["milliseconds"] = found
    times = found["milliseconds"]
    readings = [
        ratio_reading(times[f"{case} torch"], times[f"{case} any2vec"], "ms", peer="any2vec")
        for case in ("given 1", "ordered 1", "given 2", "ordered 2")
    ]
    readings += [
        ratio_reading(times[f"ordered {threads} torch"], times[f"ordered {threads} {kind}"], "ms", peer=kind)
        for kind in ("bfloat16", "8 bits")
        for threads in (1, 2)
    ]
    for name in ORDERS:
        reading = ratio_reading(times["order none"], times[f"order {name}"], "ms", peer=name)
        made = f"; made in {found['order_seconds'][name]:.1f} s"
        readings.append(Reading(value=reading.value, text=reading.text + made))
    share, triad = found["of_triad"], number(statistics.median(found["triad"]))
    return [*readings, Reading(value=share, text=f"{share:.2f} of {triad} bytes a second")]


def _ratio(name: str, target: float) -> Measure:
    return Measure(name=name, relation=">=", target=target, unit="x")


def _epoch_measures(peer: str, target: float) -> tuple[Measure, ...]:
    what = f"GraphSAGE, {{}} layers of {{}}, fan-outs {{}}, batches of 1,024, {{}}: epoch's time of {peer} over ours"
    return tuple(
        _ratio(what.format(layers, hidden, fanouts, "one thread" if threads == 1 else "two threads"), target)
        for layers, hidden, fanouts, _ in EPOCHS for threads in THREADS
    )  # fmt: skip


PLANTED = f"planted graph of {NODES:,} nodes, one thread"
ROWS = (
    Row(name="epoch", measures=_epoch_measures("PyG, pyg-lib, trim_to_layer", 3.5), minutes=14,
        run=partial(epochs, "PyG", "pyg")),
    Row(name="epoch-dgl", measures=_epoch_measures("DGL 2.1, int64", 1.5), minutes=8,
        run=partial(epochs, "DGL", "dgl")),
    Row(
        name="own-module", minutes=7, run=own_module,
        measures=tuple(
            measure
            for model in ("GraphSAGE", "GAT")
            for measure in (
                _ratio(f"PyG's own {model}, {PLANTED}: epoch's time by PyG's loader over any2vec's", 1.5),
                _ratio("the same, with any2vec.nn.accelerate", 1.5),
            )
        ),
    ),
    Row(
        name="full-graph", minutes=5,
        measures=(
            _ratio(f"GCN, 2 layers of 128, {PLANTED}: epoch's time of PyG (CSR) over ours", 2.3),
            _ratio("the same, of DGL", 1.2),
        ),
        run=partial(whole, "full", (("PyG", "pyg", "full"), ("DGL", "dgl", "full")), (2, 128)),
    ),
    Row(
        name="full-graph-once", minutes=3,
        measures=(
            _ratio(f"GCN, 2 layers of 128, no dropout, so that features are summed once, {PLANTED}: epoch's time of "
                   "DGL over ours", 3),
        ),
        run=partial(whole, "full-once", (("DGL", "dgl", "full-once"),), (2, 128)),
    ),
    Row(
        name="inference", minutes=9,
        measures=(
            _ratio(f"GraphSAGE, 3 layers of 128, all nodes, {PLANTED}: time of PyG's loader, layer by layer, over ours",
                   8),
            _ratio("the same, of PyG over the whole graph (CSR)", 1.5),
            _ratio("the same, of DGL over the whole graph", 1.2),
        ),
        run=partial(
            whole, "inference",
            (("PyG", "pyg", "by-layer"), ("PyG", "pyg", "inference"), ("DGL", "dgl", "inference")), (3, 128),
        ),
    ),
    Row(
        name="spmm", minutes=4, run=spmm,
        measures=(
            _ratio(f"Sums of neighbors' rows of 128 columns over torch.sparse.mm, {PLANTED}", 1.4),
            _ratio("the same, nodes ordered by METIS, 2,048 a part", 1.7),
            _ratio("nodes as given, two threads", 1.4),
            _ratio("nodes ordered, two threads", 1.7),
            *(
                _ratio(f"nodes ordered, rows in {kind}, {threads}: over torch.sparse.mm of float32", target)
                for kind, target in (("bfloat16", 2.5), ("8 bits", 3.0))
                for threads in ("one thread", "two threads")
            ),
            *(
                Measure(name=f"our own time, nodes as given, over that in the order {name}", relation="", unit="x")
                for name in ORDERS
            ),
            Measure(name="nodes ordered, two threads: bytes of rows a second over the machine's triad", relation=">=",
                    target=0.8),
        ),
    ),
)  # fmt: skip

"""Row about traveling walkers: the walks of one host by four that hold a part each, and what goes between them."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.bench import Bench
from benchmarks.table import Measure, Reading, Row, number

HOSTS = 4
METHODS = ("metis", "hash")
WAYS = {"first order": (1.0, 1.0), "p = q = 0.25": (0.25, 0.25)}
SEED = 1


def distributed_walkers(bench: Bench) -> list[Reading]:
    """Every host asks for a fourth of all walks; equal to one host's, slot by slot, or the first reading is 0."""
    from any2vec.data.graph.reader import read_graph
    from any2vec.sampling.walks import WalkOptions

    graph = read_graph(bench.edges("ppi" if bench.quick else "blogcatalog"))
    walks_per_node = 1 if bench.quick else 10
    equal, costs = [], []
    for method in METHODS:
        for way, (p, q) in WAYS.items():
            options = WalkOptions(walks_per_node=walks_per_node, walk_length=40, p=p, q=q)
            is_equal, cost, seconds = _travel(graph, options, method)
            equal.append(is_equal)
            costs.append(cost)
            bench.runs[f"{method}, {way}"] = {
                "identical": is_equal, "seconds": seconds, "steps": cost.steps, **cost.as_dict(),
                "partition": cost.partition.as_dict(),
            }  # fmt: skip
    reported = Reading(value=float(all(equal)), text=f"{sum(equal)} of {len(equal)} identical")
    return [reported, *(_reading(cost) for cost in costs)]


def _travel(graph: Any, options: Any, method: str) -> tuple[bool, Any, float]:
    """(whether the walks are those of one host, what they cost, seconds of the traveling)."""
    from any2vec.cluster.threads import run_logical
    from any2vec.plan.sharding.graph import report_partition
    from any2vec.plan.sharding.nodes import NodeSharding
    from any2vec.sampling.distributed_walks import DistributedWalker
    from any2vec.sampling.parts import split_graph
    from any2vec.sampling.walk_corpus import share_of, summary
    from any2vec.sampling.walks import Walker

    sharding = NodeSharding.make(graph.csr, HOSTS, method)
    parts = split_graph(graph, sharding)

    def host(transport: Any) -> tuple[np.ndarray, DistributedWalker]:
        walker = DistributedWalker(parts[transport.rank], transport, options, SEED)
        return walker.sample(*share_of(0, walker.num_walks, transport.rank, HOSTS), 0), walker

    started = time.perf_counter()
    found = run_logical(HOSTS, host)
    seconds = time.perf_counter() - started
    alone = Walker(graph.csr, options, SEED, is_directed=graph.is_directed)
    whole = np.empty(alone.num_walks * alone.stride, np.int32)
    alone.sample(0, alone.num_walks, 0, whole)
    part_N = sharding.owner(np.arange(sharding.num_rows))
    report = report_partition(graph.csr, part_N, HOSTS, is_directed=graph.is_directed)
    cost = summary([walker for _, walker in found], report, int((whole >= 0).sum()))
    return bool(np.array_equal(np.concatenate([walks for walks, _ in found]), whole)), cost, seconds


def _reading(cost: Any) -> Reading:
    per_step = f"{cost.crossings / cost.steps:.2f} crossings and {cost.edges_asked / cost.steps:.2f} questions a step"
    text = (
        f"{cost.bytes_per_step:.1f} bytes a step, {number(cost.messages)} messages in {cost.supersteps} supersteps; "
        f"{per_step}; {cost.partition.cut_share:.0%} of the edges cut"
    )
    return Reading(value=cost.bytes_per_step, text=text)


ROWS = (
    Row(
        name="traveling-walkers",
        measures=(
            Measure(
                name=f"BlogCatalog, {HOSTS} logical hosts: walks identical to one host's",
                relation=">=",
                target=1,
                wording="all identical",
            ),
            *(
                Measure(name=f"messages and bytes per step, {method}, {way}", relation="", wording="reported")
                for method in METHODS
                for way in WAYS
            ),
        ),
        run=distributed_walkers,
        minutes=1,
    ),
)

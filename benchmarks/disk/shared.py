"""The row about two hosts that train one table, which is larger than the memory of both."""

from __future__ import annotations

import statistics

from benchmarks.bench import Bench
from benchmarks.table import Measure, Reading, Row

SHAPE = {
    "entities": 100_000, "triples": 2_000_000, "dim": 128, "num_negatives": 500, "epochs": 2, "partitions": 16,
    "capacity": 4,
}  # fmt: skip
"""20 triples an entity; 52 MB of rows and state, a quarter of them in the memory of a host"""
QUICK = SHAPE | {"entities": 4_000, "triples": 40_000, "num_negatives": 50}
PAIRS = 5


def two_hosts(bench: Bench) -> list[Reading]:
    """Alternating runs of one process and of two, one thread each."""
    shape = QUICK if bench.quick else SHAPE
    folder = bench.scratch("two-hosts")
    runs: dict[int, list[dict[str, float]]] = {1: [], 2: []}
    for _ in range(1 if bench.quick else PAIRS):
        for hosts, found in runs.items():
            flags = [text for name, value in shape.items() for text in ("--" + name.replace("_", "-"), value)]
            reported = bench.ours("any2vec_two_hosts.py", "--folder", folder, "--hosts", hosts, *flags).result
            found.append(reported)
    bench.runs["runs"] = runs
    ratios = [two["items_per_s"] / one["items_per_s"] for one, two in zip(runs[1], runs[2], strict=True)]
    twice = sum(two["held_twice"] for two in runs[2])
    off = sum(
        abs(two[f"{kind}_bytes_sent"] - two[f"{kind}_bytes_planned"])
        for two in runs[2]
        for kind in ("partition", "round")
    )
    last = runs[2][-1]
    speeds = [statistics.median(run["items_per_s"] for run in found) for found in runs.values()]
    idle = max(max(two["seconds_idle"]) / two["train_seconds"] for two in runs[2])
    return [
        Reading(
            value=statistics.median(ratios),
            text=f"{statistics.median(ratios):.2f}× ({min(ratios):.2f} to {max(ratios):.2f}): {speeds[1]:,.0f} over "
            f"{speeds[0]:,.0f} triples/s; hosts wait {idle:.1%} of the time for each other at most",
        ),
        Reading(value=twice, text=f"{twice} of {last['holdings']:,.0f} holdings of a run"),
        Reading(
            value=off,
            text=f"{off:,.0f} bytes; {last['partition_bytes_sent'] / 1e6:,.1f} MB of partitions and "
            f"{last['round_bytes_sent'] / 1e3:,.1f} kB of relations in {shape['epochs']} epochs",
        ),
    ]


ROWS = (
    Row(
        name="two-hosts",
        measures=(
            Measure(
                name="triples/s of two processes with one thread each over one process with one thread, same "
                "partitions and memory a host", relation=">=", target=1.6, unit="x",
            ),
            Measure(name="partitions held by two hosts at once, or by none, by the hosts' notes", relation="<=",
                    wording="none"),
            Measure(name="bytes on the wire beside those of the plan", relation="<=", wording="none"),
        ),
        run=two_hosts,
        minutes=4,
    ),
)  # fmt: skip

"""The row about Ginex' superbatches: what is read is what was planned, and planning takes little time."""

from __future__ import annotations

import statistics

from benchmarks.bench import Bench
from benchmarks.graphs.speed import graph
from benchmarks.table import Measure, Reading, Row, number

NODES, EPOCHS, ACCESSES, TIMES = 200_000, 4, 1_000_000, 3


def superbatch(bench: Bench) -> list[Reading]:
    epochs, accesses = (2, 20_000) if bench.quick else (EPOCHS, ACCESSES)
    asked = graph(bench, NODES), bench.scratch("superbatch"), epochs, accesses
    runs = [bench.ours("any2vec_superbatch.py", *asked).result for _ in range(1 if bench.quick else TIMES)]
    bench.runs["runs"] = runs
    last = runs[-1]
    off = sum(abs(run["missed"] - run["planned"]) + abs(run["kernel_bytes"] - run["bytes"]) for run in runs)
    shares = [run["seconds_by_stage"]["look_ahead"] / run["seconds"] for run in runs]
    seconds = [run["plan_seconds"] * ACCESSES / run["accesses"] for run in runs]
    rows = f"{number(last['missed'])} of {number(last['read'])} rows read, {number(last['planned'])} planned"
    read = f"{last['kernel_bytes'] / 1e6:,.1f} MB by the kernel's count, {last['bytes'] / 1e6:,.1f} MB by the run's"
    share, spilled = statistics.median(shares), last["trace_bytes_spilled"]
    return [
        Reading(value=off, text=f"{off}: {rows}; {read}"),
        Reading(
            value=share,
            text=f"{share:.1%} of {last['seconds']:.1f} s; {last['ahead']} batches ahead, {spilled / 1e6:,.1f} MB of "
            "samples on disk meanwhile",
        ),
        Reading(value=statistics.median(seconds), text=f"{statistics.median(seconds):.2f} s"),
    ]


ROWS = (
    Row(
        name="superbatch",
        measures=(
            Measure(
                name="GraphSAGE, fan-outs 10,5, batches of 256, a tenth of the rows in memory, Belady: rows read "
                "beside those of a plan made from nodes alone, and bytes by the kernel's count beside the run's: "
                "differences",
                relation="<=", wording="equal",
            ),
            Measure(name="the planner's share of the time, two threads", relation="<=", target=0.1, wording="≤ 10 %"),
            Measure(name="seconds to plan 1 M uses of rows", relation="<=", target=1.0, wording="< 1 s"),
        ),
        run=superbatch, minutes=4,
    ),
)  # fmt: skip

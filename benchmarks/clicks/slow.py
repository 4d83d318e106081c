"""The row about a slow host among trainers of a click model: the first three of four gradients count in a step.

Hosts are processes in network namespaces on one machine, each with a share of a core.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.bench import Bench
from benchmarks.clicks.hosts import pool_of, run_hosts, steps_of, warm_up
from benchmarks.machine.namespaces import network
from benchmarks.machine.quotas import quotas
from benchmarks.table import Measure, Reading, Row, number

SHARES = (0.4, 0.4, 0.4, 0.25)
"""of a core, by trainer; the servers take what is left of two cores"""
STEP_BATCH, STEP_STEPS, STEP_PAIRS = 1024, 200, 5
HELD_OUT = 40_000
"""examples"""


def m_of_n(bench: Bench) -> list[Reading]:
    """Step time of three out of four trainers, one of them slow, over that of the three fast ones alone."""
    trainers = len(SHARES)
    steps, warm, held_out = (20, 5, 2_000) if bench.quick else (STEP_STEPS, 10, HELD_OUT)
    batch = 64 if bench.tiny else STEP_BATCH
    pool = pool_of(bench, trainers * batch * (steps + warm) + held_out)
    found: dict[str, list[dict[str, Any]]] = {}

    def run(sync: str, count: int) -> float:
        """Seconds a step of the fast ones."""
        shares = [*SHARES[:count], None]
        with network(count + 1) as net, quotas(shares) as groups:
            reported = run_hosts(
                bench, net, "--pool", pool, "--batch", batch, "--batches", steps + warm, "--sync", sync,
                "--servers", 1, "--warm", warm, "--steps", steps, "--held-out", held_out, wrap=groups.wrap,
            )  # fmt: skip
        found.setdefault(f"{sync} of {count}", []).append(steps_of(reported[:count]))
        return float(found[f"{sync} of {count}"][-1]["step"])

    warm_up(bench, lambda: run("m-of-n:3", 3))
    found.clear()
    pairs = [(run("m-of-n:3", 3), run("m-of-n:3", 4)) for _ in range(1 if bench.quick else STEP_PAIRS)]
    others = {sync: run(sync, 4) for sync in ("bsp", "async")[: 1 if bench.tiny else None]}
    bench.runs["steps"] = found
    ratios = [all_ / fast for fast, all_ in pairs]
    middle, (fast, whole) = statistics.median(ratios), (statistics.median(side) for side in zip(*pairs, strict=True))
    first = found["m-of-n:3 of 4"]
    lost = _lost(first)
    losses = {
        "m-of-n:3": statistics.fmean(one["loss"] for one in first),
        **{sync: found[f"{sync} of 4"][0]["loss"] for sync in others},
    }
    alone = statistics.fmean(one["loss"] for one in found["m-of-n:3 of 3"])
    speeds = {"m-of-n:3": whole, **others}
    return [
        Reading(
            value=middle,
            text=f"{middle:.2f}× ({min(ratios):.2f}–{max(ratios):.2f}, {len(ratios)} pairs): {1e3 * whole:.0f} / "
            f"{1e3 * fast:.0f} ms a step; " + ", ".join(f"{sync} {1e3 * took:.0f} ms" for sync, took in others.items()),
        ),
        Reading(
            value=lost["examples"],
            text=f"{lost['dropped']:.1%} of gradients dropped, {lost['left_out']:.1%} of batches left out: "
            f"{lost['examples']:.1%} of examples",
        ),
        Reading(
            value=losses["m-of-n:3"],
            text=", ".join(f"{sync} {loss:.4f}" for sync, loss in losses.items())
            + f"; the three alone {alone:.4f} ({number(held_out)} held-out examples, steps of "
            + ", ".join(f"{1e3 * took:.0f}" for took in speeds.values())
            + " ms)",
        ),
    ]


def _lost(runs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Shares of what all trainers were to do: gradients dropped, batches left out, and examples of both."""
    totals = {name: sum(sum(run[name].values()) for run in runs) for name in ("accepted", "dropped", "left_out")}
    batches = max(1, sum(totals.values()))
    given = max(1, totals["accepted"] + totals["dropped"])
    return {
        "dropped": totals["dropped"] / given, "left_out": totals["left_out"] / batches,
        "examples": (totals["dropped"] + totals["left_out"]) / batches,
    }  # fmt: skip


ROWS = (
    Row(
        name="m-of-n",
        measures=(
            Measure(
                name="4 trainers, one at 0.25 of a core, three at 0.4: a step of m-of-n:3 over one of the three alone",
                relation="<=", target=1.15, unit="x",
            ),
            Measure(name="what m-of-n:3 drops", relation="", wording="reported"),
            Measure(name="held-out log-loss, beside bsp and async of four", relation="", wording="reported"),
        ),
        run=m_of_n,
        minutes=8,
    ),
)  # fmt: skip

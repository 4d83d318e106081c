"""A run of DLRM on hosts of its own in a network on one machine: how it starts, and its figures in a few numbers."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench, script_of
from benchmarks.clicks.pool import write_pool
from benchmarks.machine.namespaces import Network

STREAM = {"columns": 26, "rows": 100_000, "zipf": 1.1, "dense": 13, "seed": 1}
"""planted, as of the row about one host"""
QUICK_STREAM = STREAM | {"columns": 8, "rows": 2_000}


def run_hosts(
    bench: Bench, net: Network, *arguments: object,
    wrap: Callable[[int, list[str]], list[str]] = lambda host, command: command,
) -> list[dict[str, Any]]:  # fmt: skip
    """What each host of a run has measured, by rank. wrap: as `Network.run`."""
    command = [sys.executable, script_of("any2vec_click_host.py"), *arguments]
    reported = net.run(command, {"ANY2VEC_CACHE": str(bench.cache)}, 900, wrap)
    return [json.loads(text) for text in reported]


def pool_of(bench: Bench, num_examples: int) -> Path:
    """The folder of a pool of so many examples, made once."""
    options = QUICK_STREAM if bench.quick else STREAM
    name = f"clicks-{num_examples}-{options['columns']}-{options['rows']}"
    return bench.made(name, lambda target: write_pool(target, num_examples, options))


def warm_up(bench: Bench, run: Callable[[], object]) -> None:
    """Compile what runs need, in one whose figures nobody reads; a quick row's figures may hold compilation."""
    if not bench.quick:
        run()


def steps_of(trainers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A run in a few numbers: medians over its trainers; times are seconds a step, bytes those of the first trainer."""

    def middle(of: Callable[[Mapping[str, Any]], float]) -> float:
        return statistics.median(of(one) / one["batches"] for one in trainers)

    first = trainers[0]
    found = {
        "step": middle(lambda one: one["seconds"]),
        "dense": middle(lambda one: one["dense"].get("wait_seconds", 0.0)),
        "fetch": middle(lambda one: one["rows"].get("waited_for_fetch_seconds", 0.0)),
        "trainers": middle(lambda one: one["rows"].get("waited_for_trainers_seconds", 0.0)),
        "cpu": middle(lambda one: one["cpu_seconds"]),
        "calls": {name: middle(lambda one, name=name: one["calls"][name]) for name in first["calls"]},
        "bytes": {name: size / first["batches"] for name, size in first["bytes_by_phase"].items()},
        "shares": {name: value for name, value in first["rows"].items() if name.endswith("_share")},
        "of_trainers": [one["seconds"] / one["batches"] for one in trainers],
        "loss": next((one["loss"] for one in trainers if one.get("loss") is not None), None),
    }
    for one in trainers:
        for name in {"accepted", "dropped", "left_out"} & one.get("metrics", {}).keys():
            found.setdefault(name, {}).update(one["metrics"][name])
    return found

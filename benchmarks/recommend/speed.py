"""Rows about speed: training beside the library implicit, one thread, and lists for all users."""

from __future__ import annotations

import json

from benchmarks.bench import Bench
from benchmarks.recommend.lists import DIM
from benchmarks.recommend.sets import parts
from benchmarks.table import Measure, Reading, Row, ratio_reading

PAIRS = 5


def training(bench: Bench) -> list[Reading]:
    readings = []
    for model, settings in (("bpr", {"num_negatives": 1, "learning_rate": 0.05, "l2": 0.01}),
                            ("als", {"alpha": 8.0, "l2": 2.0})):  # fmt: skip
        asked = parts(bench, "gowalla"), model, 1, json.dumps({"dim": DIM, "epochs": 12} | settings)
        ours, theirs = [], []
        for _ in range(1 if bench.quick else PAIRS):
            theirs.append(bench.peer("implicit", "implicit_lists.py", *asked, "--speed").result)
            ours.append(bench.ours("any2vec_lists.py", *asked, "--speed").result)
        bench.runs[model] = {"any2vec": ours, "implicit": theirs}
        speeds = ([one["pairs_per_s"] for one in side] for side in (ours, theirs))
        readings.append(ratio_reading(*speeds, "pairs/s", peer="implicit"))
    return readings


def all_users(bench: Bench) -> list[Reading]:
    asked = parts(bench, "gowalla"), "bpr", 1, json.dumps({"dim": DIM, "epochs": 1})
    found = [bench.ours("any2vec_lists.py", *asked, "--lists").result for _ in range(1 if bench.quick else PAIRS)]
    bench.runs["any2vec"] = found
    seconds = sorted(one["list_seconds"] for one in found)[len(found) // 2]
    return [Reading(value=seconds, text=f"{seconds:.2f} s for {found[0]['num_users']:,} users")]


ROWS = (
    Row(
        name="training",
        measures=(
            Measure(name=f"BPR, gowalla, dim {DIM}, one negative, one thread: pairs/s over implicit", relation=">=",
                    target=3.0, unit="x"),
            Measure(name=f"ALS, gowalla, dim {DIM}, 3 steps of conjugate gradients, one thread: pairs/s over implicit",
                    relation=">=", target=1.0, unit="x"),
        ),
        run=training, minutes=10,
    ),
    Row(
        name="all-users",
        measures=(Measure(name=f"20 items for each user of gowalla of 40,981, dim {DIM}, two threads: seconds",
                          relation="<=", target=10.0),),
        run=all_users, minutes=2,
    ),
)  # fmt: skip

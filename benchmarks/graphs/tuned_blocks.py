"""The row about GCoD's tuning: a graph pruned by ADMM, its share of edges within blocks, sums over it, and accuracy."""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any

from benchmarks.bench import Bench
from benchmarks.graphs.learned.accuracy import folder_of
from benchmarks.table import Measure, Reading, Row, ratio_reading

GRAPHS = (("Cora", "cora", "4"), ("Citeseer", "citeseer", "3,6"))
"""(name, folder, GCoD's thresholds of the degree)"""
SHARES = (0.1, 0.2, 0.3, 0.5)
"""of the edges that are pruned, from GCoD's own: one is chosen on the validation nodes, by the mean of the seeds; less
would change less, down to nothing, so the least share may well be chosen"""
BITS, SEEDS, EPOCHS, ROUNDS, BLOCK_NODES, POINTS = (16, 6), (1, 2, 3, 4, 5), 200, 15, 32, 100
COLUMNS = (64, 128, 256, 512)
Runs = list[dict[str, Any]]
"""of a share and bits, seed by seed"""


def tuned(bench: Bench) -> list[Reading]:
    return [reading for name, graph, degrees in GRAPHS for reading in _of_graph(bench, name, graph, degrees)]


def _of_graph(bench: Bench, name: str, graph: str, degrees: str) -> list[Reading]:
    asked, epochs = (folder_of(bench, graph), BLOCK_NODES, degrees), 3 if bench.quick else EPOCHS
    shares, seeds = (SHARES[:1], SEEDS[:1]) if bench.quick else (SHARES, SEEDS)

    def learned(shares: tuple[float, ...], bits: tuple[int, ...]) -> Runs:
        lists = ",".join(map(str, shares)), ",".join(map(str, bits))
        return [
            run
            for seed in seeds
            for run in bench.ours("any2vec_gcod_tuned.py", "learn", *asked, *lists, seed, epochs).result["runs"]
        ]

    plain = learned(shares, (0,))
    by_share = {share: [run for run in plain if run["share"] == share] for share in shares}
    chosen = max(shares, key=lambda share: statistics.fmean(run["after"]["val"] for run in by_share[share]))
    rounded = learned((chosen,), BITS)
    rounds = 2 if bench.quick else ROUNDS
    numbers = ",".join(map(str, COLUMNS))
    sums = bench.ours("any2vec_gcod_tuned.py", "sums", *asked, chosen, epochs, numbers, rounds).result
    bench.runs[name] = {"shares": plain, "chosen": chosen, "bits": rounded, "sums": sums}
    runs = by_share[chosen]
    readings = [_within(runs, chosen), *(_ratio(sums, number) for number in COLUMNS), _points(runs, "after")]
    return [*readings, *(_points([run for run in rounded if run["bits"] == bits], f"{bits} bits") for bits in BITS)]


def _within(runs: Runs, chosen: float) -> Reading:
    share = {side: statistics.fmean(run["within"][side] for run in runs) for side in ("given", "ordered", "tuned")}
    kept = f"{runs[0]['kept']:,} of {runs[0]['edges']:,} entries stay, {chosen:.0%} pruned"
    text = f"{share['tuned']:.1%}; before it {share['ordered']:.1%}, nodes as given {share['given']:.1%}; {kept}"
    return Reading(value=share["tuned"], text=text)


def _ratio(sums: dict[str, Any], number: int) -> Reading:
    times = sums["milliseconds"]
    reading = ratio_reading(times[f"{number} blocks"], times[f"{number} entries"], "ms", peer="entries")
    given = f"; along all edges of the given graph {statistics.median(times[f'{number} given']):.2f} ms"
    dense = f"; {sums['dense'][str(number)]:.1%} of the edges in dense blocks"
    return Reading(value=reading.value, text=reading.text + given + dense)


def _points(runs: Runs, what: str) -> Reading:
    before, after = ([POINTS * run[side]["test"] for run in runs] for side in ("before", "after"))
    differences = [one - other for one, other in zip(after, before, strict=True)]
    text = f"{statistics.fmean(differences):+.2f}: {what} {statistics.fmean(after):.2f}, before "
    return Reading.of_seeds(differences, f"{text}{statistics.fmean(before):.2f}")


def _measures(name: str) -> tuple[Measure, ...]:
    reported = partial(Measure, relation="")
    change = f"{name}: test accuracy of a GCN, {len(SEEDS)} seeds, less that on all edges, points"
    return (
        reported(name=f"{name}: edges within GCoD's blocks after tuning"),
        *(
            Measure(name=f"{name} tuned, {number} columns: time with dense blocks by the break-even, over that along "
                    "edges", relation="<=", target=1.03, unit="x")
            for number in COLUMNS
        ),
        reported(name=f"{change}: tuned"), *(reported(name=f"{change}: tuned, {bits} bits") for bits in BITS),
    )  # fmt: skip


ROWS = (
    Row(
        name="gcod-tuned", measures=tuple(measure for name, *_ in GRAPHS for measure in _measures(name)), run=tuned,
        minutes=15, settings="share pruned: validation nodes",
    ),
)  # fmt: skip

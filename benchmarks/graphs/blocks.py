"""The row about GCoD: what its order gathers in blocks on the diagonal, and what dense blocks are worth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.graphs.learned.accuracy import folder_of
from benchmarks.graphs.planted import write_blocks
from benchmarks.table import Measure, Reading, Row, ratio_reading

COLUMNS, ROUNDS = (64, 128, 256, 512), 15


def _planted(bench: Bench) -> Path:
    nodes = 2_000 if bench.quick else 50_000
    return bench.made(f"blocks-{nodes}.npz", lambda target: write_blocks(target, nodes))


GRAPHS: tuple[tuple[str, Callable[[Bench], Path], int, str], ...] = (
    ("Cora", partial(folder_of, graph="cora"), 32, "4"),
    ("Citeseer", partial(folder_of, graph="citeseer"), 32, "3,6"),
    ("planted blocks of 128", _planted, 128, "none"),
)
"""(name, the graph, nodes of a block, thresholds of the degree: of the first two GCoD's)"""


def gcod(bench: Bench) -> list[Reading]:
    readings = []
    for name, graph, block_nodes, thresholds in GRAPHS:
        asked = graph(bench), block_nodes, thresholds, ",".join(map(str, COLUMNS)), 2 if bench.quick else ROUNDS
        found = bench.ours("any2vec_gcod.py", *asked).result
        bench.runs[name] = found
        before, after = found["shares"]
        readings.append(Reading(value=after, text=f"{after:.1%}; nodes as given {before:.1%}"))
        for number in COLUMNS:
            times = found["milliseconds"]
            reading = ratio_reading(times[f"{number} blocks"], times[f"{number} entries"], "ms", peer="entries")
            share = f"; {found['dense'][str(number)]:.1%} of the edges in dense blocks"
            readings.append(Reading(value=reading.value, text=reading.text + share))
    return readings


def _measures(graphs: Sequence[str]) -> tuple[Measure, ...]:
    found = []
    for name in graphs:
        found.append(Measure(name=f"{name}: edges within GCoD's blocks", relation=""))
        found += [
            Measure(name=f"{name}, {number} columns: time with dense blocks by the break-even, over that along edges",
                    relation="<=", target=1.03, unit="x")
            for number in COLUMNS
        ]  # fmt: skip
    return tuple(found)


ROWS = (Row(name="gcod", measures=_measures([name for name, *_ in GRAPHS]), run=gcod, minutes=3),)

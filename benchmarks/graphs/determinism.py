"""The row about whether the same comes out twice."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.graphs.learned.accuracy import folder_of
from benchmarks.graphs.speed import graph
from benchmarks.table import Measure, Reading, Row, RowError

NODES, BATCHES, EPOCHS, STOPS = 200_000, 24, 60, 2


def determinism(bench: Bench) -> list[Reading]:
    """How many digests differ; 0 is promised."""
    blocks = bench.ours("any2vec_repeated.py", "blocks", graph(bench, NODES), 2 if bench.quick else BATCHES).result
    out = bench.scratch("resumed")
    done = bench.ours("any2vec_repeated.py", "resumed", folder_of(bench, "photo"), out, EPOCHS).result
    bench.runs |= {"blocks": blocks, "resumed": done}
    others = [len(set(by.values())) - 1 for by in blocks["digests"].values()]
    ways = f"{len(others)} ways of sampling, {blocks['batches']} batches each"
    if len(done["stopped"]) < STOPS:
        raise RowError("the run was over before it could be stopped")
    files = sorted(done["whole"].keys() | done["parts"].keys())
    differ = [name for name in files if done["whole"].get(name) != done["parts"].get(name)]
    stops = ", ".join(text.rpartition(" ")[2] for text in done["stopped"])
    return [
        Reading(value=sum(others), text=f"{sum(others)} of {ways}, differ"),
        Reading(value=len(differ), text=f"{len(differ)} of {', '.join(files)} differ; stopped at {stops}"),
    ]


ROWS = (
    Row(
        name="determinism",
        measures=(
            Measure(
                name="Blocks that 1, 2 and 4 threads sample, and 2 and 4 logical hosts, each its own batches: ways of "
                f"sampling with more than one digest, planted graph of {NODES:,} nodes", relation="<=",
                wording="identical",
            ),
            Measure(
                name=f"GraphSAGE on Photo, {EPOCHS} epochs, one thread, stopped twice and resumed, beside a run that "
                "was not: files of the result that differ", relation="<=", wording="identical",
            ),
        ),
        run=determinism, minutes=3,
    ),
)  # fmt: skip

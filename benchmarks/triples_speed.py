"""The row about the speed of models of triples in memory, beside PyKEEN."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.table import Measure, Reading, Row, ratio_reading
from benchmarks.triples_quality import FB15K237, first_lines, triples_of

DIM, BATCH, THREADS, PAIRS = 192, 1000, 2, 3
TRIPLES = 50_000
"""the first ones of FB15k-237: an epoch of PyKEEN takes minutes"""
NEGATIVES = (100, 0)
"""0: all entities"""
OUR_EPOCHS = 5
"""an epoch takes a second"""


def speed(bench: Bench) -> list[Reading]:
    """Triples/s of an epoch, both questions of a triple: PyKEEN asks the second of its inverse triples."""
    train = triples_of(bench, FB15K237.archive, "train")
    head = train
    if not bench.quick:
        head = bench.made(f"FB15k-237.{TRIPLES}.tsv", lambda target: first_lines(train, target, TRIPLES))
    out, readings = bench.scratch("speed"), []
    for number in NEGATIVES:
        rates: dict[str, list[float]] = {"any2vec": [], "PyKEEN": []}
        for _ in range(1 if bench.quick else PAIRS):
            ours = bench.any2vec(
                "train", head, "--model", "complex", "--dim", DIM, "--batch-size", BATCH, "--num-negatives", number,
                "--threads", THREADS, "--epochs", OUR_EPOCHS, "--out", out, "--overwrite",
            )  # fmt: skip
            theirs = bench.peer(
                "pykeen", "pykeen_triples.py", "--triples", head, "--model", "ComplEx", "--dim", DIM, "--batch", BATCH,
                "--num-negatives", number, "--threads", THREADS,
            )  # fmt: skip
            rates["any2vec"].append(ours.result["items_per_s"])
            rates["PyKEEN"].append(theirs.result["triples_per_s"])
        bench.runs[f"triples_per_s, {number} negatives"] = rates
        readings.append(ratio_reading(rates["any2vec"], rates["PyKEEN"], "triples/s", peer="PyKEEN"))
    return readings


_WHAT = f"ComplEx, {DIM} floats, batch {BATCH}, Adagrad, {THREADS} threads"

ROWS = (
    Row(
        name="speed-in-memory",
        measures=(
            Measure(
                name=f"triples/s over PyKEEN 1.11, {_WHAT}, 100 negatives (of a batch; of a triple)",
                relation=">=", target=5, unit="x",
            ),
            Measure(name="the same against all entities (LCWA)", relation=">=", target=5, unit="x"),
        ),
        run=speed,
        minutes=20,
    ),
)  # fmt: skip

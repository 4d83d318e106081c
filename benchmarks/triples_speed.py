"""The row about the speed of models of triples in memory, beside PyTorch-BigGraph and PyKEEN."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.table import Measure, Reading, Row, ratio_reading
from benchmarks.triples_quality import FB15K237, first_lines, triples_of

DIM, THREADS, PAIRS = 192, 2, 3
OUR_EPOCHS = 5
"""an epoch takes a second or two"""


@dataclass(frozen=True)
class Peer:
    """Who is compared, and on what."""

    name: str
    environment: str
    script: str
    negatives: int
    """0: all entities"""
    questions: int
    """of a step, two a triple"""
    batch: int
    """of a step, as the peer counts it"""
    triples: int
    """the first ones of FB15k-237; 0: all of them"""


PEERS = (
    Peer("PyTorch-BigGraph", "pbg", "pbg_triples.py", 100, 2000, 1000, 0),
    # Its inverse triples ask the second question, and count as triples. An epoch of all takes it minutes.
    Peer("PyKEEN", "pykeen", "pykeen_triples.py", 100, 1000, 1000, 50_000),
    Peer("PyKEEN", "pykeen", "pykeen_triples.py", 0, 1000, 1000, 50_000),
)


def speed(bench: Bench) -> list[Reading]:
    """Triples/s of an epoch in which each is asked for head and tail."""
    return [_beside(bench, peer) for peer in PEERS]


def _beside(bench: Bench, peer: Peer) -> Reading:
    train, rates = _triples(bench, peer.triples), {"ours": [], "theirs": []}  # type: dict[str, list[float]]
    shape: Sequence[object] = ("--dim", DIM, "--num-negatives", peer.negatives, "--threads", THREADS)
    out = bench.scratch("speed")
    for _ in range(1 if bench.quick else PAIRS):
        ours = bench.any2vec(
            "train", train, "--model", "complex", *shape, "--batch-size", peer.questions, "--epochs", OUR_EPOCHS,
            "--out", out, "--overwrite",
        )  # fmt: skip
        theirs = bench.peer(peer.environment, peer.script, "--triples", train, *shape, "--batch", peer.batch)
        rates["ours"].append(ours.result["items_per_s"])
        rates["theirs"].append(theirs.result["triples_per_s"])
    bench.runs[f"triples/s beside {peer.name}, {peer.negatives} negatives"] = rates
    return ratio_reading(rates["ours"], rates["theirs"], "triples/s", peer=peer.name)


def _triples(bench: Bench, number: int) -> Path:
    """The first `number` triples of training."""
    train = triples_of(bench, FB15K237.archive, "train")
    if bench.quick or not number:
        return train
    return bench.made(f"FB15k-237.{number}.tsv", lambda target: first_lines(train, target, number))


_WHAT = f"ComplEx, {DIM} floats, Adagrad, {THREADS} threads"
_MEASURED = (
    f"triples/s over PyTorch-BigGraph 1.0, {_WHAT}, batches of 1000 triples, 100 shared negatives, softmax",
    f"triples/s over PyKEEN 1.11, {_WHAT}, batches of 1000 questions, 100 negatives (PyKEEN's of each triple)",
    f"triples/s over PyKEEN 1.11, {_WHAT}, batches of 1000 questions, all entities (LCWA), softmax",
)

ROWS = (
    Row(
        name="speed-in-memory",
        measures=tuple(Measure(name=name, relation=">=", target=5, unit="x") for name in _MEASURED),
        run=speed,
        minutes=20,
    ),
)

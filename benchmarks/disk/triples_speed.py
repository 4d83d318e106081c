"""The row about the speed of models of triples in memory, beside PyTorch-BigGraph and PyKEEN."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.disk.triples_quality import FB15K237, first_lines, triples_of
from benchmarks.table import Measure, Reading, Row, ratio_reading

DIM, THREADS, PAIRS = 192, 2, 3


@dataclass(frozen=True)
class Peer:
    """Who is compared, and on what."""

    name: str
    environment: str
    script: str
    negatives: int
    """that the questions of our batch share; 0: all entities"""
    own_negatives: int
    """the peer's: shared by a batch (PyTorch-BigGraph), or drawn for each question (PyKEEN); 0: all entities"""
    queries: int
    """of our step, two a triple"""
    batch: int
    """of a step, as the peer counts it"""
    triples: int
    """the first ones of FB15k-237; 0: all of them"""
    our_epochs: int
    """some seconds"""


# PyKEEN's inverse triples ask the second question, and count as triples. It scores either all entities for each
# question, as any2vec does when it has no number, or negatives drawn for each question alone: it has none that a batch
# shares. Beside shared ones it is given a single one of its own, which is its default, and so a hundredth of the work;
# batches of 4000 suit it then, for each of its steps goes over the whole table. With as many of its own its best
# batches are small ones, which stay in the cache. An epoch of all triples takes it minutes.
PEERS = (
    Peer("PyTorch-BigGraph", "pbg", "pbg_triples.py", 100, 100, 2000, 1000, 0, 25),
    Peer("PyKEEN", "pykeen", "pykeen_triples.py", 0, 0, 1000, 1000, 50_000, 4),
    Peer("PyKEEN", "pykeen", "pykeen_triples.py", 100, 1, 4000, 4000, 50_000, 60),
    Peer("PyKEEN", "pykeen", "pykeen_triples.py", 100, 100, 1000, 64, 10_000, 200),
)


def speed(bench: Bench) -> list[Reading]:
    """Triples/s of an epoch in which each is asked for head and tail."""
    bench.runs["linear algebra of any2vec"] = bench.any2vec("doctor").result["linear_algebra"]
    return [_beside(bench, peer) for peer in PEERS]


def _beside(bench: Bench, peer: Peer) -> Reading:
    train = _triples(bench, peer.triples)
    rates: dict[str, list[float]] = {"ours": [], "theirs": []}
    shape: Sequence[object] = ("--dim", DIM, "--threads", THREADS)
    out = bench.scratch("speed")
    for _ in range(1 if bench.quick else PAIRS):
        ours = bench.any2vec(
            "train", "complex", train, *shape, "--num-negatives", peer.negatives, "--batch-size",
            peer.queries, "--epochs", 1 if bench.quick else peer.our_epochs, "--out", out, "--overwrite",
        )  # fmt: skip
        theirs = bench.peer(
            peer.environment, peer.script, "--triples", train, *shape, "--num-negatives", peer.own_negatives,
            "--batch", peer.batch,
        )  # fmt: skip
        rates["ours"].append(ours.result["items_per_s"])
        rates["theirs"].append(theirs.result["triples_per_s"])
    bench.runs[f"triples/s beside {peer.name}, {peer.negatives} and {peer.own_negatives} negatives"] = rates
    return ratio_reading(rates["ours"], rates["theirs"], "triples/s", peer=peer.name)


def _triples(bench: Bench, number: int) -> Path:
    """The first `number` triples of training."""
    train = triples_of(bench, FB15K237.archive, "train")
    if bench.quick or not number:
        return train
    return bench.made(f"FB15k-237.{number}.tsv", lambda target: first_lines(train, target, number))


_WHAT = f"ComplEx, {DIM} floats, Adagrad, {THREADS} threads"
_MEASURED = (
    f"triples/s over PyTorch-BigGraph 1.0, {_WHAT}, batches of 1000 triples, softmax, 100 negatives: its own of each "
    "chunk of 100 triples, any2vec's of a batch of 1000 (as many scores, a tenth of the negatives' rows)",
    f"triples/s over PyKEEN 1.11, {_WHAT}, batches of 1000 questions, all entities (LCWA), softmax",
    f"triples/s over PyKEEN 1.11, {_WHAT}, batches of 4000 questions, 100 negatives that a batch shares; PyKEEN, which "
    "shares none, with one a question (sLCWA), its default",
)
_REPORTED = "the same, PyKEEN with 100 negatives a question, drawn for each; batches of 1000 questions, PyKEEN's of 64"

ROWS = (
    Row(
        name="speed-in-memory",
        measures=(
            *(Measure(name=name, relation=">=", target=5, unit="x") for name in _MEASURED),
            Measure(name=_REPORTED, relation="", wording="reported", unit="x"),
        ),
        run=speed,
        minutes=20,
    ),
)

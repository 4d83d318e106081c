"""Rows about graph nodes: the whole node2vec job, walks alone, two threads over one, DeepWalk on BlogCatalog."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.bench import Bench
from benchmarks.table import Measure, Reading, Row, number, ratio_reading
from benchmarks.words import text as words

SEEDS = (1, 2, 3)
WALKS = ("--walks-per-node", 10, "--walk-length", 40)
FEW_WALKS = ("--walks-per-node", 1, "--walk-length", 40)
BIASED = ("--p", 0.25, "--q", 0.25)
JOB = ("--dim", 128, "--window", 10, "--num-negatives", 5)
JOB_EPOCHS = 1
JOB_THREADS = 2
GRAPHS = {"blogcatalog": "BlogCatalog", "ppi": "PPI"}
# Settings of reference/any2vec-and-combiners.md section 5 (vertex2vec).
DEEPWALK = ("--dim", 200, "--window", 5, "--num-negatives", 15, "--learning-rate", 0.025, "--subsample", 0)
DEEPWALK_EPOCHS = 16
FRACTIONS = (0.3, 0.6, 0.9)
SHUFFLES = 10
REPEATS = 3
"""of the walks in one process, of each side"""


def node2vec_job(bench: Bench) -> list[Reading]:
    readings = []
    for graph in GRAPHS:
        readings += _job(bench, graph)
    return readings


def walks(bench: Bench) -> list[Reading]:
    """steps/s on one thread, reading and compilation apart; the peers alternate with any2vec."""
    graph, repeats = _walk_graph(bench)
    edges = bench.edges(graph)
    once = ("--edges", edges, *BIASED)
    ours, pecanpy, fast = [], [], []
    for seed in range(1, repeats + 1):
        ours.append(_median(bench.ours("any2vec_walks.py", *once, *WALKS, "--seed", seed, "--repeats", REPEATS)))
        # PecanPy's rate does not depend on how many walks start.
        pecanpy.append(
            _median(bench.peer("pecanpy", "pecanpy_nodes.py", *once, *FEW_WALKS, "--seed", seed, "--repeats", REPEATS))
        )
        fast.append(
            _median(
                bench.peer("fastnode2vec", "fastnode2vec_walks.py", *once, *WALKS, "--seed", seed, "--repeats", REPEATS)
            )
        )
    bench.runs["steps_per_s"] = {"any2vec": ours, "pecanpy": pecanpy, "fastnode2vec": fast}
    return [
        ratio_reading(ours, pecanpy, "steps/s", peer="PecanPy"),
        ratio_reading(ours, fast, "steps/s", peer="fastnode2vec"),
    ]


def two_threads(bench: Bench) -> list[Reading]:
    return [words.two_threads_words(bench), _two_threads_walks(bench)]


def deepwalk_blogcatalog(bench: Bench) -> list[Reading]:
    """micro-F1 at 30, 60 and 90 % labels; the scorer knows how many labels each node has, as the reference's does."""
    graph, walks, epochs = ("ppi", FEW_WALKS, 1) if bench.quick else ("blogcatalog", WALKS, DEEPWALK_EPOCHS)
    scores = []
    for seed in _seeds(bench):
        out, walked = bench.scratch("any2vec-deepwalk"), bench.scratch("walks")
        # The reference walks once and trains all epochs on those walks, so the walks are stored, not made anew.
        bench.any2vec("walk", bench.edges(graph), "--out", walked, *walks, "--seed", seed, "--overwrite")
        done = bench.any2vec(
            "train", "deepwalk", walked, "--out", out, *DEEPWALK,
            "--epochs", epochs, "--threads", 2, "--seed", seed, "--overwrite",
        )  # fmt: skip
        scores.append(_micro_f1(bench, graph, out, FRACTIONS))
        bench.runs.setdefault("seconds", []).append(done.seconds)
    bench.runs["micro_f1"] = scores
    return [_f1_reading([score[share] for score in scores]) for share in FRACTIONS]


def _job(bench: Bench, graph: str) -> list[Reading]:
    """Seconds of walks + training, threads alike; compilation is taken out of both sides."""
    walks = FEW_WALKS if bench.quick else WALKS
    settings = ("--epochs", JOB_EPOCHS, "--threads", JOB_THREADS)
    ours, theirs, our_f1, their_f1, whole = [], [], [], [], []
    for seed in _seeds(bench):
        out, vectors = bench.scratch(f"any2vec-{graph}"), bench.scratch(f"pecanpy-{graph}.bin")
        mine = bench.ours(
            "any2vec_nodes.py", "--edges", bench.edges(graph), *walks, *BIASED, *JOB, *settings,
            "--seed", seed, "--out", out,
        )  # fmt: skip
        peer = bench.peer(
            "pecanpy", "pecanpy_nodes.py", "--edges", bench.edges(graph), *walks, *BIASED, *JOB, *settings,
            "--seed", seed, "--train", "--out", vectors,
        )  # fmt: skip
        ours.append(mine.result["seconds"])
        theirs.append(sum(peer.result["walk_seconds"]) + peer.result["train_seconds"])
        whole.append((mine.seconds, peer.seconds))
        our_f1.append(_micro_f1(bench, graph, out, (0.5,))[0.5])
        their_f1.append(_micro_f1(bench, graph, vectors, (0.5,))[0.5])
        bench.runs.setdefault(graph, []).append({"any2vec": mine.result, "pecanpy": peer.result})
    bench.runs[f"{graph}_seconds_of_whole_processes"] = whole
    bench.runs[f"{graph}_micro_f1"] = {"any2vec": our_f1, "pecanpy": their_f1}
    speed = ratio_reading(
        [1 / seconds for seconds in ours], [1 / seconds for seconds in theirs], "jobs/s", peer="PecanPy"
    )
    sides = f"{number(statistics.median(ours))} s / PecanPy + gensim {number(statistics.median(theirs))} s"
    processes = statistics.median(other / own for own, other in whole)
    text = f"{speed.text.split(';')[0]}; {sides}; whole processes {processes:.3g}×"
    mean, other = statistics.fmean(our_f1), statistics.fmean(their_f1)
    less = [own - peer for own, peer in zip(our_f1, their_f1, strict=True)]
    f1 = Reading.of_seeds(less, f"{mean:.2f} / PecanPy + gensim {other:.2f} ({mean - other:+.2f})")
    return [Reading(value=speed.value, text=text), f1]


def _two_threads_walks(bench: Bench) -> Reading:
    graph, repeats = _walk_graph(bench)
    one: list[float] = []
    two: list[float] = []
    for seed in range(1, repeats + 1):
        for threads, found in ((2, two), (1, one)):
            done = bench.ours(
                "any2vec_walks.py", "--edges", bench.edges(graph), *WALKS, *BIASED,
                "--threads", threads, "--seed", seed, "--repeats", REPEATS,
            )  # fmt: skip
            found.append(_median(done))
    bench.runs["steps_per_s"] = {"two threads": two, "one thread": one}
    return ratio_reading(two, one, "steps/s", peer="one thread")


def _micro_f1(bench: Bench, graph: str, vectors: Any, fractions: Sequence[float]) -> dict[float, float]:
    """Mean micro-F1 of the shuffles in points, by share of labeled nodes; the same splits for every embedding."""
    from any2vec.embeddings import Embeddings
    from any2vec.evaluate.graph.nodes import evaluate_nodes

    embeddings = Embeddings.load(vectors, format="word2vec-binary" if vectors.suffix == ".bin" else None)
    labels = bench.data(f"graph-{graph}/{graph}.labels.txt.gz")
    shuffles = 1 if bench.quick else SHUFFLES
    scored = evaluate_nodes(embeddings, labels, fractions=fractions, shuffles=shuffles, seed=1, known_counts=True)
    return {score.fraction: 100 * score.micro_f1 for score in scored.scores}


def _f1_reading(values: Sequence[float]) -> Reading:
    return Reading.of_seeds(values, f"{statistics.fmean(values):.2f} ({min(values):.2f}–{max(values):.2f})")


def _median(done: Any) -> float:
    """The middle repeat inside one process; all sides take equally many."""
    return statistics.median(done.result["steps_per_s"])


def _walk_graph(bench: Bench) -> tuple[str, int]:
    return ("ppi", 1) if bench.quick else ("blogcatalog", 3)


def _seeds(bench: Bench) -> Sequence[int]:
    return SEEDS[:1] if bench.quick else SEEDS


def _job_measures() -> tuple[Measure, ...]:
    measures = []
    for name in GRAPHS.values():
        job = f"{name}: walks + training over PecanPy (SparseOTF) + gensim, p = q = 0.25, {JOB_THREADS} threads"
        measures.append(Measure(name=job, relation=">=", target=8, unit="x"))
        f1 = f"{name}: micro-F1, 50 % labels, {SHUFFLES} shuffles, less the peer's"
        measures.append(Measure(name=f1, relation=">=", target=-0.5, wording="≥ −0.5 points", is_accuracy=True))
    return tuple(measures)


_WALKS_ALONE = "steps/s over {}, BlogCatalog, p = q = 0.25, 1 thread"

ROWS = (
    Row(name="node2vec-job", measures=_job_measures(), run=node2vec_job, minutes=6, settings="node2vec's paper"),
    Row(
        name="walks",
        measures=(
            Measure(name=_WALKS_ALONE.format("PecanPy (SparseOTF)"), relation=">=", target=40, unit="x"),
            Measure(name=_WALKS_ALONE.format("fastnode2vec"), relation=">=", target=2, unit="x"),
        ),
        run=walks,
        minutes=2,
    ),
    Row(
        name="two-threads",
        measures=(
            Measure(name="words/s, skip-gram, two threads over one", relation=">=", target=1.8, unit="x"),
            Measure(name="steps/s, walks on BlogCatalog, two threads over one", relation=">=", target=1.8, unit="x"),
        ),
        run=two_threads,
        minutes=2,
    ),
    Row(
        name="deepwalk-blogcatalog",
        measures=tuple(
            Measure(
                name=f"micro-F1 at {share:.0%} labels, 10 walks × 40", relation=">=", target=target, is_accuracy=True
            )
            for share, target in zip(FRACTIONS, (34.0, 37.2, 38.4), strict=True)
        ),
        run=deepwalk_blogcatalog,
        minutes=8,
        settings="published",
    ),
)

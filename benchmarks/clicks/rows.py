"""Rows about one host: its embedding part beside PyTorch's and TorchRec's, its whole step beside one with free rows."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench, Done
from benchmarks.table import Measure, NotMeasuredError, Reading, Row, number, ratio_reading
from benchmarks.tuning import best_inside

COLUMNS, DIM = 26, 16
STREAM = {"columns": COLUMNS, "zipf": 1.1, "dense": 13}


@dataclass(frozen=True)
class Sizes:
    rows: int
    """of each table; two more, for missing and rare values, are never read"""
    batch: int
    train: int
    """batches"""
    test: int
    """batches behind those"""
    steps: int
    """timed"""


FULL, QUICK = Sizes(100_000, 2048, 240, 50, 30), Sizes(1000, 128, 20, 10, 10)
GRID = (0.005, 0.01, 0.02, 0.04)
"""learning rates of the rows, of all sides; each side's best on a stream of another seed is taken"""
DENSE_SHARE = 0.25
"""learning rate of the dense layers over that"""
PAIRS, SEEDS = 5, 3
"""pairs of runs; how many of them, a seed each, learn beside being timed"""
THREADS = (1, 2)
TUNING_SEED = 2
"""of the stream on which rates are chosen; all others read seed 1"""
EQUAL = 0.001
"""nats that mean log-losses may be apart"""
OURS, HOGWILD = "any2vec", "any2vec, 2 workers of 512"
SMALL_BATCH = 512
"""of each of two workers that together learn in a step what one does with 2048 (docs/log.md)"""
TORCH = {"PyTorch": ("torch_rows.py", "")}
TORCHREC = {"TorchRec": ("torchrec_rows.py", "torchrec"), "fbgemm": ("torchrec_rows.py", "fbgemm")}
"""name -> script of the peer, and its engine where it has several"""
Side = Callable[..., Done]
Runs = dict[int, list[dict[str, Any]]]
"""by threads: what each side of each pair has measured"""


def embedding_part(bench: Bench) -> list[Reading]:
    """Look-up, pooling and row update over PyTorch's; and what both learn from the same stream."""
    runs = _runs(bench, TORCH)
    readings = [_speed(runs, threads, "PyTorch", "rows") for threads in THREADS]
    return readings + [_losses(runs, threads, TORCH) for threads in THREADS]


def small_batches(bench: Bench, peers: dict[str, tuple[str, str]]) -> list[Reading]:
    """The same runs, any2vec's by two workers with a quarter of the batch each: speed over each peer, and log-loss."""
    runs, (_, two) = _runs(bench, peers), THREADS
    return [*(_speed(runs, two, peer, "rows", HOGWILD) for peer in peers), _losses(runs, two, peers, HOGWILD)]


def whole_step(bench: Bench) -> list[Reading]:
    """Time of a step whose rows cost nothing over that of a step, each stretch of batches in turn."""
    runs = _runs(bench, TORCH)
    readings = []
    for threads in THREADS:
        ours = [run[OURS] for run in runs[threads]]
        ratios = [run["free_over_whole"] for run in ours]
        free, whole = (
            1e3 * statistics.median(run[f"{name}_seconds"] for run in ours) for name in ("free_step", "step")
        )
        theirs = 1e3 * statistics.median(run["PyTorch"]["step_seconds"] for run in runs[threads])
        readings.append(
            Reading(
                value=statistics.median(ratios),
                text=f"{statistics.median(ratios):.3f} ({min(ratios):.3f}–{max(ratios):.3f}, {len(ratios)} runs); "
                f"{number(free)} / {number(whole)} ms, PyTorch's whole step {number(theirs)} ms",
            )
        )
    return readings


def torchrec(bench: Bench) -> list[Reading]:
    """Over TorchRec, and over fbgemm's operator alone, which lies beneath it."""
    runs = _runs(bench, TORCHREC)
    readings = [_speed(runs, threads, name, "rows") for name in TORCHREC for threads in THREADS]
    readings += [_speed(runs, threads, "TorchRec", "step") for threads in THREADS]
    return readings + [_losses(runs, threads, TORCHREC) for threads in THREADS]


def _speed(runs: Runs, threads: int, peer: str, part: str, ours: str = OURS) -> Reading:
    """Ratio of batches/s of a part, over pairs of runs."""
    sides = [[1 / run[name][f"{part}_seconds"] for run in runs[threads]] for name in (ours, peer)]
    return ratio_reading(*sides, "batches/s", peer=peer)


def _losses(runs: Runs, threads: int, peers: Iterable[str], ours: str = OURS) -> Reading:
    """How far any2vec's log-loss is above a peer's, by seed; of several peers the one that learns most.

    Both sides start their dense layers alike, and read the same batches in the same order.
    """
    learnt = [run for run in runs[threads] if "test_log_loss" in run[ours]]
    losses = {name: [run[name]["test_log_loss"] for run in learnt] for name in (ours, *peers)}
    means = {name: statistics.fmean(found) for name, found in losses.items()}
    best = min(peers, key=lambda name: means[name])
    differences = [mine - other for mine, other in zip(losses[ours], losses[best], strict=True)]
    shown = ", ".join(f"{name} {mean:.4f}" for name, mean in means.items()) + f"; Bayes {runs[0][0]['bayes']:.4f}"
    return Reading.of_seeds(differences, f"{statistics.fmean(differences):+.4f}: {shown}")


def _runs(bench: Bench, peers: dict[str, tuple[str, str]]) -> Runs:
    """Of all sides, in turn; any2vec with one worker a thread, and with two that have small batches. Under 0 threads
    stands the Bayes log-loss."""

    def make() -> Runs:
        folder, bayes = _examples(bench, 1)
        found: Runs = {0: [{"bayes": bayes}]}
        sides = {OURS: _ours(bench, 0), HOGWILD: _ours(bench, SMALL_BATCH)}
        sides |= {name: _peer(bench, *peer) for name, peer in peers.items()}
        rates = {
            (name, threads): _rate(bench, name, side, threads)
            for threads in THREADS for name, side in sides.items() if _takes_part(name, threads)
        }  # fmt: skip
        for pair in range(1 if bench.quick else PAIRS):
            for threads in THREADS:
                run = {}
                for name, side in sides.items():
                    if _takes_part(name, threads):
                        # In a smoke run OpenMP's threads may wait for each other for minutes, on a busy machine.
                        used = 1 if bench.quick and name in peers else threads
                        given = _arguments(bench, folder, used, pair + 1, rates[name, threads], pair < SEEDS)
                        run[name] = side(*given).result
                found.setdefault(threads, []).append(run)
        return found

    runs: Runs = bench.once(("clicks rows", *peers), make)
    bench.runs["runs"] = {str(threads): found for threads, found in runs.items()}
    return runs


def _takes_part(name: str, threads: int) -> bool:
    return name != HOGWILD or threads == 2


def _rate(bench: Bench, name: str, side: Side, threads: int) -> float:
    """The rate with which a side learns most from a stream that nobody is judged by; the threads of a peer share its
    batch, so they learn what one does."""
    if bench.quick:
        return GRID[1]
    is_peer = name not in (OURS, HOGWILD)

    def make() -> tuple[float, dict[float, float]]:
        folder, _ = _examples(bench, TUNING_SEED)

        def score(rate: float) -> float:
            given = _arguments(bench, folder, max(THREADS) if is_peer else threads, 1, rate, True, ("--steps", 1))
            return -float(side(*given).result["test_log_loss"])

        return best_inside(GRID, score)

    best, scores = bench.once(("clicks rates", name, 0 if is_peer else threads), make)
    bench.runs.setdefault("log-loss by rate", {})[f"{name}, {threads} threads"] = {
        str(rate): -scores[rate] for rate in sorted(scores)
    }
    return float(best)


def _ours(bench: Bench, worker_batch: int) -> Side:
    """worker_batch: 0: that of the peers."""
    more = ("--worker-batch", worker_batch // (FULL.batch // _sizes(bench).batch)) if worker_batch else ()
    return lambda *given: bench.ours("any2vec_rows.py", *given, *more)


def _peer(bench: Bench, script: str, engine: str) -> Side:
    """PyTorch in any2vec's own environment, which has it; TorchRec in one of its own."""
    if engine:
        return lambda *given: bench.peer("torchrec", script, "--engine", engine, *given)
    return lambda *given: bench.ours(script, *given)


def _arguments(
    bench: Bench, folder: Path, threads: int, seed: int, rate: float, learns: bool, more: tuple[object, ...] = ()
) -> tuple[object, ...]:
    files = [("--" + name, folder / f"{name}.npy") for name in ("ids", "dense", "labels")]
    size = _sizes(bench)
    learning = ("--train-steps", size.train) if learns else ()
    rates = ("--learning-rate", rate, "--dense-learning-rate", DENSE_SHARE * rate)
    options = (
        "--rows", size.rows + 2, "--dim", DIM, "--batch", size.batch, "--steps", size.steps,
        "--test", size.test * size.batch, *rates, "--seed", seed,
    )  # fmt: skip
    return *(part for file in files for part in file), *options, "--threads", threads, *learning, *more


def _sizes(bench: Bench) -> Sizes:
    return QUICK if bench.quick else FULL


def _examples(bench: Bench, seed: int) -> tuple[Path, float]:
    """A folder of ids.npy, dense.npy and labels.npy of a stream, and the Bayes log-loss of those that judge."""
    try:
        import numpy as np
        import torch  # noqa: F401
    except ImportError as error:
        raise NotMeasuredError(f"{error.name} is not installed") from None
    from any2vec.testing.planted_clicks import PlantedClicks

    sizes = _sizes(bench)
    known, size = sizes.train * sizes.batch, (sizes.train + sizes.test) * sizes.batch
    clicks = PlantedClicks(size, **STREAM, rows=sizes.rows, seed=seed)

    def write(folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        batch = clicks.batch(0, size)
        np.save(folder / "ids.npy", (batch.id_M.reshape(size, COLUMNS) - clicks.offset_F[:-1]).astype(np.int32))
        np.save(folder / "dense.npy", batch.dense_BX)
        np.save(folder / "labels.npy", batch.label_B)

    return bench.made(f"clicks-rows-{clicks.digest[:12]}", write), clicks.bayes(known, size).log_loss


def _each(name: str, relation: str = "", target: float = 0.0, unit: str = "") -> tuple[Measure, ...]:
    """A measure for each number of THREADS; without a relation it is only reported."""
    return tuple(
        Measure(
            name=f"{name}, {threads} thread{'s' * (threads > 1)}", relation=relation, target=target, unit=unit,
            wording="" if relation else "reported",
        )
        for threads in THREADS
    )  # fmt: skip


_WHAT = f"DLRM, {COLUMNS} tables of {FULL.rows // 1000} k rows, dim {DIM}, batch {FULL.batch} on both sides, Adagrad"
_SMALL = f"2 threads, any2vec's workers with batches of {SMALL_BATCH} each, seconds of {FULL.batch} examples"
_SETTINGS = "a stream of another seed"


def _same(what: str) -> Measure:
    return Measure(
        name=f"held-out log-loss after the same {FULL.train} batches, {what}: any2vec's less a peer's, {SEEDS} seeds",
        relation="<=", target=EQUAL, wording=f"≤ a peer's + {EQUAL}", is_accuracy=True,
    )  # fmt: skip


_EACH_SAME = tuple(_same(f"{threads} thread{'s' * (threads > 1)}") for threads in THREADS)
ROWS = (
    Row(
        name="embedding-part",
        measures=(
            *_each(
                f"{_WHAT}: look-up, pooling, row update over PyTorch EmbeddingBag + sparse Adagrad", ">=", 5, unit="x"
            ),
            *_EACH_SAME,
        ),
        run=embedding_part,
        minutes=22,
        settings=_SETTINGS,
    ),
    Row(
        name="embedding-part-512",
        measures=(
            Measure(name=f"embedding part over PyTorch, {_SMALL}", relation=">=", target=5, unit="x"), _same(_SMALL)
        ),
        run=partial(small_batches, peers=TORCH),
        minutes=1,
        settings=_SETTINGS,
    ),
    Row(
        name="whole-step",
        measures=_each("speed of the whole step over that with free rows", ">=", 0.85),
        run=whole_step,
        minutes=1,
        settings=_SETTINGS,
    ),
    Row(
        name="torchrec",
        measures=(
            *_each("embedding part over TorchRec 1.8, fbgemm's CPU build, batch 2048 on both sides", ">=", 1.5, "x"),
            *_each("the same over fbgemm's CPU operator alone, without TorchRec around it"),
            *_each("whole step over TorchRec"),
            *_EACH_SAME,
        ),
        run=torchrec,
        minutes=27,
        settings=_SETTINGS,
    ),
    Row(
        name="torchrec-512",
        measures=(
            Measure(name=f"embedding part over TorchRec, {_SMALL}", relation=">=", target=1.5, unit="x"),
            Measure(name="the same over fbgemm's CPU operator alone", relation="", wording="reported"),
            _same(_SMALL),
        ),
        run=partial(small_batches, peers=TORCHREC),
        minutes=1,
        settings=_SETTINGS,
    ),
)  # fmt: skip

"""Rows about one host: its embedding part beside PyTorch's and TorchRec's, its whole step beside one with free rows."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench, Done
from benchmarks.table import Measure, NotMeasuredError, Reading, Row, number, ratio_reading, standard_error

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
RATES = {"any2vec": 0.014, "PyTorch": 0.014, "TorchRec": 0.01, "fbgemm": 0.01}
"""learning rate of the rows, each side's best of 0.01, 0.014, 0.02 and 0.028 on one thread with seed 1 (docs/log.md)"""
DENSE_SHARE = 0.25
"""learning rate of the dense layers over that"""
PAIRS, SEEDS = 5, 3
"""pairs of runs; how many of them, a seed each, learn beside being timed"""
THREADS = (1, 2)
EQUAL = 0.001
"""nats that mean log-losses may be apart, or else two standard errors of their difference"""
TORCH = {"PyTorch": ("torch_rows.py", "")}
TORCHREC = {"TorchRec": ("torchrec_rows.py", "torchrec"), "fbgemm": ("torchrec_rows.py", "fbgemm")}
"""name -> script of the peer, and its engine where it has several"""


def embedding_part(bench: Bench) -> list[Reading]:
    """Look-up, pooling and row update over PyTorch's; and what both learn from the same stream."""
    runs = _runs(bench, TORCH)
    readings = [_speed(runs, threads, "PyTorch", "rows") for threads in THREADS]
    return [*readings, _losses(runs, ("PyTorch",))]


def whole_step(bench: Bench) -> list[Reading]:
    """Time of a step whose rows cost nothing over that of a step, each stretch of batches in turn."""
    runs = _runs(bench, TORCH)
    readings = []
    for threads in THREADS:
        ours = [run["any2vec"] for run in runs[threads]]
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
    return [*readings, _losses(runs, tuple(TORCHREC))]


def _speed(runs: dict[int, Any], threads: int, peer: str, part: str) -> Reading:
    """Ratio of batches/s of a part, over pairs of runs."""
    sides = [[1 / run[name][f"{part}_seconds"] for run in runs[threads]] for name in ("any2vec", peer)]
    return ratio_reading(*sides, "batches/s", peer=peer)


def _losses(runs: dict[int, Any], peers: Sequence[str]) -> Reading:
    """How far any2vec's mean log-loss is above a peer's, less what is allowed; the worst of all peers and threads.

    Both sides start their dense layers alike, and read the same batches in the same order.
    """
    reported, worst = [], []
    for threads in THREADS:
        learnt = [run for run in runs[threads] if "test_log_loss" in run["any2vec"]]
        losses = {name: [run[name]["test_log_loss"] for run in learnt] for name in ("any2vec", *peers)}
        means = {name: statistics.fmean(found) for name, found in losses.items()}
        for peer in peers:
            error = standard_error(losses["any2vec"], losses[peer])
            worst.append(means["any2vec"] - means[peer] - max(EQUAL, 2 * error))
        seeds = f"{len(learnt)} seed{'s' * (len(learnt) > 1)}"
        reported.append(
            f"{threads} thread{'s' * (threads > 1)} ({seeds}): "
            + ", ".join(f"{name} {mean:.4f}" for name, mean in means.items())
        )
    return Reading(value=max(worst), text=f"{'; '.join(reported)}; Bayes {runs[0]:.4f}")


def _runs(bench: Bench, peers: dict[str, tuple[str, str]]) -> dict[int, Any]:
    """{threads: [{"any2vec": ..., peer: ...} of each pair]}, and the Bayes log-loss as the runs of 0 threads."""

    def make() -> dict[int, Any]:
        folder, bayes = _examples(bench)
        found: dict[int, Any] = {0: bayes}
        sides: dict[str, Callable[..., Done]] = {"any2vec": lambda *given: bench.ours("any2vec_rows.py", *given)}
        for name, (script, engine) in peers.items():
            sides[name] = _peer(bench, script, engine)
        for pair in range(1 if bench.quick else PAIRS):
            for threads in THREADS:
                # A smoke run may meet a busy machine, on which OpenMP's threads wait for each other for minutes.
                theirs = 1 if bench.quick else threads
                # Several workers have smaller batches, and lower rates, so that they learn what one does (docs/log.md).
                ours = _arguments(bench, folder, threads, pair, RATES["any2vec"] * threads**-0.5)
                given = {name: _arguments(bench, folder, theirs, pair, RATES[name]) for name in peers}
                given["any2vec"] = ours
                run = {name: side(*given[name]).result for name, side in sides.items()}
                found.setdefault(threads, []).append(run)
        return found

    runs: dict[int, Any] = bench.once(("clicks rows", *peers), make)
    bench.runs["runs"] = {str(threads): found for threads, found in runs.items()}
    return runs


def _peer(bench: Bench, script: str, engine: str) -> Callable[..., Done]:
    """PyTorch in any2vec's own environment, which has it; TorchRec in one of its own."""
    if engine:
        return lambda *given: bench.peer("torchrec", script, "--engine", engine, *given)
    return lambda *given: bench.ours(script, *given)


def _arguments(bench: Bench, folder: Path, threads: int, pair: int, rate: float) -> tuple[object, ...]:
    files = [("--" + name, folder / f"{name}.npy") for name in ("ids", "dense", "labels")]
    size = _sizes(bench)
    learning = ("--train-steps", size.train) if pair < SEEDS else ()
    rates = ("--learning-rate", rate, "--dense-learning-rate", DENSE_SHARE * rate)
    options = (
        "--rows", size.rows + 2, "--dim", DIM, "--batch", size.batch, "--steps", size.steps,
        "--test", size.test * size.batch, *rates, "--seed", pair + 1,
    )  # fmt: skip
    return *(part for file in files for part in file), *options, "--threads", threads, *learning


def _sizes(bench: Bench) -> Sizes:
    return QUICK if bench.quick else FULL


def _examples(bench: Bench) -> tuple[Path, float]:
    """A folder of ids.npy, dense.npy and labels.npy, and the Bayes log-loss of those that are not trained on."""
    try:
        import numpy as np
        import torch  # noqa: F401
    except ImportError as error:
        raise NotMeasuredError(f"{error.name} is not installed") from None
    from any2vec.testing.planted_clicks import PlantedClicks

    sizes = _sizes(bench)
    known, size = sizes.train * sizes.batch, (sizes.train + sizes.test) * sizes.batch
    clicks = PlantedClicks(size, **STREAM, rows=sizes.rows)

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


_WHAT = f"DLRM, {COLUMNS} tables of {FULL.rows // 1000} k rows, dim {DIM}, batch {FULL.batch}, Adagrad"
_SAME = Measure(
    name=f"held-out log-loss after the same {FULL.train} batches: any2vec's less a peer's, less what is allowed",
    relation="<=", target=0, wording=f"≤ a peer's + max({EQUAL}, 2 standard errors)",
)  # fmt: skip

ROWS = (
    Row(
        name="embedding-part",
        measures=(
            *_each(
                f"{_WHAT}: look-up, pooling, row update over PyTorch EmbeddingBag + sparse Adagrad", ">=", 5, unit="x"
            ),
            _SAME,
        ),
        run=embedding_part,
        minutes=8,
    ),
    Row(
        name="whole-step",
        measures=_each("speed of the whole step over that with free rows", ">=", 0.85),
        run=whole_step,
        minutes=1,
    ),
    Row(
        name="torchrec",
        measures=(
            *_each("embedding part over TorchRec 1.8 with fbgemm's CPU build", ">=", 1.5, unit="x"),
            *_each("the same over fbgemm's CPU operator alone, without TorchRec around it"),
            *_each("whole step over TorchRec"),
            _SAME,
        ),
        run=torchrec,
        minutes=12,
    ),
)

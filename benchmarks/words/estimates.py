"""Row about `any2vec estimate`: what it says before a run, beside what the run then took."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence

from benchmarks.bench import Bench
from benchmarks.table import Measure, Reading, Row
from benchmarks.words.memory import planted_text
from benchmarks.words.text import warm_up

MEMORY_SHARE = 0.15
TIME_SHARE = 0.30
REPEATS = 3


def estimate(bench: Bench) -> list[Reading]:
    """The worst of several jobs, memory (peak resident) and time (whole command), as |estimate / run - 1|.

    Each job is estimated and run three times, and the median of its errors counts.
    """
    for model in ("skipgram", "cbow"):
        warm_up(bench, model)
    words, planted = bench.words(), planted_text(bench)
    runs = [
        ("enwiki, skip-gram", ["skipgram", words, "--dim", 100, "--epochs", 1, "--threads", 1]),
        ("enwiki, CBOW", ["cbow", words, "--dim", 200, "--epochs", 1, "--threads", 2]),
        ("planted, skip-gram", ["skipgram", planted, "--dim", 200, "--epochs", 1, "--threads", 2]),
    ]
    if not bench.quick:
        walks = ["--walks-per-node", 10, "--walk-length", 40, "--epochs", 2, "--threads", 2]
        runs.append(("PPI, node2vec", ["node2vec", bench.edges("ppi"), "--p", 0.25, "--q", 0.25, *walks]))
    memory, seconds = [], []
    for name, job in runs:
        errors = [_errors(bench, name, job) for _ in range(1 if bench.quick else REPEATS)]
        memory.append((statistics.median(error for error, _ in errors), name))
        seconds.append((statistics.median(error for _, error in errors), name))
    return [_worst(memory), _worst(seconds)]


def _errors(bench: Bench, name: str, job: Sequence[object]) -> tuple[float, float]:
    """Of memory and of seconds, estimate / run - 1."""
    bench.forget_input()
    said = bench.any2vec("estimate", *job).result
    os.sync()  # what the run before has left to write is not this run's time
    out = bench.scratch("any2vec-estimate")
    did = bench.any2vec("train", *job, "--out", out, "--overwrite", wrap=_below_a_shell).result
    found = {
        "estimate": {key: said[key] for key in ("memory_bytes", "seconds", "memory", "time")},
        "run": {key: did[key] for key in ("peak_rss_bytes", "seconds", "train_seconds", "compile_seconds")},
    }
    bench.runs.setdefault(name, []).append(found)
    return said["memory_bytes"] / did["peak_rss_bytes"] - 1, said["seconds"] / did["seconds"] - 1


def _below_a_shell(command: list[str]) -> list[str]:
    """A process begins with the peak memory of the one that started it: a shell has little, unlike this process."""
    return ["sh", "-c", '"$@"; exit $?', "sh", *command]


def _worst(errors: list[tuple[float, str]]) -> Reading:
    error, name = max(errors, key=lambda one: abs(one[0]))
    shown = ", ".join(f"{other} {value:+.0%}" for value, other in errors)
    return Reading(value=abs(error), text=f"{error:+.0%} at worst ({name}); {shown}")


ROWS = (
    Row(
        name="estimate",
        measures=(
            Measure(
                name="estimated memory against the run's peak",
                relation="<=",
                target=MEMORY_SHARE,
                wording="within ±15 %",
            ),
            Measure(name="estimated time against the run's", relation="<=", target=TIME_SHARE, wording="within ±30 %"),
        ),
        run=estimate,
        minutes=12,
    ),
)

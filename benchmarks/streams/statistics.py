"""Rows about the statistics of a stream by themselves: memory that does not grow, and the speed of encoding."""

from __future__ import annotations

from statistics import median

from benchmarks.bench import Bench
from benchmarks.table import Measure, Reading, Row

BUDGET, FILLED = 1_000_000_000, (40_000_000, 200_000_000)
"""bytes of all arrays; by the first of these words they are full"""
WORDS, QUICK_WORDS = (20_000_000, 200_000_000), (200_000, 1_000_000)


def memory(bench: Bench) -> list[Reading]:
    """Vocabulary, pairs and replay buffer on a planted stream whose new words never stop, budgets used up early."""
    words = QUICK_WORDS if bench.quick else WORDS
    found = bench.ours("any2vec_statistics.py", "--words", *words).result
    bench.runs["memory"] = found
    early, late = found["resident"]
    sizes = f"{late / 2**20:.0f} MiB behind {words[1]:,} words, {early / 2**20:.0f} MiB behind {words[0]:,}"
    births = f"{found['births']:,} births of {found['rows']:,} rows"
    return [Reading(value=late / early, text=f"{late / early:.3f}×: {sizes}; {births}")]


def gigabyte(bench: Bench) -> list[Reading]:
    """The same with arrays of 1 GB in all, without what the process had before: the state alone."""
    words = QUICK_WORDS if bench.quick else FILLED
    found = bench.ours("any2vec_statistics.py", "--gigabyte", "--words", *words).result
    bench.runs["gigabyte"] = found
    early, late = (resident - found["before"] for resident in found["resident"])
    full = f"{found['types']:,} of {found['max_types']:,} words, {found['rows']:,} of {found['max_rows']:,} rows"
    return [
        Reading(
            value=late / BUDGET, text=f"{late / BUDGET:.3f}×: {late / 1e6:.0f} MB behind {words[1]:,} words; {full}"
        ),
        Reading(value=late / early, text=f"{late / early:.3f}×: {early / 1e6:.0f} MB behind {words[0]:,} words"),
    ]


def encoding(bench: Bench) -> list[Reading]:
    """Words per second of one thread, with decay, over those of the encoder of files, in turns."""
    found = bench.ours("any2vec_statistics.py", "--text", bench.words(), "--repeats", 1 if bench.quick else 5).result
    bench.runs["encoding"] = found
    seconds, words = found["seconds"], found["words"]
    ratios = [file / stream for file, stream in zip(seconds["file"], seconds["stream"], strict=True)]
    rates = {side: words / median(times) / 1e6 for side, times in seconds.items()}
    speeds = f"{rates['stream']:.1f} M words/s, files {rates['file']:.1f} M"
    return [
        Reading(value=median(ratios), text=f"{median(ratios):.2f}× ({min(ratios):.2f} .. {max(ratios):.2f}): {speeds}")
    ]


ROWS = (
    Row(
        name="statistics-memory",
        measures=(
            Measure(
                name="resident memory of the statistics by themselves behind 200 M words over behind 20 M",
                relation="<=",
                target=1.05,
                unit="x",
            ),
        ),
        run=memory,
        minutes=4,
    ),
    Row(
        name="statistics-memory at 1 GB",
        measures=(
            Measure(
                name="state of vocabulary, pairs and replay behind 200 M words over its budget of 1 GB",
                relation="<=",
                target=1,
                unit="x",
            ),
            Measure(name="that state behind 200 M words over behind 40 M", relation="<=", target=1.05, unit="x"),
        ),
        run=gigabyte,
        minutes=10,
    ),
    Row(
        name="statistics-encoding",
        measures=(
            Measure(name="encoding a stream over encoding a file, one thread", relation=">=", target=0.6, unit="x"),
        ),
        run=encoding,
        minutes=1,
    ),
)

"""Rows about the statistics of a stream by themselves: memory that does not grow, and the speed of encoding."""

from __future__ import annotations

from statistics import median

from benchmarks.bench import Bench
from benchmarks.table import Measure, Reading, Row

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
        name="statistics-encoding",
        measures=(
            Measure(name="encoding a stream over encoding a file, one thread", relation=">=", target=0.6, unit="x"),
        ),
        run=encoding,
        minutes=1,
    ),
)

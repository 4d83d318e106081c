"""Rows about tables larger than memory: partitions that an epoch reads, bytes that it moves, runs that are killed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from statistics import fmean

from benchmarks.bench import Bench
from benchmarks.disk.rows import words_in_parts
from benchmarks.table import Measure, Reading, Row
from benchmarks.words import text as words

MOST = 64
"""partitions"""
ROWS_OF_TABLE, COLUMNS = 262_144, 129
"""135 MB: dim 128 with Adagrad's state"""
SHAPES = ((16, 4), (32, 8))
"""partitions, and how many of them the buffer holds, whose bytes are counted"""
PBG, HILBERT, SYMMETRIC = "inside-out", "hilbert", "hilbert-symmetric"
OTHERS = (PBG, HILBERT, SYMMETRIC, "comet", "affinity", "random")
POINTS = 200
SEEDS = tuple(range(1, 7))
"""of skip-gram"""


def swaps(bench: Bench) -> list[Reading]:
    """Counted on the orders themselves, for every shape up to 64 partitions."""
    from any2vec.plan.order.bucket_orders import beta_swaps, fewest_swaps, make_order

    off, above, wrong, shapes = [], [], [], 0
    for partitions, capacity in _shapes(12 if bench.quick else MOST):
        shapes += 1
        order = make_order("beta", partitions, capacity)
        found = [bucket for state in order.states for bucket in state.buckets]
        is_held = all(set(bucket) <= set(state.held) for state in order.states for bucket in state.buckets)
        if not is_held or sorted(found) != list(product(range(partitions), repeat=2)):
            wrong.append((partitions, capacity))
        if order.swaps != beta_swaps(partitions, capacity):
            off.append((partitions, capacity))
        if any(make_order(name, partitions, capacity).swaps < order.swaps for name in (HILBERT, SYMMETRIC)):
            above.append((partitions, capacity))
    quarters = {
        partitions: beta_swaps(partitions, partitions // 4) / fewest_swaps(partitions, partitions // 4)
        for partitions in range(8, MOST + 1, 4)
    }
    worst = max(quarters, key=lambda partitions: quarters[partitions])
    bench.runs["over the bound at c = p/4"] = quarters
    return [
        Reading(value=len(off), text=f"{len(off)} of {shapes:,} shapes differ"),
        Reading(value=quarters[worst], text=f"{quarters[worst]:.3f}× at p = {worst}, the worst of {len(quarters)}"),
        Reading(value=len(above), text=f"{len(above)} of {shapes:,} shapes"),
        Reading(value=len(wrong), text=f"{len(wrong)} of {shapes:,} shapes"),
    ]


def num_bytes(bench: Bench) -> list[Reading]:
    """Of real runs of the buffer over real files, past the page cache."""
    names = OTHERS[:2] if bench.quick else OTHERS
    rows = 4_096 if bench.quick else ROWS_OF_TABLE
    found, kernel = {}, {}
    for partitions, capacity in SHAPES[:1] if bench.quick else SHAPES:
        reported = bench.ours(
            "any2vec_buffer.py", "--folder", bench.scratch("partitions"), "--orders", "beta", *names, "--rows", rows,
            "--columns", COLUMNS, "--partitions", partitions, "--capacity", capacity,
        ).result  # fmt: skip
        shape = f"p = {partitions}, c = {capacity}"
        bench.runs[shape] = reported
        found[shape] = {name: one["bytes_read"] + one["bytes_written"] for name, one in reported.items()}
        kernel[shape] = max(
            (one["kernel_read"] + one["kernel_written"]) / found[shape][name] for name, one in reported.items()
        )
    least = {shape: min(size for name, size in one.items() if name != "beta") for shape, one in found.items()}
    return [
        *(_over_beta(found, name) for name in (PBG, HILBERT)),
        Reading(
            value=max(one["beta"] / least[shape] for shape, one in found.items()),
            text="; ".join(f"{shape}: {_sizes(one)}" for shape, one in found.items()),
        ),
        Reading(
            value=max(kernel.values()),
            text=", ".join(f"{shape}: {of:.4f}×" for shape, of in kernel.items()) + " (the index is written, too)",
        ),
    ]


def kill(bench: Bench) -> list[Reading]:
    """A table of 8 partitions, 3 in memory, a commit at every third window, three orders in turn."""
    points = 6 if bench.quick else POINTS
    reported = bench.ours("any2vec_killed.py", "--folder", bench.scratch("killed"), "--points", points).result
    bench.runs |= reported
    runs = reported["runs"]
    killed = [run for run in runs if run["was_killed"]]
    sound = [run for run in killed if not run["problems"]]
    same = [run for run in killed if run["is_same"]]
    begun = sum(run["at"] is not None for run in killed)
    return [
        Reading(value=len(killed), target=points, text=f"{len(killed)} of {points} runs were killed"),
        Reading(
            value=len(killed) - len(sound),
            text=f"{len(killed) - len(sound)} of {len(killed)}; {begun} had a commit behind them",
        ),
        Reading(value=len(killed) - len(same), text=f"{len(killed) - len(same)} of {len(killed)} differ in any bit"),
    ]


def skip_gram(bench: Bench) -> list[Reading]:
    """Alternating runs on two threads, a seed each, with a quarter of the table in memory and with all of it."""
    from any2vec.embeddings import Embeddings

    words.warm_up(bench, "skipgram")
    seeds, epochs = (SEEDS[:1], 1) if bench.quick else (SEEDS, words.EPOCHS)
    reported, scored, out = [], [], bench.scratch("skip-gram-parts")
    for seed in seeds:
        reported.append(words_in_parts(bench, out, seed, epochs).result)
        parts = words.scores(bench, Embeddings.load(out))
        whole = words.train_ours(bench, "skipgram", seed, epochs=epochs, threads=2, score=True)
        scored.append((parts, whole.scores))
    bench.runs["scores"] = {
        name: list(sides) for name, sides in zip(("a quarter", "all"), zip(*scored, strict=True), strict=True)
    }
    bench.runs["a quarter"] = reported
    differences = {name: [parts[name] - whole[name] for parts, whole in scored] for name in words.SCORES}
    means = [fmean(one[place] for one in differences.values()) for place in range(len(scored))]
    levels = {name: fmean(whole[name] for _, whole in scored) for name in words.SCORES}
    moved = fmean(one["bytes_read"] + one["bytes_written"] for one in reported)
    pairs = fmean(one["triple_bytes_read"] for one in reported)
    shape = f"p = {reported[0]['partitions']}, c = {reported[0]['capacity']}, {reported[0]['sweeps']} sweeps an epoch"
    return [
        Reading.within(means, f"{_signed(means)}; in memory {fmean(levels.values()):.2f}"),
        *(
            Reading.within(differences[name], f"{_signed(differences[name])}; in memory {levels[name]:.2f}")
            for name in words.SCORES
        ),
        Reading(
            value=moved / reported[0]["table_bytes"],
            text=f"{moved / 1e9:.2f} GB of a table of {reported[0]['table_bytes'] / 1e6:.0f} MB, and "
            f"{pairs / 1e9:.2f} GB of pairs read ({shape}; {epochs} epochs)",
        ),
    ]


def _signed(numbers: Sequence[float]) -> str:
    """Their mean, and each of several."""
    each = f" ({', '.join(f'{number:+.2f}' for number in numbers)})" if len(numbers) > 1 else ""
    return f"{fmean(numbers):+.2f}{each}"


def _shapes(most: int) -> Iterator[tuple[int, int]]:
    return ((partitions, capacity) for partitions in range(2, most + 1) for capacity in range(2, partitions + 1))


def _over_beta(found: dict[str, dict[str, int]], name: str) -> Reading:
    ratios = {shape: one["beta"] / one[name] for shape, one in found.items()}
    text = ", ".join(f"{shape}: {ratio:.2f}×" for shape, ratio in ratios.items())
    return Reading(value=max(ratios.values()), text=text)


def _sizes(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name} {size / 1e9:.2f} GB" for name, size in sorted(sizes.items(), key=lambda one: one[1]))


ROWS = (
    Row(
        name="swaps",
        measures=(
            Measure(
                name="shapes, all (p, c) up to p = 64, where BETA's loads differ from its closed form",
                relation="<=", wording="none",
            ),
            Measure(name="BETA over the lower bound at c = p/4", relation="<=", target=1.2, unit="x"),
            Measure(
                name="shapes where BETA reads more than Hilbert's curve or its symmetric half", relation="<=",
                wording="none",
            ),
            Measure(
                name="shapes where a bucket is not trained exactly once, with both partitions there", relation="<=",
                wording="none",
            ),
        ),
        run=swaps,
        minutes=5,
    ),
    Row(
        name="bytes",
        measures=(
            Measure(
                name="I/O bytes of an epoch from disk and back, 135 MB: BETA over PBG's order (inside-out), equal c",
                relation="<=", target=1.0, unit="x", wording="least",
            ),
            Measure(name="the same over Hilbert's curve", relation="<=", target=1.0, unit="x", wording="least"),
            Measure(name="the same over the least of all other orders", relation="<=", target=1.0, wording="least"),
            Measure(
                name="bytes that the kernel counts over ours", relation="<=", target=1.01, unit="x"
            ),
        ),
        run=num_bytes,
        minutes=2,
    ),
    Row(
        name="kill",
        measures=(
            Measure(
                name="runs killed at random calls that change the disk (write, sync, rename, unlink)", relation=">=",
                target=POINTS,
            ),
            Measure(name="stores that do not open, or whose checksums do not hold", relation="<=", wording="none"),
            Measure(
                name="runs that end with another table than one that was not killed", relation="<=", wording="none"
            ),
        ),
        run=kill,
        minutes=6,
    ),
    Row(
        name="skip-gram",
        measures=(
            Measure(
                name="mean of the five word scores, a quarter of the table in memory less all of it, text-enwiki2015, "
                f"dim 100, 3 epochs, {len(SEEDS)} seeds",
                relation="<=", target=1.0, wording="within 1 point", is_accuracy=True,
            ),
            *(
                Measure(
                    name=f"the same of {name}", relation="<=", target=1.0, wording="within 1 point", is_accuracy=True
                )
                for name in words.SCORES
            ),
            Measure(name="bytes of the table read and written", relation="", wording="reported"),
        ),
        run=skip_gram,
        minutes=8,
        settings="gensim's defaults",
    ),
)  # fmt: skip

"""Rows about tables larger than memory: partitions that an epoch reads, bytes that it moves, runs that are killed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from benchmarks.bench import Bench
from benchmarks.table import Measure, Reading, Row

MOST = 64
"""partitions"""
ROWS_OF_TABLE, COLUMNS = 262_144, 129
"""135 MB: dim 128 with Adagrad's state"""
SHAPES = ((16, 4), (32, 8))
"""partitions, and how many of them the buffer holds, whose bytes are counted"""
PBG, HILBERT, SYMMETRIC = "inside-out", "hilbert", "hilbert-symmetric"
OTHERS = (PBG, HILBERT, SYMMETRIC, "comet", "affinity", "random")
POINTS = 200


def swaps(bench: Bench) -> list[Reading]:
    """Counted on the orders themselves, for every shape up to 64 partitions."""
    from any2vec.plan.bucket_orders import beta_swaps, fewest_swaps, make_order

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
        told = bench.ours(
            "any2vec_buffer.py", "--folder", bench.scratch("partitions"), "--orders", "beta", *names, "--rows", rows,
            "--columns", COLUMNS, "--partitions", partitions, "--capacity", capacity,
        ).result  # fmt: skip
        shape = f"p = {partitions}, c = {capacity}"
        bench.runs[shape] = told
        found[shape] = {name: one["bytes_read"] + one["bytes_written"] for name, one in told.items()}
        kernel[shape] = max(
            (one["kernel_read"] + one["kernel_written"]) / found[shape][name] for name, one in told.items()
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
    told = bench.ours("any2vec_killed.py", "--folder", bench.scratch("killed"), "--points", points).result
    bench.runs |= told
    runs = told["runs"]
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
)  # fmt: skip

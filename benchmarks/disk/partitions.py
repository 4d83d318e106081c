"""Rows about what is learned with a quarter of the partitions in memory: beside all in memory, and by staleness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.bench import Bench
from benchmarks.disk.triples_quality import FB15K237, triples_of
from benchmarks.table import Measure, Reading, Row

PARTITIONS, CAPACITY = 64, 16
"""a quarter of the rows in memory, cut as finely as a budget cuts a large table (plan/order/buffer.py)"""
SEEDS, PLANTED_SEEDS, SMALL_SEEDS, STALE_SEEDS = (tuple(range(1, 1 + count)) for count in (8, 5, 16, 3))
"""as many as resolve 0.005, but of the large planted graph, whose runs differ by 0.05 with the seed"""
THREADS, STALE_THREADS = 2, 96
"""of quality, and of staleness: more than the largest bound, so that bounds, not threads, keep batches back"""
DIM, EPOCHS = 64, 12
"""of FB15k-237"""
ENTITIES, SMALL, RELATIONS, GROUP, PER_ENTITY = 1_000_000, 50_000, 2, 20, 10
"""of the planted graphs, and triples for each entity"""
TESTED = 3000
"""triples, ranked among all entities for head and tail"""
PLANTED_DIM, PLANTED_EPOCHS, NEGATIVES = 32, 6, 500
BOUNDS = (1, 4, 16, 64)
STALE_DIM, STALE_EPOCHS, STALE_PARTS = 32, 6, ("--partitions", 16, "--capacity", 4)


def quality(bench: Bench) -> list[Reading]:
    """The same model, epochs, threads and seeds; the default order of buckets."""
    dim, epochs = (8, 1) if bench.quick else (DIM, EPOCHS)
    train, valid, test = (triples_of(bench, FB15K237.archive, side) for side in ("train", "valid", "test"))
    given = ("--train", train, "--test", test, "--known", valid, "--dim", dim, "--epochs", epochs)
    return [
        _less(bench, "FB15k-237", given, SEEDS[:1] if bench.quick else SEEDS),
        _less(bench, "planted", _planted(bench, ENTITIES), PLANTED_SEEDS[: 1 if bench.quick else None]),
    ]


def small_quality(bench: Bench) -> list[Reading]:
    """The planted graph again with fewer entities, whose runs differ less."""
    return [_less(bench, "planted", _planted(bench, SMALL), SMALL_SEEDS[: 1 if bench.quick else None])]


def staleness(bench: Bench) -> list[Reading]:
    """FB15k-237, many threads; batches are counted by how many others changed rows since they were let in."""
    dim, epochs = (8, 1) if bench.quick else (STALE_DIM, STALE_EPOCHS)
    train, valid, test = (triples_of(bench, FB15K237.archive, side) for side in ("train", "valid", "test"))
    given = ("--train", train, "--test", test, "--known", valid, "--dim", dim, "--epochs", epochs)
    threads = 8 if bench.tiny else STALE_THREADS
    found = {
        bound: [
            _run(bench, given, seed, "--staleness-bound", bound, *STALE_PARTS, threads=threads)
            for seed in STALE_SEEDS[: 1 if bench.quick else None]
        ]
        for bound in BOUNDS
    }
    bench.runs["staleness by bound"] = found
    counts = {bound: _counts(runs) for bound, runs in found.items()}
    above = sum(count for bound, one in counts.items() for stale, count in one.items() if stale >= bound)
    loose = [bound for bound, one in counts.items() if max(one) < bound - 1]
    most = ", ".join(f"{bound}: {max(one)}" for bound, one in counts.items())
    mean = ", ".join(
        f"{bound}: {sum(stale * count for stale, count in one.items()) / sum(one.values()):.2f}"
        for bound, one in counts.items()
    )
    ranks = {bound: [one["mrr"] for one in runs] for bound, runs in found.items()}
    lost = {
        bound: Reading.of_seeds(
            [one - other for one, other in zip(ranks[BOUNDS[0]], mrrs, strict=True)], f"{bound}: {fmean(mrrs):.4f}"
        )
        for bound, mrrs in ranks.items()
    }
    return [
        Reading(
            value=above, text=f"{above} of {sum(map(_total, counts.values())):,} batches; stalest {most}; mean {mean}"
        ),
        Reading(value=len(loose), text=f"{', '.join(map(str, loose)) or 'none'} of {len(BOUNDS)}; stalest {most}"),
        Reading(
            value=max(one.value for one in lost.values()),
            text=", ".join(one.text for bound, one in lost.items() if bound != BOUNDS[0])
            + f"; bound {BOUNDS[0]}: {fmean(ranks[BOUNDS[0]]):.4f}",
        ),
    ]


def _counts(runs: Sequence[Mapping[str, Any]]) -> Counter[int]:
    """Batches by how stale they were, of all runs."""
    found = Counter[int]()
    for one in runs:
        found.update({int(stale): count for stale, count in one["staleness"].items()})
    return found


_PARTS = ("--partitions", PARTITIONS, "--capacity", CAPACITY)


def _less(bench: Bench, name: str, given: Sequence[object], seeds: Sequence[int]) -> Reading:
    """How far apart the MRRs in memory and with partitions are, seed by seed."""
    found = {
        side: [_run(bench, given, seed, *more) for seed in seeds]
        for side, more in (("in memory", ()), ("partitions", _PARTS))
    }
    bench.runs[name] = found
    whole, parts = ([one["mrr"] for one in side] for side in found.values())
    less = [one - other for one, other in zip(whole, parts, strict=True)]
    seconds = [fmean(one["train_seconds"] for one in side) for side in found.values()]
    text = (
        f"{fmean(less):+.4f}: {fmean(whole):.4f} in memory, {fmean(parts):.4f} with "
        f"partitions, order {found['partitions'][0]['order']}; {seconds[0]:.0f} and {seconds[1]:.0f} s"
    )
    return Reading.within(less, text)


def _run(bench: Bench, given: Sequence[object], seed: int, *more: object, threads: int = THREADS) -> dict[str, Any]:
    folder = bench.scratch("partitions-quality")
    folder.mkdir(exist_ok=True)
    return bench.ours(
        "any2vec_partitions.py", *given, "--seed", seed, "--threads", threads, "--folder", folder, *more
    ).result  # fmt: skip


def _planted(bench: Bench, entities: int) -> tuple[object, ...]:
    entities = 1_000 if bench.tiny else 20_000 if bench.quick else entities
    number, tested = PER_ENTITY * entities, TESTED // 30 if bench.tiny else TESTED
    train = bench.made(f"planted-{entities}.tsv", lambda target: write_planted(target, entities, 0, number))
    test = bench.made(
        f"planted-{entities}.test.tsv", lambda target: write_planted(target, entities, number, number + tested)
    )
    epochs = 1 if bench.quick else PLANTED_EPOCHS
    return (
        "--train", train, "--test", test, "--dim", PLANTED_DIM, "--epochs", epochs, "--num-negatives", NEGATIVES,
    )  # fmt: skip


def write_planted(target: Path, entities: int, start: int, stop: int) -> None:
    """Triples [start, stop) of the planted graph, as text."""
    import pyarrow as pa
    from pyarrow import csv

    from any2vec.testing.planted_triples import PlantedTriples

    found = PlantedTriples(entities=entities, relations=RELATIONS, group=GROUP).triples(start, stop)
    table = pa.table(dict(zip(("head", "relation", "tail"), found.T, strict=True)))
    csv.write_csv(table, target, csv.WriteOptions(include_header=False, delimiter="\t"))


def _total(counts: Mapping[int, int]) -> int:
    return sum(counts.values())


def _planted_measure(entities: str, seeds: Sequence[int]) -> Measure:
    return Measure(
        name=f"planted graph, {entities} entities, {PER_ENTITY} triples each, ComplEx, dim {PLANTED_DIM}, "
        f"{PLANTED_EPOCHS} epochs, {NEGATIVES} negatives: MRR in memory less that with {_SHAPE}, mean of {len(seeds)} "
        f"seeds, {TESTED} test triples ranked among all entities",
        relation="<=", target=0.005, wording="within 0.005", is_accuracy=True,
    )  # fmt: skip


_SHAPE = f"{CAPACITY} of {PARTITIONS} partitions in memory"
ROWS = (
    Row(
        name="quality",
        measures=(
            Measure(
                name=f"FB15k-237, ComplEx, dim {DIM}, {EPOCHS} epochs: test MRR in memory less that with {_SHAPE}, "
                f"mean of {len(SEEDS)} seeds",
                relation="<=", target=0.005, wording="within 0.005", is_accuracy=True,
            ),
            _planted_measure("1 M", PLANTED_SEEDS),
        ),
        run=quality,
        minutes=45,
        settings="validation triples; the planted graph: defaults",
    ),
    Row(
        name="quality-small",
        measures=(_planted_measure("50 k", SMALL_SEEDS),),
        run=small_quality,
        minutes=6,
        settings="defaults",
    ),
    Row(
        name="staleness",
        measures=(
            Measure(
                name=f"FB15k-237, {STALE_THREADS} threads: batches staler than the bound, of "
                f"{', '.join(map(str, BOUNDS))}: a bound of n lets a batch be stale by n - 1",
                relation="<=", wording="none",
            ),
            Measure(name="bounds that bind on no batch", relation="<=", wording="none"),
            Measure(
                name=f"test MRR by bound, dim {STALE_DIM}, {STALE_EPOCHS} epochs: the most lost against bound 1",
                relation="",
            ),
        ),
        run=staleness,
        minutes=12,
    ),
)  # fmt: skip

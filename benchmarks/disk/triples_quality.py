"""Rows about what is learned of public knowledge graphs: the defaults of a model, and the two that a graph asks for."""

from __future__ import annotations

import tarfile
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.table import Measure, Reading, Row

MINUTES = 45
"""of training on two threads, at most"""
MOST_FLOATS = 200
QUICK_LINES = {"train": 4000, "valid": 200, "test": 200}


@dataclass(frozen=True)
class Graph:
    """A public graph, and how it is learned; chosen on its validation triples (docs/log.md)."""

    name: str
    archive: str
    flags: tuple[object, ...] = ()
    dim: int = 192


FB15K237 = Graph("FB15k-237", "kg-fb15k-237/FB15k-237.tar.gz")
WN18RR = Graph("WN18RR", "kg-wn18rr/WN18RR.tar.gz", ("--n3", 0.1, "--batch-size", 250, "--epochs", 14))


def fb15k_237(bench: Bench) -> list[Reading]:
    return _ranks(bench, FB15K237)


def wn18rr(bench: Bench) -> list[Reading]:
    return _ranks(bench, WN18RR)


def triples_of(bench: Bench, archive: str, side: str) -> Path:
    """train, valid or test as a file, unpacked once; its first lines for a quick run."""
    stem = Path(archive).name.removesuffix(".tar.gz")
    whole = bench.made(f"{stem}.{side}.tsv", lambda target: _unpack(bench.data(archive), side, target))
    if not bench.quick:
        return whole
    return bench.made(f"{stem}.{side}.quick.tsv", lambda target: first_lines(whole, target, QUICK_LINES[side]))


def first_lines(source: Path, target: Path, lines: int) -> None:
    with source.open("rb") as content:
        target.write_bytes(b"".join(islice(content, lines)))


def _ranks(bench: Bench, graph: Graph) -> list[Reading]:
    train, valid, test = (triples_of(bench, graph.archive, side) for side in ("train", "valid", "test"))
    out = bench.scratch(graph.name)
    flags = (*graph.flags, "--dim", graph.dim)
    if bench.quick:
        flags = ("--dim", 16, "--epochs", 1)
    run = bench.any2vec("train", "complex", train, *flags, "--threads", 2, "--out", out, "--overwrite").result
    found = bench.any2vec("evaluate", out, "--task", "triples", "--data", test, "--known", valid).result
    bench.runs["runs"] = {"train": run, "evaluate": found}
    minutes = run["train_seconds"] / 60
    reported = ", ".join(f"Hits@{most} {100 * found[f'hits_at_{most}']:.1f} %" for most in (1, 3, 10))
    text = f"{found['mrr']:.4f} ({reported}; {run['epochs']} epochs, {found['num_unknown']} triples with unknown names)"
    return [
        Reading(value=found["mrr"], text=text),
        Reading(value=minutes, text=f"{minutes:.1f} minutes, {run['items_per_s']:,.0f} triples/s"),
        Reading(value=run["dim"] + 1, text=f"{run['dim']} values and 1 of the optimizer"),
    ]


def _unpack(archive: Path, side: str, target: Path) -> None:
    """Lines of FB15k-237 end in CR LF, which the reader knows."""
    with tarfile.open(archive) as packed:
        (member,) = (one for one in packed.getmembers() if Path(one.name).name == f"{side}.txt")
        content = packed.extractfile(member)
        assert content is not None
        target.write_bytes(content.read())


def _measures(name: str, target: float, aim: float) -> tuple[Measure, ...]:
    return (
        Measure(
            name=f"{name}, ComplEx: filtered MRR of the test triples, both sides, realistic rank (aim {aim})",
            relation=">=", target=target,
        ),
        Measure(
            name=f"{name}: training, 2 threads", relation="<=", target=MINUTES, wording=f"≤ {MINUTES} minutes"
        ),
        Measure(name=f"{name}: floats of an entity's row", relation="<=", target=MOST_FLOATS),
    )  # fmt: skip


ROWS = (
    Row(
        name="fb15k-237",
        measures=_measures("FB15k-237", 0.33, 0.36),
        run=fb15k_237,
        minutes=15,
        settings="validation triples",
    ),
    Row(name="wn18rr", measures=_measures("WN18RR", 0.44, 0.48), run=wn18rr, minutes=20, settings="validation triples"),
)

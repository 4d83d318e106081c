"""Rows "exactness" and "bytes": the same bits whatever carries them, and no byte that the plan does not foresee."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from benchmarks.bench import ONE_BLAS_THREAD, Bench, Done, run
from benchmarks.table import Measure, Reading, Row
from benchmarks.words.text import warm_up

HOSTS = 2
MANY = 8
"""logical hosts of the check of bytes"""
SCHEMES = ("rep-base", "rep-opt", "pull-base", "pull-opt")
TRANSPORTS = ("logical hosts", "processes", "torchrun")
EPOCHS = 2
TEXT_BYTES = 3_000_000


def exactness(bench: Bench) -> list[Reading]:
    """Rows of either table that differ in any bit: between schemes and transports, and from the plain run."""
    schemes = SCHEMES[:: len(SCHEMES) - 1] if bench.quick else SCHEMES
    rounds = ("--rounds-per-epoch", 3)
    runs = {f"{scheme}, {how}": (scheme, how) for scheme in schemes for how in TRANSPORTS}
    found = {name: _trained(bench, scheme, how, *rounds) for name, (scheme, how) in runs.items()}
    bench.runs["bytes_by_kind"] = {name: done.result["bytes_by_kind"] for name, done in found.items()}
    first = next(iter(runs))
    among = {
        name: differing(bench.scratch(_folder(*runs[first])), bench.scratch(_folder(*runs[name]))) for name in runs
    }
    plain = bench.scratch("exact-plain")
    _any2vec(bench, (), plain)
    lone = {}
    for scheme in schemes:
        out = bench.scratch(f"exact-one-{scheme}")
        _any2vec(bench, (), out, "--logical-hosts", 1, "--rounds-per-epoch", 6, "--scheme", scheme)
        lone[scheme] = differing(plain, out)
    bench.runs["differing rows"] = {"among": among, "one host": lone}
    what = f"{len(schemes)} schemes × {', '.join(TRANSPORTS)}, {HOSTS} hosts"
    return [
        Reading(value=sum(among.values()), text=f"{sum(among.values())} rows differ of input and output; {what}"),
        Reading(value=sum(lone.values()), text=f"{sum(lone.values())} rows differ; {', '.join(schemes)}"),
    ]


def counted_bytes(bench: Bench) -> list[Reading]:
    """|counted - formula| added up over schemes, phases and kinds; and between transports."""
    warm_up(bench, "skipgram")
    gaps, shown = [], []
    for scheme in SCHEMES[:: len(SCHEMES) - 1] if bench.quick else SCHEMES:
        for hosts, bits in ((HOSTS, 32),) if bench.quick else ((HOSTS, 32), (MANY, 32), (MANY, 8)):
            seen = bench.ours(
                "any2vec_volume.py", "--text", _text(bench), "--hosts", hosts, "--scheme", scheme, "--bits", bits,
                "--rounds", 3, "--epochs", 1 if bench.quick else EPOCHS,
            ).result  # fmt: skip
            bench.runs[f"{scheme}, {hosts} hosts, {bits} bits"] = seen
            gaps.append(_gap(seen["counted"], seen["formula"]))
            shown.append(f"{scheme}/{hosts}/{bits} {sum(seen['counted']['phases'].values()):,}")
    kinds = [
        _trained(bench, "pull-opt", how, "--rounds-per-epoch", 3).result["bytes_by_kind"] for how in TRANSPORTS
    ]  # fmt: skip
    apart = sum(abs(kind[name] - kinds[0][name]) for kind in kinds for name in kind)
    return [
        Reading(value=sum(gaps), text=f"{sum(gaps)} bytes apart; scheme/hosts/bits bytes: {', '.join(shown)}"),
        Reading(
            value=apart, text=f"{apart} bytes apart: {', '.join(TRANSPORTS)} count {sum(kinds[0].values()):,} each"
        ),
    ]


def _trained(bench: Bench, scheme: str, how: str, *more: object) -> Done:
    """A run on hosts of one kind; the same one is not run twice."""

    def make() -> Done:
        launcher: tuple[object, ...] = ()
        spread: tuple[object, ...] = ("--logical-hosts", HOSTS)
        if how == "processes":
            spread = ("--hosts", HOSTS)
        if how == "torchrun":
            launcher, spread = ("torch.distributed.run", "--standalone", f"--nproc-per-node={HOSTS}", "-m"), ()
        return _any2vec(bench, launcher, bench.scratch(_folder(scheme, how)), *spread, "--scheme", scheme, *more)

    done: Done = bench.once(("exact", scheme, how, more), make)
    return done


def _any2vec(bench: Bench, launcher: tuple[object, ...], out: Path, *more: object) -> Done:
    command = [
        sys.executable, "-m", *launcher, "any2vec", "train", "skipgram", _text(bench), "--out", out,
        "--overwrite", "--epochs", 1 if bench.quick else EPOCHS, "--threads", 1, "--json", "--quiet", *more,
    ]  # fmt: skip
    return run([str(word) for word in command], os.environ | ONE_BLAS_THREAD | {"ANY2VEC_CACHE": str(bench.cache)})


def _folder(scheme: str, how: str) -> str:
    return f"exact-{scheme}-{how.replace(' ', '-')}"


def differing(one: Path, other: Path) -> int:
    """Rows of input and output that are not the same bits in two results; all where a table has another shape."""
    import numpy as np

    from any2vec import Embeddings

    differing = 0
    first, second = Embeddings.load(one), Embeddings.load(other)
    for mine, theirs in ((first.vectors, second.vectors), (first.output, second.output)):
        assert mine is not None and theirs is not None
        if mine.shape != theirs.shape or list(first.keys) != list(second.keys):
            differing += len(mine)
            continue
        pairs = np.ascontiguousarray(mine).view(np.uint32) != np.ascontiguousarray(theirs).view(np.uint32)
        differing += int(pairs.any(axis=1).sum())
    return differing


def _gap(counted: dict[str, dict[str, int]], formula: dict[str, dict[str, int]]) -> int:
    """Bytes by which two counts differ, by phase and by kind."""
    return sum(
        abs(counted[by].get(name, 0) - formula[by].get(name, 0))
        for by in counted
        for name in {*counted[by], *formula[by]}
    )


def _text(bench: Bench) -> Path:
    size = 300_000 if bench.quick else TEXT_BYTES

    def write(target: Path) -> None:
        with bench.words().open("rb") as text:
            target.write_bytes(text.read(size).rsplit(b"\n", 1)[0] + b"\n")

    return bench.made(f"enwiki2015.first-{size}.txt", write)


def _measure(name: str, wording: str) -> Measure:
    return Measure(name=name, relation="<=", target=0, wording=wording)


ROWS = (
    Row(
        name="exactness",
        measures=(
            _measure("four schemes on logical hosts, processes and torchrun, 1 thread each", "identical bits"),
            _measure("1 host × 6 rounds through the same driver against the plain run", "identical bits"),
        ),
        run=exactness,
        minutes=5,
    ),
    Row(
        name="bytes",
        measures=(
            _measure("counted on the transport against the plan's formula, by phase and by kind", "equal"),
            _measure("counted by each transport", "equal"),
        ),
        run=counted_bytes,
        minutes=3,
    ),
)

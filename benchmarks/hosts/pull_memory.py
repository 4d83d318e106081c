"""Row "pull-memory": what hosts hold of the tables under PullModel, beside RepModel, and that bits are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.bench import Bench, Done
from benchmarks.hosts.exact import differing
from benchmarks.hosts.word_runs import HOSTS
from benchmarks.table import Measure, NotMeasuredError, Reading, Row
from benchmarks.words.memory import planted_text
from benchmarks.words.text import DIM, warm_up

ROUNDS, FEW, PROCESSES = 48, 4, 2
ALL_ROWS = 2
"""rounds of RepModel-Base, which sends all rows in each: what it holds does not depend on them"""
SCHEMES = ("pull-opt", "rep-opt", "rep-base")
PLANTED_DIM = 8
"""of the counted runs on the planted text: 32 logical hosts with replicas of 1 M words of dim 100 would take 100 GB"""
PLACE = 4
"""bytes of the place of a row of each table in the rows at hand, which hosts keep under PullModel"""


def pull_memory(bench: Bench) -> list[Reading]:
    """Bytes of tables of the fullest host over the least of RepModel, by text; rows that differ; resident memory."""
    warm_up(bench, "skipgram")
    texts = {"text-enwiki2015": (bench.words(), DIM), "planted text": (planted_text(bench), PLANTED_DIM)}
    readings, apart = [], []
    for name, (text, dim) in texts.items():
        found = {scheme: _counted(bench, text, scheme, dim) for scheme in SCHEMES}
        bench.runs[f"{name}, by scheme"] = found
        readings.append(_held(found))
        apart.append(_apart(bench, "counted"))
    resident = _resident(bench)
    apart.append(_apart(bench, "resident"))
    shown = ", ".join(map(str, apart))
    same = Reading(value=sum(apart), text=f"{shown} rows differ of input and output, pull-opt and rep-opt")
    return [*readings, resident, same]


def _held(found: dict[str, dict[str, Any]]) -> Reading:
    """Bytes with rows of DIM numbers, whatever the counted runs had; PullModel's maps of places count, too."""
    size = {scheme: 4 * DIM * max(seen["held_rows"].values()) for scheme, seen in found.items()}
    size["pull-opt"] += 2 * PLACE * found["pull-opt"]["rows"]
    ratio = size["pull-opt"] / size["rep-base"]
    shown = ", ".join(f"{scheme} {taken / 2**20:,.1f} MiB" for scheme, taken in size.items())
    beside = f"{size['pull-opt'] / size['rep-opt']:.3g}× of rep-opt, which compares with copies"
    return Reading(value=ratio, text=f"{ratio:.3g}×; {shown} ({beside}); {found['pull-opt']['rows']:,} words")


def _counted(bench: Bench, text: Path, scheme: str, dim: int) -> dict[str, Any]:
    hosts, rounds = (FEW, 12) if bench.quick else (HOSTS, ROUNDS)
    seen: dict[str, Any] = bench.ours(
        "any2vec_held_rows.py", "--text", text, "--scheme", scheme, "--hosts", hosts,
        "--rounds", ALL_ROWS if scheme == "rep-base" else rounds, "--dim", dim,
        "--out", _folder(bench, "counted", scheme),
    ).result  # fmt: skip
    return seen


def _resident(bench: Bench) -> Reading:
    """Two processes, with as many words a host and round; growth of both over the same job on a few words."""
    if not Path("/proc/self/status").exists():
        raise NotMeasuredError("this system has no /proc to sample memory from")
    text, grown = planted_text(bench), {}
    small = bench.made("planted-few-words.txt", lambda path: path.write_text(("a b c d e f g h " * 8 + "\n") * 400))
    for scheme in SCHEMES:
        bare, full = (_processes(bench, scheme, which).peak_anon_bytes for which in (small, text))
        grown[scheme] = full - bare
    bench.runs["growth of two processes, bytes"] = grown
    ratio = grown["pull-opt"] / min(grown["rep-base"], grown["rep-opt"])
    shown = ", ".join(f"{scheme} {taken / 2**20:,.0f} MiB" for scheme, taken in grown.items())
    return Reading(value=ratio, text=f"{ratio:.3g}× of the smaller; {shown}, both processes over bare ones")


def _processes(bench: Bench, scheme: str, text: Path) -> Done:
    """Peak memory of all processes of a run: the two hosts, and who started them."""
    rounds = (FEW * 12 if bench.quick else HOSTS * ROUNDS) // PROCESSES
    return bench.any2vec(
        "train", "skipgram", text, "--out", _folder(bench, "resident", scheme), "--overwrite", "--dim", DIM,
        "--epochs", 1, "--threads", 1, "--hosts", PROCESSES, "--scheme", scheme,
        "--rounds-per-epoch", ALL_ROWS if scheme == "rep-base" else rounds, watch=True,
    )  # fmt: skip


def _apart(bench: Bench, kind: str) -> int:
    """Rows that differ between the results of the two schemes that had the same rounds."""
    return differing(*(_folder(bench, kind, scheme) for scheme in SCHEMES[:2]))


def _folder(bench: Bench, kind: str, scheme: str) -> Path:
    return bench.scratch(f"pull-memory-{kind}-{scheme}")


def _measure(name: str) -> Measure:
    return Measure(name=name, relation="<=", target=0.6, unit="x")


_WHERE = f"{HOSTS} logical hosts, {ROUNDS} rounds an epoch, 5 negatives"
ROWS = (
    Row(
        name="pull-memory",
        measures=(
            _measure(f"bytes of tables of the fullest host, pull-opt over rep-base, text-enwiki2015, {_WHERE}"),
            _measure("the same, planted text of 1 M words"),
            _measure(f"peak resident memory of {PROCESSES} processes over bare ones, planted text, as long rounds"),
            Measure(name="rows of these runs that differ, PullModel and RepModel", relation="<=", target=0,
                    wording="identical bits"),
        ),
        run=pull_memory,
        minutes=30,
    ),
)  # fmt: skip

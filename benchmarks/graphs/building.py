"""The row about graphs made of edges in files: peak of memory, and time beside PyTorch Geometric's way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.bench import Bench
from benchmarks.table import Measure, Reading, Row, number, ratio_reading

EDGES, NODES = 100_000_000, 10_000_000
QUICK_EDGES, QUICK_NODES = 200_000, 20_000
PIECE, HUBS = 1 << 20, 3.0
"""edges that are drawn at once; sources are node N u^HUBS of a uniform u: some have very many"""
LIMIT, FASTER = 2.5e9, 5.0
PAIRS = 2


class _Form(NamedTuple):
    """Edges as they lie in a file."""

    name: str
    suffix: str
    write: Callable[[Path, int, int], None]


def pieces(nodes: int, edges: int) -> Any:
    """Arrow tables of planted edges `src`, `dst`, int64."""
    import numpy as np
    import pyarrow as pa

    for first in range(0, edges, PIECE):
        rng = np.random.default_rng([1, first])
        src_E, dst_E = rng.random((2, min(PIECE, edges - first)))
        src_E, dst_E = nodes * src_E**HUBS, nodes * dst_E
        yield pa.table({"src": src_E.astype(np.int64), "dst": dst_E.astype(np.int64)})


def write_text(path: Path, nodes: int, edges: int) -> None:
    """Lines `src dst` with a tab."""
    from pyarrow import csv

    form = csv.WriteOptions(include_header=False, delimiter="\t")
    with path.open("wb") as file:
        for table in pieces(nodes, edges):
            csv.write_csv(table, file, form)


def write_parquet(path: Path, nodes: int, edges: int) -> None:
    """Columns src and dst."""
    from pyarrow import parquet

    writer = None
    for table in pieces(nodes, edges):
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


FORMS = (_Form("text", "tsv", write_text), _Form("Parquet", "parquet", write_parquet))


def building(bench: Bench) -> list[Reading]:
    """Alternating runs, from a file of edges to in-neighbors without doubles: ours on disk, theirs in memory."""
    return [reading for form in FORMS for reading in _built(bench, form)]


def _built(bench: Bench, form: _Form) -> tuple[Reading, Reading]:
    nodes, edges = (QUICK_NODES, QUICK_EDGES) if bench.quick else (NODES, EDGES)
    file = bench.made(f"edges-{edges}.{form.suffix}", lambda target: form.write(target, nodes, edges))
    out = bench.scratch("built-graph")
    ours, theirs, peaks, counts = [], [], [], set()
    for _ in range(1 if bench.quick else PAIRS):
        other = bench.peer("pyg-tables", "pyg_build.py", file, nodes)
        theirs.append(other.result["seconds"])
        done = bench.any2vec("graph", "build", file, "--directed", "--out", out, "--overwrite", watch=True)
        ours.append(done.seconds)
        peaks.append(done.peak_anon_bytes)
        counts |= {other.result["edges"], done.result["edges"]}
    bench.runs[form.name] = {"any2vec": ours, "PyG": theirs, "peaks": peaks, "edges": sorted(counts)}
    assert len(counts) == 1, counts
    ratio, most = ratio_reading(theirs, ours, "s", peer="any2vec"), max(peaks)
    text = f"{most / 1e9:.2f} GB; {number(counts.pop())} different edges of {edges:,}"
    return Reading(value=most, text=text), ratio


def _measures(form: _Form) -> tuple[Measure, ...]:
    return (
        Measure(
            name=f"{EDGES / 1e6:.0f} M planted edges of {NODES / 1e6:.0f} M nodes, directed, from {form.name} to a "
            "graph folder: peak of anonymous memory", relation="<=", target=LIMIT, wording="≤ 2.5 GB",
        ),
        Measure(
            name="time of PyG's way (pandas, then coalesce, in memory) over the whole command's", relation=">=",
            target=FASTER, unit="x",
        ),
    )  # fmt: skip


ROWS = (
    Row(name="building", measures=tuple(one for form in FORMS for one in _measures(form)), run=building, minutes=25),
)

"""Row "table-traffic": what a batch of a stream sends, row-sparse or the whole table, and its time on slow links.

The system of 2018 sent the whole table round after every batch: 0.48 to 0.52 s a step at dim 200 and 0.11 to 0.17 s at
dim 50, at batches of 1024 and of 8192 pairs alike, V about 8,000, four hosts.
"""

from __future__ import annotations

import json
import statistics
import sys
from functools import partial
from typing import Any

from benchmarks.bench import Bench
from benchmarks.machine.namespaces import BURST, network
from benchmarks.table import Measure, Reading, Row

TRAINERS = 4
RATE_BITS = 100_000_000
V_2018 = 8113
SMALL, LARGE = 175, 1400
"""tokens of a batch: about 1024 and 8192 pairs at window 5, whose centers have 6 contexts on average"""
WIDE = 65_000
"""rows of a table of which a batch touches few"""


def table_traffic(bench: Bench) -> list[Reading]:
    """Bytes against the formula; seconds of a round over capped links."""
    counted = _counted(bench)
    is_equal = [one["is_equal"] for one in counted]
    sizes = "; ".join(
        f"V {one['rows']:,} d {one['dim']} {one['tokens']} tokens {one['sync']}: {one['bytes_per_batch'] / 1e6:.3g} MB"
        for one in counted
    )
    readings = [
        Reading(value=sum(is_equal) / len(is_equal), text=f"{sum(is_equal)} of {len(is_equal)} shapes equal ({sizes})")
    ]
    timed, (table, wide) = _timed(bench), _tables(bench)

    def seconds(rows: int, dim: int, tokens: int, sync: str) -> float:
        return float(statistics.median(timed[rows, dim, tokens, sync]["seconds"]))

    dense = {(dim, size): seconds(table, dim, size, "dense") for dim in (50, 200) for size in (SMALL, LARGE)}
    by_dim = statistics.mean(dense[200, size] / dense[50, size] for size in (SMALL, LARGE))
    by_batch = statistics.mean(dense[dim, LARGE] / dense[dim, SMALL] for dim in (50, 200))
    shown = ", ".join(f"d {dim} {size} tokens {value:.2f} s" for (dim, size), value in dense.items())
    where = f"{TRAINERS} trainers, tbf {RATE_BITS / 1e6:g} Mbit/s"
    readings += [
        Reading(value=by_dim, text=f"{by_dim:.2f}× ({shown}; {where})"),
        Reading(value=by_batch, text=f"{by_batch:.2f}×"),
    ]
    for rows, dim, size in ((table, 200, LARGE), (table, 200, SMALL), (wide, 100, SMALL)):
        sparse, whole = seconds(rows, dim, size, "sync"), seconds(rows, dim, size, "dense")
        accessed = timed[rows, dim, size, "sync"]["rows_per_batch"] / (2 * rows)
        readings.append(
            Reading(
                value=whole / sparse,
                text=f"{whole / sparse:.1f}× ({sparse:.3f} s over {whole:.2f} s a round; {accessed:.1%} of all rows)",
            )
        )
    return readings


def _tables(bench: Bench) -> tuple[int, int]:
    """Rows of a table like that of 2018, and of one of which a batch touches few."""
    return (500, 2000) if bench.tiny else (V_2018, WIDE)


def _counted(bench: Bench) -> list[dict[str, Any]]:
    """What logical hosts send, over V, d, batch, and both ways."""
    from any2vec.cluster.threads import run_logical
    from benchmarks.streams.rounds import Shape, host

    rows = (500,) if bench.tiny else (2000, V_2018) if bench.quick else (2000, V_2018, WIDE)
    found = []
    for shape in (
        Shape(num_rows, dim, tokens, 1, sync)
        for num_rows in rows for dim in (50, 200) for tokens in (SMALL, LARGE) for sync in ("sync", "dense")
    ):  # fmt: skip
        one = run_logical(1 + TRAINERS, partial(host, shape))[0]
        assert one is not None
        found.append(one)
    bench.runs["counted"] = [
        {name: one[name] for name in one if name not in ("seconds", "block_rows")} for one in found
    ]
    return found


def _timed(bench: Bench) -> dict[tuple[int, int, int, str], dict[str, Any]]:
    """Rounds over capped links, by (rows, dim, tokens, sync)."""
    rounds, (table, wide) = 1 if bench.quick else 4, _tables(bench)
    shapes = [
        (table, dim, tokens, rounds, sync)
        for dim in (50, 200) for tokens in (SMALL, LARGE) for sync in ("sync", "dense")
    ]  # fmt: skip
    shapes += [(wide, 100, SMALL, rounds, "sync"), (wide, 100, SMALL, 1 if bench.quick else 2, "dense")]
    with network(1 + TRAINERS, f"{RATE_BITS // 1_000_000}mbit") as net:
        goodput = net.goodput()
        command = [sys.executable, "-m", "benchmarks.streams.rounds", json.dumps(shapes)]
        reported = net.run(command, {"ANY2VEC_CACHE": str(bench.cache)}, 1500)[0]
    found = [json.loads(line) for line in reported.splitlines() if line.startswith("{")]
    bench.runs["tbf"] = {"rate": RATE_BITS, "burst": BURST, "goodput": goodput, "ends": "both of each veth"}
    bench.runs["timed"] = found
    return {(one["rows"], one["dim"], one["tokens"], one["sync"]): one for one in found}


ROWS = (
    Row(
        name="table-traffic",
        measures=(
            Measure(
                name="bytes by the formula = bytes counted, over V, d, batch, row-sparse and dense", relation=">=",
                target=1.0, wording="all equal",
            ),
            Measure(name="dense: seconds of a round at d 200 over d 50 (bytes: 4×)", relation="", wording="shown"),
            Measure(name="dense: seconds at 8192 pairs over 1024 pairs (bytes: 1×)", relation="", wording="shown"),
            *(
                Measure(name=f"dense over row-sparse, {what}", relation="", wording="shown")
                for what in (
                    "V 8,113, d 200, 8192 pairs", "V 8,113, d 200, 1024 pairs", "V 65,000, d 100, 1024 pairs"
                )
            ),
        ),
        run=table_traffic,
        minutes=6,
    ),
)  # fmt: skip

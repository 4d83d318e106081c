"""What the rows about hosts of click models are made of: pools, shares of a processor, figures of what hosts say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.bench import script_of
from benchmarks.clicks import links as clicks_links
from benchmarks.clicks import slow as clicks_slow
from benchmarks.clicks.hosts import steps_of
from benchmarks.clicks.pool import Pool, write_pool
from benchmarks.machine import quotas

from any2vec.testing.planted_clicks import PlantedClicks

OPTIONS = {"columns": 3, "rows": 50, "zipf": 1.1, "dense": 2, "seed": 5}


def test_a_pool_is_the_beginning_of_its_stream(tmp_path: Path) -> None:
    """In two pieces, and over what stood in the folder before."""
    write_pool(tmp_path / "pool", 10, OPTIONS)
    write_pool(tmp_path / "pool", 20_000, OPTIONS)
    pool, clicks = Pool(tmp_path / "pool"), PlantedClicks(20_000, **OPTIONS)
    assert (pool.num_examples, pool.num_rows, pool.columns) == (20_000, clicks.num_rows, clicks.columns)
    assert np.array_equal(pool.offset_F, clicks.offset_F) and pool.dense_names == clicks.dense_names
    for start, stop in ((0, 7), (16_000, 17_000), (19_999, 20_000), (5, 5)):
        for found, expected in zip(pool.batch(start, stop), clicks.batch(start, stop), strict=True):
            assert found.dtype == expected.dtype and np.array_equal(found, expected)


def test_a_push_bound_of_its_own_reaches_the_cache() -> None:
    """Each update is pushed by itself with bound 0, and few are with bound 50."""
    pytest.importorskip("torch", reason="models of clicks need torch")
    pushes = []
    for bound in (0, 50):
        options = {"dim": 2, "batch_size": 50, "bottom": "4", "top": "4"}
        hosts = {"logical_hosts": 2, "servers": 1, "sync": "fr-ma:1", "cache": "het:50", "cache_rows": 1.0}
        found = subprocess.run(
            [sys.executable, script_of("any2vec_clicks.py"), "--stream", json.dumps(OPTIONS), "--train", "0", "2000",
             "--test", "2000", "2100", "--options", json.dumps(options), "--hosts", json.dumps([hosts]),
             "--push-bound", str(bound)],
            capture_output=True, text=True, check=True, timeout=120,
        )  # fmt: skip
        counts = json.loads(found.stdout)["runs"][0]["rows_of_hosts"]
        pushes.append(counts["pushes"] / (counts["hits"] + counts["misses"] + counts["refreshes"]))
    assert pushes[0] == 1 and pushes[1] < 0.5


def trainer(**more: Any) -> dict[str, Any]:
    own = {
        "seconds": 10.0, "batches": 20, "examples": 40, "from": 100.0, "to": 110.0, "cpu_seconds": 5.0,
        "calls": {"push": 4.0}, "bytes_by_phase": {"reduce": 60}, "rows": {}, "dense": {},
    }  # fmt: skip
    return own | more


def test_the_use_of_a_link_is_that_of_its_lesser_direction() -> None:
    """Two trainers send 100,000 and 150,000 bytes in 10 s over 1 Mbit/s, and get 4 kB less each."""
    trainers = [
        trainer(dense={"sync_bytes_sent": size, "sync_bytes_received": size - 4_000}) for size in (100_000, 150_000)
    ]
    line = [[90.0, 0.0, 0, 0], [100.0, 1.0, 1_000, 5_000], [108.0, 1.4, 301_000, 255_000], [111.0, 9.0, 10**9, 10**9]]
    share, kernel = clicks_links._use_of([*trainers, {"line": line}], 1)
    assert share == pytest.approx(8 * 242_000 / 1e7)
    assert kernel == pytest.approx(8 * 250_000 / 8e6)


def test_shadows_of_both_trainers_are_reported_together() -> None:
    def one(gaps: dict[str, int], cpu: float) -> dict[str, Any]:
        return trainer(dense={"sync_gap": gaps, "shadow_cpu_seconds": cpu, "syncs": sum(gaps.values())})

    line = [[100.0, 1.0, 0, 0], [110.0, 1.5, 0, 0]]
    found = clicks_links._shadow_of([one({"3": 2, "9": 0}, 0.1), one({"3": 1, "12": 4}, 0.2), {"line": line}])
    assert found["gaps"] == {"3": 3, "12": 4} and found["syncs"] == 7
    assert found["shadow_share"] == 0.02 and found["server_share"] == pytest.approx(0.05)
    assert found["trainer_share"] == 0.5


def test_the_share_of_a_worker_is_its_threads_alone() -> None:
    """Of 10 s: threads of 9 and 8 s; processes have used 5, whatever else that is."""
    trainers = [trainer(worker_cpu_seconds=seconds) for seconds in (9.0, 8.0)]
    assert clicks_links._worker_share(trainers) == pytest.approx(0.85)


def test_what_is_lost_is_a_share_of_all_that_was_to_be_done() -> None:
    reported = [
        trainer(metrics={"accepted": {"0": 60}, "dropped": {"0": 0}, "left_out": {"0": 0}}),
        trainer(metrics={"accepted": {"1": 20}, "dropped": {"1": 10}, "left_out": {"1": 30}}, seconds=30.0),
    ]
    lost = clicks_slow._lost([steps_of(reported)])
    assert lost == {"dropped": 10 / 90, "left_out": 30 / 120, "examples": 40 / 120}
    assert steps_of(reported)["step"] == 1.0 and steps_of(reported)["of_trainers"] == [0.5, 1.5]


def test_quotas_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's folder is stood in for by a plain one, whose files are removed as the kernel would."""
    monkeypatch.setattr(quotas, "ROOT", tmp_path)
    monkeypatch.setattr(quotas, "_JANITOR", quotas._JANITOR.replace("rmdir", "rm -r"))
    with pytest.raises(ZeroDivisionError), quotas.quotas([0.25, None]) as groups:
        (folder,) = tmp_path.iterdir()
        reported = {file.name: int(file.read_text()) for file in folder.iterdir()}
        assert reported["cpu.cfs_quota_us"] == 0.25 * reported["cpu.cfs_period_us"]
        assert groups.wrap(1, ["true"]) == ["true"]
        assert groups.wrap(0, ["true"])[-2:] == [str(folder), "true"]
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())

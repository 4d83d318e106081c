"""Every agreement passes these: one host is plain training, the optimum is found, bits repeat, runs resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import any2vec
from agreeing import convex, planted, run_hosts, start_tables, stored, works
from any2vec import SkipGram
from any2vec.sync.exchange.gaia import num_sites
from any2vec.sync.options.names import MERGES, SYNCS, Gaia, parse_sync
from spreads import spread

HOSTS = 4
EXACT = [
    *MERGES, "ds-sync", "ds-sync:butterfly", "ds-sync:topology", "ds-sync:3", "leader", "leader:every=2:size=4",
    "elastic", "gaia", "gaia:0", "gaia:element:0.3", "gaia:rate", "gaia:none:sites=4", "gaia:clock=2:0.2",
    "gaia:clock=2:0.2:late",
    "gaia:flush=3:mean", "gaia:limit=300:sites=1",
]  # fmt: skip
"""those whose result does not depend on scheduling"""
SERVED = ["server:bounded:1", "server-mean", "server:async", "frequent"]
ALL = [*EXACT, *SERVED]
BITS = [("adasum", 8), ("elastic", 16), ("elastic", 8), ("gaia", 16), ("gaia:clock=1:0.1", 8)]


def distance(tables: dict[str, np.ndarray]) -> float:
    """Largest distance of a row from the optimum."""
    return max(float(np.linalg.norm(tables[name] - best, axis=1).max()) for name, best in planted().items())


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def test_every_name_is_here() -> None:
    assert {name.partition(":")[0] for name in (*EXACT, *SERVED)} <= set(SYNCS)


@pytest.mark.parametrize("sync", ALL)
def test_one_host_is_plain_training(sync: str) -> None:
    plain = start_tables()
    for work in works(0, 6):
        convex(plain, 0, work.round.number, work.payload.start - work.payload.line.start)
    assert same(run_hosts(sync, 1, 6)[0].collected, plain)


@pytest.mark.parametrize("sync", ALL)
def test_all_hosts_find_the_optimum(sync: str) -> None:
    rounds = 40
    ran = run_hosts(sync, HOSTS, rounds)
    start = distance(start_tables())
    # Each site of Gaia finds the optimum alone; the flush adds what the other sites still hold back of that.
    how, unsent = parse_sync(sync), 0.0
    if isinstance(how, Gaia) and not how.flush:
        largest = max(float(np.linalg.norm(best, axis=1).max()) for best in planted().values())
        unsent = (num_sites(HOSTS, how.sites) - 1) * largest * how.threshold
        unsent *= {"none": 1.0, "sqrt": rounds**-0.5, "rate": 1 / rounds}[how.shrink]
        assert unsent < 0.15 * start  # or the test could not fail
    near = 2e-3 if sync in EXACT else 2e-2  # which pushes meet depends on the clock
    assert distance(ran[0].collected) < near * start + unsent
    for host in ran:
        assert distance(host.tables) < 2e-2 * start + unsent


@pytest.mark.parametrize(("sync", "bits"), [*((sync, 32) for sync in EXACT), *BITS])
def test_bits_do_not_depend_on_who_was_fast(sync: str, bits: int) -> None:
    one, other = (run_hosts(sync, HOSTS, 6, jitter=jitter, bits=bits) for jitter in (0, 1))
    assert same(one[0].collected, other[0].collected)
    for here, there in zip(one, other, strict=True):
        assert same(here.tables, there.tables)
        assert here.transport.counters.sent == there.transport.counters.sent


@pytest.mark.parametrize(("sync", "bits"), [*((sync, 32) for sync in EXACT), *BITS])
def test_a_run_goes_on_as_if_it_had_not_stopped(sync: str, bits: int, tmp_path: Path) -> None:
    whole = run_hosts(sync, HOSTS, 10, bits=bits)
    photographed = run_hosts(sync, HOSTS, 10, halfway=5, bits=bits)
    assert same(whole[0].collected, photographed[0].collected)  # to form the result changes nothing
    kept = photographed[0].halfway
    assert kept is not None
    again = run_hosts(sync, HOSTS, 10, first=6, resume=stored(kept, tmp_path / "kept"), bits=bits)
    assert same(again[0].collected, whole[0].collected)
    if sync not in MERGES:  # pull-opt leaves stale what nobody asks for
        for here, there in zip(again, whole, strict=True):
            assert same(here.tables, there.tables)


@pytest.mark.parametrize("sync", EXACT)
def test_another_number_of_hosts_goes_on_from_the_result(sync: str, tmp_path: Path) -> None:
    kept = run_hosts(sync, HOSTS, 4, halfway=3)[0].halfway
    assert kept is not None
    hosts = 9 if "3" in sync and sync.startswith("ds-sync") else 8
    ran = run_hosts(sync, hosts, 4, first=4, resume=stored(kept, tmp_path / "kept"))
    assert same(ran[0].collected, kept[0])


@pytest.mark.parametrize("sync", [sync for sync in ALL if ":" not in sync])
def test_what_another_agreement_remembered_is_no_hindrance(sync: str, tmp_path: Path) -> None:
    """The agreement is no setting that a resumed run must keep: it goes on from what was agreed, or its own memory."""
    for former, bits in (("adasum", 8), ("leader", 32)):
        kept = run_hosts(former, HOSTS, 6, halfway=3, bits=bits)[0].halfway
        assert kept is not None
        ran = run_hosts(sync, HOSTS, 8, first=6, resume=stored(kept, tmp_path / "photograph"))
        assert all(np.isfinite(table).all() for table in ran[0].collected.values())


@pytest.mark.parametrize("sync", ALL)
def test_bytes_are_counted(sync: str) -> None:
    for host in run_hosts(sync, HOSTS, 8):
        kinds = host.transport.counters.bytes_by_kind()
        assert kinds["rows"] > 0 and kinds["control"] > 0


@pytest.mark.parametrize("sync", ["ds-sync", "ds-sync:butterfly", "leader", "elastic", "gaia", "gaia:sites=4"])
def test_a_table_that_nobody_changes_costs_no_rows(sync: str) -> None:
    def idle(tables: Any, rank: int, number: int, step: int) -> float:
        return 1.0

    ran = run_hosts(sync, HOSTS, 3, idle)
    assert same(ran[0].collected, start_tables())
    rows = sum(
        v for (kind, _, phase), v in ran[1].transport.counters.sent.items() if (kind, phase) == ("rows", "gather")
    )
    total = ran[1].transport.counters.bytes_by_kind()["rows"]
    assert total == rows  # but for the gathering of the result


@pytest.mark.parametrize("sync", ["ds-sync", "leader", "elastic", "gaia", *SERVED])
def test_a_real_fit_learns(sync: str) -> None:
    rng = np.random.default_rng(1)
    sentences = [[str(word) for word in (rng.integers(0, 30, 10) * 10 + rng.integers(10))] for _ in range(300)]
    model = SkipGram(dim=16, learning_rate=0.4)
    options = spread(logical_hosts=HOSTS, sync=sync, rounds_per_epoch=3)
    short, long = (any2vec.fit(model, sentences, epochs=epochs, threads=1, **options) for epochs in (1, 8))
    assert long.summary["loss"] < short.summary["loss"] - 0.02
    assert long.summary["sync"] == sync and long.summary["scheme"] is None
    assert long.summary["bytes_by_kind"]["rows"] > 0
    assert np.isfinite(long.embeddings.vectors).all()

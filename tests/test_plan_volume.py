"""What the plan says of bytes, beside what the transport counts: equal, byte for byte."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import any2vec
import any2vec.train.host
from any2vec.cluster.message import overhead
from any2vec.plan.volume import (
    RoundSets,
    all_rows,
    base_rows_bytes,
    block_sizes,
    gather_bytes,
    report_bytes,
    round_volume,
    run_bytes,
)  # fmt: skip
from any2vec.sync.block import bounds
from any2vec.sync.options import HostOptions
from any2vec.sync.replicated import Replicated
from any2vec.sync.tracking import Tracker

EPOCHS, ROUNDS, DIM = 2, 3, 12
SCHEMES = ("rep-base", "rep-opt", "pull-base", "pull-opt")
AGREEING = {"inspect", "pull", "reduce", "broadcast", "report", "gather"}


@dataclass
class Seen:
    """Sizes of the true sets, as the hosts have them: (round, table, asker, owner), and (round, table, owner)."""

    hosts: int
    tracked: dict[int, np.ndarray] = field(default_factory=dict)
    merged: dict[int, np.ndarray] = field(default_factory=dict)
    _numbers: Any = field(default_factory=lambda: defaultdict(int))

    def number(self, rank: int) -> int:
        """The round of a host that is at it; room for its sizes is made by whoever comes first."""
        number = self._numbers[rank]
        self._numbers[rank] += 1
        self.tracked.setdefault(number, np.zeros((2, self.hosts, self.hosts), np.int64))
        self.merged.setdefault(number, np.zeros((2, self.hosts), np.int64))
        return number

    def sets(self) -> list[RoundSets]:
        return [RoundSets(self.tracked[number], self.merged[number]) for number in sorted(self.tracked)]


def watch(monkeypatch: pytest.MonkeyPatch, hosts: int) -> Seen:
    """Let agreements tell the sizes of their sets."""
    seen = Seen(hosts)

    class WatchedReplicated(Replicated):
        def _reduce(self, touched: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            number, rank = seen.number(self.transport.rank), self.transport.rank
            changed = super()._reduce(touched)
            for t, name in enumerate(touched):
                seen.tracked[number][t, rank] = np.diff(np.searchsorted(touched[name], self._bounds))
                seen.merged[number][t, rank] = len(changed[name])
            return changed

    class WatchedTracker(Tracker):
        def _agree_on_addresses(self, mine: dict[str, list[np.ndarray]]) -> dict[str, list[np.ndarray]]:
            number = seen.number(self.transport.rank)
            for t, owned in enumerate(mine.values()):
                seen.tracked[number][t, self.transport.rank] = [len(ids) for ids in owned]
            return super()._agree_on_addresses(mine)

    monkeypatch.setattr("any2vec.sync.make.Replicated", WatchedReplicated)
    monkeypatch.setattr("any2vec.sync.pulled.Tracker", WatchedTracker)
    return seen


def sentences() -> list[list[str]]:
    """A text with frequent and rare words."""
    rng = np.random.default_rng(5)
    ranks = (300 ** rng.random(2600)).astype(int)
    return [[f"w{rank}" for rank in line] for line in np.array_split(ranks, 90)]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("hosts", "bits"), [(1, 32), (2, 32), (2, 8), (3, 16), (4, 32), (5, 8), (5, 32)])
def test_the_plan_is_what_the_transport_counts(
    scheme: Any, hosts: int, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = watch(monkeypatch, hosts)
    model = any2vec.SkipGram(dim=DIM, min_count=1, subsample=1e-2)
    options = HostOptions(logical_hosts=hosts, scheme=scheme, rounds_per_epoch=ROUNDS, bits=bits)
    summary = any2vec.fit(model, sentences(), epochs=EPOCHS, threads=1, hosts=options).summary
    rows = summary["rows"]
    rounds = [round_volume(scheme, rows, hosts, DIM, bits, sets) for sets in seen.sets()]
    assert len(rounds) == summary["rounds"] == EPOCHS * ROUNDS
    # All hosts have a rest after each round but the last of an epoch.
    unfinished = [0 if number % ROUNDS == ROUNDS - 1 else hosts - 1 for number in range(len(rounds))]
    phases, kinds = run_bytes(rounds, unfinished, [gather_bytes(scheme, rows, hosts, DIM, bits)])
    counted = summary["bytes_by_phase"]
    beside = sum(size for phase, size in counted.items() if phase not in AGREEING)
    assert {phase: size for phase, size in phases.items() if size} == {
        phase: size for phase, size in counted.items() if phase in AGREEING
    }
    assert kinds == summary["bytes_by_kind"] | {"control": summary["bytes_by_kind"]["control"] - beside}


def test_blocks_are_those_of_the_agreement() -> None:
    for rows, hosts in ((7, 1), (7, 3), (1000, 32), (5, 5)):
        assert list(block_sizes(rows, hosts)) == list(np.diff(bounds(rows, hosts)))


@pytest.mark.parametrize("hosts", [1, 2, 3, 32])
def test_base_has_a_closed_form(hosts: int) -> None:
    volume = round_volume("rep-base", 1000, hosts, 200, 32)
    assert volume.bytes_by_kind()["rows"] == pytest.approx(hosts * base_rows_bytes(1000, hosts, 200), abs=0.5)
    assert base_rows_bytes(1000, hosts, 200) == 2 * (hosts - 1) / hosts * 2 * 1000 * 200 * 4
    # Two exchanges, each of a message for each ordered pair, each with a part for each table.
    assert volume.bytes_by_kind()["control"] == 2 * hosts * (hosts - 1) * overhead(2)


def test_what_is_sent_is_received() -> None:
    rng = np.random.default_rng(1)
    tracked = rng.integers(0, 20, (2, 5, 5))
    for scheme in SCHEMES:
        volume = round_volume(scheme, 101, 5, 8, 16, RoundSets(tracked, rng.integers(0, 20, (2, 5))))
        for flow in volume.flows:
            assert flow.sent().sum() == flow.received().sum() == sum(flow.bytes_by_kind().values())
            assert flow.busiest() >= flow.sent().mean()
        assert volume.per_host().sum() == volume.total()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_hosts_that_are_all_alike_need_one_row_of_sizes(scheme: str) -> None:
    hosts, rng = 6, np.random.default_rng(2)
    tracked, merged = rng.integers(0, 15, (2, 1, hosts)), rng.integers(0, 15, (2, hosts))
    short = round_volume(scheme, 90, hosts, 8, 32, RoundSets(tracked, merged))
    long = round_volume(scheme, 90, hosts, 8, 32, RoundSets(np.repeat(tracked, hosts, axis=1), merged))
    assert short.bytes_by_phase() == long.bytes_by_phase() and short.bytes_by_kind() == long.bytes_by_kind()
    for one, other in zip(short.flows, long.flows, strict=True):
        assert list(one.sent()) == list(other.sent()) and list(one.received()) == list(other.received())


def test_the_set_of_all_rows_costs_a_byte_for_each_message() -> None:
    base = round_volume("rep-base", 100, 4, 8, 32)
    full = round_volume("rep-opt", 100, 4, 8, 32, all_rows(100, 4))
    assert full.bytes_by_kind()["rows"] == base.bytes_by_kind()["rows"]
    messages = 2 * 4 * 3
    assert full.bytes_by_kind()["ids"] == 2 * messages


def test_reports_are_small() -> None:
    assert report_bytes(1, 0) == 0
    assert report_bytes(32, 31) < 31 * 400

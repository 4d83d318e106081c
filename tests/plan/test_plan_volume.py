"""What the plan says of bytes, beside what the transport counts: equal, byte for byte."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from benchmarks.peers.hosts import run_volume
from benchmarks.peers.hosts.run_volume import gather_bytes, run_bytes, run_volumes

import any2vec
from any2vec.cluster.message import overhead
from any2vec.models.words.learner import SequenceLearner
from any2vec.plan.choices import SCHEMES
from any2vec.plan.cost.volume import (
    RoundSets,
    all_rows,
    block_sizes,
    report_bytes,
    round_volume,
)  # fmt: skip
from any2vec.plan.sharding.sharding import Striped, contiguous_bounds
from any2vec.sync.exchange import replicated
from any2vec.tables import copying
from spreads import spread

EPOCHS, ROUNDS, DIM = 2, 3, 12
AGREEING = {"curvature", "inspect", "pull", "reduce", "broadcast", "report", "gather"}


class Seen:
    """Marks that the hosts of a run made: what inspection found, and what had changed; by host, round and table."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
        """by a host's first position; the same two arrays are filled by several calls"""
        self.changed: dict[str, list[np.ndarray]] = {}
        """by the name of a host's thread; tables in turn"""
        self._first: dict[int, int] = {}
        inspect, compare = SequenceLearner.inspect, replicated.changed_rows

        def watched_inspect(learner: Any, epoch: int, start: int, stop: int, marked: dict[str, np.ndarray]) -> None:
            inspect(learner, epoch, start, stop, marked)
            marks = self.found.setdefault(self._first.setdefault(id(learner), start), [])
            if not marks or marks[-1][0] is not marked["input"]:
                marks.append((marked["input"], marked["output"]))

        def watched_compare(now: np.ndarray, start: np.ndarray, flags: np.ndarray) -> None:
            compare(now, start, flags)
            self.changed.setdefault(threading.current_thread().name, []).append(flags)

        monkeypatch.setattr(SequenceLearner, "inspect", watched_inspect)
        monkeypatch.setattr(replicated, "changed_rows", watched_compare)

    def sets(self, scheme: str, rounds: int) -> list[RoundSets | None]:
        if scheme == "rep-base":
            return [None] * rounds
        if scheme == "rep-opt":
            threads = ["MainThread", *(f"host-{rank}" for rank in range(1, len(self.changed)))]
            hosts = [list(zip(marks[::2], marks[1::2], strict=True)) for marks in map(self.changed.get, threads)]
        else:
            hosts = [self.found[start] for start in sorted(self.found)]
        if scheme == "pull-base":
            hosts = [[(into | out, into | out) for into, out in marks] for marks in hosts]
        return [_sizes([marks[number] for marks in hosts]) for number in range(rounds)]


def _sizes(marks: list[tuple[np.ndarray, np.ndarray]]) -> RoundSets:
    """Of the marks of all hosts in one round."""
    cuts = contiguous_bounds(len(marks[0][0]), len(marks))[:-1]
    marks_HTV = np.array(marks)[..., Striped(len(marks[0][0]), len(marks)).rows(np.arange(len(marks[0][0])))]
    tracked = np.add.reduceat(marks_HTV, cuts, axis=2, dtype=np.int64).swapaxes(0, 1)
    return RoundSets(tracked, np.add.reduceat(marks_HTV.any(0), cuts, axis=1, dtype=np.int64))


def sentences() -> list[list[str]]:
    """A text with frequent and rare words."""
    rng = np.random.default_rng(5)
    ranks = (300 ** rng.random(2600)).astype(int)
    return [[f"w{rank}" for rank in line] for line in np.array_split(ranks, 90)]


CASES = [
    *(
        (scheme, hosts, bits, False)
        for scheme in SCHEMES
        for hosts, bits in ((2, 32), (2, 8), (3, 16), (4, 32), (5, 8))
    ),
    ("pull-opt", 3, 32, True),
    ("pull-opt", 2, 16, True),
]


@pytest.mark.parametrize("rule", ["blend", None])
@pytest.mark.parametrize(("scheme", "hosts", "bits", "overlap"), CASES)
def test_the_plan_is_what_the_transport_counts(
    scheme: Any, hosts: int, bits: int, overlap: bool, rule: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Seen(monkeypatch)
    if hosts == 3:  # the result is gathered in several turns
        for module in (copying, run_volume):
            monkeypatch.setattr(module, "GATHERED", 1000)
    model = any2vec.SkipGram(dim=DIM, min_count=1, subsample=1e-2)
    options = spread(logical_hosts=hosts, sync=rule, scheme=scheme, rounds_per_epoch=ROUNDS, bits=bits, overlap=overlap)
    summary = any2vec.fit(model, sentences(), epochs=EPOCHS, threads=1, **options).summary
    rows = summary["rows"]
    assert summary["rounds"] == EPOCHS * ROUNDS
    rounds = run_volumes(
        scheme, rows, hosts, DIM, bits, seen.sets(scheme, EPOCHS * ROUNDS), 1 + overlap, is_curved=rule is None
    )
    # All hosts have a rest after each round but the last of an epoch.
    unfinished = [0 if number % ROUNDS == ROUNDS - 1 else hosts - 1 for number in range(EPOCHS * ROUNDS)]
    phases, kinds = run_bytes(rounds, unfinished, [gather_bytes(scheme, rows, hosts, DIM, bits)])
    counted = summary["bytes_by_phase"]
    beside = sum(size for phase, size in counted.items() if phase not in AGREEING)
    assert {phase: size for phase, size in phases.items() if size} == {
        phase: size for phase, size in counted.items() if phase in AGREEING
    }
    assert kinds == summary["bytes_by_kind"] | {"control": summary["bytes_by_kind"]["control"] - beside}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_one_host_sends_nothing(scheme: Any) -> None:
    options = spread(logical_hosts=1, scheme=scheme, rounds_per_epoch=ROUNDS)
    model = any2vec.SkipGram(dim=DIM, min_count=1)
    summary = any2vec.fit(model, sentences(), epochs=1, threads=1, **options).summary
    assert sum(summary["bytes_by_kind"].values()) == 0
    assert round_volume(scheme, summary["rows"], 1, DIM, 32, all_rows(summary["rows"], 1)).total() == 0
    assert report_bytes(1, 0) == 0 and not sum(gather_bytes(scheme, summary["rows"], 1, DIM, 32).values())


def test_blocks_are_those_of_the_agreement() -> None:
    for rows, hosts in ((7, 1), (7, 3), (1000, 32), (5, 5)):
        assert list(block_sizes(rows, hosts)) == list(np.diff(contiguous_bounds(rows, hosts)))


@pytest.mark.parametrize("hosts", [1, 2, 3, 32])
def test_base_has_a_closed_form(hosts: int) -> None:
    volume = round_volume("rep-base", 1000, hosts, 200, 32)
    rows = 2 * (hosts - 1) / hosts * 2 * 1000 * 200 * 4  # of a host, on average: 2 (H - 1) / H of the model
    assert volume.bytes_by_kind()["rows"] == pytest.approx(hosts * rows, abs=0.5)
    # Two exchanges of two tables, each of a message of one part for each ordered pair.
    assert volume.bytes_by_kind()["control"] == 2 * 2 * hosts * (hosts - 1) * overhead(1)


def test_what_is_sent_is_received() -> None:
    rng = np.random.default_rng(1)
    tracked = rng.integers(0, 20, (2, 5, 5))
    for scheme in SCHEMES:
        volume = round_volume(scheme, 101, 5, 8, 16, RoundSets(tracked, rng.integers(0, 20, (2, 5))))
        for flow in volume.flows:
            assert flow.sent().sum() == flow.received().sum() == sum(flow.bytes_by_kind().values())
            assert flow.busiest() >= flow.sent().mean()
        assert sum(flow.sent().sum() for flow in volume.flows) == volume.total()


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
    assert report_bytes(32, 31) < 31 * 400

"""The benchmark rows that model many hosts: what they fit and count, on toys whose answer is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.hosts import modeled as modeled
from benchmarks.hosts import plan_check
from benchmarks.hosts.inspected import block_of, inspect_round, planted_setting
from benchmarks.hosts.plan_check import FITTED, UNSEEN, Seen, crowding, fit, predict

from any2vec import SkipGram
from any2vec.cluster.link import parse_link
from any2vec.plan.cost.estimate import Rates, RunShape
from any2vec.plan.cost.hosts import Costs, Spread, plan_run, plan_scheme
from any2vec.plan.cost.occupancy import Reading, expected_sets, of_counts, zipf
from any2vec.tasks.words.sizing import Sized, reading_of


def sized() -> Sized:
    shape = RunShape(rows=50_000, dim=100, items=10_000_000, epochs=1)
    rates, found = Rates(items_per_s=1.0, read_bytes_per_s=1e9), zipf(50_000, 1e7)
    reading = Reading(subsample=1e-4, draws=1.0, clump=1.8)
    return Sized(shape=shape, rates=rates, estimate=plan_run(shape, rates).host, found=found, reading=reading)


def test_a_fit_foretells_runs_that_follow_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("any2vec.machine.usable_cores", lambda: 2)
    assert crowding(2) == 1.0 and crowding(4) == 2.0
    truth = plan_check.Fit(
        items_per_s=4e5,
        costs=Costs(inspect_items_per_s=9e6, number_seconds=2e-9, byte_seconds=1e-9, message_seconds=2e-4),
    )

    def run(hosts: int, scheme: str, rounds: int) -> Seen:
        spread = Spread(hosts=hosts, rounds_per_epoch=rounds, scheme=scheme)
        seconds, num_bytes = predict(sized(), truth, spread)
        compute = crowding(hosts) * sized().shape.items / hosts / truth.items_per_s
        return Seen(spread=spread, seconds=seconds, agree_seconds=seconds - compute, num_bytes=num_bytes)

    found = fit(sized(), [run(*how) for how in FITTED])
    assert found.items_per_s == pytest.approx(truth.items_per_s)
    for how in UNSEEN:
        unseen = run(*how)
        assert predict(sized(), found, unseen.spread)[0] == pytest.approx(unseen.seconds, rel=1e-6)


def test_the_planted_round_is_what_occupancy_expects() -> None:
    """Words in random order, 4 hosts: counted and expected rows agree, and owners have equal loads."""
    hosts, words = 4, 5000
    model = SkipGram(dim=8, subsample=1e-3)
    setting = planted_setting(model, 2000, 20 * hosts * words, hosts * words, sentence=100)
    assert (setting.tokens < 0).sum() == pytest.approx(len(setting.tokens) / 101, abs=1)
    size = len(setting.tokens)
    parts = [(size * host // hosts, size * (host + 1) // hosts) for host in range(hosts)]
    inspected = inspect_round(setting, parts)
    assert inspected.items == (setting.tokens >= 0).sum()
    found = of_counts(setting.counts)
    rate = found.keep_rate(model.subsample) * found.tokens / setting.positions
    reading = reading_of(model, block_of(setting), rate)
    for scheme in ("rep-opt", "pull-base", "pull-opt"):
        sets, expected = inspected.of(scheme), expected_sets(found, reading, hosts, 20, scheme)
        assert sets.tracked.mean(1) == pytest.approx(expected.tracked[:, 0], rel=0.1, abs=15)
    by_owner = inspected.by_label.tracked.sum((0, 1))
    assert by_owner.max() < 1.05 * by_owner.min()  # for rows are dealt out


def test_scenarios_get_faster_by_what_should_make_them_so() -> None:
    sets = expected_sets(zipf(50_000, 1e7), sized().reading, 32, 48, "pull-opt")
    spread = Spread(hosts=32, rounds_per_epoch=48, link=parse_link(modeled.LINK))
    rates = replace(sized().rates, items_per_s=1e7)
    found = [
        plan_scheme(sized().shape, rates, replace(spread, bits=bits), Costs(threads=threads), sets).speedup
        for bits, threads in ((32, 1), (32, 48), (16, 48), (8, 48))
    ]
    assert found == sorted(found)

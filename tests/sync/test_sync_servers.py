"""Agreements by row servers, and the two baselines: equal to what they must equal, through `fit` and by themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import any2vec
from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import Transport
from any2vec.sync.drivers.rounds import Rounds
from any2vec.sync.exchange.frequent import FrequentRows, rows_of_sync
from any2vec.sync.exchange.served import AveragingServer, ParameterServer, Served
from any2vec.train import progress
from any2vec.types import ProgressLine, Round, Span, Work
from spreads import spread

ROWS, DIM, HOSTS = 11, 3, 4
WORDS = [f"w{rank}" for rank in range(150)]


def sentences() -> list[list[str]]:
    """Some 5,000 tokens, frequent and rare."""
    rng = np.random.default_rng(0)
    return [[WORDS[int(rank)] for rank in rng.zipf(1.3, 12).clip(0, 149)] for _ in range(420)]


def fit(sync: str, model: Any = None, epochs: int = 2, hosts: int = HOSTS, **options: Any) -> any2vec.FitResult:
    kept = {name: options.pop(name) for name in ("out", "resume", "checkpoint_seconds", "callback") if name in options}
    model = model or any2vec.SkipGram(dim=8, min_count=1)
    return any2vec.fit(
        model, sentences(), epochs=epochs, threads=1, **spread(logical_hosts=hosts, sync=sync, **options), **kept
    )


def assert_same(found: any2vec.FitResult, expected: any2vec.FitResult) -> None:
    assert np.array_equal(found.embeddings.vectors, expected.embeddings.vectors)
    if expected.embeddings.output is not None:
        assert np.array_equal(found.embeddings.output, expected.embeddings.output)


@pytest.mark.parametrize("bits", [32, 16, 8])
@pytest.mark.parametrize("hosts", [2, 4])
def test_bound_0_gives_the_bits_of_the_sum(hosts: int, bits: int) -> None:
    expected = fit("sum", hosts=hosts, bits=bits, scheme="pull-opt")  # what is rounded differs from scheme to scheme
    assert_same(fit("server:bounded:0", hosts=hosts, bits=bits), expected)


def test_bound_0_gives_the_bits_of_the_sum_for_other_models() -> None:
    model = any2vec.CBOW(dim=8, min_count=1, objective="hierarchical")
    assert_same(fit("server:bounded:0", model), fit("sum", model))


def test_bound_0_sends_the_rows_that_the_sum_sends() -> None:
    found, expected = (fit(sync).summary["bytes_by_kind"]["rows"] for sync in ("server:bounded:0", "sum"))
    assert found == expected


@pytest.mark.parametrize("sync", ["server:async", "server:bounded:0", "server:bounded:2", "server-mean"])
def test_staleness_is_in_the_summary_and_within_the_bound(sync: str) -> None:
    """Every round reads from every server, for no word is dropped: so at a server another trainer is at most `bound`
    rounds behind a read, and at most `bound` and the one it is in ahead of it at the push."""
    summary = fit(sync, any2vec.SkipGram(dim=8, min_count=1, subsample=0), rounds_per_epoch=20).summary
    staleness, overtaken = (
        {int(key): count for key, count in summary[name].items()} for name in ("staleness", "overtaken")
    )
    assert summary["rounds"] == 40 and list(staleness) == sorted(staleness)
    assert sum(staleness.values()) == 2 * 40 * HOSTS * HOSTS  # of two tables
    assert sum(overtaken.values()) == 40 * HOSTS * HOSTS
    if sync.startswith("server:bounded"):
        bound = int(sync[-1])
        assert max(staleness) <= bound and max(overtaken) <= (HOSTS - 1) * (2 * bound + 1)


@pytest.mark.parametrize("sync", ["server:async", "server:bounded:2", "server-mean", "frequent"])
def test_hosts_learn_together(sync: str) -> None:
    """Two groups of words that never meet: neighbors are of one's own group."""
    rng = np.random.default_rng(1)
    groups = [[f"{letter}{number}" for number in range(10)] for letter in "ab"]
    data = [[str(word) for word in rng.choice(groups[number % 2], 10)] for number in range(800)]
    options = spread(logical_hosts=HOSTS, sync=sync, rounds_per_epoch=8)
    model = any2vec.SkipGram(dim=8, min_count=1, subsample=0, learning_rate=0.01)
    embeddings = any2vec.fit(model, data, epochs=10, threads=1, **options).embeddings
    words = [word for group in groups for word in group]
    own = [found[0] == word[0] for word in words for found, _ in embeddings.nearest(word, 5)]
    assert np.mean(own) > 0.9  # 0.47 by chance; which pushes meet depends on the clock


def stop_after(callbacks: int) -> Callable[[Any], None]:
    """A callback that ends the run by an error."""
    count = 0

    def on_work(record: Any) -> None:
        nonlocal count
        count += 1
        if count > callbacks:
            raise ZeroDivisionError("enough")

    return on_work


@pytest.mark.parametrize("sync", ["server:bounded:0", "frequent"])
@pytest.mark.parametrize("hosts", [2, 3])
def test_a_run_that_goes_on_gives_the_bits_of_one_that_never_stopped(
    sync: str, hosts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "RECORD_SECONDS", 0.0)
    bits = 8 if sync.startswith("server") else 32
    rest: dict[str, Any] = {"hosts": hosts, "rounds_per_epoch": 5, "bits": bits, "out": tmp_path / "run"}
    with pytest.raises(ZeroDivisionError):
        fit(sync, checkpoint_seconds=1e-9, callback=stop_after(7), **rest)
    assert (tmp_path / "run" / "checkpoint.safetensors").exists()
    found = fit(sync, resume=True, **rest)
    expected = fit(sync, **rest | {"out": None}).embeddings
    assert np.array_equal(found.embeddings.vectors, expected.vectors)
    assert np.array_equal(found.embeddings.output, expected.output)
    assert found.summary["rounds"] == 3  # 7 are in the checkpoint


@pytest.mark.parametrize("sync", ["server:async", "server:bounded:2", "frequent"])
@pytest.mark.parametrize("hosts", [2, 4])
def test_a_run_goes_on_with_other_hosts(sync: str, hosts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "RECORD_SECONDS", 0.0)
    with pytest.raises(ZeroDivisionError):
        fit(sync, hosts=3, rounds_per_epoch=20, out=tmp_path, checkpoint_seconds=1e-9, callback=stop_after(3))
    found = fit(sync, hosts=hosts, out=tmp_path, resume=True, rounds_per_epoch=20)
    assert found.summary["items"] == fit("sum", hosts=1).summary["items"]


# Agreements by themselves


class Everything:
    """An inspector of rounds that read the input rows from `first` on, and no output row."""

    def __init__(self, first: int = 0) -> None:
        self.first = first

    def inspect(self, epoch: int, start: int, stop: int, marks: Mapping[str, np.ndarray]) -> None:
        marks["input"][self.first :] = 1


def work_of(number: int, ends_epoch: bool = False, closes: bool = True) -> Work[Span]:
    span = Span(0, 9, ProgressLine(0, 9, 0.0, 1.0))
    return Work(
        span, 0, Round(number, (span,)), 1.0, opens_round=True, ends_round=closes, ends_epoch=closes and ends_epoch
    )


def start_tables() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    return {name: rng.integers(-99, 99, (ROWS, DIM)).astype(np.float32) for name in ("input", "output")}


@pytest.mark.parametrize("bound", [None, 0, 2])
def test_every_push_counts_once_and_what_is_collected_is_of_one_moment(bound: int | None) -> None:
    """Whole numbers, so sums are exact; hosts go on at once when they have collected."""
    rounds = 6

    def host(transport: Transport) -> list[dict[str, np.ndarray] | None]:
        tables = start_tables()
        agreement = ParameterServer(transport, tables, 32, Everything(transport.rank), bound)
        if transport.rank == HOSTS - 1:  # its block is copied when others might be in their next round
            block = agreement._blocks["input"]
            copy = block.copy
            block.copy = lambda: time.sleep(0.02) or copy()  # type: ignore[method-assign, func-returns-value]
        found = []
        for number in range(rounds):
            for _ in range(3):
                agreement.begin_round(work_of(number))
                tables["input"][transport.rank :] += transport.rank + 1
                agreement.end_round()
            found.append(agreement.gather_result())
        agreement.close()
        return found

    collected, *others = run_logical(HOSTS, host, patience=20)
    assert all(found is None for row in others for found in row)
    # Row r is changed by the hosts of rank <= r: 1 + 2 + ... of them, in each round.
    change = np.array([sum(rank + 1 for rank in range(HOSTS) if rank <= row) for row in range(ROWS)])
    for number, found in enumerate(collected):
        assert found is not None and np.array_equal(found["output"], start_tables()["output"])
        assert np.array_equal(found["input"], start_tables()["input"] + (3 * (number + 1) * change)[:, None])


def test_the_averaging_server_moves_by_a_share_towards_each_host() -> None:
    """Hosts pull together and push one after the other: server += (mine - server) / hosts, three times."""
    made = [np.random.default_rng(rank).standard_normal((ROWS, DIM)).astype(np.float32) for rank in range(3)]

    def host(transport: Transport) -> dict[str, np.ndarray] | None:
        tables = start_tables()
        agreement = AveragingServer(transport, tables, 32, Everything())
        agreement.begin_round(work_of(0))
        tables["input"][:] = made[transport.rank]
        transport.barrier()
        for rank in range(3):
            if rank == transport.rank:
                agreement.end_round()
                agreement.client.flush()
            transport.barrier()
        found = agreement.gather_result()
        agreement.close()
        return found

    expected = start_tables()["input"].astype(np.float64)
    for mine in made:
        expected += (mine - expected) / 3
    found = run_logical(3, host, patience=20)[0]
    assert found is not None and np.allclose(found["input"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [ParameterServer, AveragingServer])
def test_what_rounding_leaves_out_of_a_push_comes_with_the_next(kind: type[Served]) -> None:
    """One host of two trains; after many rounds without a change the servers have what it made, to a rounding error."""

    def host(transport: Transport) -> dict[str, np.ndarray] | None:
        tables = start_tables()
        agreement = kind(transport, tables, 8, Everything())
        for number in range(40):
            agreement.begin_round(work_of(number))
            if number < 3 and transport.rank == 0:
                tables["input"] += np.linspace(0, 1, ROWS * DIM, dtype=np.float32).reshape(ROWS, DIM)
            agreement.end_round()
            transport.barrier()
        found = agreement.gather_result()
        owed = np.abs(agreement.residuals.tables["input"]).max()
        assert owed < 1e-6
        agreement.close()
        return found

    share = 1 if kind is ParameterServer else 1 / 2
    expected = start_tables()["input"] + share * 3 * np.linspace(0, 1, ROWS * DIM).reshape(ROWS, DIM)
    found = run_logical(2, host, patience=20)[0]
    assert found is not None
    if kind is ParameterServer:
        assert np.allclose(found["input"], expected, atol=1e-4)


@pytest.mark.parametrize(("bound", "settled"), [(None, [15, 31, 35]), (3, [15, 31, 35]), (0, list(range(36)))])
def test_hosts_meet_seldom_unless_they_are_in_step(bound: int | None, settled: list[int]) -> None:
    def host(transport: Transport) -> list[int]:
        driver = Rounds(ParameterServer(transport, start_tables(), 32, Everything(), bound))
        works = [work_of(number, ends_epoch=number == 35) for number in range(36)]
        assert not any(driver.is_settled(work_of(number, True, closes=False)) for number in range(36))
        driver.close()
        return [work.round.number for work in works if driver.is_settled(work)]

    assert run_logical(2, host, patience=20) == [settled] * 2


def test_a_slow_host_makes_reads_stale_where_nothing_bounds_them() -> None:
    """Host 0 does all its rounds while host 1 is in its first."""

    def host(transport: Transport) -> dict[str, int]:
        tables = start_tables()
        agreement = ParameterServer(transport, tables, 32, Everything())
        agreement.begin_round(work_of(0))
        transport.barrier()
        for number in range(5 * (1 - transport.rank)):
            tables["input"] += 1
            agreement.end_round()
            agreement.begin_round(work_of(number + 1))
        agreement.client.flush()
        transport.barrier()
        if transport.rank == 1:
            agreement.end_round()
        agreement.close()
        return agreement.metrics()

    for metrics in run_logical(2, host, patience=20):
        assert metrics == {"staleness": {"0": 2, "1": 1, "2": 1, "3": 1, "4": 1, "5": 1}, "overtaken": {"0": 5, "5": 1}}


# Frequent rows


def test_the_table_doubles_with_every_trailing_zero() -> None:
    assert [rows_of_sync(number, 10**6) // 1024 for number in range(1, 17)] == [
        1, 2, 1, 4, 1, 2, 1, 8, 1, 2, 1, 4, 1, 2, 1, 16,
    ]  # fmt: skip
    assert rows_of_sync(2**20, 5000) == 5000 and rows_of_sync(1, 7) == 7


@pytest.mark.parametrize("has_counts", [True, False])
def test_frequent_rows_are_averaged_and_others_are_not(has_counts: bool) -> None:
    """Two rows at odd synchronizations, four at the second, all 11 at the eighth; 9 rows have counts."""
    counts = np.array([5, 9, 1, 9, 2, 2, 7, 0, 3])
    order = [1, 3, 6, 0, 8, 4, 5, 2, 7, 9, 10] if has_counts else list(range(ROWS))

    def host(transport: Transport) -> tuple[list[np.ndarray], dict[str, np.ndarray] | None]:
        tables = start_tables()
        agreement = FrequentRows(transport, tables, counts if has_counts else None, first=2)
        states = []
        for number in range(8):
            agreement.begin_round(work_of(number))
            tables["input"] += transport.rank
            before = tables["input"].copy()
            found = agreement.gather_result()
            assert np.array_equal(tables["input"], before)
            agreement.end_round()
            states.append(tables["input"].copy())
        return states, found

    hosts = 3
    results = run_logical(hosts, host, patience=20)
    replicas = [start_tables()["input"].astype(np.float64) for _ in range(hosts)]
    for number in range(8):
        for rank in range(hosts):
            replicas[rank] += rank
        mean = np.mean(replicas, axis=0)
        rows = order[: [2, 4, 2, 8, 2, 4, 2, ROWS][number]]
        for rank in range(hosts):
            replicas[rank][rows] = mean[rows]
            assert np.array_equal(results[rank][0][number], replicas[rank])
    assert np.array_equal(results[0][1]["input"], mean) and results[1][1] is None


def test_a_replica_is_remembered() -> None:
    def host(transport: Transport) -> None:
        first, second = (FrequentRows(transport, start_tables()) for _ in range(2))
        first.tables["input"] += transport.rank
        memories = [
            {"input replica": start_tables()["input"] + rank, "output replica": start_tables()["output"]}
            for rank in range(transport.hosts)
        ]
        assert first.state_dict().keys() == memories[0].keys()
        assert all(np.array_equal(rows, memories[transport.rank][name]) for name, rows in first.state_dict().items())
        second.load_state_dict(memories)
        assert np.array_equal(second.tables["input"], first.tables["input"])
        second.load_state_dict(memories[:1])
        assert np.array_equal(second.tables["input"], first.tables["input"])

    run_logical(2, host)

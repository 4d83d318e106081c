"""How dense replicas synchronize: kernels, rules and their bytes, without chance; and the names of agreements."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from any2vec.cluster.message import Part
from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import Transport
from any2vec.errors import HostError, InputError
from any2vec.kernels.replicas import replicas as kernels
from any2vec.sync.base.dense import DenseAgreement
from any2vec.sync.base.flat import Flat
from any2vec.sync.base.group import ProcessGroup
from any2vec.sync.base.pool import ThreadPool
from any2vec.sync.drivers.replicas import FixedRate
from any2vec.sync.make import make_replicated, make_rule
from any2vec.sync.options import names, rules
from any2vec.sync.options.names import parse_click_sync
from any2vec.sync.rules.averaged_replica import ModelAveraging
from any2vec.sync.rules.block import Block
from any2vec.sync.rules.block_momentum import BlockMomentum
from any2vec.sync.rules.center import (
    MOST_PIECES,
    PULL,
    SMALLEST,
    CenterBlock,
    ServedCenter,
    center_bounds,
    pieces_of,
    pull_bytes,
)
from any2vec.sync.rules.replica_rule import STANDING
from any2vec.tables.replica import Replica
from naive.rows import replicas as naive
from replay import Replay, average_bytes

SIZE, RATE = 11, 0.25


def values(count: int, size: int = SIZE, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(size).astype(np.float32) for _ in range(count)]


def whole(count: int, size: int = SIZE, seed: int = 0) -> list[np.ndarray]:
    """Whole numbers: sums and halves of them are exact in float32, in whatever order."""
    rng = np.random.default_rng(seed)
    return [rng.integers(-64, 64, size).astype(np.float32) for _ in range(count)]


def sgd(start: Sequence[np.ndarray], rate: float = RATE) -> list[Replica]:
    return [Replica(value.copy(), "sgd", rate) for value in start]


def gradient(value: np.ndarray, trainer: int, size: int = SIZE) -> np.ndarray:
    """Of |value - optimum|^2 / 2, with an optimum of the trainer's own, of whole numbers."""
    return value - whole(1, size, 100 + trainer)[0]


# Kernels


@pytest.mark.parametrize("size", [0, 1, 7, 64, 101])
def test_kernels_equal_their_twins(size: int) -> None:
    value, other, third, velocity = values(4, size, size)
    for share in (0.0, 0.3, 1.0):
        now = value.copy()
        kernels.merge_towards(now, other, share)
        assert np.array_equal(now, naive.merge_towards(value, other, share))
        now = value.copy()
        kernels.merge_shift(now, other, third, share)
        assert np.array_equal(now, naive.merge_shift(value, other, third, share))
        now, difference = value.copy(), np.empty_like(value)
        kernels.move_center(now, other, share, difference)
        expected = naive.move_center(value, other, share)
        assert np.array_equal(now, expected[0]) and np.array_equal(difference, expected[1])
    now, seen = value.copy(), np.where(np.arange(size) % 2, value, third)
    kernels.merge_moved(now, other, seen)
    assert np.array_equal(now, naive.merge_moved(value, other, seen)) and np.array_equal(now[1::2], other[1::2])
    now = value.copy()
    kernels.merge_difference(now, other)
    assert np.array_equal(now, naive.merge_difference(value, other))
    total, mean = np.zeros(size), np.empty(size, np.float32)
    for one in (value, other, third):
        kernels.add_replica(total, one)
    kernels.mean_replica(total, 3, mean)
    assert np.array_equal(mean, naive.mean_replica([value, other, third]))
    known, speed = value.copy(), velocity.copy()
    kernels.block_momentum(total, 3, 0.7, 0.4, speed, known)
    expected = naive.block_momentum([value, other, third], 0.7, 0.4, velocity, value)
    assert np.array_equal(speed, expected[0]) and np.array_equal(known, expected[1])
    assert np.allclose(kernels.distances(value, other, third), naive.distances(value, other, third), rtol=1e-6)
    copied = np.empty_like(value)
    kernels.copy_replica(value, copied)
    assert np.array_equal(copied, value)


def test_share_1_takes_the_target_bit_by_bit() -> None:
    value, target = values(2, 1000)
    kernels.merge_towards(value, target, 1.0)
    assert value.tobytes() == target.tobytes()


# Any interleaving, in one thread

RULES = {
    "shadow-easgd:0.3": ("easgd", {"share": 0.3}),
    "shadow-ma:0.4": ("ma", {"share": 0.4, "merge": "shift"}),
    "shadow-ma:0.4:blend": ("ma", {"share": 0.4, "merge": "blend"}),
    "shadow-bmuf:0.6:eta=0.8:momentum=0.5": ("bmuf", {"share": 0.6, "merge": "shift", "eta": 0.8, "momentum": 0.5}),
    "shadow-bmuf:0.6:blend": ("bmuf", {"share": 0.6, "merge": "blend", "eta": 1.0, "momentum": 0.5}),
}


@pytest.mark.parametrize("sync", RULES)
@pytest.mark.parametrize("trainers", [1, 2, 3, 5])
def test_any_interleaving_equals_the_plain_twin(sync: str, trainers: int) -> None:
    rule, reported = RULES[sync]
    for seed in range(4):
        rng = np.random.default_rng((seed, trainers))
        start = values(1)[0]
        replay = Replay(parse_click_sync(sync), sgd([start] * trainers, 0.1))  # type: ignore[arg-type]
        twin = naive.Trainers(rule, [start] * trainers, 0.1, **reported)
        assert replay.phases == twin.phases
        for _ in range(120 * trainers):
            trainer = int(rng.integers(trainers))
            if rng.random() < 0.4:
                replay.step(trainer, gradient(replay.replicas[trainer].value, trainer))
                twin.step(trainer, gradient(twin.values[trainer], trainer))
            elif twin.may_sync(trainer):
                replay.sync(trainer)
                twin.sync(trainer)
            for replica, value in zip(replay.replicas, twin.values, strict=True):
                assert np.array_equal(replica.value, value)
        assert min(twin.at) >= 2 * twin.phases, "too little was tried"


@pytest.mark.parametrize("phases", [2, 3])
def test_a_phase_that_comes_too_early_is_an_error(phases: int) -> None:
    """Trainer 0 has sent its slices, and then its sums, and nobody else has."""
    replay = Replay(names.ShadowMa(), sgd(values(1) * 2))
    for _ in range(2):
        replay.sync(0)
        if phases == 3:
            replay.sync(1)
    if phases == 3:
        replay.sync(0)
    with pytest.raises(HostError, match="host 1 has ended"):
        replay.sync(0)
    replay.sync(1)  # and afterwards it goes on
    if phases == 2:
        replay.sync(1)
    else:
        replay.sync(0)


def test_averages_of_workers_that_stand_still_are_exact() -> None:
    start = values(5, 103)
    replay = Replay(names.ShadowMa(alpha=1.0, merge="blend"), sgd(start))
    replay.sync_all()
    expected = np.mean(np.array(start, np.float64), axis=0).astype(np.float32)
    for replica in replay.replicas:
        assert np.array_equal(replica.value, expected)


def test_elastic_syncs_keep_the_sum_of_center_and_replicas() -> None:
    """Whole numbers, halved a few times: nothing is rounded. Steps of workers between the phases add what they add."""
    rng = np.random.default_rng(7)
    start = whole(4)
    replay = Replay(names.ShadowEasgd(alpha=0.5), sgd(start, 1.0))
    assert replay.center is not None
    total = replay.center.value + sum(start)
    for _ in range(3):
        left = [3] * 4
        while any(left):
            trainer = int(rng.choice(np.flatnonzero(left)))
            if rng.random() < 0.5:
                step = rng.integers(-4, 4, SIZE).astype(np.float32)
                replay.step(trainer, step)
                total -= step
            replay.sync(trainer)
            left[trainer] -= 1
        assert np.array_equal(replay.center.value + sum(replica.value for replica in replay.replicas), total)
        assert any(not np.array_equal(start[0], replica.value) for replica in replay.replicas)


@pytest.mark.parametrize("sync", ["shadow-easgd:1e-9", "shadow-ma:1e-9", "shadow-bmuf:1e-9:blend"])
def test_a_share_of_nothing_leaves_replicas_independent(sync: str) -> None:
    start = values(1)[0]
    replay, alone = Replay(parse_click_sync(sync), sgd([start] * 3)), sgd([start] * 3)  # type: ignore[arg-type]
    for _ in range(20):
        for trainer, replica in enumerate(alone):
            replay.step(trainer, gradient(replay.replicas[trainer].value, trainer))
            replica.step(gradient(replica.value, trainer))
        replay.sync_all()
    for found, expected in zip(replay.replicas, alone, strict=True):
        assert np.allclose(found.value, expected.value, rtol=1e-5, atol=1e-5)
    assert not np.allclose(alone[0].value, alone[1].value, atol=1)


def test_bmuf_without_momentum_is_model_averaging() -> None:
    start = values(1)[0]
    rules = names.ShadowMa(alpha=0.5), names.ShadowBmuf(alpha=0.5, momentum=0.0)
    pair = [Replay(how, sgd([start] * 3)) for how in rules]
    for _ in range(10):
        for replay in pair:
            for trainer in range(3):
                replay.step(trainer, gradient(replay.replicas[trainer].value, trainer))
            replay.sync_all()
    for one, other in zip(pair[0].replicas, pair[1].replicas, strict=True):
        assert np.allclose(one.value, other.value, rtol=1e-6)


@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
def test_what_workers_do_during_a_sync_is_lost_by_the_share_alone(share: float) -> None:
    """Trainer 0 goes 3 before its snapshot and 4 before its merge, on one line; trainer 1 stands still."""
    step = np.zeros(SIZE, np.float32)
    step[2] = -1
    replay = Replay(names.ShadowMa(alpha=share, merge="blend"), sgd([np.zeros(SIZE, np.float32)] * 2, 1.0))
    for count in (3, 4):
        for _ in range(count):
            replay.step(0, step)
        if count == 3:
            for _ in range(replay.phases - 1):
                for trainer in range(2):
                    replay.sync(trainer)
    replay.sync(0)
    assert replay.replicas[0].value[2] == (1 - share) * 7 + share * 1.5
    metrics = replay.syncings[0].metrics()
    assert metrics["lost_if_overwritten"] == 4 / 7 and metrics["lost_by_merging"] == share * 4 / 7
    assert metrics["sync_gap"] == {"7": 1} and metrics["syncs"] == 1 and metrics["iterations"] == 7


def test_shifted_replicas_keep_their_mean_whatever_workers_do_meanwhile() -> None:
    """Whole numbers: nothing is rounded. Steps between the phases add what they add."""
    rng = np.random.default_rng(8)
    start = whole(4)
    replay, total = Replay(names.ShadowMa(alpha=0.5), sgd(start, 1.0)), sum(start)
    for _ in range(3):
        for _ in range(replay.phases):
            for trainer in range(4):
                step = rng.integers(-4, 4, SIZE).astype(np.float32)
                replay.step(trainer, step)
                total -= step
                replay.sync(trainer)
        assert np.array_equal(sum(replica.value for replica in replay.replicas), total)
    metrics = replay.syncings[0].metrics()
    assert metrics["lost_by_merging"] == 0 < metrics["lost_if_overwritten"]


def test_elastic_syncs_lose_nothing_of_what_workers_do_meanwhile() -> None:
    step = np.full(SIZE, -1, np.float32)
    replay = Replay(names.ShadowEasgd(alpha=0.5), sgd([np.zeros(SIZE, np.float32)], 1.0))
    replay.step(0, 2 * step)
    replay.sync(0)
    replay.sync(0)
    replay.step(0, 4 * step)
    replay.sync(0)
    assert (replay.replicas[0].value == 2 + 4 - 1).all() and replay.center is not None
    assert (replay.center.value == 1).all()
    assert replay.syncings[0].metrics()["lost_by_merging"] == 0 < replay.syncings[0].metrics()["lost_if_overwritten"]


# Over a transport


def fixed(
    sync: str, trainers: int, steps: int | Sequence[int], start: np.ndarray, owners: Sequence[int] = (0,), *,
    settle_at: int = -1, memories: Sequence[dict[str, np.ndarray]] | None = None,
    resume: Sequence[np.ndarray] | None = None, rate: float = RATE,
) -> list[tuple[Any, np.ndarray, dict[str, Any], dict[str, np.ndarray], np.ndarray]]:  # fmt: skip
    """(model, replica, facts, memory and replica of `settle_at`) of each trainer of a foreground agreement."""
    how = parse_click_sync(sync)
    assert isinstance(how, names.Fixed)
    counts = [steps] * trainers if isinstance(steps, int) else steps

    def host(transport: Transport) -> Any:
        rank, size = transport.rank, len(start)
        center = None
        if isinstance(how, names.FixedEasgd):
            center = ServedCenter(transport, size, owners, trainers, how.alpha)
            center.start()
        if rank >= trainers:
            assert center is not None
            center.close(timeout=30)
            return None
        replica = sgd([start if resume is None else resume[rank]], rate)[0]
        agreement: DenseAgreement = make_replicated(how, replica, ProcessGroup(transport, trainers), center)
        if memories is not None:
            agreement.load_state_dict(memories)
        agreement.start()
        kept, then = {}, replica.value.copy()
        for index in range(counts[rank]):
            agreement.apply(0, agreement.begin(0, index), gradient(replica.value, rank, size))
            if index + 1 == settle_at:
                agreement.quiesce()
                kept, then = agreement.state_dict(), replica.value.copy()
        agreement.close()
        model = agreement.gather_result()
        if center is not None:
            center.close()
        return model, replica.value, agreement.metrics(), kept, then

    found = run_logical(max(trainers, max(owners) + 1), host, patience=30)
    return found[:trainers]


@pytest.mark.parametrize("trainers", [1, 2, 4])
def test_averages_of_every_step_are_sgd_with_a_larger_batch(trainers: int) -> None:
    """Whole numbers and halves: both are exact."""
    start, rate = whole(1)[0], 0.5
    expected = start.copy()
    for _ in range(5):
        expected -= np.float32(rate) * np.mean([gradient(expected, rank) for rank in range(trainers)], axis=0)
    for model, replica, metrics, _, _ in fixed("fr-ma:1", trainers, 5, start, rate=rate):
        assert np.array_equal(replica, expected) and metrics["sync_gap"] == {"1": 5}
        assert model is None or np.array_equal(model, expected)


@pytest.mark.parametrize("sync", ["fr-ma:3", "fr-bmuf:3:eta=0.9:momentum=0.3"])
def test_trainers_of_different_lengths_agree_on_their_end(sync: str) -> None:
    found = fixed(sync, 3, [4, 17, 9], whole(1)[0])
    for _, replica, metrics, _, _ in found:
        assert np.array_equal(replica, found[0][0])
        assert metrics["syncs"] == found[0][2]["syncs"] >= 6
    assert [sum(int(gap) * count for gap, count in metrics["sync_gap"].items()) for *_, metrics, _, _ in found] == [
        4,
        17,
        9,
    ]


@pytest.mark.parametrize("sync", ["fr-ma:2", "fr-bmuf:2:momentum=0.6", "fr-easgd:2:0.3"])
def test_a_run_goes_on_as_if_it_had_not_stopped(sync: str) -> None:
    """Elastic averaging with one trainer: several come to the center in any order."""
    trainers = 1 if "easgd" in sync else 3
    start = values(1, 40)[0]
    unbroken = fixed(sync, trainers, 12, start)
    with_pause = fixed(sync, trainers, 12, start, settle_at=6)
    memories = [kept for *_, kept, _ in with_pause]
    then = [replica for *_, replica in with_pause]
    assert all(array.ndim == 1 and array.dtype == np.float32 for kept in memories for array in kept.values())
    rest = fixed(sync, trainers, 6, start, memories=memories, resume=then)
    for one, two, three in zip(unbroken, with_pause, rest, strict=True):
        assert np.array_equal(one[1], two[1]) and np.array_equal(one[1], three[1])
    assert np.array_equal(unbroken[0][0], with_pause[0][0]) and np.array_equal(unbroken[0][0], rest[0][0])
    if sync != "fr-ma:2":
        assert not np.array_equal(rest[0][0], fixed(sync, trainers, 6, start, resume=then)[0][0])


def test_the_memory_of_bmuf_fits_any_number_of_trainers() -> None:
    def host(transport: Transport) -> BlockMomentum:
        return BlockMomentum(sgd(values(1))[0], ProcessGroup(transport, transport.hosts))

    known, speed = values(2, SIZE, 5)
    for before in (1, 2, 4):
        cuts = [SIZE * rank // before for rank in range(before + 1)]
        memories = [
            {"bmuf.global": known[low:high], "bmuf.velocity": speed[low:high]} for low, high in itertools.pairwise(cuts)
        ]
        for after in (1, 3):
            rules = run_logical(after, host)
            for rule in rules:
                rule.load_state_dict(memories)
                rule.start()
                assert np.array_equal(rule.target, known)
            assert np.array_equal(np.concatenate([rule.velocity for rule in rules]), speed)
            joined = {name: np.concatenate([r.state_dict()[name] for r in rules]) for name in rules[0].state_dict()}
            assert np.array_equal(joined["bmuf.global"], known) and np.array_equal(joined["bmuf.velocity"], speed)
            assert np.array_equal(rules[0].gather_result(), known)


@pytest.mark.parametrize("size", [101, 3 * SMALLEST + 5])
@pytest.mark.parametrize("owners", [(2,), (2, 3), (0,), (0, 1), (1, 2, 4)])
def test_bytes_of_a_sync_with_the_center(owners: tuple[int, ...], size: int) -> None:
    """Two trainers, up to three servers; trainer 1 pulls three times, and says what came over its transport."""
    hosts = max(2, max(owners) + 1)

    def host(transport: Transport) -> Any:
        center = ServedCenter(transport, size, owners, 2, 0.5)
        center.start()
        reported = 0, 0
        if transport.rank == 1:
            for _ in range(3):
                assert (center.pull(np.ones(size, np.float32)) > 0).all()
            counters = transport.counters  # others may have taken their leave
            reported = tuple(
                sum(value for (_, _, phase), value in bytes_.items() if phase == "call")
                for bytes_ in (counters.sent, counters.received)
            )
            assert (center.sent, center.received) == reported
        center.close(timeout=10)
        return reported

    cuts = np.diff([size * place // len(owners) for place in range(len(owners) + 1)])
    expected = pull_bytes([int(cut) for rank, cut in zip(owners, cuts, strict=True) if rank != 1])
    assert run_logical(hosts, host, patience=10)[1] == (3 * expected[0], 3 * expected[1])
    assert expected[0] >= 4 * sum(cut for rank, cut in zip(owners, cuts, strict=True) if rank != 1)


def test_pieces_cover_a_slice() -> None:
    """As few as they need be, at most so many, each next to the one before."""
    for size, count in ((1, 1), (SMALLEST, 1), (SMALLEST + 1, 2), (5 * SMALLEST, 5), (10**7, MOST_PIECES)):
        pieces = pieces_of(size)
        assert len(pieces) == count and pieces[0].start == 0 and pieces[-1].stop == size
        assert all(one.stop == other.start for one, other in itertools.pairwise(pieces))


@pytest.mark.parametrize("owners", [(1,), (0, 1), (1, 2)])
def test_a_pull_in_pieces_moves_the_center_as_one(owners: tuple[int, ...]) -> None:
    size = 2 * len(owners) * SMALLEST + 7
    start, seen = values(2, size)

    def host(transport: Transport) -> Any:
        center = ServedCenter(transport, size, owners, 1, 0.25)
        center.start()
        found = None
        if transport.rank == 0:
            center.write(start)
            found = center.pull(seen), center.read(), center.progress(False)[0].tolist()
        center.close(timeout=10)
        return found

    difference, center, pulls = run_logical(1 + max(owners), host, patience=10)[0]
    expected = np.float32(0.25) * (seen - start)
    assert np.array_equal(difference, expected) and np.array_equal(center, start + expected) and pulls == [1]


@pytest.mark.parametrize(("first", "count"), [(-1, 4), (6, 5), (10, 1), (0, 11)])
def test_a_piece_beyond_the_center_is_refused(first: int, count: int) -> None:
    block = CenterBlock(10, 1, 0.5)
    with pytest.raises(InputError, match=rf"has 10 float32 numbers; got float32 \({count},\) from {first} on"):
        block.call(PULL, 0, [Part("dense", np.ones(count, np.float32)), Part("control", np.array([first]))])
    assert not block.value.any() and not block.reported_T.any()


@pytest.mark.parametrize("size", [1, 3, 101])
@pytest.mark.parametrize("trainers", [1, 2, 4])
def test_bytes_of_an_average(trainers: int, size: int) -> None:
    found = fixed("fr-ma:2", trainers, 6, whole(1, size)[0])
    for rank, (_, _, metrics, _, _) in enumerate(found):
        each = average_bytes(size, trainers, rank)
        assert metrics["syncs"] == 4  # 3 and the last one
        expected = tuple(4 * count for count in each)
        assert (metrics["sync_bytes_sent"], metrics["sync_bytes_received"]) == expected


def test_the_center_refuses_what_it_does_not_know() -> None:
    def host(transport: Transport) -> None:
        center = ServedCenter(transport, SIZE, (1,), 1, 0.5)
        center.start()
        if transport.rank == 0:
            with pytest.raises(InputError, match="11 float32 numbers, got float32"):
                center.client.call("centre", 1, center._cut(np.ones(SIZE, np.float32)[:5]))
            with pytest.raises(InputError, match="Operation 9"):
                center.client.call("centre", 9, {1: []})
            with pytest.raises(InputError, match="moved by its own operations"):
                center.client.push("centre", np.array([0]), np.ones((1, 1), np.float32), 0)
                center.client.flush()
            assert center.client.pull({"centre": np.array([3])})["centre"] == 0
        center.close(timeout=10)

    run_logical(2, host, patience=10)


@pytest.mark.parametrize("owners", [(), (1, 1), (3,), (-1,)])
def test_owners_of_the_center_are_hosts(owners: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="one or more of the 3 hosts, each named once"):
        center_bounds(SIZE, owners, 3)
    assert center_bounds(10, (2, 0), 4) == [0, 5, 5, 10, 10]


def test_trainers_of_different_models_are_reported() -> None:
    def host(transport: Transport) -> None:
        replica = sgd(values(1, 8 + transport.rank))[0]
        FixedRate(ModelAveraging(replica, ProcessGroup(transport, 2)), 1).apply(0, 0, np.zeros_like(replica.value))

    with pytest.raises(HostError, match=r"Rank \d sent float32 \(\d,\) for \d parameters: the hosts do not run"):
        run_logical(2, host, patience=5)


def test_standing_still_merges_nothing() -> None:
    start = values(2)
    replay = Replay(names.ShadowBmuf(momentum=0.5), sgd(start))
    for trainer in range(2):
        for _ in range(2):
            replay.sync(trainer, STANDING)
    sent = [syncing.rule.sent for syncing in replay.syncings]
    for trainer in range(2):
        replay.sync(trainer)
        replay.sync(trainer)
        assert replay.syncings[trainer].rule.agreed == STANDING
    assert [syncing.rule.sent for syncing in replay.syncings] == sent
    assert all(np.array_equal(replica.value, value) for replica, value in zip(replay.replicas, start, strict=True))


# Names

PARSED = {
    "none": names.NoSync(),
    "shadow-easgd": names.ShadowEasgd(),
    "shadow-easgd:0.3": names.ShadowEasgd(alpha=0.3),
    "shadow-easgd:0.3:least=5": names.ShadowEasgd(alpha=0.3, least=5),
    "shadow-ma:1": names.ShadowMa(alpha=1.0),
    "shadow-ma:blend:0.3": names.ShadowMa(alpha=0.3, merge="blend"),
    "shadow-bmuf:0.4:eta=0.9:momentum=0.5": names.ShadowBmuf(alpha=0.4, eta=0.9, momentum=0.5),
    "fr-easgd:5": names.FixedEasgd(every=5),
    "fr-easgd:30:0.2": names.FixedEasgd(every=30, alpha=0.2),
    "fr-easgd:alpha=0.2:30": names.FixedEasgd(every=30, alpha=0.2),
    "fr-ma:7": names.FixedMa(every=7),
    "fr-bmuf:7:momentum=0.9": names.FixedBmuf(every=7, momentum=0.9),
    "bsp": names.Bsp(),
    "bounded:3": names.Bounded(bound=3),
    "async": names.Async(),
    "m-of-n:3": names.MOfN(count=3),
    "m-of-n": names.MOfN(),
}


@pytest.mark.parametrize("text", PARSED)
def test_names_of_agreements(text: str) -> None:
    found = parse_click_sync(text)
    assert found == PARSED[text] and type(found) is type(PARSED[text]) and found.name == text.split(":")[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("shadow", "must be one of none, shadow-easgd, shadow-ma"),
        ("shadow-fr-mean", "must be one of none"),
        ("", "must be one of none"),
        (None, "must be one of none"),
        ("none:1", "none takes nothing behind it; got '1'"),
        ("bsp:2", "bsp takes nothing behind it"),
        ("shadow-easgd:0.6", r"alpha of shadow-easgd must be a number in \(0, 0.5\], got 0.6"),
        ("shadow-easgd:0", r"alpha of shadow-easgd must be a number in \(0, 0.5\]"),
        ("shadow-ma:nan", "alpha of shadow-ma must be a number"),
        ("shadow-ma:1.1", r"in \(0, 1\], got 1.1"),
        ("shadow-ma:x", "takes, behind colons, alpha=NUMBER, merge=shift\\|blend, least=WHOLE; got 'x'"),
        ("shadow-ma:least=0", "least of shadow-ma must be a whole number from 1"),
        ("shadow-bmuf:momentum=1", "momentum of shadow-bmuf"),
        ("shadow-bmuf:eta=0", "eta of shadow-bmuf"),
        ("fr-easgd:0", "every of fr-easgd must be a whole number from 1"),
        ("fr-ma:5:0.5", "fr-ma takes, behind colons, every=WHOLE; got '0.5'"),
        ("fr-bmuf:5:momentum=-1", "momentum of fr-bmuf"),
        ("bounded:-1", "bound of bounded"),
        ("m-of-n:0", "count of m-of-n"),
    ],
)
def test_names_that_are_none(text: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_click_sync(text)


def test_every_name_that_is_offered_can_be_made() -> None:
    """The rule `spectral`, which asks for a curvature that replicas do not have, is not offered."""
    with pytest.raises(InputError, match="sync of replicas must be one of none, ") as refused:
        parse_click_sync("shadow", "replicas")
    offered = str(refused.value).partition("one of ")[2].partition(", fr-RULE")[0].split(", ")
    merges = [parse_click_sync(name) for name in offered if name in rules.RULES.names()]
    assert len(merges) == len(rules.RULES.names()) - 1 and set(offered) >= {*names.CLICK_SYNCS}

    def made(transport: Transport) -> None:
        for how in merges:
            assert isinstance(how, names.FixedMerge)
            make_rule(how, sgd(values(1))[0], ProcessGroup(transport, 1), None)

    run_logical(1, made)


# Merge rules


@pytest.mark.parametrize("rule", ["sum", "mean", "adasum", "adasum-symmetric"])
def test_a_merge_rule_takes_what_trainers_changed(rule: str) -> None:
    """Trainers that stand still in each sync: what they agree on is what blocks of rows agree on between rounds."""
    start, steps = whole(1, SIZE, 3)[0], whole(3, SIZE, 4)
    replay = Replay(parse_click_sync(f"fr-{rule}"), sgd([start] * 3, 1.0))
    for trainer, change in enumerate(steps):
        replay.step(trainer, -change)
    replay.sync_all()
    block = Block(start[None], rules.RULES.named(rule)())
    block.merge_all([(np.zeros(1, np.int64), change[None]) for change in steps], True, ThreadPool(1))
    for replica in replay.replicas:
        assert np.array_equal(replica.value, block.rows[0])


def test_what_workers_do_meanwhile_counts_in_the_next_sync() -> None:
    start = np.zeros(SIZE, np.float32)
    replay = Replay(parse_click_sync("shadow-sum"), sgd([start] * 2, 1.0))
    replay.step(0, np.full(SIZE, -1, np.float32))
    for trainer in range(2):
        replay.sync(trainer)  # a snapshot
    replay.step(1, np.full(SIZE, -10, np.float32))
    for _ in range(replay.phases - 1):
        for trainer in range(2):
            replay.sync(trainer)
    assert [float(replica.value[0]) for replica in replay.replicas] == [1, 11]
    replay.sync_all()
    assert all((replica.value == 11).all() for replica in replay.replicas)


def test_rows_of_tables_are_merged_one_by_one_and_states_by_their_mean() -> None:
    """Three rows of two values and a state, two of one value: a row that one trainer changed alone keeps its change."""
    flat = Flat({"a": (3, 3), "b": (2, 1)}, {"a": 2, "b": 1})
    assert flat.size == 11 and flat.bounds(2) == [0, 6, 11]
    assert [tuple(piece)[:2] for piece in flat.pieces(6, 11)] == [("a", 2), ("b", 0)]
    start = np.arange(11, dtype=np.float32)
    first, second = start.copy(), start.copy()
    flat.views(first)["a"][0] += (2, 2, 5)
    flat.views(second)["a"][0] += (4, 0, 7)
    flat.views(second)["a"][2] += (6, 6, 1)
    flat.views(second)["b"][1] += 8

    def host(transport: Transport) -> np.ndarray | None:
        replica = Replica(start.copy(), "sgd")
        rule = make_rule(parse_click_sync("fr-mean"), replica, ProcessGroup(transport, 2), None, flat)
        rule.start()
        replica.value[:] = (first, second)[transport.rank]
        found = rule.gather_result()
        assert rule.gather_result() is not None or transport.rank
        return found

    found = flat.views(run_logical(2, host)[0])
    assert found["a"].tolist() == [[3, 2, 8], [3, 4, 5], [12, 13, 9]] and found["b"].ravel().tolist() == [9, 18]

"""A stream over hosts with roles: what trainers make of batches that rank 0 deals, on rows that servers hold."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from benchmarks.streams.traffic_formula import assign_bytes, dense_bytes, sparse_bytes

from any2vec.cluster.message import Part, overhead
from any2vec.models.stream.token_batch import TokenBatch
from any2vec.plan.order.roles import StreamRoles
from any2vec.plan.sharding.sharding import contiguous_bounds
from any2vec.tables.server.blocks.growing_block import START, GrowingBlock
from any2vec.tables.server.blocks.row_block import Added
from streamed import DIM, MAX_ROWS, alone, learner_of, made_batches, over_hosts, twin_in_step


@pytest.mark.parametrize("servers", [0, 1, 2])
@pytest.mark.parametrize("sync", ["sync", "dense"])
def test_one_trainer_in_step_is_the_single_process_bit_for_bit(servers: int, sync: str) -> None:
    if sync == "dense" and servers:
        pytest.skip("the dense baseline has no servers")
    batches = made_batches(9)
    expected = alone(batches)
    found, _, _ = over_hosts(batches, 1, servers, sync)
    for name in expected:
        assert np.array_equal(found[name], expected[name]), name


@pytest.mark.parametrize("sync", ["sync", "dense"])
@pytest.mark.parametrize(("trainers", "servers"), [(2, 0), (2, 1), (3, 2)])
def test_rounds_of_several_trainers_are_the_plain_twin(sync: str, trainers: int, servers: int) -> None:
    batches = made_batches(10)
    expected = twin_in_step(batches, trainers)
    found, _, _ = over_hosts(batches, trainers, servers if sync == "sync" else 0, sync)
    for name in expected:
        assert np.array_equal(found[name], expected[name]), name


@pytest.mark.parametrize("sync", ["async", "bounded:0", "bounded:1"])
@pytest.mark.parametrize("servers", [0, 2])
def test_every_word_is_trained_once_and_no_batch_is_staler_than_its_bound(sync: str, servers: int) -> None:
    batches, trainers = made_batches(24), 3
    tables, (metrics, items), _ = over_hosts(
        batches, trainers, servers, sync, lambda learner, stats: (learner.metrics(), stats.items)
    )
    assert items == sum(int(((batch.tokens >= 0) & (batch.tokens < MAX_ROWS)).sum()) for batch in batches)
    assert sum(metrics["batches"].values()) == len(batches) == sum(metrics["staleness"].values())
    assert all(np.isfinite(table).all() and table.any() for table in tables.values())
    if sync.startswith("bounded"):
        # Each other trainer is at most S batches behind, or ahead, when this one reads, and may end S + 1 more.
        bound = int(sync[8:])
        assert max(map(int, metrics["staleness"])) <= (trainers - 1) * (2 * bound + 1)


def test_one_trainer_that_waits_for_nobody_differs_by_rounding_alone() -> None:
    batches = made_batches(9, reborn=False)
    expected = alone(batches)
    found, metrics, _ = over_hosts(batches, 1, 1, "async", lambda learner, _: learner.metrics())
    assert metrics["staleness"] == {"0": 9} and metrics["dropped"] == 0
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-6)


def test_a_change_that_comes_after_its_row_went_to_another_word_is_dropped() -> None:
    start = np.full((4, DIM), 7, np.float32)
    block = GrowingBlock(Added(np.zeros((4, DIM), np.float32)), False, lambda slots: start[slots])
    numbers = [Part("control", np.array([birth])) for birth in (1, 2)]
    block.call(START, 0, [Part("ids", np.arange(4)), numbers[0]])
    block.call(START, 0, [Part("ids", np.array([2])), numbers[1]])
    one = np.ones((2, DIM), np.float32)
    block.push(1, 1, np.array([1, 2]), one, True)  # its batch knows of the first birth alone
    assert block.copy()[:, 0].tolist() == [7, 8, 7, 7] and block.dropped == 1
    block.push(1, 2, np.array([1, 2]), one, True)
    assert block.copy()[:, 0].tolist() == [7, 9, 8, 7] and block.dropped == 1


@pytest.mark.parametrize("sync", ["sync", "async", "dense"])
def test_a_run_goes_on_from_the_state_of_another(sync: str) -> None:
    batches, trainers = made_batches(8), 1
    first, _, _ = over_hosts(batches[:4], 2, 0, "sync")
    rest = [replace(batch, number=batch.number - 4) for batch in batches[4:]]
    learner = learner_of()
    learner.load_state_dict(first)
    for batch in rest:
        learner.run(batch.work)
    found, _, _ = over_hosts(rest, trainers, 0, sync, before=lambda assigned: assigned.load_state_dict(first))
    for name, table in learner.state_dict().items():
        np.testing.assert_allclose(found[name], table, rtol=1e-4, atol=1e-6 if sync == "async" else 0)


@pytest.mark.parametrize(("trainers", "servers"), [(1, 1), (2, 1), (2, 0), (3, 2)])
def test_bytes_of_row_sparse_batches_are_those_that_the_formula_says(trainers: int, servers: int) -> None:
    batches = made_batches(6, reborn=False)
    seen: list[tuple[int, list[list[int]], list[list[int]]]] = []
    _, _, counted = over_hosts(batches, trainers, servers, "sync", watch=seen)
    roles = StreamRoles(trainers, servers)
    size_H = np.diff(contiguous_bounds(MAX_ROWS, len(roles.row_owners))).tolist()
    expected: Counter[str] = Counter()
    for rank, asked, changed in seen:
        own = rank - roles.row_owners.start if rank in roles.row_owners else None
        expected.update(sparse_bytes(asked, changed, size_H, DIM, roles.ranks, own))
    assert len(seen) >= len(batches)
    for phase in ("push", "pull"):
        assert counted[phase] == expected[phase], phase
    rests = trainers * sparse_bytes([], [], [], DIM, roles.ranks)["tick"]  # that each stands still is told likewise
    assert counted["tick"] == expected["tick"] + rests


def test_bytes_of_dealing_are_those_that_the_formula_says() -> None:
    batches = made_batches(6)
    _, _, counted = over_hosts(batches, 1, 1, "sync")
    changes = [16 * MAX_ROWS if batch.number % 2 == 0 else 0 for batch in batches]
    expected = sum(assign_bytes(batch.tokens.size, 0, rows) for batch, rows in zip(batches, changes, strict=True))
    rested = overhead(1) + 8
    assert counted["deal"] + counted["done"] - rested == expected


@pytest.mark.parametrize("trainers", [1, 2, 3])
def test_bytes_of_dense_rounds_are_those_that_the_formula_says(trainers: int) -> None:
    batches = made_batches(2 * trainers)
    _, _, counted = over_hosts(batches, trainers, 0, "dense", watch=[])
    expected = dense_bytes(MAX_ROWS, DIM, trainers)
    for phase in ("reduce", "broadcast"):
        assert counted.get(phase, 0) == 2 * expected[phase]


def spelled_batches(number: int) -> list[TokenBatch]:
    """Batches of a character model, with their words spelled out."""
    from any2vec.data.stream.vocabulary import StreamVocabulary

    rng, vocabulary, learner, found = (
        np.random.default_rng(3),
        StreamVocabulary(max_types=64, max_rows=64, min_count=1),
        char_learner(),
        [],
    )
    for index in range(number):
        lines = [" ".join(f"w{word}" for word in rng.integers(0, 20, 8)) for _ in range(6)]
        text_B = np.frombuffer("".join(line + "\n" for line in lines).encode(), np.uint8)
        tokens = vocabulary.encode(text_B, np.cumsum([len(line) + 1 for line in lines]))
        tokens.flags.writeable = False
        keep_V = np.full(64, np.uint64(2**32))
        made = TokenBatch(
            index, tokens, index * 2000, vocabulary.born(), *vocabulary.noise(), keep_V, 1.0, 48, 48 * index
        )
        found.append(replace(made, prepared=learner.prepare(tokens, vocabulary)))
    return found


def char_learner() -> Any:
    pytest.importorskip("torch")
    from any2vec.models.stream.char_lstm import StreamedCharLstm
    from any2vec.models.stream.config import StreamCharLstm

    config = StreamCharLstm(dim=6, hidden=8, byte_dim=4, batch_pairs=64, shared_negatives=8, device="cpu")
    return StreamedCharLstm(config, max_rows=64, threads=1, seed=1)


@pytest.mark.parametrize("trainers", [1, 2])
def test_gradients_of_a_dense_model_are_summed_at_every_step(trainers: int) -> None:
    batches, alone_ = spelled_batches(3), char_learner()
    for batch in batches:
        alone_.run(batch.work)
    # Where all trainers have the same batch the mean of their gradients is that of one, to the last bit.
    assigned = [batch for batch in batches for _ in range(trainers)]
    found, _, _ = over_hosts(assigned, trainers, 0, "sync", make=char_learner)
    for name, value in alone_.state_dict().items():
        assert np.array_equal(found[name], value), name


def test_trainers_of_a_dense_model_with_fewer_steps_take_those_of_the_others() -> None:
    batches = spelled_batches(3)  # the last round has a batch for one of the two alone
    assert len({len(batch.prepared.negatives) for batch in batches}) >= 1
    found, _, _ = over_hosts(batches, 2, 0, "sync", make=char_learner)
    start = char_learner().state_dict()
    assert all(np.isfinite(array).all() for array in found.values())
    assert any(not np.array_equal(found[name], start[name]) for name in start)
    goes_on = char_learner()
    goes_on.load_state_dict(found)
    again, _, _ = over_hosts(
        batches[:1], 1, 0, "sync", make=char_learner, before=lambda assigned: assigned.load_state_dict(found)
    )
    goes_on.run(batches[0].work)
    for name, value in goes_on.state_dict().items():
        assert np.array_equal(again[name], value), name


SERVED = [("sync", 1), ("sync", 2), ("async", 0), ("async", 2), ("bounded:2", 0), ("bounded:0", 1)]


@pytest.mark.parametrize(("sync", "servers"), SERVED)
def test_one_trainer_whose_servers_step_differs_by_rounding_alone(sync: str, servers: int) -> None:
    """Servers step by Adam of their own, and go on from moments that a trainer has brought, and give them back."""
    batches, alone_ = spelled_batches(5), char_learner()
    for batch in batches[:2]:
        alone_.run(batch.work)
    first, _, _ = over_hosts(batches[:2], 1, servers, sync, make=char_learner)
    check_close(first, alone_.state_dict())
    again, _, _ = over_hosts(
        batches[2:], 1, servers, sync, make=char_learner, before=lambda assigned: assigned.load_state_dict(first)
    )
    for batch in batches[2:]:
        alone_.run(batch.work)
    check_close(again, alone_.state_dict())


@pytest.mark.parametrize("servers", [1, 2])
def test_servers_in_step_do_what_trainers_do_that_sum(servers: int) -> None:
    batches = spelled_batches(5)
    expected, _, _ = over_hosts(batches, 2, 0, "sync", make=char_learner)
    found, _, _ = over_hosts(batches, 2, servers, "sync", make=char_learner)
    check_close(found, expected)


@pytest.mark.parametrize(("sync", "servers"), [("async", 0), ("async", 1), ("bounded:1", 2)])
def test_every_gradient_steps_the_servers_once(sync: str, servers: int) -> None:
    batches, start = spelled_batches(8), char_learner().state_dict()
    found, _, _ = over_hosts(batches, 3, servers, sync, make=char_learner)
    steps = sum(len(batch.prepared.negatives) for batch in batches)
    assert {float(found[name][0]) for name in found if name.endswith(".step")} == {float(steps)}
    assert all(np.isfinite(array).all() for array in found.values())
    assert all(not np.array_equal(found[name], start[name]) for name in start if not name.endswith("symbols"))


def check_close(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-3, atol=2e-5, err_msg=name)

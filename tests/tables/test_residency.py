"""Which ids stand in which slots: the map against a dict, the policies against their plain twin, and the invariant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any2vec.errors import InputError
from any2vec.kernels.cache.residency import AGES, COUNTS, choose_victims
from any2vec.plan.lookahead.oracle import NEVER, NextUseOracle
from any2vec.registry import Registry
from any2vec.tables.registry import FRESHNESS, RESIDENCIES
from any2vec.tables.residency.policies import PERMANENT, PROMOTE_AFTER, LeastFrequentlyUsed, LeastRecentlyUsed, Promoted
from any2vec.tables.residency.residency import Residency
from any2vec.tables.residency.slot_map import SlotMap
from naive.rows.residency import NaiveResidency

FAR = 1 << 61
"""ids need not be small: memory goes with the slots"""


def ids_of(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def check_invariant(residency: Residency) -> None:
    owned = np.flatnonzero(residency.owner_K >= 0)
    assert len(residency) == len(owned)
    assert np.array_equal(residency.map.find(residency.owner_K[owned]), owned)


@settings(deadline=None)
@given(
    calls=st.lists(
        st.tuples(st.booleans(), st.lists(st.integers(0, 40), max_size=12, unique=True)), min_size=1, max_size=30
    ),
    scale=st.sampled_from([1, FAR // 41, 1 << 20]),
)
def test_the_map_is_a_dict(calls: list[tuple[bool, list[int]]], scale: int) -> None:
    """It starts with room for none, so it grows; ids of one home displace one another and move up again."""
    plain: dict[int, int] = {}
    fast = SlotMap()
    for number, (is_put, keys) in enumerate(calls):
        keys = [key * scale for key in keys]
        if is_put:
            slots = [1000 * number + at for at in range(len(keys))]
            fast.put(ids_of(*keys), ids_of(*slots))
            plain.update(zip(keys, slots, strict=True))
        else:
            fast.drop(ids_of(*keys))
            for key in keys:
                plain.pop(key, None)
        every = [key * scale for key in range(41)]
        assert fast.find(ids_of(*every)).tolist() == [plain.get(key, -1) for key in every]
        assert len(fast) == len(plain)


def test_the_map_does_not_grow_where_room_was_asked_for() -> None:
    fast, ids = SlotMap(1024), np.arange(1024) * (FAR // 1024)
    before = fast.num_bytes
    assert before <= 64 * 1024
    fast.put(ids, np.arange(1024))
    assert fast.num_bytes == before and len(fast) == 1024
    fast.put(ids_of(FAR), ids_of(0))
    assert fast.num_bytes > before and fast.find(ids).tolist() == list(range(1024))


LEARNING = tuple(policy for policy in RESIDENCIES.names() if policy != "static")
AHEAD = 5
"""steps that policies which look ahead know of"""
batches = st.lists(
    st.tuples(
        st.lists(st.integers(0, 14), max_size=9, unique=True),
        st.sampled_from([True, True, True, False]),
        st.lists(st.integers(0, 14), max_size=2, unique=True),
    ),
    max_size=40,
).map(lambda steps: steps * 3)
"""(rows of a batch, whether it is let go of before the next one, rows dropped then)"""


@settings(max_examples=150, deadline=None)
@given(policy=st.sampled_from(LEARNING), capacity=st.integers(0, 12), trace=batches)
def test_policies_are_those_of_the_plain_twin(
    policy: str, capacity: int, trace: list[tuple[list[int], bool, list[int]]]
) -> None:
    fast, plain = Residency(capacity, policy), NaiveResidency(capacity, policy, 1000)
    held: list[tuple[np.ndarray, list[int]]] = []
    for step, (keys, is_over, dropped) in enumerate(trace):
        keys = sorted(keys)
        before = set(plain.slot_of)
        following = trace[step + 1 : step + 1 + AHEAD]
        next_use = [
            next((step + 1 + at for at, (later, _, _) in enumerate(following) if key in later), NEVER) for key in keys
        ]
        if step + AHEAD < len(trace):
            fast.expect(ids_of(*trace[step + AHEAD][0]) * 1000, step + AHEAD)
            plain.expect(trace[step + AHEAD][0], step + AHEAD)
        placed = fast.place(ids_of(*keys) * 1000, ids_of(*next_use))
        slots, is_new, gone = plain.place(keys, [float("inf") if use == NEVER else use for use in next_use])
        assert placed.slot_U.tolist() == slots and placed.is_new_U.tolist() == is_new
        assert list(zip(placed.gone_slot_E.tolist(), (placed.gone_id_E // 1000).tolist(), strict=True)) == gone
        held.append(
            (placed.slot_U[placed.slot_U >= 0], [key for key, slot in zip(keys, slots, strict=True) if slot >= 0])
        )
        assert set(held[-1][1]) >= before & set(keys), "a row of the batch was evicted"
        assert all(key in plain.slot_of for _, kept in held for key in kept), "a held row was evicted"
        if is_over:
            for slot_N, kept in held:
                fast.release(slot_N)
                plain.release(kept)
            held = []
            fast.drop(ids_of(*dropped) * 1000)
            plain.drop(dropped)
        check_invariant(fast)
        assert (fast.held_K >= 0).all()
        if isinstance(fast.policy, Promoted):
            assert {int(key) // 1000 for key in fast.owner_K[fast.policy.permanent_K]} == plain.permanent


def counts_of(residency: Residency) -> np.ndarray:
    assert isinstance(residency.policy, LeastFrequentlyUsed)
    return residency.policy.count_K


def test_a_batch_that_does_not_fit_passes_by_and_nobody_of_it_gives_way() -> None:
    residency = Residency(4, "lru")
    residency.release(residency.place(ids_of(1, 2, 3)).slot_U)
    placed = residency.place(ids_of(2, 5, 6, 7, 8, 9))
    assert sorted(placed.gone_id_E) == [1, 3]
    assert (placed.slot_U >= 0).tolist() == [True, True, True, True, False, False]
    assert placed.is_new_U.tolist() == [False, True, True, True, False, False]
    assert (residency.place(ids_of(10)).slot_U == -1).all()


def test_static_rows_stay_and_all_others_pass_by() -> None:
    residency = Residency(3, "static", ids_of(7, 2, 90))
    for batch in (ids_of(1, 2, 3, 4, 5, 6, 90), ids_of(0, 7), ids_of(1)):
        placed = residency.place(batch)
        assert not placed.is_new_U.any() and not placed.gone_slot_E.size
        assert placed.slot_U.tolist() == [{7: 0, 2: 1, 90: 2}.get(row, -1) for row in batch.tolist()]
        residency.release(placed.slot_U[placed.slot_U >= 0])
        check_invariant(residency)
    for policy, kept in (("static", None), ("lru", ids_of(1)), ("static", ids_of(1, 2, 3, 4))):
        with pytest.raises(InputError, match="A static cache of 3 rows needs the rows that it keeps"):
            Residency(3, policy, kept)


def test_promoted_rows_outlive_any_scan_and_leave_room() -> None:
    hot, capacity = np.arange(20), 20
    for policy, left in (("lru", 0), ("lfu", 0), ("lfu-promoted", int(PERMANENT * capacity))):
        residency = Residency(capacity, policy)
        for _ in range(PROMOTE_AFTER):
            residency.release(residency.place(hot).slot_U)
        for number in range(1, 5 * PROMOTE_AFTER):  # others, each of them as often as the hot ones in the end
            other = 1000 * (1 + number // (PROMOTE_AFTER + 5)) + hot
            placed = residency.place(other)
            residency.release(placed.slot_U[placed.slot_U >= 0])
        assert (residency.map.find(hot) >= 0).sum() == left, policy
        check_invariant(residency)


def read_through(policy: str, capacity: int, batches: list[np.ndarray], look_ahead: int) -> int:
    """How many rows of the batches were not there."""
    residency, missed = Residency(capacity, policy), 0
    ahead = NextUseOracle(lambda step: batches[step], 0, len(batches), look_ahead)
    for batch in batches:
        placed = residency.place(batch, ahead.next_uses(batch, residency.expect))
        residency.release(placed.slot_U[placed.slot_U >= 0])
        missed += int((placed.is_new_U | (placed.slot_U < 0)).sum())
    return missed


def test_belady_misses_least() -> None:
    """Of single rows, none of which may pass by, its misses are those of the optimum found by trying everything."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        rows = rng.integers(0, 5, 12).tolist()
        batches = [ids_of(row) for row in rows]
        assert read_through("belady", 2, batches, len(rows)) == least_misses(rows, 2)
    batches = [np.flatnonzero(rng.random(200) < 0.02 + 0.3 * (np.arange(200) < 20)) for _ in range(300)]
    missed = {policy: read_through(policy, 30, batches, 300) for policy in LEARNING}
    assert min(missed, key=missed.__getitem__) == "belady", missed
    near = read_through("belady", 30, batches, 3)
    assert missed["belady"] < near < missed["fifo"], (near, missed)


def least_misses(rows: list[int], capacity: int) -> int:
    """By trying every choice, letting a row pass by among them."""
    states = {frozenset[int](): 0}
    for row in rows:
        after: dict[frozenset[int], int] = {}
        for kept, missed in states.items():
            ways = [kept] if row in kept or len(kept) == capacity else [kept | {row}]
            if row not in kept and len(kept) == capacity:
                ways += [kept - {gone} | {row} for gone in kept]
            for way in ways:
                after[way] = min(after.get(way, len(rows)), missed + (row not in kept))
        states = after
    return min(states.values())


def test_first_in_is_first_out_however_often_it_is_used() -> None:
    residency = Residency(3, "fifo")
    for rows in (ids_of(1), ids_of(2), ids_of(3), ids_of(1), ids_of(1)):
        residency.release(residency.place(rows).slot_U)
    assert residency.place(ids_of(4)).gone_id_E.tolist() == [1]
    assert residency.place(ids_of(5)).gone_id_E.tolist() == [2]


def test_rows_live_until_their_last_known_use() -> None:
    residency = Residency(2, "ttl")
    residency.release(residency.place(ids_of(1, 2), ids_of(1, 5)).slot_U)
    placed = residency.place(ids_of(1, 3, 4), ids_of(NEVER, 6, NEVER))
    assert placed.slot_U.tolist() == [1, -1, -1], "a row of the batch is held, and one with a use to come stays"
    residency.release(ids_of(1))
    placed = residency.place(ids_of(3, 4), ids_of(6, NEVER))
    assert placed.gone_id_E.tolist() == [1] and placed.slot_U.tolist() == [1, -1]


def test_batches_may_overtake_one_another_but_must_be_planned() -> None:
    batches = [ids_of(0, 1), ids_of(1), ids_of(0, 1), ids_of(2)]
    ahead, seen = NextUseOracle(lambda step: batches[step], 0, 4, 2), []
    assert ahead.next_uses(batches[1], lambda rows, step: seen.append((step, rows.tolist()))).tolist() == [2]
    assert ahead.next_uses(batches[0], lambda rows, step: None).tolist() == [2, 1]
    assert seen == [(0, [0, 1]), (1, [1]), (2, [0, 1]), (3, [2])]
    with pytest.raises(InputError, match="was not planned"):
        ahead.next_uses(ids_of(7), lambda rows, step: None)


def test_a_policy_that_needs_next_uses_says_so() -> None:
    with pytest.raises(InputError, match="needs to know when rows are used next"):
        Residency(2, "belady").place(ids_of(1))


def test_a_stranger_registers_a_policy() -> None:
    class MostRecentlyUsed(LeastRecentlyUsed):
        def victims(self, number: int) -> np.ndarray:
            slots = np.flatnonzero(self.movable())
            return slots[np.argsort(-self.stamp_K[slots], kind="stable")[:number]]

    RESIDENCIES.register("mru-of-a-test", MostRecentlyUsed)
    try:
        residency = Residency(2, "mru-of-a-test")
        for row in (1, 2, 3):
            residency.release(residency.place(ids_of(row)).slot_U)
        assert set(residency.owner_K.tolist()) == {1, 3}
        with pytest.raises(InputError, match="registered already"):
            RESIDENCIES.register("lru", MostRecentlyUsed)
    finally:
        RESIDENCIES.unregister("mru-of-a-test")


@pytest.mark.parametrize("registry", [RESIDENCIES, FRESHNESS], ids=["residency", "freshness"])
def test_a_policy_of_another_kind_is_refused(registry: Registry[Any]) -> None:
    registry.register("other-of-a-test", str)
    try:
        with pytest.raises(InputError, match=r"other-of-a-test .* is no subclass of any2vec.tables"):
            registry.named("other-of-a-test")
    finally:
        registry.unregister("other-of-a-test")


def test_tinylfu_keeps_the_frequent_rows_of_a_skewed_stream() -> None:
    """Rows 0 to 49 come in every other batch, 50 cold ones with each of them: with a memory, hot ones are found again
    at once, and cold ones pass by. LRU and LFU forget a row that gave way, and let all cold ones in."""
    passed = {}
    for policy in ("lru", "lfu", "tinylfu"):
        residency, missed = Residency(50, policy), 0
        for number in range(60):
            cold = 1000 + 50 * number + np.arange(50)
            for batch in (cold, np.arange(25 * (number % 2), 25 * (number % 2) + 25)):
                placed = residency.place(batch)
                residency.release(placed.slot_U[placed.slot_U >= 0])
                missed += int((placed.is_new_U | (placed.slot_U < 0)).sum()) if batch is not cold else 0
        passed[policy] = missed
    assert passed["tinylfu"] <= 200 and passed["lru"] == 60 * 25 and passed["lfu"] > 400, passed


def test_tinylfu_forgets_slowly() -> None:
    """After 64 uses a slot, counts are half of what they were."""
    residency = Residency(4)
    slots = residency.place(np.arange(4)).slot_U
    for _ in range(61):
        residency.place(np.arange(4))
    count_K = counts_of(residency)
    assert (count_K[slots] == 62).all()
    residency.place(np.arange(4))
    residency.place(np.arange(4))
    assert (count_K[slots] == 63 // 2 + 1).all()


def test_what_tinylfu_remembers_of_rows_that_are_gone_fades_too() -> None:
    """A row that passed by 9 times in the first epoch of counts is worth 4 in the next: it needs more than 8 uses to
    take the slot of one that was used 17 times, then 8."""
    residency = Residency(1)
    for _ in range(17):
        residency.release(residency.place(ids_of(1)).slot_U)
    for _ in range(9):
        assert residency.place(ids_of(2)).slot_U[0] == -1
    for other in range(100, 100 + 64 - 17 - 9):
        assert residency.place(ids_of(other)).slot_U[0] == -1
    assert counts_of(residency)[0] == 8
    for _ in range(4):
        assert residency.place(ids_of(2)).slot_U[0] == -1
    assert residency.place(ids_of(2)).slot_U[0] == 0


def test_a_permanent_row_that_is_dropped_makes_room_for_another() -> None:
    residency = Residency(10, "lfu-promoted")
    assert isinstance(residency.policy, Promoted)
    for _ in range(PROMOTE_AFTER):
        residency.release(residency.place(np.arange(10)).slot_U)
    assert residency.policy.permanent_K.sum() == 9
    residency.drop(np.arange(4))
    assert 5 <= residency.policy.permanent_K.sum() <= 6
    for _ in range(PROMOTE_AFTER):
        residency.release(residency.place(20 + np.arange(4)).slot_U)
    assert residency.policy.permanent_K.sum() == 9


def test_memory_goes_with_the_slots() -> None:
    residency = Residency(8, "lru")
    for start in range(0, 4000, 8):
        residency.release(residency.place(FAR + np.arange(start, start + 8)).slot_U)
    assert len(residency) == 8 and residency.map.num_bytes <= 64 * 8
    check_invariant(residency)


def test_very_old_and_very_frequent_rows_are_alike() -> None:
    def first(count: list[int], stamp: list[int], now: int) -> int:
        victim = np.empty(1, np.int64)
        assert choose_victims(np.arange(3), ids_of(*count), ids_of(*stamp), np.zeros(3, bool), now, True, victim) == 1
        return int(victim[0])

    assert first([1, 1, 1], [2, 1, 0], AGES - 1) == 2
    assert first([1, 1, 1], [2, 1, 0], AGES + 1) == 0
    assert first([COUNTS, COUNTS - 2, COUNTS], [0, 0, 0], 0) == 1
    assert first([COUNTS + 9, COUNTS - 1, COUNTS], [0, 0, 0], 0) == 0


@pytest.mark.parametrize(("capacity", "policy"), [(-1, "lru"), (2.5, "lru"), (4, "mru")])
def test_illegal_arguments_are_refused(capacity: int, policy: str) -> None:
    with pytest.raises(InputError, match=r"cache (rows|policy) must be"):
        Residency(capacity, policy)

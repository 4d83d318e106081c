"""Next uses over a sliding window, and the plans of the oracle cacher, which need no host."""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any2vec.errors import InputError
from any2vec.plan.lookahead.exact import StepPlan, plan_steps
from any2vec.plan.lookahead.moves import SHARED, Exchange, count_copies, count_moves
from any2vec.plan.lookahead.window import NONE, UseWindow
from marks import uint64_wraps
from naive.rows.lookahead import Stream, expected, next_use

pytestmark = uint64_wraps

ROWS = 12
LARGE = 10_000


def random_stream(seed: int, trainers: int, steps: int, rows: int = ROWS, most: int = 5) -> list[list[list[int]]]:
    """Skewed, so that rows come again at every distance; some batches are empty."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, rows + 1)
    return [
        [
            np.unique(rng.choice(rows, rng.integers(0, most), p=weights / weights.sum())).tolist()
            for _ in range(trainers)
        ]
        for _ in range(steps)
    ]


def plans_of(
    stream: Stream, trainer: int, look_ahead: int, capacity: int = LARGE, clean_share: float = 0.25
) -> list[StepPlan]:
    return list(
        plan_steps(
            lambda rank, step: np.array(stream[step][rank], np.int64), len(stream), len(stream[0]), trainer, look_ahead,
            capacity, clean_share,
        )
    )  # fmt: skip


@pytest.mark.parametrize("look_ahead", [1, 2, 5, 100])
def test_next_uses_are_those_of_the_whole_stream(look_ahead: int) -> None:
    """40 rows a step of 4000: ring and map grow several times."""
    rng = np.random.default_rng(1)
    steps = [np.unique(rng.integers(0, 4000, 40)) for _ in range(120)]
    stream = [[rows.tolist()] for rows in steps]
    window = UseWindow()
    for step in range(len(steps)):
        while window.newest < min(step + look_ahead, len(steps) - 1):
            window.admit(steps[window.newest + 1])
        assert window.num_rows == len(np.unique(np.concatenate(steps[step : step + look_ahead + 1])))
        uses = window.leave()
        found = window.steps(uses.next_G)
        assert uses.step == step and np.array_equal(uses.row_G, steps[step]) and (uses.note_G == NONE).all()
        for row, coming in zip(uses.row_G.tolist(), found.tolist(), strict=True):
            assert (next_use(stream, step, row, look_ahead) or NONE) == coming
    assert window.num_rows == 0 and window.oldest == len(steps)


def test_notes_reach_the_use_that_they_are_for() -> None:
    window = UseWindow()
    for rows in ([3, 5], [5, 8], [3, 5]):
        window.admit(np.array(rows))
    first = window.leave()
    assert window.steps(first.next_G).tolist() == [2, 1]
    window.put(first.next_G, np.array([70, 71]))
    assert [part.tolist() for part in window.peek(2)] == [[3, 5], [4, 5], [70, NONE]]
    assert window.leave().note_G.tolist() == [71, NONE]
    assert window.leave().note_G.tolist() == [70, NONE]


def test_memory_is_that_of_the_window() -> None:
    """Rows up to 10**15, and 3000 steps: neither the map nor the ring grows."""
    window, rng = UseWindow(), np.random.default_rng(0)
    for step in range(3000):
        window.admit(np.unique(rng.integers(0, 10**15, 30)))
        if step >= 10:
            window.leave()
    assert len(window._key_H) == len(window._next_A) == 1024


@pytest.mark.parametrize("rows", [[2, 2], [3, 1], [-1, 4]])
def test_rows_of_a_step_are_ascending(rows: list[int]) -> None:
    with pytest.raises(InputError, match="ascending"):
        UseWindow().admit(np.array(rows))
    with pytest.raises(InputError, match="ascending"):
        plans_of([[[1], rows]], 0, 1)


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 10**6), st.integers(1, 3), st.sampled_from([1, 2, 3, 7, 50]))
def test_plans_are_those_of_the_twin(seed: int, trainers: int, look_ahead: int) -> None:
    stream = random_stream(seed, trainers, 25)
    for trainer in range(trainers):
        for plan in plans_of(stream, trainer, look_ahead):
            want, mine = expected(stream, plan.step, look_ahead), set(stream[plan.step][trainer])
            assert set(plan.fetch_row_K.tolist()) == {row for row, by in want.fetched.items() if trainer in by}
            alone = {row for row, by in want.alone.items() if by == trainer}
            assert set(plan.row_U[plan.hurried_J].tolist()) == alone & want.now
            assert set(plan.row_U[plan.alone_J].tolist()) == alone - want.now
            for exchange, rows in ((plan.now, want.now), (plan.later, want.later)):
                assert set(exchange.row_K.tolist()) == {row for row in rows if trainer in want.summed.get(row, ())}
                for peer in range(trainers):
                    given, sent = (plan.row_U[part[peer]] for part in (exchange.give_TJ, exchange.send_TM))
                    assert set(given.tolist()) == {row for row in mine & rows if peer in want.summed.get(row, ())}
                    assert set(sent.tolist()) == {row for row in mine & rows if peer in want.moves.get(row, ())}
                    assert set(exchange.come_row_TM[peer].tolist()) == {
                        row for row in rows if want.alone.get(row) == peer and trainer in want.moves.get(row, ())
                    }
            never = plan.num_rows - len(want.now) - len(want.later)
            assert plan.num_classes == (len(want.now), len(want.later), never) and plan.num_moved == len(want.moves)
            assert plan.num_fetched == len(want.fetched)
            assert {row for row, until in zip(plan.row_U, plan.until_U, strict=True) if until == NONE} == (
                want.leaving & mine
            )


def test_slots_that_rows_take_and_leave() -> None:
    """Three trainers. Rows that stay (0, all), go from 0 to 1, from 1 to all and from all to 2."""
    before, behind = np.array([0, SHARED, 0, 1, SHARED]), np.array([0, SHARED, 1, SHARED, 2])
    assert count_copies(before, 3).tolist() == [4, 3, 2] and count_copies(behind, 3).tolist() == [3, 3, 3]
    taken, left = count_moves(before, behind, 3)
    assert taken.tolist() == [1, 1, 1] and left.tolist() == [2, 1, 0]


Copy = tuple[int, list[int]]
"""a row, and the steps that have changed it"""


def run_plans(stream: Stream, look_ahead: int, capacity: int, clean_share: float, rng: np.random.Generator) -> int:
    """Carry out the plans of all trainers with, instead of rows, the steps that have changed them; most slots taken.

    A fetch takes place at any moment from that on which it may, to the one before its step: then the server must have
    what all earlier steps have made of the row, and its slot must be free. What fills a slot that a clean has emptied
    waits for that clean, for its row may still be on its way to the server.
    """
    trainers, steps = len(stream[0]), len(stream)
    plans = [plans_of(stream, trainer, look_ahead, capacity, clean_share) for trainer in range(trainers)]
    server: defaultdict[int, list[int]] = defaultdict(list)
    cache: list[dict[int, Copy]] = [{} for _ in range(trainers)]
    history: defaultdict[int, list[int]] = defaultdict(list)
    emptied: list[dict[int, int]] = [{} for _ in range(trainers)]
    """by trainer: slot -> the clean that has emptied it"""
    late: Sent = {}
    next_fetch, cleans, most = [0] * trainers, -1, 0
    for step in range(steps):
        for trainer in range(trainers):
            ahead = step + int(rng.integers(0, look_ahead + 2))
            while next_fetch[trainer] < steps:  # as the fetcher does: in the order of steps
                plan = plans[trainer][next_fetch[trainer]]
                if plan.step > step and (plan.step > ahead or plan.after_clean > cleans):
                    break
                assert plan.after_clean <= cleans, "the plans wait for each other"
                for row, slot in zip(plan.fetch_row_K.tolist(), plan.fetch_slot_K.tolist(), strict=True):
                    assert slot not in cache[trainer] and slot < capacity
                    cache[trainer][slot] = row, list(server[row])
                next_fetch[trainer] += 1
            most = max(most, len(cache[trainer]))
            mine = plans[trainer][step]
            for slot in np.concatenate([mine.fetch_slot_K, *mine.now.come_slot_TM, *mine.later.come_slot_TM]).tolist():
                assert emptied[trainer].pop(slot, NONE) <= mine.after_clean
            assert mine.row_U.tolist() == stream[step][trainer]
            for row, slot in zip(mine.row_U.tolist(), mine.slot_U.tolist(), strict=True):
                assert cache[trainer][slot] == (row, history[row])
        at_once, coming = leave(plans, step, cache)
        for trainer in range(trainers):
            if step:
                arrive(trainer, plans[trainer][step - 1].later, step - 1, late, cache[trainer])
            arrive(trainer, plans[trainer][step].now, step, at_once, cache[trainer])
        late = coming
        assert len({None if plan[step].clean is None else plan[step].clean.number for plan in plans}) == 1
        assert len({(plan[step].horizon, plan[step].num_held) for plan in plans}) == 1
        most = max(most, *(len(rows) for rows in cache))
        for row in {row for rows in stream[step] for row in rows}:
            history[row].append(step)
        if plans[0][step].clean is not None:
            write(plans, step, cache, server, history)
            cleans += 1
            for trainer in range(trainers):
                emptied[trainer] |= dict.fromkeys(plans[trainer][step].clean.slot_E.tolist(), cleans)  # type: ignore[union-attr]
    return most


Sent = dict[tuple[int, int], tuple[list[int], list[Copy]]]
"""(from, to) -> rows whose gradients are sent, whole rows"""


def leave(plans: list[list[StepPlan]], step: int, cache: list[dict[int, Copy]]) -> tuple[Sent, Sent]:
    """What all trainers send of a step at once, and behind it, when they have stepped what they alone have."""
    found: tuple[Sent, Sent] = {}, {}
    for trainer, rows in enumerate(cache):
        plan = plans[trainer][step]
        for slot in plan.slot_U[[*plan.hurried_J, *plan.alone_J]].tolist():
            rows[slot][1].append(step)
        for sent, exchange in zip(found, (plan.now, plan.later), strict=True):
            for peer in range(len(plans)):
                whole = [rows[slot] for slot in plan.slot_U[exchange.send_TM[peer]].tolist()]
                copies = [(row, list(steps)) for row, steps in whole]
                sent[trainer, peer] = plan.row_U[exchange.give_TJ[peer]].tolist(), copies
        for slot in plan.lost_slot_K.tolist():
            del rows[slot]
    return found


def arrive(trainer: int, exchange: Exchange, step: int, sent: Sent, cache: dict[int, Copy]) -> None:
    """What all have sent: rows come to stand in free slots, and those of which gradients come are stepped."""
    for peer in range(len(exchange.place_TJ)):
        given, copies = sent[peer, trainer]
        assert exchange.row_K[exchange.place_TJ[peer]].tolist() == given
        assert exchange.come_row_TM[peer].tolist() == [row for row, _ in copies]
        assert exchange.num_due(peer) == (len(given), len(copies))
        for slot, copy in zip(exchange.come_slot_TM[peer].tolist(), copies, strict=True):
            assert slot not in cache
            cache[slot] = copy
    for row, slot in zip(exchange.row_K.tolist(), exchange.slot_K.tolist(), strict=True):
        assert cache[slot][0] == row
        cache[slot][1].append(step)


def write(plans, step: int, cache, server, history) -> None:  # type: ignore[no-untyped-def]
    """Every row that leaves has one writer, or all have the same copy; and that has what all steps have made of it."""
    written: defaultdict[int, list[tuple[int, list[int]]]] = defaultdict(list)
    for trainer, plan in enumerate(plans):
        clean = plan[step].clean
        for row, slot, sole in zip(*(part.tolist() for part in (clean.row_E, clean.slot_E, clean.sole_E)), strict=True):
            held, value = cache[trainer].pop(slot)
            assert held == row and sole in (SHARED, trainer)
            written[row].append((sole, value))
    for row, copies in written.items():
        assert len(copies) == (len(plans) if copies[0][0] == SHARED else 1)
        assert all(value == history[row] for _, value in copies)
        server[row] = list(history[row])


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 10**6), st.integers(1, 3), st.sampled_from([1, 2, 3, 7, 50]), st.sampled_from([0.0, 0.25, 1.0]))
def test_what_plans_fetch_is_what_all_steps_have_made_of_it(
    seed: int, trainers: int, look_ahead: int, clean_share: float
) -> None:
    run_plans(random_stream(seed, trainers, 40), look_ahead, LARGE, clean_share, np.random.default_rng(seed))


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 10**6), st.integers(1, 3), st.sampled_from([1, 2, 3, 7, 50]), st.sampled_from([0.0, 0.25, 1.0]))
def test_a_full_cache_keeps_less_and_stays_right(seed: int, trainers: int, look_ahead: int, clean_share: float) -> None:
    """The smallest cache that may do: whatever two steps use."""
    stream = random_stream(seed, trainers, 40, rows=60, most=8)
    both = [{row for rows in [*stream[step], *stream[step + 1]] for row in rows} for step in range(39)]
    capacity = max(1, *(len(rows) for rows in both))
    assert run_plans(stream, look_ahead, capacity, clean_share, np.random.default_rng(seed)) <= capacity


def test_rows_used_last_within_the_window_give_way() -> None:
    """Rows 1 and 2 are held for steps 5 and 3; a cache of 4 has place for one of them beside two steps' rows."""
    stream = [[[1, 2]], [[3]], [[4, 5]], [[2]], [[6]], [[1]]]
    plans = plans_of(stream, 0, 5, capacity=4, clean_share=1.0)
    assert [plan.horizon for plan in plans][:2] == [5, 4]
    assert [plan.fetch_row_K.tolist() for plan in plans] == [[1, 2], [3], [4, 5], [], [6], [1]]
    assert plans[1].clean is not None and plans[1].clean.row_E.tolist() == [1]
    assert plans[5].after_clean >= plans[1].clean.number
    assert all(plan.num_held <= 4 for plan in plans)


@pytest.mark.parametrize("capacity", [1, 3])
def test_a_cache_too_small_for_two_steps_is_refused(capacity: int) -> None:
    with pytest.raises(InputError, match=f"A cache of {capacity} rows is too small: steps 0 and 1 use . rows"):
        plans_of([[[1, 2]], [[3, 4]], [[5]]], 0, 2, capacity)


@pytest.mark.parametrize("distance", [3, 4])
def test_a_row_used_again_after_l_steps_is_held_and_after_one_more_fetched_again(distance: int) -> None:
    stream = [[[7]], *([[[step]] for step in range(20, 20 + distance - 1)]), [[7]], [[1]]]
    plans = plans_of(stream, 0, 3)
    assert plans[0].until_U.tolist() == [distance if distance == 3 else NONE]
    assert plans[distance].fetch_row_K.tolist() == ([] if distance == 3 else [7])
    written = [plan.clean for plan in plans if plan.clean is not None and 7 in plan.clean.row_E]
    if distance == 4:
        assert written[0].number <= plans[4].after_clean
        assert all(plan.clean is None or plan.clean.number > plans[4].after_clean for plan in plans[4:])


@pytest.mark.parametrize(("share", "every"), [(0.0, 1), (0.25, 2), (1.0, 8)])
def test_cleans_follow_each_other_as_asked(share: float, every: int) -> None:
    """Every step has rows of its own; L is 8."""
    stream = [[[step]] for step in range(40)]
    cleans = [plan.step for plan in plans_of(stream, 0, 8, clean_share=share) if plan.clean is not None]
    assert {later - before for before, later in itertools.pairwise(cleans)} == {every}

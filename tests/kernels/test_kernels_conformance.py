"""What every training kernel must keep: finite rows for any option, no trace of the cut, and it learns.

The kernels are listed in `kernel_cases.CASES`.
"""

from __future__ import annotations

import itertools
import threading

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any2vec.kernels.common.scalar import BOUND
from any2vec.kernels.skipgram.places import Places
from kernel_cases import CASES, Case, Problem, random_problem

# Without the compiler NumPy warns of uint64 arithmetic that is meant to wrap, and of values that are then replaced.
pytestmark = pytest.mark.filterwarnings("ignore:(overflow|divide by zero) encountered:RuntimeWarning")
compiled_only = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="too slow with the JIT switched off")
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
with_twin = pytest.mark.parametrize("case", [case for case in CASES if case.twin], ids=lambda case: case.name)


@with_twin
@pytest.mark.parametrize("seed", range(4))
def test_kernel_equals_its_twin(case: Case, seed: int) -> None:
    options = {
        "window": 1 + 3 * seed,
        "num_negatives": 1 + 2 * seed,
        "lr_from": 0.1,
        "lr_to": 0.01,
        "offset": 97 * seed,
    }
    problem = random_problem(seed, dim=(1, 16, 9, 20)[seed], num_rows=(2, 5, 12, 40)[seed], **options)
    problem.keep[::3] = 1 << 31
    problem.start, problem.stop, problem.loss_every = 3, len(problem.tokens) - 5, 1 + seed
    slow = problem.as_float64()
    items, loss_sum, examples = case.run(problem)
    assert case.twin is not None
    slow_items, slow_loss, slow_examples = case.twin(slow)
    assert (items, examples) == (slow_items, slow_examples)
    assert examples > 0
    np.testing.assert_allclose(loss_sum, slow_loss, rtol=2e-5)
    np.testing.assert_allclose(problem.input_rows, slow.input_rows, rtol=1e-4, atol=3e-5)
    np.testing.assert_allclose(problem.output_rows, slow.output_rows, rtol=1e-4, atol=3e-5)


@cases
@pytest.mark.parametrize("seed", range(3))
def test_rows_that_are_read_suffice_in_any_order(case: Case, seed: int) -> None:
    """Tables of the traced rows alone, strewn, and one row of NaN that stands for all others: the same bits."""
    problem = random_problem(seed, num_rows=90, num_tokens=100, dim=(9, 16, 20)[seed], window=1 + 2 * seed)
    problem.keep[::3] = 1 << 30
    problem.start, problem.stop = 3, len(problem.tokens) - 5
    whole, mark_V2 = problem.copy(), np.zeros((2, 90), np.uint8)
    assert case.trace is not None
    case.trace(problem, *mark_V2)
    assert 0 < mark_V2.sum() < mark_V2.size
    random, ids, small, places = np.random.default_rng(seed), [], [], []
    for mark_V, rows_VD in zip(mark_V2, (problem.input_rows, problem.output_rows), strict=True):
        ids.append(random.permutation(np.flatnonzero(mark_V)))
        small.append(np.vstack([rows_VD[ids[-1]], np.full((1, rows_VD.shape[1]), np.nan, np.float32)]))
        places.append(np.full(90, len(ids[-1]), np.int32))
        places[-1][ids[-1]] = np.arange(len(ids[-1]))
    part = problem.copy(input_rows=small[0], output_rows=small[1], places=Places(*places))
    assert case.run(part) == case.run(whole)
    for found_KD, rows_VD, id_K in zip(small, (whole.input_rows, whole.output_rows), ids, strict=True):
        assert (found_KD[:-1] == rows_VD[id_K]).all() and np.isnan(found_KD[-1]).all()


@compiled_only
@with_twin
@pytest.mark.parametrize("dim", [100, 128, 130, 300])
def test_kernel_equals_its_twin_in_every_stretch_of_registers(case: Case, dim: int) -> None:
    """Rows of one stretch of registers, of several, and of several with a rest."""
    problem = random_problem(dim, dim=dim, num_rows=20, scale=0.2)
    slow = problem.as_float64()
    case.run(problem)
    assert case.twin is not None
    case.twin(slow)
    np.testing.assert_allclose(problem.input_rows, slow.input_rows, rtol=1e-4, atol=3e-5)
    np.testing.assert_allclose(problem.output_rows, slow.output_rows, rtol=1e-4, atol=3e-5)


@compiled_only
@with_twin
def test_kernel_equals_its_twin_over_many_chunks(case: Case) -> None:
    """5 000 positions are gathered in three pieces; the twin knows no pieces."""
    problem = random_problem(9, num_tokens=5000, num_rows=30, dim=4, lr_from=0.01, lr_to=0.001, loss_every=7)
    slow = problem.as_float64()
    result = case.run(problem)
    assert case.twin is not None
    assert result == pytest.approx(case.twin(slow), rel=1e-4)
    np.testing.assert_allclose(problem.input_rows, slow.input_rows, rtol=1e-3, atol=3e-4)


@compiled_only
@cases
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_rows_stay_finite_for_any_legal_option(case: Case, data: st.DataObject) -> None:
    """Adversarial tables (up to the bound, signs aligned or opposed) and learning rates far beyond sense."""
    num_rows, dim = data.draw(st.integers(2, 50)), data.draw(st.sampled_from([1, 2, 3, 7, 16, 17, 31, 130]))
    rates = st.sampled_from([0.0, 1e-4, 0.025, 1.0, 10.0, 1e4]) | st.floats(0.0, 2.0, width=32)
    problem = random_problem(
        data.draw(st.integers(0, 1 << 20)),
        num_tokens=data.draw(st.integers(1, 150)),
        num_rows=num_rows,
        dim=dim,
        scale=data.draw(st.sampled_from([1e-30, 1e-3, 1.0, 100.0])),
        window=data.draw(st.integers(1, 20)),
        num_negatives=data.draw(st.integers(1, 64)),
        lr_from=data.draw(rates),
        lr_to=data.draw(rates),
    )
    shape = data.draw(st.sampled_from(["random", "aligned", "opposed", "corners", "zero"]))
    bound = float(BOUND)
    if shape == "zero":
        problem.output_rows[:] = 0
    elif shape == "corners":
        problem.input_rows[:] = np.where(problem.input_rows < 0, -bound, bound)
        problem.output_rows[:] = np.where(problem.output_rows < 0, -bound, bound)
    elif shape != "random":
        problem.input_rows[:] = bound
        problem.output_rows[:] = bound if shape == "aligned" else -bound
    if data.draw(st.booleans()):
        problem.tokens[problem.tokens >= 0] = 0  # one word only: all pairs meet the same two rows
    for epoch in range(3):
        _, loss_sum, _ = case.run(
            problem.copy(epoch=epoch, input_rows=problem.input_rows, output_rows=problem.output_rows)
        )
        assert np.isfinite(loss_sum) and loss_sum >= 0.0
    for table in (problem.input_rows, problem.output_rows):
        assert np.isfinite(table).all()
        assert np.abs(table).max() <= max(bound, 600.0)


@compiled_only
@cases
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_cutting_the_work_changes_no_bit(case: Case, data: st.DataObject) -> None:
    size, seed = 4500, data.draw(st.integers(0, 100))
    whole = random_problem(seed, num_tokens=size, num_rows=20, dim=5, offset=data.draw(st.integers(0, 50)) * 1024)
    whole.keep[:5] = 1 << 30
    pieces = whole.copy()
    result = case.run(whole)
    cuts = data.draw(st.lists(st.integers(1, (size - 1) // case.granularity), max_size=4, unique=True))
    edges = [0, *(cut * case.granularity for cut in sorted(cuts)), size]
    sums = [0, 0.0, 0]
    for start, stop in itertools.pairwise(edges):
        for i, value in enumerate(case.run(pieces.copy(**tables(pieces), start=start, stop=stop))):
            sums[i] += value
    assert (pieces.input_rows == whole.input_rows).all()
    assert (pieces.output_rows == whole.output_rows).all()
    assert tuple(sums) == pytest.approx(result, rel=1e-12)


def tables(problem: Problem) -> dict[str, np.ndarray]:
    return {"input_rows": problem.input_rows, "output_rows": problem.output_rows}


@compiled_only
@cases
def test_two_threads_on_the_same_rows_stay_finite(case: Case) -> None:
    """Hogwild: races lose or repeat steps, and the bound holds for every value that any thread may read."""
    problem = random_problem(6, num_tokens=20_000, num_rows=3, dim=8, lr_from=5.0, lr_to=5.0, scale=100.0)
    results: list[tuple[int, float, int]] = []

    def work(start: int) -> None:
        results.append(case.run(problem.copy(**tables(problem), start=start, stop=start + 10_000)))

    threads = [threading.Thread(target=work, args=(start,)) for start in (0, 10_000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 2
    assert all(np.isfinite(loss_sum) for _, loss_sum, _ in results)
    assert np.isfinite(problem.input_rows).all() and np.isfinite(problem.output_rows).all()


@cases
def test_the_same_seed_gives_the_same_bits_and_another_does_not(case: Case) -> None:
    runs = []
    for seed in (1, 1, 2):
        problem = random_problem(4)
        problem.keep[:] = 1 << 31
        problem.seed = seed
        case.run(problem)
        runs.append(problem.input_rows)
    assert (runs[0] == runs[1]).all()
    assert (runs[0] != runs[2]).any()


@cases
def test_nothing_to_learn_changes_nothing(case: Case) -> None:
    """No tokens kept, one-word sentences, an empty stretch, a learning rate of zero."""
    for change in (
        {"keep": np.zeros(12, np.uint64)},
        {"tokens": np.array([3, -1, 4, -1, 5], np.int32), "stop": 5},
        {"start": 7, "stop": 7},
        {"lr_from": 0.0, "lr_to": 0.0},
    ):
        problem = random_problem(3).copy(**change)
        before = problem.copy()
        items, loss_sum, examples = case.run(problem)
        assert (problem.input_rows == before.input_rows).all()
        assert (problem.output_rows == before.output_rows).all()
        if "lr_from" not in change:
            assert (loss_sum, examples) == (0.0, 0)
        assert items == sum(0 <= token < 12 for token in problem.tokens[problem.start : problem.stop])


@cases
def test_loss_is_a_deterministic_sample(case: Case) -> None:
    counts = []
    for every in (0, 1, 4):
        problem = random_problem(5, num_tokens=600, loss_every=every)
        counts.append((case.run(problem)[2], problem.input_rows))
    assert counts[0][0] == 0 < counts[2][0] < counts[1][0]
    assert all((table == counts[0][1]).all() for _, table in counts), "measuring must not change the training"


@compiled_only
@cases
def test_two_planted_topics_come_apart(case: Case) -> None:
    """Sentences use ten words of one topic only: every word's neighbors in space are of its own topic."""
    random = np.random.default_rng(8)
    sentences = [np.append(random.integers(0, 10, 12) + 10 * (i % 2), -1) for i in range(400)]
    tokens = np.concatenate(sentences).astype(np.int32)
    start_VD = ((random.random((20, 16)) - 0.5) / 16).astype(np.float32)
    problem = Problem(tokens, np.bincount(tokens[tokens >= 0]), start_VD, np.zeros((20, 16), np.float32))
    losses = []
    for epoch in range(6):
        run = problem.copy(**tables(problem), epoch=epoch, lr_from=0.05, lr_to=0.05, num_negatives=5)
        _, loss_sum, examples = case.run(run)
        losses.append(loss_sum / examples)
    assert losses[-1] < losses[0]
    unit_VD = problem.input_rows / np.linalg.norm(problem.input_rows, axis=1, keepdims=True)
    cosine_VV = unit_VD @ unit_VD.T
    topic_V = np.arange(20) // 10
    same = topic_V[:, None] == topic_V[None, :]
    assert cosine_VV[same].min() > cosine_VV[~same].max()


@with_twin
def test_steps_are_the_gradient_of_the_loss(case: Case) -> None:
    """One center, learning rate 1: the rows move by minus the central difference of the twin's loss."""
    problem = random_problem(12, num_rows=40, dim=3, lr_from=1e-3, lr_to=1e-3, num_negatives=3)
    problem.tokens = np.array([7, 21, 3], np.int32)
    problem.start, problem.stop, problem.window = 1, 2, 1
    assert case.twin is not None
    # With two contexts the second would see rows that the first has moved: keep one.
    problem.tokens = problem.tokens[:2]
    moved = problem.as_float64()
    case.twin(moved)
    fast = problem.copy()
    case.run(fast)
    for name in ("input_rows", "output_rows"):
        start = getattr(problem, name).astype(np.float64)
        gradient = np.zeros_like(start)
        for place in np.ndindex(start.shape):
            sides = []
            for shift in (1e-5, -1e-5):
                probe = problem.as_float64()
                probe.lr_from = probe.lr_to = 0.0
                getattr(probe, name)[place] += shift
                sides.append(case.twin(probe)[1])
            gradient[place] = (sides[0] - sides[1]) / 2e-5
        step = (getattr(moved, name) - start) / -float(np.float32(1e-3))
        np.testing.assert_allclose(step, gradient, rtol=1e-3, atol=1e-6)
        fast_step = (getattr(fast, name).astype(np.float64) - start) / -1e-3
        np.testing.assert_allclose(fast_step, gradient, atol=3e-4)
        assert np.abs(gradient).max() > 0.01

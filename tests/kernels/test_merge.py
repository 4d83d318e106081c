"""Merging rows: the kernel equals its twin, and the combiners have the properties that their papers give them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any2vec.kernels.rows.merge import changed_rows
from any2vec.kernels.rows.spectral import add_moment, scale_along, turns
from any2vec.plan.sharding.sharding import contiguous_bounds
from any2vec.sync.base.curvature import Curvature
from any2vec.sync.base.pool import ThreadPool
from any2vec.sync.options.rules import RULES, rule_class
from any2vec.sync.rules.block import Block, Rules
from any2vec.sync.rules.merge_rule import MergeRule
from any2vec.sync.rules.merges import COMMON, SLOPE, Blend, Spectral
from any2vec.testing.conformance.rules import curvature, ready
from naive.rows.merge import merge
from naive.rows.spectral import merge_along, moment, share_of_sum

ROWS, DIM = 12, 7
rules = pytest.mark.parametrize("rule", RULES.names())


def made(rule: str, rows: int, dim: int) -> MergeRule:
    """A rule by its name; of curvature it hears that each row sees more than the one before."""
    return ready(rule_class(rule, has_curvature=True)(), steps_of(rows), dim)


def steps_of(rows: int) -> np.ndarray:
    return np.geomspace(0.01, 100, rows) / SLOPE


def twin(rule: str, row: int, start: np.ndarray, values: list[np.ndarray]) -> np.ndarray:
    """The row of a block that hosts agree on."""
    if rule != "spectral":
        return merge(rule, start, values)
    seen = curvature(steps_of(ROWS), len(start))
    return merge_along(SLOPE * seen.step_B[row], seen.value_D, seen.vector_DD, start, values)


def agreed(rule: str, start: np.ndarray, values: list[np.ndarray], is_delta: bool = False) -> np.ndarray:
    """Rows (B, D) that hosts agree on, each of which sends all of them."""
    block = Block(start, made(rule, *start.shape))
    for value in values:
        block.merge(np.arange(len(start)), value, is_delta)
    block.finish(is_delta)
    return block.rows


def vectors(*rows: list[float]) -> list[np.ndarray]:
    return [np.array([row], np.float32) for row in rows]


@rules
@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), hosts=st.integers(1, 6), scale=st.sampled_from([1e-20, 1e-3, 1.0, 1e3]))
def test_merge_equals_its_twin(rule: str, seed: int, hosts: int, scale: float) -> None:
    random = np.random.default_rng(seed)
    start = random.normal(0, 1, (ROWS, DIM)).astype(np.float32)
    values = [(start + scale * random.normal(0, 1, start.shape)).astype(np.float32) for _ in range(hosts)]
    for value in values:
        still = random.random(ROWS) < 0.4
        value[still] = start[still]
    found = agreed(rule, start, values)
    expected = np.array([twin(rule, row, start[row], [value[row] for value in values]) for row in range(ROWS)])
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6 * max(1.0, scale))


@rules
def test_a_row_that_one_host_changed_takes_its_value_itself(rule: str) -> None:
    """1e8 + (1 - 1e8) is 0 in float32: the value must not go through the difference."""
    start, now = vectors([1e8, 3.0]), vectors([1.0, 0.1])
    assert np.float32(start[0][0, 0] + np.float32(now[0][0, 0] - start[0][0, 0])) != 1.0
    assert (agreed(rule, start[0], [start[0], now[0], start[0]]) == now[0]).all()


@rules
def test_rows_that_nobody_changed_stay(rule: str) -> None:
    start = np.array([[0.1, -0.0], [7.0, 1e-40]], np.float32)
    block = Block(start, made(rule, *start.shape))
    block.merge(np.array([0, 1]), start.copy(), False)
    assert block.finish(False).size == 0 and (block.rows == start).all()


ZERO = [0.0, 0.0]


@pytest.mark.parametrize(
    ("rule", "first", "second", "expected"),
    [
        ("adasum", [3.0, 0.0], [0.0, 2.0], [3.0, 2.0]),  # orthogonal: the sum
        ("adasum-symmetric", [3.0, 0.0], [0.0, 2.0], [3.0, 2.0]),
        ("adasum", [3.0, 4.0], [3.0, 4.0], [3.0, 4.0]),  # equal: one copy
        ("adasum-symmetric", [3.0, 4.0], [3.0, 4.0], [3.0, 4.0]),
        ("adasum", [2.0, 0.0], [6.0, 0.0], [6.0, 0.0]),  # parallel: the last one, or the mean
        ("adasum-symmetric", [2.0, 0.0], [6.0, 0.0], [4.0, 0.0]),
        ("adasum", [1.0, 2.0], [-1.0, -2.0], [-1.0, -2.0]),  # opposite: the last one, or nothing
        ("adasum-symmetric", [1.0, 2.0], [-1.0, -2.0], ZERO),
        ("mean", [1.0, 2.0], [3.0, 0.0], [2.0, 1.0]),
        ("sum", [1.0, 2.0], [3.0, 0.0], [4.0, 2.0]),
    ],
)
def test_two_updates(rule: str, first: list[float], second: list[float], expected: list[float]) -> None:
    start = np.zeros((1, 2), np.float32)
    assert agreed(rule, start, vectors(first, second)).tolist() == [expected]
    assert agreed(rule, start, vectors(first, second), is_delta=True).tolist() == [expected]


@pytest.mark.parametrize("rule", ["adasum", "adasum-symmetric"])
@given(seed=st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_adasum_is_never_longer_than_orthogonal_updates(rule: str, seed: int) -> None:
    """|result|^2 <= |a|^2 + |b|^2, which the sum does not keep."""
    a, b = np.random.default_rng(seed).normal(0, 1, (2, 1, 5)).astype(np.float32)
    found = agreed(rule, np.zeros((1, 5), np.float32), [a, b])
    assert (found**2).sum() <= ((a**2).sum() + (b**2).sum()) * (1 + 1e-5)


def test_blend_sums_rare_rows_and_merges_frequent_ones_by_adasum() -> None:
    """Three rows that no host, so many that half is common, and very many occurrences have; two parallel changes."""
    half = np.log(2) * COMMON  # 1 - exp(-ln 2) = 1/2
    rules = Rules(Blend, {"input": np.array([0.0, half, 1e9])})
    start = np.zeros((4, 2), np.float32)
    first, second = np.full((4, 2), 2, np.float32), np.full((4, 2), 6, np.float32)
    for merge_all in (False, True):
        block = rules.block("input", start, np.arange(4))
        if merge_all:
            block.merge_all([(np.arange(4), first), (np.arange(4), second)], False, ThreadPool(2))
        else:
            for values in (first, second):
                block.merge(np.arange(4), values, False)
            block.finish(False)
        # The sum; u + g - 1/2 (u.g / |g|^2) g = 2 + 6 - 1/2 (1/3) 6; AdaSum's last one; so, too, what was not counted.
        np.testing.assert_allclose(block.rows[:, 0], [8, 7, 6, 6], rtol=1e-6)


def test_blend_with_frequent_rows_alone_is_adasum() -> None:
    random = np.random.default_rng(7)
    start, *values = random.normal(0, 1, (4, ROWS, DIM)).astype(np.float32)
    block = Rules(Blend, {"output": np.full(ROWS, 10**9)}).block("output", start, np.arange(ROWS))
    for value in values:
        block.merge(np.arange(ROWS), value, False)
    block.finish(False)
    assert (block.rows == agreed("adasum", start, values)).all()


def test_the_sum_stays_within_the_bound_of_the_kernels() -> None:
    start = np.full((1, 2), 9e3, np.float32)
    assert agreed("sum", start, [start + 900, start + 900, start + 900]).tolist() == [[1e4, 1e4]]


@rules
def test_the_number_of_threads_changes_no_bit(rule: str) -> None:
    random = np.random.default_rng(4)
    start = random.normal(0, 1, (50, DIM)).astype(np.float32)
    reported = []
    for _ in range(5):
        slots = np.flatnonzero(random.random(50) < 0.5)
        reported.append((slots, start[slots] + random.normal(0, 1, (len(slots), DIM)).astype(np.float32)))
    found = []
    for threads in (1, 3, 64):
        block = Block(start, made(rule, *start.shape))
        found.append((block.merge_all(reported, False, ThreadPool(threads)), block.rows))
    one_by_one = Block(start, made(rule, *start.shape))
    for slots, values in reported:
        one_by_one.merge(slots, values, False)
    found.append((one_by_one.finish(False), one_by_one.rows))
    assert all((rows == found[0][1]).all() and (slots == found[0][0]).all() for slots, rows in found)


def test_changed_rows() -> None:
    start = np.zeros((4, 3), np.float32)
    now = start.copy()
    now[1, 2], now[3, 0] = 1e-45, -1
    flags = np.empty(4, np.uint8)
    changed_rows(now, start, flags)
    assert flags.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(("num_rows", "hosts"), [(10, 3), (7, 7), (3, 5), (0, 2)])
def test_blocks_cover_all_rows(num_rows: int, hosts: int) -> None:
    found = contiguous_bounds(num_rows, hosts)
    sizes = np.diff(found)
    assert (found[0], found[-1], len(found)) == (0, num_rows, hosts + 1)
    assert sizes.min() >= num_rows // hosts and sizes.max() <= -(-num_rows // hosts)


@pytest.mark.parametrize("dim", [1, DIM, 53, 200])
def test_moments_equal_their_twin(dim: int) -> None:
    random = np.random.default_rng(8)
    rows, weights = random.normal(0, 1, (139, dim)).astype(np.float32), random.random(139)
    weights[3] = 0
    found = np.zeros((dim, dim))
    add_moment(rows[:4], weights[:4], found)
    add_moment(rows[4:], weights[4:], found)
    np.testing.assert_allclose(found, np.tril(moment(rows, weights)), rtol=2e-6, atol=2e-6 * np.abs(found).max())


@pytest.mark.parametrize("dim", [1, DIM, 53, 200])
def test_sums_are_scaled_along_the_twins_directions(dim: int) -> None:
    """Pieces of the dimension, and more rows than are turned at a time, in float32."""
    random = np.random.default_rng(9)
    vectors, _ = np.linalg.qr(random.normal(size=(dim, dim)))
    values = np.sort(random.random(dim) ** 4)
    values[0] = 0
    counts = random.integers(0, 40, 71).astype(np.int32)
    steps, start = 200 * random.random(71), random.normal(0, 1, (71, dim))
    found, alone = start.copy(), start.copy()
    scale_along(found, counts, steps, values, *turns(vectors))
    for row, count, step, before in zip(found, counts, steps, start, strict=True):
        shares = np.array([share_of_sum(step * value, count) if count > 1 else 1.0 for value in values])
        expected = vectors @ (shares * (vectors.T @ before))
        np.testing.assert_allclose(row, expected, rtol=2e-6, atol=2e-6 * np.abs(before).max())
        assert count > 1 or (row == before).all()
    for b in range(71):
        scale_along(alone[b : b + 1], counts[b : b + 1], steps[b : b + 1], values, *turns(vectors))
    assert (alone == found).all()  # whatever rows lie beside it


def test_spectral_sums_along_flat_directions_and_takes_the_mean_along_stiff_ones() -> None:
    block = Block(np.zeros((2, 2), np.float32), rule := Spectral())
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    rule.prepare(Curvature(np.array([0.0, 1.0]), turn, np.array([1e9, 0.0])))
    for _ in range(2):
        block.merge(np.arange(2), np.array([[1.0, 0.5]] * 2, np.float32), True)
    block.finish(True)
    flat, stiff = turn[:, 0], turn[:, 1]
    change = np.array([1.0, 0.5])
    expected = [2 * (change @ flat) * flat + (change @ stiff) * stiff, 2 * change]  # nothing moves the second row
    np.testing.assert_allclose(block.rows, expected, rtol=1e-6)

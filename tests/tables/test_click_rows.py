"""Kernels and optimizers of click models' rows: equal to plain twins, and to PyTorch where it has the same rule."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any2vec.errors import InputError
from any2vec.kernels.rows.placing import add_sums, assign_bags, place_groups, place_ids, pool_placed, sum_placed
from any2vec.tables.batch_rows import BatchRows
from any2vec.tables.replica import Replica
from any2vec.tables.row_optimizer import BETA1, BETA2, RowOptimizer
from any2vec.tables.row_table import MemoryRows
from naive.rows import placing as naive_placing
from naive.rows import rows as naive

WIDTH = 3


@st.composite
def some_bags(draw: st.DrawFn, most: int = 30) -> list[list[int]]:
    """Bags of ids below `most`: none, one, several, the same twice; now and then ids beyond 2 ** 11 and 2 ** 22."""
    scale = draw(st.sampled_from([1, 1, 3000, 5_000_000])) if most == 30 else 1
    return [[scale * row for row in bag] for bag in draw(st.lists(st.lists(st.integers(0, most - 1), max_size=4)))]


def batch_of(bags: list[list[int]]) -> BatchRows:
    ids = np.array([row for bag in bags for row in bag], np.int64)
    return BatchRows.of(ids, np.cumsum([0, *(len(bag) for bag in bags)]))


def numbers(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@given(some_bags())
@settings(deadline=None, max_examples=100)
def test_ids_are_grouped_as_the_plain_twin_does(bags: list[list[int]]) -> None:
    found = batch_of(bags)
    rows, places = naive.grouped(found.id_M.tolist())
    assert found.row_U.tolist() == rows and found.num_bags == len(bags)
    assert [found.member_M[low:high].tolist() for low, high in pairwise(found.first_U1)] == places
    assert np.array_equal(found.row_U[found.place_M], found.id_M)
    assert found.bag_M.tolist() == [p for p, bag in enumerate(bags) for _ in bag]


@pytest.mark.parametrize("highest", [0, 1, 2047, 2048, 2**22 - 1, 2**22, 2**33, 2**40])
def test_large_batches_are_grouped_as_numpy_does(highest: int) -> None:
    """Each number of passes of the radix sort, and the ids at which another one begins."""
    ids = np.random.default_rng(highest % 97).integers(0, highest, 5000, endpoint=True)
    ids[17] = highest
    found = BatchRows.of(ids, np.arange(5001))
    rows, first, place, count = np.unique(ids, return_index=True, return_inverse=True, return_counts=True)
    assert np.array_equal(found.row_U, rows) and np.array_equal(found.place_M, place)
    assert np.array_equal(np.diff(found.first_U1), count)
    assert np.array_equal(found.member_M, np.argsort(ids, kind="stable"))
    assert np.array_equal(found.member_M[found.first_U1[:-1]], first)


@given(some_bags(20))
@settings(deadline=None, max_examples=100)
def test_sums_over_bags_and_gradients_of_rows_are_the_plain_twins(bags: list[list[int]]) -> None:
    batch, table, gradients = batch_of(bags), numbers((20, WIDTH + 2)), numbers((len(bags), WIDTH), 1)
    expected = naive.pooled(table, bags, WIDTH)
    assert np.array_equal(MemoryRows(table, RowOptimizer(WIDTH)).pool(batch, 0), expected)
    assert np.array_equal(batch.pool(table[batch.row_U], WIDTH), expected)
    rows, sums = naive.summed(gradients, bags)
    assert batch.row_U.tolist() == rows and np.array_equal(batch.gradients(gradients), sums)


@pytest.mark.parametrize("width", [1, 4, 15, 16, 17, 32, 50])
def test_rows_of_any_width_are_summed_and_stepped_as_the_plain_twins_do(width: int) -> None:
    """Whole registers, parts of them, and both; no number beyond the values is read as one, or changed."""
    rng = np.random.default_rng(width)
    bags = [rng.integers(0, 20, size).tolist() for size in rng.integers(0, 5, 60)]
    batch, gradients = batch_of(bags), numbers((60, width), 1)
    for kind, rule in (("sgd", naive.sgd), ("adagrad", naive.adagrad)):
        optimizer: Any = RowOptimizer(width, kind, 0.1)
        table = np.abs(numbers((21, optimizer.num_columns)))
        rows, sums = naive.summed(gradients, bags)
        start, state = table.copy(), width + optimizer.num_state
        assert np.array_equal(MemoryRows(table, optimizer).pool(batch, 0), naive.pooled(table, bags, width))
        MemoryRows(table, optimizer).apply_pooled(batch, gradients, 0)
        more = () if kind == "sgd" else (optimizer.epsilon,)
        for row, change in zip(rows, sums.astype(np.float64), strict=True):
            assert np.allclose(table[row, :state], rule(start[row].astype(np.float64), change, 0.1, *more), atol=1e-5)
        rest = np.setdiff1d(np.arange(21), rows)
        assert 20 in rest and np.array_equal(table[rest], start[rest])


def test_gradients_in_any_order_of_memory() -> None:
    batch, gradients = batch_of([[1, 2], [2], [3, 1]]), numbers((3, 2 * WIDTH))[:, ::2]
    assert not gradients.flags.c_contiguous
    assert np.array_equal(batch.gradients(gradients), batch.gradients(gradients.copy()))


# Optimizers of rows

RULES: dict[str, Any] = {
    "sgd": lambda row, gradient: np.append(naive.sgd(row[:WIDTH], gradient, 0.1), row[WIDTH:]),
    "adagrad": lambda row, gradient: naive.adagrad(row, gradient, 0.1, 1e-8),
    "adam": lambda row, gradient: naive.adam(row, gradient, 0.1, BETA1, BETA2, 1e-8),
}


@pytest.mark.parametrize("kind", RULES)
def test_steps_of_rows_are_those_of_the_plain_twin(kind: Any) -> None:
    optimizer = RowOptimizer(WIDTH, kind, 0.1)
    table = np.zeros((40, optimizer.num_columns), np.float32)
    table[:, :WIDTH] = numbers((40, WIDTH))
    expected, start = table.astype(np.float64), table.copy()
    rng, stepped = np.random.default_rng(3), set()
    for step in range(25):
        slots = np.sort(rng.choice(30, rng.integers(0, 30), replace=False))
        gradients = numbers((len(slots), WIDTH), step) * np.float32(10.0 ** rng.integers(-3, 3))
        for row, gradient in zip(slots, gradients.astype(np.float64), strict=True):
            expected[row] = RULES[kind](expected[row], gradient)
        stepped.update(slots.tolist())
        optimizer.step(table, slots, gradients)
    assert len(stepped) == 30 and np.array_equal(table[30:], start[30:])
    assert np.allclose(table, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("kind", RULES)
def test_no_number_leaves_its_bounds(kind: Any) -> None:
    optimizer = RowOptimizer(WIDTH, kind, 100.0)
    table = np.zeros((1, optimizer.num_columns), np.float32)
    table[:, :WIDTH] = 9999.0
    for _ in range(3):
        optimizer.step(table, np.array([0]), np.full((1, WIDTH), -1e9, np.float32))
    assert np.array_equal(table[0, :WIDTH], [1e4] * WIDTH) and np.isfinite(table).all()


def torch_steps(kind: str, start: np.ndarray, gradients: list[np.ndarray], **options: Any) -> np.ndarray:
    torch = pytest.importorskip("torch")
    value = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))
    optimizer = getattr(torch.optim, kind)([value], lr=0.1, **options)
    for gradient in gradients:
        value.grad = torch.tensor(gradient, dtype=torch.float64)
        optimizer.step()
    return value.detach().numpy()


def test_sgd_of_rows_is_torchs() -> None:
    table, gradients = numbers((7, WIDTH)), [numbers((7, WIDTH), step) for step in range(9)]
    expected = torch_steps("SGD", table, gradients)
    for gradient in gradients:
        RowOptimizer(WIDTH, "sgd", 0.1).step(table, np.arange(7), gradient)
    assert np.allclose(table, expected, atol=1e-6)


@pytest.mark.parametrize(("kind", "name"), [("adagrad", "Adagrad"), ("adam", "Adam")])
def test_rows_of_one_number_step_as_torchs_numbers_do(kind: Any, name: str) -> None:
    optimizer, gradients = RowOptimizer(1, kind, 0.1), [numbers((7, 1), step) for step in range(9)]
    table = np.zeros((7, optimizer.num_columns), np.float32)
    table[:, :1] = numbers((7, 1), 99)
    expected = torch_steps(name, table[:, :1], gradients, eps=1e-8)
    for gradient in gradients:
        optimizer.step(table, np.arange(7), gradient)
    assert np.allclose(table[:, :1], expected, atol=1e-5)


@pytest.mark.parametrize("num_state", [("sgd", 0), ("adagrad", 1), ("adam", WIDTH + 2)])
def test_state_stands_in_the_row(num_state: tuple[Any, int]) -> None:
    optimizer = RowOptimizer(WIDTH, num_state[0])
    assert optimizer.num_state == num_state[1] and optimizer.num_columns == WIDTH + num_state[1]


def test_options_of_a_row_optimizer_are_checked() -> None:
    with pytest.raises(InputError, match="optimizer must be one of adagrad, adam, sgd, got 'lamb'"):
        RowOptimizer(WIDTH, "lamb")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"learning_rate must be a number in \(0, 100\]"):
        RowOptimizer(WIDTH, "sgd", 0.0)


# Dense parameters


@pytest.mark.parametrize(("kind", "name"), [("sgd", "SGD"), ("adagrad", "Adagrad"), ("adam", "Adam")])
def test_dense_steps_are_torchs(kind: Any, name: str) -> None:
    start, gradients = numbers((50,)), [numbers((50,), step) for step in range(30)]
    options = {} if kind == "sgd" else {"eps": 1e-8}
    expected = torch_steps(name, start, gradients, **options)
    replica = Replica(start, kind, 0.1)
    for gradient in gradients:
        replica.step(gradient)
    assert replica.value is start and replica.count == 30
    assert np.allclose(replica.value, expected, atol=1e-5)


# Rows in the order of servers


@st.composite
def placed_bags(draw: st.DrawFn) -> tuple[list[list[int]], list[bool], list[naive_placing.Shard], int]:
    """Bags of two columns of 12 rows each, which of them are pooled, shards (by row), and how many hosts own them."""
    bags = []
    for p in range(2 * draw(st.integers(0, 6))):
        bags.append(draw(st.lists(st.integers(12 * (p % 2), 12 * (p % 2) + 11), max_size=4)))
    cuts = sorted({0, 12, 24, *draw(st.lists(st.integers(1, 23), max_size=5))})
    hosts = draw(st.integers(1, 3))
    owners = [draw(st.integers(0, hosts - 1)) for _ in cuts[1:]]
    order = sorted(range(len(owners)), key=lambda s: (owners[s], draw(st.integers(0, 99))))
    shift, at = {}, 0
    for s in order:
        shift[s] = at - cuts[s]
        at += cuts[s + 1] - cuts[s]
    shards = [(cuts[s], cuts[s + 1], shift[s], owners[s]) for s in range(len(owners))]
    return bags, draw(st.lists(st.booleans(), min_size=2, max_size=2)), shards, hosts


def columns_of(shards: list[naive_placing.Shard]) -> tuple[np.ndarray, ...]:
    return tuple(np.array(values, np.int64) for values in zip(*shards, strict=True))


@given(placed_bags())
@settings(deadline=None, max_examples=100)
def test_ids_are_placed_and_bags_assigned_as_the_plain_twin_does(
    problem: tuple[list[list[int]], list[bool], list[naive_placing.Shard], int],
) -> None:
    bags, is_pooled, shards, hosts = problem
    batch, (start_S, _, shift_S, owner_S) = batch_of(bags), columns_of(shards)
    placed = np.empty_like(batch.id_M)
    place_ids(batch.id_M, start_S, shift_S, placed)
    assert placed.tolist() == naive_placing.place(batch.id_M.tolist(), shards)
    slots, whose, counts = (np.empty(len(placed), np.int64) for _ in range(3))
    id_end, bag_end = np.zeros(hosts + 1, np.int64), np.zeros(hosts + 1, np.int64)
    assign_bags(
        batch.id_M, batch.start_P1, np.array(is_pooled), start_S, shift_S, owner_S, slots, whose, counts, id_end,
        bag_end,
    )  # fmt: skip
    expected = naive_placing.assigned(bags, is_pooled, shards, hosts)
    for host in range(hosts):
        own = slice(bag_end[host], bag_end[host + 1])
        pieces = np.split(slots[id_end[host] : id_end[host + 1]], np.cumsum(counts[own])[:-1])
        found = [(p, piece.tolist()) for p, piece in zip(whose[own].tolist(), pieces, strict=False)]
        assert found == expected[host] and counts[own].sum() == id_end[host + 1] - id_end[host]


@given(placed_bags())
@settings(deadline=None, max_examples=100)
def test_pulled_rows_are_pooled_and_get_their_gradients_in_placed_order(
    problem: tuple[list[list[int]], list[bool], list[naive_placing.Shard], int],
) -> None:
    """Columns that are not pooled by servers: what their rows give and get is what they give and get unplaced."""
    bags, is_pooled, shards, _ = problem
    batch, table, gradients = batch_of(bags), numbers((24, WIDTH)), numbers((len(bags), WIDTH), 1)
    shards = sorted(shards, key=lambda shard: shard[0] + shard[2])
    first_S, stop_S, shift_S, _ = columns_of(shards)
    low_S = np.searchsorted(batch.row_U, first_S)
    is_pulled_S = ~np.array(is_pooled)[first_S // 12]
    size_S = np.where(is_pulled_S, np.searchsorted(batch.row_U, stop_S) - low_S, 0)
    placed, where = np.empty(size_S.sum(), np.int64), np.zeros(len(batch.row_U), np.int32)
    place_groups(batch.row_U, low_S, size_S, shift_S, placed, where)
    pulled = [row for row in batch.row_U.tolist() if not is_pooled[row // 12]]
    assert placed.tolist() == sorted(naive_placing.place(pulled, shards))
    ids = [row for one in placed.tolist() for row in pulled if naive_placing.place([row], shards) == [one]]
    assert [ids[where[u]] for u, row in enumerate(batch.row_U) if not is_pooled[row // 12]] == pulled

    sums = np.empty((len(bags), WIDTH), np.float32)
    pool_placed(table[ids], where, batch.place_M, batch.start_P1, np.array(is_pooled), sums)
    kept = [[] if is_pooled[p % 2] else bag for p, bag in enumerate(bags)]
    assert np.array_equal(sums, naive.pooled(table, kept, WIDTH))
    found = np.empty((len(ids), WIDTH), np.float32)
    sum_placed(gradients, batch.bag_M, batch.member_M, batch.first_U1, low_S, size_S, found)
    rows, expected = naive.summed(gradients, kept)
    assert np.array_equal(found, expected[[rows.index(row) for row in ids]])


def test_sums_of_servers_are_added_where_their_bags_are() -> None:
    sums, total = numbers((3, WIDTH)), numbers((5, WIDTH), 1)
    expected = naive_placing.add_sums(sums, [4, 0, 4], total)
    add_sums(sums, np.array([4, 0, 4]), total)
    assert np.array_equal(total, expected)

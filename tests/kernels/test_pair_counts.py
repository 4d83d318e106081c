"""Co-occurrence counts equal the plain twin for any cut, budget and buffer, and are what a trainer meets."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any2vec.data.io.direct import Spill
from any2vec.data.options import PairOptions
from any2vec.data.text.pairs.pair_counts import PairBlock, PairCounts
from any2vec.data.text.pairs.sorted_runs import Run, merged
from any2vec.errors import InputError, StorageError
from any2vec.kernels.common.rng import PURPOSE_TOKEN, stream_key
from any2vec.kernels.text import pair_counts as kernel
from any2vec.kernels.text.windows import FAR, gather_windows
from naive.text import pip as naive

# Without the compiler, wrapping uint64 arithmetic makes NumPy warn; it is meant to wrap.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

ALL, HALF = 1 << 32, 1 << 31
TYPES = 7


def counted(blocks: list[PairBlock]) -> tuple[Counter, Counter]:
    """As the twin gives them; pairs that never come in a part are left out."""
    found = (Counter(), Counter())
    for block in blocks:
        assert (block.row_N >= block.start).all() and (block.row_N < block.stop).all()
        for row, other, weights in zip(
            block.row_N.tolist(), block.other_N.tolist(), block.weight_N2.tolist(), strict=True
        ):
            for part in range(2):
                if weights[part]:
                    found[part][row, other] += weights[part]
    return found


@settings(max_examples=150, deadline=None)
@given(
    tokens=st.lists(st.integers(-1, TYPES - 1), min_size=1, max_size=80),
    kept=st.lists(st.booleans(), min_size=TYPES, max_size=TYPES).filter(any),
    thresholds=st.lists(st.sampled_from([0, HALF, ALL]), min_size=TYPES, max_size=TYPES),
    window=st.integers(1, 9),
    offset=st.integers(0, 1 << 40),
    seed=st.integers(0, 1000),
    buffer=st.sampled_from([1, 50, 1000]),
    block=st.sampled_from([1, 3, 1000]),
)
def test_counts_equal_the_twin(tokens, kept, thresholds, window, offset, seed, buffer, block) -> None:
    row_T = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
    rows = int(sum(kept))
    keep_V, key = np.array(thresholds[:rows], np.uint64), stream_key(seed, PURPOSE_TOKEN, 0)
    counts = PairCounts(rows, window, Spill(), buffer_keys=buffer, block_pairs=block)
    counts.add(np.array(tokens, np.int32), row_T, keep_V, key, offset)
    expected = naive.pair_counts(tokens, row_T.tolist(), thresholds, int(key), window, offset)
    blocks = list(counts.blocks())
    assert counted(blocks) == expected
    assert [block.start for block in blocks] == [0, *(block.stop for block in blocks[:-1])]
    assert blocks[-1].stop == rows
    assert all(len(one.row_N) <= block or one.stop - one.start == 1 for one in blocks)
    sums = np.zeros((rows, 2), np.int64)
    for part in range(2):
        for (row, _), weight in expected[part].items():
            sums[row, part] += weight
    np.testing.assert_array_equal(counts.sum_V2, sums)


def stream(size: int, rows: int, seed: int) -> np.ndarray:
    tokens = np.random.default_rng(seed).integers(0, rows, size).astype(np.int32)
    tokens[::37] = -1
    return tokens


def test_the_budget_changes_nothing_but_where_pairs_lie(tmp_path: Path) -> None:
    token_P, rows = stream(6000, 60, 1), 60
    row_T, keep_V = np.arange(rows, dtype=np.int32), np.full(rows, ALL, np.uint64)
    key = stream_key(1, PURPOSE_TOKEN, 0)

    def count(budget: int) -> tuple[list[PairBlock], int]:
        with Spill(budget, tmp_path) as spill:
            counts = PairCounts(rows, 4, spill, buffer_keys=500, block_pairs=700)
            counts.add(token_P, row_T, keep_V, key)
            blocks = [PairBlock(*(np.array(item) for item in block)) for block in counts.blocks()]
            assert len(list(tmp_path.iterdir())) == (spill.num_files > 0)
            return blocks, spill.num_files

    (whole, none), (parts, files) = count(1 << 30), count(20_000)
    assert none == 0 and files > 4
    assert not list(tmp_path.iterdir()), "files were left"
    assert len(whole) > 3 and len(parts) > 3
    for place in range(2, 5):  # rows, other rows, weights
        mine, other = (np.concatenate([block[place] for block in blocks]) for blocks in (whole, parts))
        np.testing.assert_array_equal(mine, other)


def test_a_place_for_files_that_cannot_be_written() -> None:
    with Spill(0, Path("/proc/nowhere")) as spill, pytest.raises(StorageError, match="/proc/nowhere"):
        spill.keep(np.zeros(3))


def test_what_is_too_far_is_no_pair() -> None:
    tokens = np.ones(2 * FAR + 5, np.int32)
    tokens[[0, FAR, 2 * FAR + 1]] = 0
    counts = PairCounts(1, 2, Spill())
    counts.add(tokens, np.array([0, -1], np.int32), np.array([ALL], np.uint64), stream_key(1, PURPOSE_TOKEN, 0))
    assert sum(int(block.weight_N2.sum()) for block in counts.blocks()) == 2 * 2  # one pair, both ways, of weight 2


def test_the_parts_take_turns() -> None:
    size = kernel.PART_POSITIONS
    tokens = np.full(4 * size, -1, np.int32)
    for start in (0, size, 3 * size):  # one pair at the beginning of parts 0, 1 and 1
        tokens[start : start + 2] = (0, 1)
    counts = PairCounts(2, 1, Spill())
    counts.add(tokens, np.arange(2, dtype=np.int32), np.full(2, ALL, np.uint64), stream_key(1, PURPOSE_TOKEN, 0))
    np.testing.assert_array_equal(counts.sum_V2, [[1, 2], [1, 2]])


@pytest.mark.parametrize("window", [1, 4])
def test_a_count_is_the_mean_of_what_a_trainer_meets(window: int) -> None:
    """The trainer draws its windows; over many epochs without subsampling, whose mean count over the expected is 1."""
    token_P, rows, epochs = stream(600, 5, 2), 5, 300
    keep_V = np.full(rows, ALL, np.uint64)
    counts = PairCounts(rows, window, Spill())
    counts.add(token_P, np.arange(rows, dtype=np.int32), keep_V, stream_key(1, PURPOSE_TOKEN, 0))
    expected, met = np.zeros((rows, rows)), np.zeros((rows, rows))
    for block in counts.blocks():
        expected[block.row_N, block.other_N] = block.weight_N2.sum(1) / window
    room = len(token_P) + 2 * window + 2
    row_M, left_M, right_M = (np.empty(room, np.int32) for _ in range(3))
    position_M = np.empty(room, np.int64)
    for epoch in range(epochs):
        first, last, _ = gather_windows(
            token_P, 0, len(token_P), 0, keep_V, stream_key(1, PURPOSE_TOKEN, epoch), window, row_M, left_M, right_M,
            position_M,
        )  # fmt: skip
        for center in range(first, last):
            for context in range(left_M[center], right_M[center]):
                if context != center:
                    met[row_M[context], row_M[center]] += 1
    if window == 1:
        np.testing.assert_array_equal(met, epochs * expected)
    # a cell is a sum of at most 600 * 8 draws of 0 or 1 each epoch: its standard error is below sqrt(expected)
    assert (np.abs(met / epochs - expected) <= 6 * np.sqrt(expected / epochs) + 1e-12).all()


def test_subsampling_keeps_the_tokens_that_training_keeps() -> None:
    token_P, rows, window = stream(800, 5, 3), 5, 1
    keep_V, key = np.full(rows, HALF, np.uint64), stream_key(9, PURPOSE_TOKEN, 4)
    counts = PairCounts(rows, window, Spill())
    counts.add(token_P, np.arange(rows, dtype=np.int32), keep_V, key)
    room = len(token_P) + 4
    row_M, left_M, right_M = (np.empty(room, np.int32) for _ in range(3))
    first, last, _ = gather_windows(
        token_P, 0, len(token_P), 0, keep_V, key, window, row_M, left_M, right_M, np.empty(room, np.int64)
    )
    met = Counter(
        (int(row_M[context]), int(row_M[center]))
        for center in range(first, last)
        for context in range(left_M[center], right_M[center])
        if context != center
    )
    both = counted(list(counts.blocks()))
    assert both[0] + both[1] == met


def test_pairs_of_the_largest_vocabulary_do_not_overflow() -> None:
    rows = kernel.LARGEST_VOCABULARY
    pair = (rows - 1) * rows + rows - 1
    keys = np.array([pair << 8 | 1 << 7 | 100, pair << 8 | 100, 5 << 8 | 1], np.uint64)
    keys.sort()
    pair_N, weight_N2 = np.empty(3, np.uint64), np.empty((3, 2), np.int64)
    assert kernel.sum_sorted(keys, pair_N, weight_N2) == 2
    assert pair_N[:2].tolist() == [5, pair] and weight_N2[:2].tolist() == [[1, 0], [100, 100]]


@given(st.dictionaries(st.integers(0, 30), st.integers(1, 9)), st.dictionaries(st.integers(0, 30), st.integers(1, 9)))
def test_merging_adds(first: dict[int, int], second: dict[int, int]) -> None:
    def run(values: dict[int, int]) -> Run:
        pairs = sorted(values)
        weights = np.array([[values[pair], 2 * values[pair]] for pair in pairs], np.int64).reshape(-1, 2)
        return Run(np.array(pairs, np.uint64), weights)

    both = merged(run(first), run(second))
    expected = Counter(first) + Counter(second)
    assert both.pair_N.tolist() == sorted(expected)
    assert both.weight_NC.tolist() == [[expected[pair], 2 * expected[pair]] for pair in sorted(expected)]


@pytest.mark.parametrize("wrong", [{"window": 101}, {"subsample": 2}, {"passes": 0}, {"max_vocab": 1}, {"seed": -1}])
def test_options_that_are_not_legal(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        PairOptions(**wrong)

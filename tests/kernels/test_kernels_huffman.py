"""Codes are Huffman codes: optimal, prefix-free, shallow, the same every time."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from any2vec.kernels.text.huffman import huffman_codes
from naive.skipgram.hierarchical import huffman_lengths


@settings(deadline=None)
@given(counts=st.lists(st.integers(0, 30) | st.integers(0, 1 << 40), min_size=2, max_size=40))
def test_codes_are_optimal_and_shallow(counts: list[int]) -> None:
    code_offset, points, bits = huffman_codes(np.array(counts))
    lengths = np.diff(code_offset)
    total, _ = huffman_lengths(counts)
    assert sum(count * int(length) for count, length in zip(counts, lengths, strict=True)) == total
    codes = ["".join(map(str, bits[a:b])) for a, b in itertools.pairwise(code_offset)]
    assert sum(0.5 ** len(code) for code in codes) == 1.0  # Kraft's equality: the code is full
    in_order = sorted(codes)
    assert not any(b.startswith(a) for a, b in itertools.pairwise(in_order))
    assert points.dtype == np.int32 and bits.dtype == np.uint8 and code_offset.dtype == np.int64
    assert points.min() >= 0 and points.max() == len(counts) - 2
    assert (points[code_offset[:-1]] == len(counts) - 2).all(), "every path begins at the root"


@settings(deadline=None)
@given(counts=st.lists(st.integers(0, 5), min_size=2, max_size=30))
def test_a_point_stands_for_one_prefix(counts: list[int]) -> None:
    code_offset, points, bits = huffman_codes(np.array(counts))
    prefix_of: dict[int, str] = {}
    for begin, end in itertools.pairwise(code_offset):
        code = "".join(map(str, bits[begin:end]))
        for i, point in enumerate(points[begin:end]):
            assert prefix_of.setdefault(int(point), code[:i]) == code[:i]
    assert len(prefix_of) == len(set(prefix_of.values())) == len(counts) - 1


def test_equal_counts_give_a_balanced_tree_and_zeros_do_not_make_it_deep() -> None:
    assert set(np.diff(huffman_codes(np.full(64, 7))[0])) == {6}
    assert np.diff(huffman_codes(np.zeros(1024, np.int64))[0]).max() == 10


def test_the_worst_case_is_deep_and_right() -> None:
    counts = [1, 1]
    while len(counts) < 60:
        counts.append(counts[-1] + counts[-2])
    assert np.diff(huffman_codes(np.array(counts))[0]).max() == 59


def test_ties_are_settled_the_same_way_every_time() -> None:
    counts = np.array([3, 3, 2, 2, 2, 1, 1, 1, 1])
    first, second = huffman_codes(counts), huffman_codes(counts.copy())
    assert all((a == b).all() for a, b in zip(first, second, strict=True))
    assert (np.diff(np.diff(first[0])) >= 0).all(), "of two equal counts the earlier row has no longer code"


def test_one_row_has_an_empty_code() -> None:
    code_offset, points, bits = huffman_codes(np.array([9]))
    assert code_offset.tolist() == [0, 0] and points.size == bits.size == 0

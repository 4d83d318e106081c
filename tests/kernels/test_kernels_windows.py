"""Windows equal the plain twin for any cut of the stream; keep rates and window widths have their distributions."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from any2vec.kernels.common.rng import PURPOSE_TOKEN, stream_key
from any2vec.kernels.text.windows import FAR, gather_windows
from marks import uint64_wraps
from naive.common import windows as naive

pytestmark = uint64_wraps

HALF, ALL = 1 << 31, 1 << 32

streams = st.lists(st.integers(-1, 6), min_size=1, max_size=60)
keeps = st.lists(st.sampled_from([0, HALF, ALL]), min_size=1, max_size=6)


def gathered(
    tokens: np.ndarray, start: int, stop: int, offset: int, keep: np.ndarray, key: np.uint64, window: int
) -> tuple[list[tuple], int]:
    size = stop - start + 2 * window + 1
    row_M, left_M, right_M = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32)
    position_M = np.empty(size, np.int64)
    first, last, items = gather_windows(
        tokens, start, stop, offset, keep, key, window, row_M, left_M, right_M, position_M
    )
    found = []
    for j in range(first, last):
        contexts = [(i - j, int(row_M[i])) for i in range(left_M[j], right_M[j]) if i != j]
        found.append((int(position_M[j]), int(row_M[j]), contexts))
    return found, int(items)


@settings(max_examples=150, deadline=None)
@given(
    tokens=streams,
    keep=keeps,
    cuts=st.lists(st.integers(0, 60), max_size=8),
    offset=st.integers(0, 1 << 40),
    seed=st.integers(0, 1000),
    window=st.integers(1, 8),
)
def test_any_cut_gives_the_same_windows(tokens, keep, cuts, offset, seed, window) -> None:
    token_P, keep_V = np.array(tokens, np.int32), np.array(keep, np.uint64)
    key = stream_key(seed, PURPOSE_TOKEN, 0)
    expected, items = naive.centers(tokens, 0, len(tokens), offset, keep, int(key), window)
    edges = [0, *sorted(cut for cut in cuts if cut < len(tokens)), len(tokens)]
    found, counted = [], 0
    for start, stop in itertools.pairwise(edges):
        piece, more = gathered(token_P, start, stop, offset, keep_V, key, window)
        found += piece
        counted += more
    assert found == [(center.position, center.row, center.contexts) for center in expected]
    assert counted == items == sum(0 <= token < len(keep) for token in tokens)


@settings(max_examples=60, deadline=None)
@given(tokens=streams, keep=keeps, seed=st.integers(0, 1000), window=st.integers(1, 8), data=st.data())
def test_a_shard_cut_at_a_sentence_end_sees_the_same(tokens, keep, seed, window, data) -> None:
    """Another array that begins after a sentence end, with its own offset: the same windows."""
    ends = [place + 1 for place, token in enumerate(tokens) if token < 0 and place + 1 < len(tokens)]
    cut = data.draw(st.sampled_from(ends)) if ends else 0
    token_P, keep_V, key = np.array(tokens, np.int32), np.array(keep, np.uint64), stream_key(seed, PURPOSE_TOKEN, 3)
    whole, _ = gathered(token_P, cut, len(tokens), 0, keep_V, key, window)
    shard, _ = gathered(token_P[cut:].copy(), 0, len(tokens) - cut, cut, keep_V, key, window)
    assert shard == whole


def test_keep_rate_and_window_width_have_their_distributions() -> None:
    size, window = 200_000, 5
    rates = np.array([1.0, 0.5, 0.1, 0.01, 0.0])
    token_P = np.tile(np.arange(5, dtype=np.int32), size // 5)
    keep_V = (rates * ALL).astype(np.uint64)
    room = size + 2 * window + 1
    row_M, left_M, right_M = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int32)
    position_M = np.empty(room, np.int64)
    first, last, items = gather_windows(
        token_P, 0, size, 0, keep_V, stream_key(1, PURPOSE_TOKEN, 0), window, row_M, left_M, right_M, position_M
    )
    assert items == size
    each = size / 5
    kept_V = np.bincount(row_M[first:last], minlength=5)
    assert (np.abs(kept_V - each * rates) <= 5 * np.sqrt(each * rates * (1 - rates))).all()
    inner = slice(first + window, last - window)
    reach = np.arange(first, last)[window:-window] - left_M[inner]
    assert (right_M[inner] - np.arange(first, last)[window:-window] - 1 == reach).all()
    width_W = np.bincount(reach, minlength=window + 1)[1:]
    expected = reach.size / window
    assert (np.abs(width_W - expected) <= 5 * np.sqrt(expected)).all()


def test_epochs_draw_anew() -> None:
    token_P, keep_V = np.zeros(200, np.int32), np.array([HALF], np.uint64)
    kept = [
        [position for position, _, _ in gathered(token_P, 0, 200, 0, keep_V, stream_key(1, PURPOSE_TOKEN, epoch), 2)[0]]
        for epoch in range(2)
    ]
    assert kept[0] != kept[1]


def test_what_is_too_far_is_no_context_wherever_the_stream_is_cut() -> None:
    # rows 0 are kept, rows 1 never: kept ones lie at 0, FAR and 2 FAR + 1, so the first two alone see each other
    token_P = np.ones(2 * FAR + 5, np.int32)
    token_P[[0, FAR, 2 * FAR + 1]] = 0
    keep_V, key = np.array([ALL, 0], np.uint64), stream_key(3, PURPOSE_TOKEN, 0)
    seen = {0: [(1, 0)], FAR: [(-1, 0)], 2 * FAR + 1: []}
    for edges in ([0, len(token_P)], [0, 7, FAR, 2 * FAR, len(token_P)]):
        found = []
        for start, stop in itertools.pairwise(edges):
            found += gathered(token_P, start, stop, 0, keep_V, key, 2)[0]
        assert {position: contexts for position, _, contexts in found} == seen
    expected, _ = naive.centers(token_P, 0, len(token_P), 0, keep_V, int(key), 2)
    assert {center.position: center.contexts for center in expected} == seen

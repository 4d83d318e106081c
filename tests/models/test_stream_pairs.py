"""Pairs of a stream equal the plain twin while they fit, keep the sketch's bound beyond, and make PIP's target."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any2vec.data.io.direct import Spill
from any2vec.data.stream.pairs import BLOCK, FIXED, SKETCH_ROWS, StreamPairs
from any2vec.data.stream.vocabulary import StreamVocabulary
from any2vec.data.text.text import encode_text
from any2vec.errors import DataError, FormatError, InputError
from any2vec.evaluate.words.target import count_pairs, pairs_of_stream
from any2vec.evaluate.words.target_options import TargetOptions
from any2vec.kernels.common.rng import PURPOSE_TOKEN, stream_key
from naive.text import stream_pairs as naive

# Without the compiler, wrapping uint64 arithmetic makes NumPy warn; it is meant to wrap.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

ALL, HALF = 1 << 32, 1 << 31
LEAST = 1 << 12
ROWS = 6
KEY = stream_key(3, PURPOSE_TOKEN, 0)


def add(pairs: StreamPairs, tokens: np.ndarray, offset: int = 0, keep: int = ALL) -> None:
    rows = pairs.max_rows
    pairs.add(tokens, np.full(rows, keep, np.uint64), KEY, offset, np.arange(rows))


def table(pairs: StreamPairs) -> np.ndarray:
    """All weights (V, V)."""
    row_N, other_N = (index.ravel() for index in np.indices((pairs.max_rows, pairs.max_rows)))
    return pairs.weights(row_N, other_N).reshape(pairs.max_rows, -1)


def sentences(random: np.random.Generator, size: int, rows: int) -> np.ndarray:
    """Zipf's law over the rows, sentences of 1 to 12 words; the last row + 1 is a word without a row."""
    tokens = np.minimum(random.zipf(1.3, size), rows + 1).astype(np.int32) - 1
    tokens[np.cumsum(random.integers(2, 13, size))[: size // 8].clip(max=size - 1)] = -1
    tokens[-1] = -1
    return tokens


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1 << 30), size=st.integers(1, 300), window=st.integers(1, 9),
    keep=st.sampled_from([ALL, HALF]), offset=st.integers(0, 1 << 40),
)  # fmt: skip
def test_exact_weights_equal_the_twin_for_any_cut(seed: int, size: int, window: int, keep: int, offset: int) -> None:
    tokens = sentences(np.random.default_rng(seed), size, ROWS)
    expected = np.zeros((ROWS, ROWS))
    for pair, weight in naive.weights(tokens.tolist(), [keep] * ROWS, int(KEY), window, offset, None).items():
        expected[pair] = weight
    whole, cut = (StreamPairs(max_rows=ROWS, budget_bytes=1 << 13, window=window) for _ in range(2))
    add(whole, tokens, offset, keep)
    start = 0
    for stop in np.flatnonzero(tokens < 0) + 1:
        add(cut, tokens[start:stop], offset + start, keep)
        start = stop
    for pairs in (whole, cut):
        assert pairs.is_exact and pairs.error == 0
        np.testing.assert_array_equal(table(pairs), expected)
        np.testing.assert_array_equal(pairs.sum_V, expected.sum(1))


@pytest.mark.parametrize("half_life", [BLOCK // 300, 1000, 30_000])
def test_weights_fade(half_life: int) -> None:
    """Also when the unit has grown so far that all is divided by it; and whatever the positions of training are."""
    tokens, offset = sentences(np.random.default_rng(1), 3 * BLOCK, ROWS), 10**9 + 7
    pairs = StreamPairs(max_rows=ROWS, budget_bytes=1 << 13, window=3, half_life=half_life)
    cut = int(np.flatnonzero(tokens < 0)[500]) + 1
    add(pairs, tokens[:cut], offset)
    add(pairs, tokens[cut:], offset + 100_000)
    expected = np.zeros((ROWS, ROWS))
    for pair, weight in naive.weights(tokens.tolist(), [ALL] * ROWS, int(KEY), 3, offset, half_life).items():
        expected[pair] = weight
    np.testing.assert_allclose(table(pairs), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(pairs.sum_V, expected.sum(1), rtol=1e-12)


def crowded(seed: int, rows: int = 400) -> tuple[StreamPairs, np.ndarray]:
    """(pairs of which most went into the sketch, all right weights)."""
    pairs = StreamPairs(max_rows=rows, budget_bytes=1 << 14, window=3, seed=seed)
    exact = StreamPairs(max_rows=rows, budget_bytes=1 << 24, window=3)
    tokens = sentences(np.random.default_rng(seed), 40_000, rows)
    for one in (pairs, exact):
        add(one, tokens)
    assert exact.is_exact and not pairs.is_exact
    return pairs, table(exact)


def test_sketched_weights_are_never_too_low_and_seldom_far_too_high() -> None:
    """Cormode and Muthukrishnan 2005, theorem 1: beyond e/H of the sketched weight with chance exp(-R) at most."""
    far = asked = frequent = 0
    for seed in range(4):
        pairs, right = crowded(seed)
        found = table(pairs)
        assert (found >= right - 1e-9).all()
        np.testing.assert_allclose(pairs.sum_V, right.sum(1))
        assert pairs.error == pytest.approx(math.e / pairs.cells * right.sum() / 2)  # a pair has two directions
        assert (found > right).any()
        far += int((found > right + pairs.error).sum())
        asked += right.size
        # the heaviest quarter of what the table holds came early and never left: exact
        heavy = np.argsort(right.ravel())[-pairs.most // 16 :]
        frequent += int((found.ravel()[heavy] == right.ravel()[heavy]).sum() == len(heavy))
    chance = math.exp(-SKETCH_ROWS)
    assert far <= asked * chance + 6 * math.sqrt(asked * chance)
    assert frequent == 4


def test_a_row_with_another_word_begins_with_no_pairs() -> None:
    tokens, keep_V = np.array([0, 1, 2, -1], np.int32), np.full(3, ALL, np.uint64)
    pairs = StreamPairs(max_rows=3, budget_bytes=1 << 12, window=2)
    pairs.add(tokens, keep_V, KEY, 0, np.array([0, 1, 2]))
    np.testing.assert_array_equal(table(pairs), [[0, 2, 1], [2, 0, 2], [1, 2, 0]])
    pairs.add(np.array([1, 2, -1], np.int32), keep_V, KEY, 4, np.array([0, 3, 2]))
    np.testing.assert_array_equal(table(pairs), [[0, 0, 1], [0, 0, 2], [1, 2, 0]])
    np.testing.assert_array_equal(pairs.sum_V, [3, 2, 5])


def test_rows_beyond_the_thresholds_vanish() -> None:
    pairs = StreamPairs(max_rows=3, budget_bytes=LEAST, window=1)
    pairs.add(np.array([0, 2, 1, 3, 0, -1], np.int32), np.full(2, ALL, np.uint64), KEY, 0, np.arange(3))
    np.testing.assert_array_equal(table(pairs), [[0, 2, 0], [2, 0, 0], [0, 0, 0]])


def test_pairs_of_dead_words_make_room_first() -> None:
    """So counting stays exact while the words that live have few enough pairs."""
    rows = 20
    pairs = StreamPairs(max_rows=rows, budget_bytes=LEAST, window=1)
    keep_V, offset = np.full(rows, ALL, np.uint64), 0
    for generation in range(40):
        for first in range(0, rows, 2):
            tokens = np.array([first, first + 1, -1], np.int32)
            pairs.add(tokens, keep_V, KEY, offset, np.arange(rows) + rows * generation)
            offset += 3
    assert 40 * rows // 2 > pairs.most and pairs.is_exact
    assert table(pairs).sum() == rows


@pytest.mark.parametrize("half_life", [None, 5000])
def test_recalled_pairs_go_on_alike(half_life: int | None) -> None:
    random, rows = np.random.default_rng(0), 300
    first, second = sentences(random, 20_000, rows), sentences(random, 20_000, rows)
    one, other = (StreamPairs(max_rows=rows, budget_bytes=LEAST, half_life=half_life) for _ in range(2))
    add(one, first)
    other.load_state_dict(one.state_dict())
    for pairs in (one, other):
        add(pairs, second, len(first))
    assert not one.is_exact
    np.testing.assert_array_equal(table(one), table(other))
    np.testing.assert_array_equal(one.sum_V, other.sum_V)
    assert (one.error, one.num_pairs) == (other.error, other.num_pairs)
    with pytest.raises(FormatError, match="start again with --overwrite"):
        other.load_state_dict(one.state_dict() | {"base": np.zeros(1, np.int64)})
    with pytest.raises(FormatError, match="same settings"):
        StreamPairs(max_rows=rows, budget_bytes=2 * LEAST, half_life=half_life).load_state_dict(one.state_dict())


def test_the_target_of_a_stream_is_that_of_its_text(tmp_path: Path) -> None:
    """Without decay and with room for all, SPPMI is what `evaluate` counts of the same text in a file."""
    random = np.random.default_rng(4)
    lines = [" ".join(f"w{word}" for word in np.minimum(random.zipf(1.3, 9), 30)) for _ in range(400)]
    text = "\n".join([*lines, ""]).encode()
    (tmp_path / "text.txt").write_bytes(text)
    options = TargetOptions(window=3, subsample=0, min_count=1, num_negatives=2)
    corpus = encode_text(tmp_path / "text.txt", cache_dir=tmp_path / "cache")
    vocabulary = StreamVocabulary(max_types=100, max_rows=50, min_count=1)
    text_B = np.frombuffer(text, np.uint8)
    tokens = vocabulary.encode(text_B, np.flatnonzero(text_B == 10) + 1)
    pairs = StreamPairs(max_rows=50, budget_bytes=1 << 20, window=3)
    pairs.add(tokens, np.full(50, ALL, np.uint64), KEY, 0, vocabulary.birth_V)
    with Spill() as spill:
        expected = count_pairs(corpus, lambda key: True, options, spill)
        found = pairs_of_stream(pairs, vocabulary, options, spill)
        assert sorted(found.keys) == sorted(expected.keys)
        place = [found.keys.index(key) for key in expected.keys]
        np.testing.assert_array_equal(found.count_V[place], expected.count_V * FIXED)
        target = found.sppmi() @ np.eye(len(place))
        assert (target > 0).any()
        np.testing.assert_allclose(target[np.ix_(place, place)], expected.sppmi() @ np.eye(len(place)), atol=1e-12)
        few = pairs_of_stream(pairs, vocabulary, TargetOptions(window=3, min_count=1, max_vocab=5), spill)
        assert sorted(few.keys) == sorted(expected.keys[:5])
        with pytest.raises(InputError, match="window 3"):
            pairs_of_stream(pairs, vocabulary, TargetOptions(window=4), spill)
        with pytest.raises(DataError, match="at least 2"):
            pairs_of_stream(pairs, vocabulary, TargetOptions(window=3, min_count=10**6), spill)


@pytest.mark.parametrize(
    "wrong", [{"max_rows": 0}, {"budget_bytes": 100}, {"window": 128}, {"half_life": 0}, {"seed": -1}]
)
def test_options_that_are_not_legal(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        StreamPairs(**{"max_rows": 5, "budget_bytes": 1 << 20, **wrong})

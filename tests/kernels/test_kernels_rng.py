"""Draws are bit-equal to the plain twin, uniform, and separate between streams."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from any2vec.kernels.common import rng
from any2vec.kernels.common.alias import build_alias, draw_alias
from any2vec.kernels.common.jit import jit
from any2vec.kernels.rows.rows import fill_uniform
from marks import uint64_wraps
from naive.common import rng as naive

pytestmark = uint64_wraps

words = st.integers(0, naive.MASK)


@jit
def draw_many(key, count, out_N):
    for i in range(count):
        out_N[i] = rng.draw(key, np.uint64(i))


@jit
def draw_outcomes(key, threshold, alias, out_N):
    for i in range(out_N.size):
        out_N[i] = draw_alias(rng.draw(key, np.uint64(i)), threshold, alias)


@settings(deadline=None)
@given(key=words, counter=words, n=st.integers(1, 1 << 31))
def test_draws_equal_the_twin(key: int, counter: int, n: int) -> None:
    bits = naive.draw(key, counter)
    assert int(rng.draw(np.uint64(key), np.uint64(counter))) == bits
    assert int(rng.mix64(np.uint64(key))) == naive.mix64(key)
    assert int(rng.below(np.uint64(bits >> 32), n)) == naive.below(bits >> 32, n) < n
    assert rng.unit(np.uint64(bits)) == naive.unit(bits) < 1.0


def test_a_stream_is_splitmix64() -> None:
    # First outputs of SplitMix64 from state 1234567, as every implementation of it gives them.
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert naive.splitmix(1234567, 4) == published
    assert [int(rng.draw(np.uint64(1234567), np.uint64(i))) for i in range(4)] == published


def test_streams_differ_by_seed_purpose_and_epoch() -> None:
    keys = {
        int(rng.stream_key(seed, purpose, epoch)) for seed in range(8) for purpose in range(8) for epoch in range(8)
    }
    assert len(keys) == 512
    assert rng.stream_key(3, 1, 2).dtype == np.uint64
    bits_N = np.empty(4096, np.uint64)
    draw_many(rng.stream_key(1, 1, 0), bits_N.size, bits_N)
    other_N = np.empty_like(bits_N)
    draw_many(rng.stream_key(1, 1, 1), other_N.size, other_N)
    same = np.bitwise_count(~(bits_N ^ other_N)).sum() / (64 * bits_N.size)
    assert abs(same - 0.5) < 5 * 0.5 / np.sqrt(64 * bits_N.size)


def test_every_bit_is_fair() -> None:
    bits_N = np.empty(20_000, np.uint64)
    draw_many(rng.stream_key(5, 2, 0), bits_N.size, bits_N)
    for bit in range(64):
        ones = int(((bits_N >> np.uint64(bit)) & np.uint64(1)).sum())
        assert abs(ones - bits_N.size / 2) < 5 * np.sqrt(bits_N.size / 4)


@settings(deadline=None)
@given(bits=words, weights=st.lists(st.floats(0.0, 10.0), min_size=1, max_size=12).filter(lambda w: sum(w) > 0.01))
def test_alias_draw_equals_the_twin(bits: int, weights: list[float]) -> None:
    threshold, alias = build_alias(np.array(weights))
    row = int(draw_alias(np.uint64(bits), threshold, alias))
    assert row == naive.draw_alias(bits, threshold, alias)
    assert 0 <= row < len(weights)


def test_negatives_follow_their_weights() -> None:
    weight_V = np.array([50.0, 20.0, 10.0, 5.0, 1.0, 0.0, 14.0]) ** 0.75
    out_N = np.empty(200_000, np.int64)
    draw_outcomes(rng.stream_key(7, 2, 0), *build_alias(weight_V), out_N)
    share_V = weight_V / weight_V.sum()
    drawn_V = np.bincount(out_N, minlength=weight_V.size)
    slack_V = 5 * np.sqrt(out_N.size * share_V * (1 - share_V))
    assert (np.abs(drawn_V - out_N.size * share_V) <= slack_V).all()


def test_start_values_equal_the_twin_for_any_split() -> None:
    key, dim = rng.stream_key(3, rng.PURPOSE_INIT, 0), 7
    whole_VD, split_VD = np.empty((20, dim), np.float32), np.empty((20, dim), np.float32)
    fill_uniform(whole_VD, np.arange(20), key, 0.5)
    for ids in (np.arange(1, 20, 2), np.arange(18, -1, -2)):
        rows_KD = np.empty((len(ids), dim), np.float32)
        fill_uniform(rows_KD, ids, key, 0.5)
        split_VD[ids] = rows_KD
    assert (whole_VD == split_VD).all()
    expected = [np.float32((naive.unit(naive.draw(int(key), i)) - 0.5) / dim) for i in range(20 * dim)]
    assert whole_VD.ravel().tolist() == [float(value) for value in expected]

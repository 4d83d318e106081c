"""The replay buffer equals its plain twin, draws as its priorities say, and weighs that back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from any2vec.data.stream.vocabulary import StreamVocabulary
from any2vec.errors import FormatError, InputError
from any2vec.kernels.common.rng import PURPOSE_REPLAY, stream_key
from any2vec.sampling.replay import LEAST_LOSS, ReplayBuffer
from naive.common import replay as naive

# Without the compiler, wrapping uint64 arithmetic makes NumPy warn; it is meant to wrap.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

ROWS = 9
steps = st.lists(
    st.one_of(
        st.lists(st.integers(-1, ROWS), max_size=40).map(lambda tokens: ("put", tokens)),
        st.tuples(st.just("draw"), st.integers(0, 7)),
        st.tuples(st.just("learn"), st.floats(0, 10)),
        st.tuples(st.just("birth"), st.integers(0, ROWS - 1)),
    ),
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(
    steps=steps, max_tokens=st.integers(8, 60), alpha=st.sampled_from([0, 0.6, 1]), beta=st.sampled_from([0, 0.4, 1])
)
def test_everything_equals_the_twin(steps: list[Any], max_tokens: int, alpha: float, beta: float) -> None:
    options: dict[str, Any] = {"max_tokens": max_tokens, "alpha": alpha, "beta": beta, "seed": 5}
    buffer = ReplayBuffer(**options)
    twin = naive.ReplayBuffer(max_tokens, alpha, beta, int(stream_key(5, PURPOSE_REPLAY)))
    birth_V, births, numbers = np.arange(ROWS), ROWS, np.empty(0, np.int64)
    for what, value in steps:
        if what == "put":
            buffer.put(np.array([*value, -1], np.int32), births)
            twin.put([*value, -1], births)
        elif what == "draw":
            found, expected = buffer.draw(value, birth_V), twin.draw(value, birth_V.tolist())
            assert (found.tokens.tolist(), found.number_N.tolist()) == expected[:2]
            np.testing.assert_allclose(found.weight_N, expected[2], rtol=1e-9)
            numbers = np.concatenate([numbers, found.number_N])
        elif what == "learn":
            numbers = np.unique(numbers)
            losses = value * np.arange(1, len(numbers) + 1)
            buffer.learn(numbers, losses)
            twin.learn(numbers.tolist(), losses.tolist())
        else:
            birth_V[value] = births
            births += 1
        assert len(buffer) == len(twin.kept)
        again = ReplayBuffer(**options)  # and it may stop and go on anywhere
        again.load_state_dict(buffer.state_dict())
        buffer = again


def filled(alpha: float, beta: float = 1.0) -> tuple[ReplayBuffer, np.ndarray]:
    """(buffer of sentences [n, n] with known losses, their priorities)."""
    buffer = ReplayBuffer(max_tokens=400, alpha=alpha, beta=beta, seed=2)
    buffer.put(np.array([[n, n, -1] for n in range(30)], np.int32).ravel(), 10**6)
    loss_N = np.linspace(0, 3, 30)
    buffer.learn(np.arange(30), loss_N)
    return buffer, (loss_N + LEAST_LOSS) ** alpha


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_draws_are_in_proportion_to_priorities(alpha: float) -> None:
    """Chi-square; one draw at a time, as those of one call are more even than chance."""
    buffer, priority = filled(alpha)
    drawn = [int(buffer.draw(1, np.zeros(30, np.int64)).tokens[0]) for _ in range(4000)]
    expected = priority / priority.sum() * len(drawn)
    few = expected < 5  # put together
    found = np.bincount(drawn, minlength=30)
    groups = [(found[~few], expected[~few]), ([found[few].sum()], [expected[few].sum()])][: 1 + few.any()]
    found, expected = (np.concatenate([group[part] for group in groups]) for part in range(2))
    assert chisquare(found, expected).pvalue > 1e-3


def test_a_draw_of_many_is_even() -> None:
    """Strata: of N draws a sentence of share s gets N s, to less than 2."""
    buffer, priority = filled(1.0)
    drawn = buffer.draw(200, np.zeros(30, np.int64)).tokens[::3]
    assert (np.abs(np.bincount(drawn, minlength=30) - 200 * priority / priority.sum()) < 2).all()


def test_weights_undo_the_priorities() -> None:
    """With beta 1, chance times weight is the same for all: the expected step is that of uniform draws."""
    for alpha in (0.0, 0.7):
        buffer, priority = filled(alpha)
        found = buffer.draw(500, np.zeros(30, np.int64))
        products = priority[found.number_N] * found.weight_N
        np.testing.assert_allclose(products, products[0])
        assert found.weight_N.max() == 1 and (found.weight_N > 0).all()
    buffer, _ = filled(0.7, beta=0.0)
    assert (buffer.draw(50, np.zeros(30, np.int64)).weight_N == 1).all()


def test_a_freed_row_is_not_trained_as_another_word() -> None:
    """End to end: what the buffer gives are the words that were put, or words without a row."""
    vocabulary = StreamVocabulary(max_types=60, max_rows=6, min_count=1, half_life=80, rest=60)
    buffer, random = ReplayBuffer(max_tokens=600), np.random.default_rng(1)
    said: list[list[str]] = []
    lost = kept = freed = 0
    for line in range(400):
        words = [f"w{word}_{line // 15}" for word in random.zipf(1.5, 5).clip(max=20)]
        text_B = np.frombuffer(" ".join(words).encode() + b"\n", np.uint8)
        buffer.put(vocabulary.encode(text_B, np.array([len(text_B)])), vocabulary.births)
        said.append(words)
        found = buffer.draw(4, vocabulary.birth_V)
        in_use = vocabulary.rows()
        key_of = dict(zip(in_use.tolist(), vocabulary.keys(in_use), strict=True))
        tokens = vocabulary.without_freed(found.tokens)
        freed += int(np.count_nonzero(tokens != found.tokens))
        sentences = np.split(tokens, np.flatnonzero(tokens < 0)[:-1] + 1)
        for number, sentence in zip(found.number_N.tolist(), sentences, strict=True):
            for word, row in zip(said[number], sentence[:-1].tolist(), strict=True):
                lost += row == 6
                kept += row in key_of
                assert row == 6 or key_of.get(row) == word
    assert lost > 50 and freed > 50 and kept > 50 and vocabulary.births > 30


def test_options_that_are_not_legal() -> None:
    for wrong in ({"max_tokens": 7}, {"alpha": 1.1}, {"beta": -1}, {"seed": -1}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            ReplayBuffer(**{"max_tokens": 100, **wrong})  # type: ignore[arg-type]
    with pytest.raises(FormatError, match="same settings"):
        ReplayBuffer(max_tokens=100).load_state_dict(ReplayBuffer(max_tokens=101).state_dict())


def test_an_empty_buffer_gives_nothing() -> None:
    found = ReplayBuffer(max_tokens=100).draw(3, np.zeros(1, np.int64))
    assert [len(array) for array in found] == [0, 0, 0]

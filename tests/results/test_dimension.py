"""The choice of a dimension on planted matrices whose right one is known, and on planted text."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from any2vec.errors import DataError, InputError
from any2vec.evaluate import DimensionOptions, choose_dimension
from any2vec.evaluate.words.dimension import (
    expected_curve,
    leading_spectrum,
    noise_of_halves,
    thresholded_signal,
    unbiased_signal,
)
from any2vec.evaluate.words.target import RowBlocks

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
SIZE = 300


def planted(strength: np.ndarray, cell: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(M, M + Z): M of random directions with these eigenvalues, Z symmetric with standard deviation `cell`."""
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.standard_normal((SIZE, len(strength))))
    noise = cell * rng.standard_normal((SIZE, SIZE))
    signal = (basis * strength) @ basis.T
    return signal, signal + (noise + noise.T) / np.sqrt(2)


def losses(signal: np.ndarray, noisy: np.ndarray, alpha: float, most: int) -> np.ndarray:
    """The PIP loss of 0 .. most dimensions with V x V arrays, as Yin and Shen simulate it."""

    def factors(matrix: np.ndarray) -> np.ndarray:
        left, singular, _ = np.linalg.svd(matrix)
        return left * singular**alpha

    true, counted = factors(signal), factors(noisy)
    target = true @ true.T
    return np.array([np.linalg.norm(counted[:, :k] @ counted[:, :k].T - target) for k in range(most + 1)])


@pytest.mark.parametrize("alpha", [0.5, 0.25, 1.0])
def test_the_curve_is_the_loss_of_planted_matrices(alpha: float) -> None:
    strength = np.geomspace(60, 2, 24)
    cell, most = 0.3, 34
    scale = cell * SIZE**0.5
    runs = [planted(strength, cell, seed) for seed in range(2)]
    simulated = np.mean([losses(*run, alpha, most) for run in runs], axis=0)
    spectrum = np.mean([np.linalg.svd(noisy, compute_uv=False)[:most] for _, noisy in runs], axis=0)
    known = np.concatenate([strength, np.zeros(most - len(strength))])
    curve = expected_curve(spectrum, scale, alpha, lambda spectrum, noise: known)
    # in a matrix of finite size, the directions of factors that are lost in the noise still lean to the true ones
    np.testing.assert_allclose(curve.relative_R1, simulated / simulated[0], atol=0.06)
    assert abs(curve.dim - int(np.argmin(simulated))) <= 2
    guessed = expected_curve(spectrum, scale, alpha, unbiased_signal)
    assert abs(guessed.dim - int(np.argmin(simulated))) <= 2


@pytest.mark.parametrize("rank", [1, 7, 30])
@pytest.mark.parametrize("signal", [thresholded_signal, unbiased_signal])
def test_the_rank_is_found_where_signal_and_noise_are_apart(rank: int, signal) -> None:
    cell = 0.05
    clean, noisy = planted(np.geomspace(40, 10, rank), cell, rank)
    spectrum = np.linalg.svd(noisy, compute_uv=False)[:60]
    assert expected_curve(spectrum, cell * SIZE**0.5, signal=signal).dim == rank
    assert int(np.argmin(losses(clean, noisy, 0.5, rank + 5))) == rank


def test_weak_factors_are_left_out() -> None:
    """With b = s sqrt(V), factors count above sqrt(3) b, though they show from b on: here 5 of 10."""
    cell = 0.1
    scale = cell * SIZE**0.5
    clean, noisy = planted(scale * np.array([9, 8, 7, 6, 5, 1.4, 1.3, 1.2, 1.1, 1.0]), cell, 1)
    spectrum = np.linalg.svd(noisy, compute_uv=False)[:30]
    assert expected_curve(spectrum, scale, signal=unbiased_signal).dim == 5
    assert int(np.argmin(losses(clean, noisy, 0.5, 12))) == 5


def test_the_threshold_is_that_of_gavish_and_donoho() -> None:
    for factor, dim in ((1.0001, 1), (0.9999, 0)):
        assert expected_curve(np.array([factor * 4 / 3**0.5]), 1.0, signal=unbiased_signal).dim == dim
    for factor, dim in ((1.0001, 1), (0.9999, 0)):  # l = y - 2 > sqrt(3)
        assert expected_curve(np.array([factor * (2 + 3**0.5)]), 1.0).dim == dim


def test_signal_behind_the_noise() -> None:
    strength = np.array([5.0, 2.0, 1.1])
    np.testing.assert_allclose(unbiased_signal(strength + 1 / strength, 1.0), strength)
    np.testing.assert_array_equal(thresholded_signal(np.array([5.0, 2.0, 1.0]), 1.0), [3.0, 0.0, 0.0])
    assert unbiased_signal(np.array([2.0, 1.0]), 1.0).tolist() == [0.0, 0.0]


def test_without_noise_all_factors_count_and_pure_noise_has_none() -> None:
    assert expected_curve(np.array([3.0, 2.0, 1.0]), 0.0).dim == 3
    assert expected_curve(np.array([3.0, 2.0, 1.0]), 0.0).relative_R1.tolist() == pytest.approx(
        [1, (5 / 14) ** 0.5, (1 / 14) ** 0.5, 0]
    )
    none = expected_curve(np.array([1.9, 1.5]), 1.0)
    assert none.dim == 0 and np.isfinite(none.relative_R1).all()


def blocks_of(dense: np.ndarray, step: int = 90) -> RowBlocks:
    return RowBlocks([csr_array(dense[start : start + step]) for start in range(0, len(dense), step)], len(dense))


def test_noise_comes_from_two_halves() -> None:
    """Halves with twice the variance of the whole; a shift of all cells is no noise."""
    cell = 0.3
    signal, _ = planted(np.array([30.0, 20.0]), cell, 1)
    rng = np.random.default_rng(2)
    halves = [signal + shift + 2**0.5 * cell * rng.standard_normal((SIZE, SIZE)) for shift in (0.0, 1.0)]
    assert noise_of_halves(*(blocks_of(half) for half in halves)) == pytest.approx(cell, rel=0.02)
    assert noise_of_halves(blocks_of(signal), blocks_of(signal)) == 0.0


def test_the_spectrum_ends_where_it_is_not_needed() -> None:
    strength = np.concatenate([np.geomspace(100, 20, 70), np.geomspace(9, 5, 200)]) * np.where(
        np.arange(270) % 3, 1, -1
    )
    dense, _ = planted(strength, 0.0, 1)
    expected = np.sort(np.abs(strength))[::-1]
    for least, most, size in ((90.0, 256, 64), (10.0, 100, 100), (10.0, 30, 30), (0.0, 500, SIZE)):
        found = leading_spectrum(blocks_of(dense), least, most)
        assert len(found) == size
        np.testing.assert_allclose(found[: min(size, 170)], expected[: min(size, 170)], rtol=1e-4, atol=1e-9)


def topics(num: int, words: int, lines: int, seed: int) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, num, (lines, 1))
    return (words * topic + rng.integers(0, words, (lines, 12))).tolist()


def test_planted_topics_have_as_many_dimensions() -> None:
    """Words of a topic alone: SPPMI is log(topics) within a topic and 0 elsewhere, a matrix of rank `topics`."""
    options = DimensionOptions(num_negatives=1, subsample=0)
    found = choose_dimension(topics(6, 20, 6000, 1), options=options)
    assert found.dim == found.dim_even_noise == 6
    assert found.words == 120 and not found.is_cut
    np.testing.assert_allclose(found.spectrum[:6], 20 * np.log(6), rtol=0.1)
    assert len(found.curve) == len(found.spectrum) + 1 and found.curve[0] == 1.0
    assert found.expected == found.curve[6] == min(found.curve)
    cut = choose_dimension(topics(6, 20, 6000, 1), options=DimensionOptions(num_negatives=1, subsample=0, max_dim=4))
    assert cut.dim == 4 and cut.is_cut


def test_more_text_has_less_noise() -> None:
    options = DimensionOptions(num_negatives=1, subsample=0)
    noise = [choose_dimension(topics(6, 20, lines, 1), options=options).noise for lines in (500, 8000)]
    assert noise[1] == pytest.approx(noise[0] / 4, rel=0.3)  # sixteen times as much


def test_what_cannot_be_judged() -> None:
    with pytest.raises(DataError, match="num-negatives"):
        choose_dimension(topics(2, 5, 300, 1), options=DimensionOptions(num_negatives=50, subsample=0))
    with pytest.raises(DataError, match="at least 2"):
        choose_dimension([[1] * 20], options=DimensionOptions())
    for wrong in ({"alpha": 0}, {"alpha": 2}, {"max_dim": 0}, {"num_negatives": 0}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            DimensionOptions(**wrong)

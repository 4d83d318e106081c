"""Scores of click models: equal to scikit-learn's and to sums done by hand; what is not legal is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn import metrics

from any2vec.errors import DataError, InputError
from any2vec.evaluate.clicks import auc, calibration, evaluate_clicks, log_loss, normalized_entropy

ALL: tuple[Callable[..., Any], ...] = (log_loss, auc, normalized_entropy, calibration, evaluate_clicks)


def test_by_hand() -> None:
    label, probability = np.array([1, 0, 0, 1]), np.array([0.8, 0.4, 0.4, 0.4])
    loss = -(np.log(0.8) + 2 * np.log(0.6) + np.log(0.4)) / 4
    assert log_loss(label, probability) == pytest.approx(loss, rel=1e-12)
    assert auc(label, probability) == 0.75  # of four pairs two are right, two are ties
    assert normalized_entropy(label, probability) == pytest.approx(loss / np.log(2), rel=1e-12)
    assert normalized_entropy(label, probability, rate=0.2) == pytest.approx(loss / 0.5004024235381879, rel=1e-12)
    assert calibration(label, probability) == pytest.approx(1.0, rel=1e-12)


def test_the_base_rate_scores_one() -> None:
    label = np.arange(40) % 4 == 0
    result = evaluate_clicks(label, np.full(40, 0.25))
    assert (result.normalized_entropy, result.auc, result.rate) == (pytest.approx(1.0, rel=1e-12), 0.5, 0.25)
    assert evaluate_clicks(label, np.full(40, 0.5)).calibration == 2.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("decimals", [2, 9])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_equal_to_scikit_learn(seed: int, decimals: int, dtype: type) -> None:
    rng = np.random.default_rng(seed)
    probability = np.round(rng.beta(1, 3, 3000), decimals).astype(dtype)  # two decimals: ties, zeros and ones
    label = (rng.random(3000) < probability * 0.9 + 0.05).astype(np.float32)
    result = evaluate_clicks(label, probability)
    assert result.auc == pytest.approx(metrics.roc_auc_score(label, probability), rel=1e-12)
    # scikit-learn sums float32 in float32
    assert result.log_loss == pytest.approx(
        metrics.log_loss(label, probability), rel=1e-5 if dtype == np.float32 else 1e-12
    )
    assert result.calibration == pytest.approx(probability.astype(np.float64).sum() / label.sum(), rel=1e-12)
    assert result.as_dict()["num_examples"] == 3000


def test_auc_takes_any_scores_and_knows_order_alone() -> None:
    rng = np.random.default_rng(4)
    score, label = rng.normal(size=500), rng.random(500) < 0.3
    assert auc(label, score) == auc(label, np.exp(score)) == pytest.approx(1 - auc(label, -score))


def test_certain_and_wrong_is_finite() -> None:
    assert log_loss(np.array([0.0]), np.ones(1, np.float32)) == pytest.approx(-np.log(2.0**-23))
    assert log_loss(np.array([1]), np.array([0])) == pytest.approx(-np.log(2.0**-52))


@pytest.mark.parametrize("score", ALL)
@pytest.mark.parametrize(
    ("label", "probability", "error", "message"),
    [
        ([0, 1], [0.5], InputError, r"one length.*\(2,\) and \(1,\)"),
        ([[0, 1]], [[0.5, 0.5]], InputError, r"two vectors"),
        ([], [], InputError, r"1 or more"),
        ([0, 1], ["a", "b"], InputError, r"arrays of numbers"),
        ([0, 2], [0.5, 0.5], DataError, r"label of example 1 must be 0 or 1, got 2\.0"),
        ([np.nan, 1], [0.5, 0.5], DataError, r"label of example 0 must be 0 or 1, got nan"),
        ([0, 1], [0.5, np.nan], DataError, r"of example 1 must be .*, got nan"),
        ([0, 1], [np.inf, 0.5], DataError, r"of example 0 must be .*, got inf"),
    ],
)
def test_what_is_not_legal_is_said(
    score: Callable[..., Any], label: Any, probability: Any, error: type, message: str
) -> None:
    with pytest.raises(error, match=message):
        score(np.array(label), np.array(probability))


@pytest.mark.parametrize("score", [log_loss, normalized_entropy, calibration, evaluate_clicks])
@pytest.mark.parametrize("value", [-0.1, 1.5])
def test_a_probability_is_in_its_interval(score: Callable[..., Any], value: float) -> None:
    with pytest.raises(DataError, match=rf"probability of example 1 must be in 0..1, got {value}"):
        score(np.array([0, 1]), np.array([0.5, value]))


@pytest.mark.parametrize("value", [0, 1])
def test_one_class_only(value: int) -> None:
    label, probability = np.full(3, value), np.array([0.2, 0.4, 0.6])
    for score in (auc, normalized_entropy, evaluate_clicks):
        with pytest.raises(DataError, match=f"one class only: all 3 are {value}"):
            score(label, probability)
    assert log_loss(label, probability) > 0
    assert normalized_entropy(label, probability, rate=0.5) == pytest.approx(log_loss(label, probability) / np.log(2))
    if value:
        assert calibration(label, probability) == pytest.approx(0.4)
    else:
        with pytest.raises(DataError, match="all 0"):
            calibration(label, probability)


@pytest.mark.parametrize("rate", [0.0, 1.0, np.nan, 2.0])
def test_a_base_rate_has_entropy(rate: float) -> None:
    with pytest.raises(InputError, match="rate must be"):
        normalized_entropy(np.array([0, 1]), np.array([0.5, 0.5]), rate=rate)

"""Click models: are the probabilities right (log-loss, calibration), and are clicks ordered before the rest (AUC)?

Letters: B examples. Labels are 0 or 1; probabilities are of label 1.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from any2vec.checks import check_number
from any2vec.errors import DataError, InputError


@dataclass(frozen=True)
class ClicksResult:
    """Scores of predicted probabilities against labels."""

    log_loss: float
    """nats an example"""
    auc: float
    """area under the ROC curve, 0..1; a tie counts half"""
    normalized_entropy: float
    """log-loss over that of the best constant; below 1 is better than a constant"""
    calibration: float
    """sum of probabilities over number of clicks; 1 is right"""
    rate: float
    """share of clicks"""
    num_examples: int

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"task": "clicks", **asdict(self)}


def evaluate_clicks(label: np.ndarray, probability: np.ndarray) -> ClicksResult:
    """All scores of clicks.

    Args:
        label: (B,), 0 or 1, both occur.
        probability: (B,), in 0..1.

    Raises:
        InputError: the arrays are not of one length.
        DataError: a label or a probability is not legal, or the labels hold one class only.
    """
    label_B, _ = _checked(label, probability, are_probabilities=True)
    _check_classes(label_B)
    return ClicksResult(
        log_loss=log_loss(label, probability),
        auc=auc(label, probability),
        normalized_entropy=normalized_entropy(label, probability),
        calibration=calibration(label, probability),
        rate=float(label_B.mean()),
        num_examples=len(label_B),
    )


def log_loss(label: np.ndarray, probability: np.ndarray) -> float:
    """Mean negative log-likelihood, nats an example.

    Probabilities are first brought into [eps, 1 - eps], eps being the float's resolution (float32: 1.2e-7), as
    scikit-learn does: a float32 that was rounded to 1 says no more than that. Arguments and errors as of
    `evaluate_clicks`, but one class is legal.
    """
    label_B, probability_B = _checked(label, probability, are_probabilities=True)
    given = np.asarray(probability).dtype
    eps = float(np.finfo(given if given.kind == "f" else np.float64).eps)
    p = np.clip(probability_B, eps, 1.0 - eps)
    return float(-np.where(label_B == 1, np.log(p), np.log1p(-p)).mean())


def auc(label: np.ndarray, score: np.ndarray) -> float:
    """Area under the ROC curve: the share of (click, no click) pairs whose click scores higher; a tie counts half.

    From ranks, exact (Mann and Whitney 1947); O(B log B). Scores may be any finite numbers; else arguments and errors
    as of `evaluate_clicks`.
    """
    from scipy.stats import rankdata

    label_B, score_B = _checked(label, score, are_probabilities=False)
    _check_classes(label_B)
    clicks = int(label_B.sum())
    above = float(rankdata(score_B)[label_B == 1].sum()) - clicks * (clicks + 1) / 2
    return above / (clicks * (len(label_B) - clicks))


def normalized_entropy(label: np.ndarray, probability: np.ndarray, *, rate: float | None = None) -> float:
    """Log-loss over the entropy of the base rate (He et al. 2014, "Practical lessons from predicting clicks on ads at
    Facebook", equation 1).

    Args:
        label, probability: as of `evaluate_clicks`; with a rate, one class is legal.
        rate: the base rate, in (0, 1); None: the share of clicks in `label`.

    Raises:
        InputError, DataError: as `evaluate_clicks`; or the rate is not legal.
    """
    label_B, _ = _checked(label, probability, are_probabilities=True)
    if rate is None:
        _check_classes(label_B)
        base = float(label_B.mean())
    else:
        check_number("rate", rate, 0, 1, open_low=True)
        base = float(rate)
        if base == 1.0:
            raise InputError("rate must be below 1: labels that are all alike have no entropy.")
    entropy = -(base * np.log(base) + (1.0 - base) * np.log1p(-base))
    return log_loss(label, probability) / float(entropy)


def calibration(label: np.ndarray, probability: np.ndarray) -> float:
    """Sum of probabilities over number of clicks (He et al. 2014, section 2.2). Arguments and errors as of
    `evaluate_clicks`, but labels of 1 alone are legal."""
    label_B, probability_B = _checked(label, probability, are_probabilities=True)
    clicks = float(label_B.sum())
    if clicks == 0:
        raise DataError("calibration needs a click: the labels are all 0; score more examples.")
    return float(probability_B.sum()) / clicks


def _checked(label: Any, score: Any, *, are_probabilities: bool) -> tuple[np.ndarray, np.ndarray]:
    """Both as float64 (B,), legal."""
    try:
        label_B, score_B = (np.asarray(values).astype(np.float64) for values in (label, score))
    except (TypeError, ValueError) as error:
        raise InputError(f"labels and scores must be arrays of numbers ({error}).") from None
    if label_B.ndim != 1 or label_B.shape != score_B.shape or not label_B.size:
        raise InputError(
            f"labels and scores must be two vectors of one length, 1 or more, got shapes {label_B.shape} and "
            f"{score_B.shape}."
        )
    _check_values("label", "0 or 1", label_B, (label_B == 0) | (label_B == 1))
    if are_probabilities:
        _check_values("probability", "in 0..1", score_B, (score_B >= 0) & (score_B <= 1))
    else:
        _check_values("score", "a finite number", score_B, np.isfinite(score_B))
    return label_B, score_B


def _check_values(what: str, allowed: str, values_B: np.ndarray, is_legal_B: np.ndarray) -> None:
    if not is_legal_B.all():
        at = int(np.argmin(is_legal_B))
        raise DataError(f"the {what} of example {at:,} must be {allowed}, got {float(values_B[at])!r}.")


def _check_classes(label_B: np.ndarray) -> None:
    if label_B.min() == label_B.max():
        raise DataError(
            f"the labels hold one class only: all {len(label_B):,} are {label_B[0]:.0f}; score examples of both."
        )

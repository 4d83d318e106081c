"""The scores of the true probabilities: what no learner can beat but by luck."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class BayesScores:
    """What the true probabilities score, in expectation over labels: the floor of log-loss, the ceiling of AUC."""

    log_loss: float
    """nats an example"""
    auc: float
    normalised_entropy: float
    """log-loss over the entropy of the mean probability"""
    rate: float
    """mean probability of a click"""


def bayes_scores(probability_B: np.ndarray) -> BayesScores:
    """From the true probabilities of two examples or more, float64 (B,); no label is drawn. O(B log B)."""
    p = np.sort(probability_B)
    rate = float(p.mean())
    loss = float(_entropy(p).mean())
    return BayesScores(loss, _expected_auc(p), loss / float(_entropy(np.array([rate]))[0]), rate)


def _entropy(p: np.ndarray) -> np.ndarray:
    """Of a coin, in nats."""
    from scipy.special import entr

    entropy: np.ndarray = entr(p) + entr(1.0 - p)
    return entropy


def _expected_auc(p: np.ndarray) -> float:
    """Of true probabilities as scores, over pairs of different examples; p ascends."""
    quiet = np.concatenate([[0.0], np.cumsum(1.0 - p)])
    first, last = np.searchsorted(p, p, "left"), np.searchsorted(p, p, "right")
    own = p * (1.0 - p)
    right = p @ (0.5 * (quiet[first] + quiet[last])) - 0.5 * own.sum()
    return float(right / (p.sum() * quiet[-1] - own.sum()))

"""How well classes of nodes are predicted, as the field measures it.

Legend: N nodes, C classes.
"""

from __future__ import annotations

import numpy as np


def metric_of(labels: np.ndarray) -> str:
    """accuracy; of several classes a node micro_f1."""
    return "accuracy" if labels.ndim == 1 else "micro_f1"


def score_of(score_NC: np.ndarray, labels: np.ndarray, rows: np.ndarray) -> float:
    """The share of nodes whose class has the highest score; of several classes a node micro-F1, of scores above 0.

    labels: int (N,), or 0 and 1 (N, C); rows: integers, one or more.
    """
    if labels.ndim == 1:
        return float((score_NC[rows].argmax(axis=1) == labels[rows]).mean())
    predicted, truth = score_NC[rows] > 0, labels[rows] > 0
    hits = int((predicted & truth).sum())
    return 2 * hits / max(1, int(predicted.sum()) + int(truth.sum()))


def auc_of(positive_K: np.ndarray, negative_K: np.ndarray) -> float:
    """Area under the ROC curve: how likely a positive's score is the higher one, a tie counting half; one or more of
    each."""
    from scipy.stats import rankdata

    num = len(positive_K)
    ranks = rankdata(np.concatenate([positive_K, negative_K]))[:num]
    return float((ranks.sum() - num * (num + 1) / 2) / (num * len(negative_K)))


def auc_of_pairs(vector_ND: np.ndarray, edge_2K: np.ndarray, negative_2K: np.ndarray) -> float:
    """`auc_of` edges against other pairs, by the dot products of their rows."""
    return auc_of(*(pair_scores(vector_ND, pair_2K) for pair_2K in (edge_2K, negative_2K)))


def pair_scores(vector_ND: np.ndarray, pair_2K: np.ndarray) -> np.ndarray:
    """float32 (K,): dot products of the rows of pairs, integers (2, K)."""
    return np.asarray(np.einsum("kd,kd->k", vector_ND[pair_2K[0]], vector_ND[pair_2K[1]]))

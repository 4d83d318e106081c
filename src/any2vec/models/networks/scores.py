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

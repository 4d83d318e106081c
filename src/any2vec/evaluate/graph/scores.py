"""How well classes and links of nodes are predicted, as the field measures it.

Legend: N nodes, C classes, D columns, K pairs, R edges that are ranked, W candidates of each.
"""

from __future__ import annotations

import numpy as np

_BLOCK_NUMBERS = 1 << 23
"""that rows of candidates have, at once"""


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


def ranks_among(own_R: np.ndarray, score_RW: np.ndarray) -> np.ndarray:
    """float64 (R,): the rank of each score among those of its candidates, 1 is best; a tie costs half a place."""
    own_R1 = own_R[:, None]
    rank_R: np.ndarray = 1 + (score_RW > own_R1).sum(axis=1) + 0.5 * (score_RW == own_R1).sum(axis=1)
    return rank_R


def ranking_of_pairs(vector_ND: np.ndarray, ranking_WR: np.ndarray) -> dict[str, float]:
    """MRR and Hits@10 of edges, in (0, 1] and [0, 1], by the dot products of rows; {} where there are none.

    ranking_WR: integers (2 + W, R): source, target and W candidates of each edge, places in `vector_ND`. Beside those
    of OGB (Hu et al. 2020, arXiv 2005.00687), where other pairs are ranked, too. Memory: O(1) beside the ranks.
    """
    width, num = ranking_WR.shape
    if not num:
        return {}
    rank_R, block = np.empty(num), max(1, _BLOCK_NUMBERS // (width * vector_ND.shape[1]))
    for start in range(0, num, block):
        src_R, *_ = part_WR = ranking_WR[:, start : start + block]
        score_RW = np.einsum("rd,rwd->rw", vector_ND[src_R], vector_ND[part_WR[1:].T])
        rank_R[start : start + block] = ranks_among(score_RW[:, 0], score_RW[:, 1:])
    return {"mrr": float((1 / rank_R).mean()), "hits_at_10": float((rank_R <= 10).mean())}

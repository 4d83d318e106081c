"""Link prediction: does a score of two rows tell held-out edges from pairs that are none?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.embeddings import Embeddings
from any2vec.errors import InputError
from any2vec.evaluate.graph.logistic import fit_logistic
from any2vec.evaluate.graph.scores import ranks_among
from any2vec.evaluate.graph.split import Split, split_graph
from any2vec.evaluate.graph.train_edges import read_train_pairs
from any2vec.evaluate.reading import check_embeddings

__all__ = ["SCORES", "LinksResult", "Split", "evaluate_links", "split_graph"]

SCORES = {
    "dot": "dot product of the two rows",
    "cosine": "cosine of the two rows",
    "output": "dot product of the source's row and the target's output row, which the model was trained for "
    "(it has a direction)",
    "hadamard": "logistic regression (L2, C=1) on the product of the two rows, trained on train edges and on as many "
    "pairs that are no train edge",
}
"""name -> what it is; `score=` of evaluate_links takes these names"""
_BLOCK_NUMBERS = 1 << 23
_MOST_TRAIN_PAIRS = 50_000


@dataclass(frozen=True)
class LinksResult:
    """Scores of one method on one split; all in 0..1."""

    auc: float
    """area under the ROC curve, test edges against as many fixed negatives"""
    average_precision: float
    mrr: float
    """mean of 1 / rank of a test edge's target among the K fixed non-neighbors of its source; a tie costs half"""
    hits_at_1: float
    hits_at_10: float
    hits_at_50: float
    num_test_edges: int
    num_ranking_negatives: int
    num_missing: int
    """nodes of the split without a row; pairs with one are scored lowest"""
    score: str
    protocol: str

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"task": "links", **asdict(self)}


def _pair_scorer(embeddings: Embeddings, split: Split, rows: np.ndarray, score: str) -> Callable[..., np.ndarray]:
    """A function (src (B,), dst (B,) or (B, K): rows of the split) -> float64 scores of dst's shape."""
    vectors = np.zeros((len(rows), embeddings.dim), dtype=np.float32)
    vectors[rows >= 0] = embeddings.vectors[rows[rows >= 0]]
    targets = vectors
    if score == "cosine":
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors /= np.where(norms > 0, norms, 1)
    if score == "output":
        if embeddings.output is None:
            raise InputError("score 'output' needs output rows, and these embeddings have none; use 'dot' or 'cosine'.")
        targets = np.zeros_like(vectors)
        targets[rows >= 0] = embeddings.output[rows[rows >= 0]]
    weights = None
    if score == "hadamard":
        weights = _hadamard_weights(vectors, rows >= 0, split).astype(np.float32)

    def scorer(src: np.ndarray, dst: np.ndarray) -> np.ndarray:
        from_BD = vectors[src] if weights is None else vectors[src] * weights
        return (
            np.einsum("bd,bkd->bk", from_BD, targets[dst.reshape(len(src), -1)]).astype(np.float64).reshape(dst.shape)
        )

    return scorer


def _hadamard_weights(vectors_ND: np.ndarray, has_row: np.ndarray, split: Split) -> np.ndarray:
    """Weights (D,) of the logistic regression: it sees train edges and random pairs, never which edges are tested.

    node2vec (Grover and Leskovec 2016, table 1). The intercept orders nothing and is left out.
    """
    rng = np.random.default_rng((int(split.meta.get("seed", 0)), 1))
    train = read_train_pairs(split)
    positives = train[has_row[train].all(axis=1) & (train[:, 0] != train[:, 1])]
    positives = positives[rng.permutation(len(positives))[:_MOST_TRAIN_PAIRS]]
    n = len(vectors_ND)
    codes = np.unique(np.concatenate([train[:, 0] * n + train[:, 1], train[:, 1] * n + train[:, 0]]))
    candidates = rng.choice(np.flatnonzero(has_row), (4 * len(positives) + 16, 2))
    fresh = ~np.isin(candidates[:, 0] * n + candidates[:, 1], codes) & (candidates[:, 0] != candidates[:, 1])
    negatives = candidates[fresh][: len(positives)]
    if len(positives) == 0 or len(negatives) == 0:
        raise InputError("score 'hadamard' has no training pairs whose nodes have rows; use 'dot' or 'cosine'.")
    pairs = np.concatenate([positives, negatives])
    truth = np.arange(len(pairs)) < len(positives)
    return fit_logistic(vectors_ND[pairs[:, 0]] * vectors_ND[pairs[:, 1]], truth[:, None])[0][:, 0]


def _ranking(
    scorer: Callable[..., np.ndarray],
    test: np.ndarray,
    ranking: np.ndarray,
    positives: np.ndarray,
    has_row: np.ndarray,
    dim: int,
) -> np.ndarray:
    """Rank of each test edge's target among its negatives, float64 (T,), 1 is best; a tie counts half a place."""
    ranks = np.empty(len(test))
    block = max(1, _BLOCK_NUMBERS // (ranking.shape[1] * dim))
    for start in range(0, len(test), block):
        part = slice(start, start + block)
        scores = np.where(has_row[ranking[part]], scorer(test[part, 0], ranking[part]), -np.inf)
        scores[~has_row[test[part, 0]]] = -np.inf
        ranks[part] = ranks_among(positives[part], scores)
    return ranks


def evaluate_links(embeddings: Embeddings, split_dir: str | Path | Split, *, score: str = "dot") -> LinksResult:
    """Score embeddings that were trained on a split's train edges on its test edges and fixed negatives.

    Args:
        embeddings: rows of nodes.
        split_dir: the folder that `split_graph` wrote.
        score: one of SCORES: "dot", "cosine", "output", "hadamard".

    Raises:
        InputError: no such score, or none of the nodes has a row.
        FormatError: the folder is no split, or damaged.
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    check_embeddings(embeddings)
    if score not in SCORES:
        raise InputError(f"score must be one of {', '.join(SCORES)}, not {score!r}.")
    if not isinstance(split_dir, str | Path | Split):
        raise InputError(
            "split_dir is a Split, or the folder of one, for its pairs that are no edge are the same for every model; "
            f"make it of all edges by split_graph(edges, folder), got {type(split_dir).__name__}."
        )
    split = split_dir if isinstance(split_dir, Split) else Split.open(split_dir)
    rows = embeddings.rows(split.keys)
    has_row = rows >= 0
    if not has_row.any():
        raise InputError("none of the split's nodes is a key of the embeddings; train on its train.edges.")
    scorer = _pair_scorer(embeddings, split, rows, score)
    sides = []
    for pairs in (split.test, split.negatives):
        blocks = np.array_split(pairs, max(1, pairs.size * embeddings.dim // _BLOCK_NUMBERS))
        values = np.concatenate([scorer(block[:, 0], block[:, 1]) for block in blocks])
        sides.append(np.where(has_row[pairs].all(axis=1), values, -np.inf))
    ranks = _ranking(scorer, split.test, split.ranking, sides[0], has_row, embeddings.dim)
    scores = np.concatenate(sides)
    lowest = scores[np.isfinite(scores)].min(initial=0.0) - 1.0
    scores = np.where(np.isfinite(scores), scores, lowest)  # scikit-learn takes no infinities
    truth = np.arange(len(scores)) < len(split.test)
    return LinksResult(
        float(roc_auc_score(truth, scores)),
        float(average_precision_score(truth, scores)),
        float((1 / ranks).mean()),
        hits_at_1=float((ranks <= 1).mean()),
        hits_at_10=float((ranks <= 10).mean()),
        hits_at_50=float((ranks <= 50).mean()),
        num_test_edges=len(split.test),
        num_ranking_negatives=split.ranking.shape[1],
        num_missing=int((~has_row).sum()),
        score=score,
        protocol=f"{SCORES[score]}; one fixed negative a test edge for AUC and AP, {split.ranking.shape[1]} fixed "
        "non-neighbors of its source for MRR and Hits; nodes without a row scored lowest",
    )

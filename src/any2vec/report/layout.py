"""Where items stand on a map: a 2-D layout, groups of what is alike, labels that keep out of each other's way."""

from __future__ import annotations

import warnings

import numpy as np

NUM_COLORS = 10
_CLUSTERS = 8
_SLOTS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
"""where a label may sit around its point: right first"""


def unit_rows(vectors_ND: np.ndarray) -> np.ndarray:
    """Rows of length 1; 0 stays 0."""
    norms = np.linalg.norm(vectors_ND, axis=1, keepdims=True)
    return vectors_ND / np.where(norms > 0, norms, 1.0)


def flatten(vectors_ND: np.ndarray, seed: int) -> np.ndarray:
    """(N, D) -> float64 (N, 2) by t-SNE on unit rows (van der Maaten and Hinton 2008), by PCA below 10 rows.

    Deterministic for one seed and set of versions. O(N log N) time; scaled into [0, 1] by the 1 % and 99 % quantiles,
    so that a few outliers do not squeeze the rest: these lie beyond, by 0.03 at most.
    """
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    unit = unit_rows(vectors_ND)
    if len(unit) < 10 or unit.shape[1] < 2:
        centerd = unit - unit.mean(axis=0)
        points = PCA(n_components=2).fit_transform(centerd) if unit.shape[1] >= 2 else np.column_stack([unit, 0 * unit])
    else:
        perplexity = min(20.0, (len(unit) - 1) / 3)
        layout = TSNE(n_components=2, init="pca", perplexity=perplexity, random_state=seed, max_iter=700)
        with warnings.catch_warnings(), threadpool_limits(1):  # OpenMP's threads slow so small a job down
            warnings.simplefilter("ignore")
            points = layout.fit_transform(unit)
    low, high = np.quantile(points, [0.01, 0.99], axis=0)
    return np.clip((points - low) / np.where(high > low, high - low, 1.0), -0.03, 1.03)


def clusters(vectors_ND: np.ndarray, seed: int) -> np.ndarray:
    """int (N,): one of at most 8 groups by k-means on unit rows; a color says "alike", nothing more."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    groups = min(_CLUSTERS, max(1, len(vectors_ND) // 8))
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")  # rows that coincide make fewer clusters than asked for
        return np.asarray(KMeans(groups, random_state=seed, n_init=4).fit_predict(unit_rows(vectors_ND)))


def place_labels(
    points_N2: np.ndarray, sizes_N2: np.ndarray, gap: float, width: float, height: float
) -> list[tuple[int, float, float]]:
    """Greedy label placement, in pixels: (index, left, bottom) of every label that fits without touching another.

    Labels are tried in the given order (most frequent first), each in eight places around its point; one that fits
    nowhere is left out. O(N^2) over a few hundred labels.
    """
    boxes = np.empty((len(points_N2), 4))
    placed: list[tuple[int, float, float]] = []
    dots = np.column_stack([points_N2 - gap * 0.6, points_N2 + gap * 0.6])
    for index, ((x, y), (wide, high)) in enumerate(zip(points_N2, sizes_N2, strict=True)):
        best, best_hits = None, 3
        for across, up in _SLOTS:
            left = x + gap if across > 0 else (x - gap - wide if across < 0 else x - wide / 2)
            bottom = y + gap / 2 if up > 0 else (y - gap / 2 - high if up < 0 else y - high / 2)
            box = np.array([left, bottom, left + wide, bottom + high])
            if left < 0 or bottom < 0 or box[2] > width or box[3] > height:
                continue
            if _touching(boxes[: len(placed)], box):
                continue
            hits = _touching(dots, box)  # prefer a place that hides few other points
            if hits < best_hits:
                best, best_hits = box, hits
        if best is not None:
            boxes[len(placed)] = best
            placed.append((index, float(best[0]), float(best[1])))
    return placed


def _touching(boxes_N4: np.ndarray, box: np.ndarray) -> int:
    return int(
        np.count_nonzero(
            (boxes_N4[:, 0] < box[2])
            & (boxes_N4[:, 2] > box[0])
            & (boxes_N4[:, 1] < box[3])
            & (boxes_N4[:, 3] > box[1])
        )
    )

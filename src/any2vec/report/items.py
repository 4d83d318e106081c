"""Which items a map shows, and what their colors mean.

Legend: N items on the map, G groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from any2vec.embeddings import Embeddings
from any2vec.models.clicks.config import CLICK_MODELS
from any2vec.models.registry import known_models
from any2vec.report.layout import NUM_COLORS, clusters, unit_rows

OTHER = -1
"""the group of what has no color of its own"""


@dataclass(frozen=True, kw_only=True)
class MapItems:
    """What is on the map, most important first."""

    rows: np.ndarray
    """int64 (N,): of the embeddings"""
    group_N: np.ndarray
    """int64 (N,): its color, or OTHER"""
    legend: tuple[str, ...]
    """what each color means"""
    kind: str
    """what a group is, before its name: class, column, group of"""
    colors: str
    """what the colors stand for, in a few words"""
    caption: str
    is_ranked: bool
    """the first ones matter more: they are the most frequent"""


def choose_items(embeddings: Embeddings, class_V: Sequence[str | None] | None, most: int, seed: int) -> MapItems:
    """At most so many items whose vectors are not zero.

    Args:
        class_V: the class of each row, where the run has classes; None for a row without.
        seed: of the draw, where no item matters more than another, and of clusters.
    """
    columns = _columns(embeddings)
    if columns is not None:
        rows, caption = _by_column(embeddings, columns, most), "the most frequent values of each column, {} of {}"
    elif embeddings.counts is not None:
        rows = _long(embeddings, embeddings.frequent_rows(2 * most))[:most]
        caption = "the {} most frequent of {} items"
    else:
        drawn = np.random.default_rng(seed).permutation(len(embeddings))[: 2 * most]
        rows, caption = np.sort(_long(embeddings, drawn)[:most]), "{} of {} items, drawn at random"
    caption = "all {} items" if len(rows) == len(embeddings) else caption
    caption = "Map of " + caption.format(f"{len(rows):,}", f"{len(embeddings):,}")
    is_ranked = columns is None and embeddings.counts is not None
    if class_V is not None:
        group_N, legend = _named([class_V[row] for row in rows.tolist()])
        kind, colors = "class", "classes"
    elif columns is not None:
        group_N, legend = _named([columns[row] for row in rows.tolist()])
        kind, colors = "column", "columns"
    else:
        group_N, legend = _alike(embeddings, rows, seed)
        kind, colors = "group of", "groups of alike items (k-means), each with the two in its middle"
    return MapItems(
        rows=rows, group_N=group_N, legend=legend, kind=kind, colors=colors, caption=caption, is_ranked=is_ranked
    )  # fmt: skip


def _long(embeddings: Embeddings, rows: np.ndarray) -> np.ndarray:
    """Those whose vectors have a direction."""
    vectors = np.asarray(embeddings.vectors[rows], np.float64)
    return np.asarray(rows[np.linalg.norm(vectors, axis=1) > 0])


def _columns(embeddings: Embeddings) -> list[str] | None:
    """The column of each row of a model of clicks, whose keys are `column=value`; None for other models."""
    model = embeddings.meta.get("model")
    name = model.get("model") if isinstance(model, dict) else None
    if name not in known_models("clicks", CLICK_MODELS).names():
        return None
    names = map(str, embeddings.keys.names)  # COLUMN=VALUE or, where values are hashed, COLUMN#ROW
    return [name.partition("=")[0] if "=" in name else name.rpartition("#")[0] or name for name in names]


def _by_column(embeddings: Embeddings, columns: list[str], most: int) -> np.ndarray:
    """The most frequent rows of each column, an equal share each; what one leaves goes to the others."""
    rows_of: dict[str, list[int]] = {name: [] for name in dict.fromkeys(columns)}
    for row in _long(embeddings, embeddings.frequent_rows(None)).tolist():
        rows_of[columns[row]].append(row)
    chosen: list[int] = []
    left = sorted(rows_of.values(), key=len)
    for at, rows in enumerate(left):
        chosen += rows[: (most - len(chosen)) // (len(left) - at)]
    return np.array(sorted(chosen), np.int64)


def _named(names: Sequence[str | None]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Groups by name, the largest ones with a color."""
    counts = Counter(name for name in names if name is not None)
    legend = tuple(sorted(name for name, _ in counts.most_common(NUM_COLORS)))
    place = {name: at for at, name in enumerate(legend)}
    return np.array([OTHER if name is None else place.get(name, OTHER) for name in names], np.int64), legend


def _alike(embeddings: Embeddings, rows: np.ndarray, seed: int) -> tuple[np.ndarray, tuple[str, ...]]:
    """Groups by k-means, named by the items nearest to their middles."""
    if not len(rows):
        return np.empty(0, np.int64), ()
    unit = unit_rows(np.asarray(embeddings.vectors[rows], np.float64))
    group_N = clusters(unit, seed)
    names = embeddings.keys.names
    legend = []
    for group in range(group_N.max() + 1):
        inside = np.flatnonzero(group_N == group)
        near = inside[np.argsort(-(unit[inside] @ unit[inside].sum(axis=0)), kind="stable")[:2]]
        legend.append(", ".join(str(names[rows[at]]) for at in near))
    return group_N, tuple(legend)

"""Relational graph convolutions, one edge at a time."""

from __future__ import annotations

import numpy as np


def group_by_relation(edges: list[tuple[int, int, int]]) -> dict[tuple[int, int], list[int]]:
    """(relation, target) -> sources in their order, of edges (source, target, relation); keys ascending."""
    found: dict[tuple[int, int], list[int]] = {}
    for source, target, relation in edges:
        found.setdefault((relation, target), []).append(source)
    return dict(sorted(found.items()))


def convolve(x_ND: np.ndarray, edges: list[tuple[int, int, int]], weight_RIO: np.ndarray, num: int) -> np.ndarray:
    """Sum over relations of the mean of the in-neighbors' rows times the relation's matrix, (num, O)."""
    out = np.zeros((num, weight_RIO.shape[2]))
    for (relation, target), sources in group_by_relation(edges).items():
        out[target] += x_ND[sources].mean(axis=0) @ weight_RIO[relation]
    return out


def mix_bases(
    groups: list[tuple[int, list[int]]], share_RB: np.ndarray, basis_BND: np.ndarray
) -> np.ndarray:  # fmt: skip
    """Of groups (relation, rows): the mean over rows of the bases' rows, each times the relation's share of it."""
    matrices_RND = np.einsum("rb,bnd->rnd", share_RB, basis_BND)
    return np.stack([matrices_RND[relation, rows].mean(axis=0) for relation, rows in groups])

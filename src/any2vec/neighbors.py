"""Which rows of a matrix lie nearest: exact, in blocks of rows, never N x N; and the index of usearch, approximate.

Letters: N rows of the table, D dim, Q queries, K wanted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from any2vec.formats.norms import unit_rows
from any2vec.formats.table import row_blocks

QUERY_BLOCK = 512
_MUL_EPSILON = 0.001
"""Levy and Goldberg 2014, "Linguistic regularities in sparse and explicit word representations", section 6"""


def _best(scores_QM: np.ndarray, rows_QM: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k best columns of each line, in no order; of equal scores those of the first rows."""
    if scores_QM.shape[1] <= k:
        return scores_QM, rows_QM
    chosen_QK = np.argpartition(scores_QM, scores_QM.shape[1] - k, axis=1)[:, -k:]
    least_Q1 = np.take_along_axis(scores_QM, chosen_QK, 1).min(axis=1, keepdims=True)
    for query in np.flatnonzero((scores_QM >= least_Q1).sum(axis=1) > k):  # the partition took any of those at its edge
        above = np.flatnonzero(scores_QM[query] > least_Q1[query])
        equal = np.flatnonzero(scores_QM[query] == least_Q1[query])
        by_row = np.argsort(rows_QM[query, equal], kind="stable")
        chosen_QK[query] = np.concatenate([above, equal[by_row[: k - len(above)]]])
    return np.take_along_axis(scores_QM, chosen_QK, 1), np.take_along_axis(rows_QM, chosen_QK, 1)


def _combine(rows_MD: np.ndarray, norms_M: np.ndarray, groups: list[tuple[np.ndarray, int]]) -> np.ndarray:
    """Scores (Q, M) of a block of rows against queries.

    Groups are (unit rows (Q, D), ±1). One positive group: its cosine. Others: 3CosMul, the product of the shifted
    cosines of the positive ones over that of the negative ones.
    """
    cosines = [(unit_QD @ rows_MD.T) / norms_M for unit_QD, _ in groups]
    if len(groups) == 1 and groups[0][1] > 0:
        return cosines[0]
    upper, lower = np.float32(1.0), np.float32(1.0)
    for cosine_QM, (_, sign) in zip(cosines, groups, strict=True):
        shifted_QM = (cosine_QM + 1) / 2
        upper, lower = (upper * shifted_QM, lower) if sign > 0 else (upper, lower * (shifted_QM + _MUL_EPSILON))
    return np.asarray(upper / lower)


def _better(scores_QM: np.ndarray, least_Q1: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores above the least that each query has kept, and their rows, side by side; empty places are -inf.

    Behind the first blocks few are, and choosing among them is quick. first: row of the first column.
    """
    is_better = scores_QM > least_Q1
    count_Q = is_better.sum(axis=1)
    query, column = np.nonzero(is_better)
    place = np.arange(len(query)) - np.repeat(np.cumsum(count_Q) - count_Q, count_Q)
    shape = len(scores_QM), int(count_Q.max(initial=0))
    better, rows = np.full(shape, -np.inf, scores_QM.dtype), np.zeros(shape, np.int64)
    better[query, place], rows[query, place] = scores_QM[query, column], column + first
    return better, rows


def top_rows(
    matrix_ND: np.ndarray, norms_N: np.ndarray, groups: list[tuple[np.ndarray, int]], k: int, banned: list[list[int]]
) -> tuple[np.ndarray, np.ndarray]:
    """The k best rows for each query, best first, ties by row: scores float32 (Q, K), rows int64 (Q, K).

    groups: see `_combine`. banned: rows per query that may not be returned. Where fewer than k rows are left, the
    score is -inf. Memory O(block + Q (K + B)), B the most rows banned; time O(Q N D). Deterministic.
    """
    num_queries = len(groups[0][0])
    scores, rows = [], []
    for start in range(0, num_queries, QUERY_BLOCK):
        part = slice(start, min(start + QUERY_BLOCK, num_queries))
        found = _top_rows_of_block(matrix_ND, norms_N, [(unit[part], sign) for unit, sign in groups], k, banned[part])
        scores.append(found[0])
        rows.append(found[1])
    return np.concatenate(scores), np.concatenate(rows)


def _top_rows_of_block(
    matrix_ND: np.ndarray, norms_N: np.ndarray, groups: list[tuple[np.ndarray, int]], k: int, banned: list[list[int]]
) -> tuple[np.ndarray, np.ndarray]:
    num_queries = len(groups[0][0])
    k = min(k, len(matrix_ND))
    best_scores = np.empty((num_queries, 0), np.float32)
    best_rows = np.empty((num_queries, 0), np.int64)
    query_of_ban = np.repeat(np.arange(num_queries), [len(rows) for rows in banned])
    row_of_ban = np.array([row for rows in banned for row in rows], dtype=np.int64)
    for block in row_blocks(matrix_ND, block_bytes=4 << 20):
        scores_QM = _combine(matrix_ND[block], norms_N[block], groups)
        inside = (row_of_ban >= block.start) & (row_of_ban < block.stop)
        scores_QM[query_of_ban[inside], row_of_ban[inside] - block.start] = -np.inf
        if best_scores.shape[1] == k:
            scores_QM, rows_QM = _better(scores_QM, best_scores.min(axis=1, keepdims=True), block.start)
        else:
            rows_QM = np.broadcast_to(np.arange(block.start, block.stop), scores_QM.shape)
        scores_QK, rows_QK = _best(scores_QM, rows_QM, k)
        best_scores, best_rows = _best(np.hstack([best_scores, scores_QK]), np.hstack([best_rows, rows_QK]), k)
    order = np.lexsort((best_rows, -best_scores), axis=1)
    return np.take_along_axis(best_scores, order, 1), np.take_along_axis(best_rows, order, 1)


def search_index(
    index: Any, matrix_ND: np.ndarray, norms_N: np.ndarray, queries_QD: np.ndarray, k: int, banned: list[list[int]]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """As `top_rows`, from an index: scores and rows, a list per query, of k rows at most; the cosines are exact."""
    wanted = min(k + max((len(rows) for rows in banned), default=0), len(matrix_ND))
    scores, rows = [], []
    for query_D, ban in zip(unit_rows(queries_QD), banned, strict=True):
        found = index.search(query_D, wanted).keys.astype(np.int64)
        found = found[~np.isin(found, np.array(ban, dtype=np.int64))]
        cosines = matrix_ND[found] @ query_D / norms_N[found]
        order = np.lexsort((found, -cosines))[:k]
        rows.append(found[order])
        scores.append(cosines[order])
    return scores, rows

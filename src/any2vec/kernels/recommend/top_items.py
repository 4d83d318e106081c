"""The best items of users by their scores, without those that they have already.

Letters: B users, I items, K answers, E pairs.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit

_NONE = np.float32(-np.inf)


@jit
def _sift(score_K: np.ndarray, item_K: np.ndarray, size: int) -> None:
    """Put the first of a heap's entries where it belongs: the worst is first, of equal ones the highest row."""
    at = 0
    while True:
        low = at
        for child in (2 * at + 1, 2 * at + 2):
            if child < size and (
                score_K[child] < score_K[low] or (score_K[child] == score_K[low] and item_K[child] > item_K[low])
            ):
                low = child
        if low == at:
            return
        score_K[at], score_K[low] = score_K[low], score_K[at]
        item_K[at], item_K[low] = item_K[low], item_K[at]
        at = low


@jit
def best_items(
    score_BI: np.ndarray, indptr_B: np.ndarray, left_out_E: np.ndarray, item_BK: np.ndarray, best_BK: np.ndarray
) -> None:
    """For each row its K best items, best first, of equal ones the lower row first; -1 and -inf where there are fewer.

    score_BI: float32 (B, I), in which the items left_out_E[indptr_B[b] : indptr_B[b + 1]] become -inf. indptr_B: int64
    (B + 1,); left_out_E: int32. item_BK: int32, best_BK: float32 (B, K) are written. A score of NaN is none.
    """
    size = item_BK.shape[1]
    for b in range(score_BI.shape[0]):
        for e in range(indptr_B[b], indptr_B[b + 1]):
            score_BI[b, left_out_E[e]] = _NONE
        score_K, item_K = best_BK[b], item_BK[b]
        score_K[:] = _NONE
        item_K[:] = np.int32(-1)
        for item in range(score_BI.shape[1]):
            if score_BI[b, item] > score_K[0]:
                score_K[0], item_K[0] = score_BI[b, item], np.int32(item)
                _sift(score_K, item_K, size)
        for left in range(size - 1, 0, -1):  # the worst goes to the end
            score_K[0], score_K[left] = score_K[left], score_K[0]
            item_K[0], item_K[left] = item_K[left], item_K[0]
            _sift(score_K, item_K, left)

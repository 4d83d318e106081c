"""Examples of clicks as arrays: what readers give and learners take."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class ClickBatch(NamedTuple):
    """B examples of X dense and F categorical columns; bag p = b * F + f is `id_M[start_P[p] : start_P[p + 1]]`."""

    label_B: np.ndarray
    """float32 (B,): 0 or 1; NaN where the label is not known"""
    dense_BX: np.ndarray
    """float32 (B, X), finite"""
    id_M: np.ndarray
    """int64 (M,): rows of the one table that all columns share"""
    start_P: np.ndarray
    """int64 (B * F + 1,), ascending from 0 to M"""

"""Plain twin of `any2vec.kernels.cache.cached_rows`: one number after the other, in float32."""

from __future__ import annotations

import numpy as np


def add(base: np.ndarray, change: np.ndarray, width: int) -> np.ndarray:
    """The row, float32 (C,), with the change in it; the first `width` numbers stay in [-1e4, 1e4]."""
    total = [np.float32(a) + np.float32(b) for a, b in zip(base, change, strict=True)]
    return np.array([np.clip(x, -1e4, 1e4) if c < width else x for c, x in enumerate(total)], np.float32)

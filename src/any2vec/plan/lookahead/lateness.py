"""How late a cached row may be: within a bound, and by less while the row is young. Pure.

A row that has been changed a few times is still far from where it goes: changes that others made without it count for
much. Exchanging such rows earlier costs few bytes, for few of a row's changes are its first ones (docs/log.md).

Source: the bound is HET's (Miao et al. 2022, PVLDB 15(2)), the same for all rows; ours: the share.
"""

from __future__ import annotations

import numpy as np

SHARE = 0.3
"""of the updates that a row has had: so many may be missing, if the bound allows them"""
LEAST = 20
"""updates that may be missing however young the row is, if the bound allows them"""


def allowed_updates(version_N: np.ndarray, bound: int, is_even: bool = False) -> np.ndarray:
    """Updates that may be missing of rows, int64 (N,), never more than the bound.

    version_N: int64, updates that each row has had (less than 0 counts as 0). is_even: the bound for all rows.
    """
    if is_even:
        return np.full(len(version_N), bound, np.int64)
    return np.minimum(bound, np.maximum(LEAST, (SHARE * version_N).astype(np.int64)))

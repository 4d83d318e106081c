"""The merge rules that come with the package; their arithmetic is that of kernels/rows/merge.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from any2vec.kernels.common.addresses import addresses
from any2vec.kernels.rows.merge import ADASUM, ADASUM_SYMMETRIC, MEAN, SUM, merge_hosts
from any2vec.sync.rules.merge_rule import MergeRule

COMMON = 1000.0
"""occurrences in an epoch of a row that "blend" merges mostly by AdaSum (a share of 63 %); measured, see docs/log.md"""


class KernelRule(MergeRule):
    """A rule that kernels know: blocks call them, where the hosts' rows lie (abstract)."""

    number: ClassVar[int]
    """in the kernels"""

    def __init__(self, occurrence_B: np.ndarray | None = None) -> None:
        self.share_B = np.empty(0, np.float32)
        """float32 (B,) of AdaSum, or (0,): all 1"""

    def combine(self, start_BD: np.ndarray, changes: Sequence[np.ndarray], out_BD: np.ndarray) -> None:
        size, slots = len(start_BD), [np.arange(len(start_BD))] * len(changes)
        rows = [change_BD.astype(np.float32) for change_BD in changes]
        out_BD[:] = start_BD
        merge_hosts(
            self.number, addresses(slots, np.int64), addresses(rows, np.float32),
            np.full(len(changes), size, np.int64), size, 0, size, True, out_BD, self.share_B, np.zeros(size, bool),
        )  # fmt: skip


class Sum(KernelRule):
    """All changes add up."""

    number = SUM


class Mean(KernelRule):
    """The mean over the hosts that changed the row."""

    number = MEAN


class AdaSum(KernelRule):
    """Adaptive summation (GraphAny2Vec, IPDPS 2021, equation 2): what changes have in common counts once."""

    number = ADASUM


class AdaSumSymmetric(KernelRule):
    """Adaptive summation that favors no host (Maleki et al. 2021)."""

    number = ADASUM_SYMMETRIC


class Blend(KernelRule):
    """Asymmetric AdaSum for rows that occur often, the sum for rare ones (ours).

    AdaSum takes once what hosts' changes have in common: right for a row that each host had time to move to where it
    belongs, but a rare one needs every step. The share of AdaSum is 1 - exp(-occurrences / COMMON).
    """

    number = ADASUM

    def __init__(self, occurrence_B: np.ndarray | None = None) -> None:
        super().__init__()
        if occurrence_B is not None:
            self.share_B = (-np.expm1(-occurrence_B / COMMON)).astype(np.float32)

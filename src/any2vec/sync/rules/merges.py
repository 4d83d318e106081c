"""The merge rules that come with the package; their arithmetic is that of kernels/rows/merge.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from any2vec.kernels.common.addresses import addresses
from any2vec.kernels.rows.merge import ADASUM, ADASUM_SYMMETRIC, MEAN, SUM, merge_hosts
from any2vec.kernels.rows.spectral import scale_along, turns
from any2vec.sync.base.curvature import Curvature, Curved
from any2vec.sync.rules.merge_rule import MergeRule

COMMON = 1000.0
"""occurrences in an epoch of a row that "blend" merges mostly by AdaSum (a share of 63 %); measured, see docs/log.md"""
SLOPE = 0.075
"""of the sigmoid in the mean over the pairs of a round, for "spectral"; 0.25 at most; measured, see docs/log.md"""


class Directions(NamedTuple):
    """What changes of a block are scaled along, once they are summed; see kernels/rows/spectral.py."""

    step_B: np.ndarray
    value_D: np.ndarray
    along_DP: np.ndarray
    across_DP: np.ndarray


class KernelRule(MergeRule):
    """A rule that kernels know: blocks call them, where the hosts' rows lie (abstract)."""

    number: ClassVar[int]
    """in the kernels"""

    def __init__(self, occurrence_B: np.ndarray | None = None) -> None:
        self.share_B = np.empty(0, np.float32)
        """float32 (B,) of AdaSum, or (0,): all 1"""

    def settle(self, merged_BD: np.ndarray, count_B: np.ndarray) -> None:
        """Change, in place, what was merged, float64, of the changes of so many hosts."""
        if (found := self.directions()) is not None:
            scale_along(merged_BD, count_B, found.step_B[: len(count_B)], *found[1:])

    def directions(self) -> Directions | None:
        """What `settle` goes by in this round; None: it changes nothing."""
        return None

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


class Spectral(KernelRule, Curved):
    """The sum where the curvature that all rows of a table share is flat, the mean where it is stiff (ours).

    Near a round's start the steps of a row x are affine, x <- x - rate g' sum of y y^T (x - x*) over the rows y that it
    meets. Along a stiff direction each host alone goes most of the way, so the sum overshoots and the mean is right;
    along a flat one each goes a little, and the sum is right. AdaSum looks at one direction, the next host's change,
    and `Blend` at one number a row. The rows of a table meet nearly the same others, so their curvature is one matrix,
    known from what was agreed on before the round:

        C = U diag(value) U^T, the mean of y y^T over the steps of a table
        agreed = start + U diag(share) U^T (sum of the changes of m hosts), for rows with m > 1
        share_k = (1 - exp(-a_k)) / (m (1 - exp(-a_k / m)))      a_k = SLOPE rate (steps of the row) value_k

    No order of hosts and no memory.
    """

    number = SUM

    def __init__(self, occurrence_B: np.ndarray | None = None) -> None:
        super().__init__()
        self._directions: Directions | None = None

    def prepare(self, curvature: Curvature) -> None:
        along_and_across = turns(np.ascontiguousarray(curvature.vector_DD))
        self._directions = Directions(SLOPE * curvature.step_B, curvature.value_D, *along_and_across)

    def directions(self) -> Directions:
        assert self._directions is not None, "a round is merged whose curvature is not known"
        return self._directions

    def combine(self, start_BD: np.ndarray, changes: Sequence[np.ndarray], out_BD: np.ndarray) -> None:
        total_BD = np.sum(changes, axis=0)
        self.settle(total_BD, np.sum([change_BD.any(axis=1) for change_BD in changes], axis=0))
        out_BD[:] = np.clip(start_BD + total_BD, -self.bound, self.bound)

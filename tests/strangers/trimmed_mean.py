"""Trimmed mean (Yin et al. 2018): of each number the largest and the smallest changes of the hosts do not count."""

from collections.abc import Sequence

import numpy as np

from any2vec.sync.rules.merge_rule import MergeRule


class TrimmedMean(MergeRule):
    """Leaves out a third of the hosts, at both ends."""

    def combine(self, start_BD: np.ndarray, changes: Sequence[np.ndarray], out_BD: np.ndarray) -> None:
        change_HBD = np.sort(np.stack(changes), axis=0)
        cut = (len(changes) - 1) // 3
        out_BD[:] = start_BD + change_HBD[cut : len(changes) - cut].mean(axis=0)

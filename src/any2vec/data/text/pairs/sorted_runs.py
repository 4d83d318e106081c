"""Pairs and how often each came, in bounded memory: sorted runs, merged as they grow, and in files beyond a budget.

Legend: N pairs, C counts of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from any2vec.data.io.direct import Spill


class Run(NamedTuple):
    """Pairs, ascending and distinct, and how often each came."""

    pair_N: np.ndarray
    """uint64 (N,): two numbers as one"""
    weight_NC: np.ndarray
    """int64 (N, C)"""


class SortedRuns:
    """Runs that are added up. Memory: the budget of `spill`; a merge takes its own result beside what it merges."""

    def __init__(self, spill: Spill, num_counts: int) -> None:
        """spill: where runs go that are beyond its budget; left open as long as they are read. num_counts: C."""
        self._spill, self._num_counts = spill, num_counts
        self._runs: list[Run] = []
        self._stored: list[Run] = []

    def add(self, run: Run) -> None:
        """Add one."""
        self._runs.append(run)
        while len(self._runs) > 1 and 2 * len(self._runs[-1].pair_N) >= len(self._runs[-2].pair_N):
            self._runs.append(merged(self._runs.pop(), self._runs.pop()))
        if sum(run.pair_N.nbytes + run.weight_NC.nbytes for run in self._runs) > self._spill.budget_bytes:
            pair_N, weight_NC = self._spill.store(*merge_all(self._runs))
            self._stored.append(Run(pair_N, weight_NC))
            self._runs = []

    def all(self) -> list[Run]:
        """What was added, as few runs, one at least; a pair may stand in several."""
        self._runs = [merge_all(self._runs)] if self._runs else []
        found = [*self._stored, *self._runs]
        return found or [Run(np.empty(0, np.uint64), np.empty((0, self._num_counts), np.int64))]

    def blocks(self, block_pairs: int) -> Iterator[Run]:
        """Every pair once, ascending, about so many from each run at a time."""
        runs = self.all()
        while runs := [run for run in runs if len(run.pair_N)]:
            last = min(run.pair_N[min(block_pairs, len(run.pair_N)) - 1] for run in runs)
            ends = [int(np.searchsorted(run.pair_N, last, "right")) for run in runs]
            yield merge_all([Run(run.pair_N[:end], run.weight_NC[:end]) for run, end in zip(runs, ends, strict=True)])
            runs = [Run(run.pair_N[end:], run.weight_NC[end:]) for run, end in zip(runs, ends, strict=True)]


def merged(first: Run, second: Run) -> Run:
    """Both runs as one."""
    from any2vec.kernels.text.pair_counts import merge_sorted

    most = len(first.pair_N) + len(second.pair_N)
    pair_N, weight_NC = np.empty(most, np.uint64), np.empty((most, first.weight_NC.shape[1]), np.int64)
    size = merge_sorted(*first, *second, pair_N, weight_NC)
    return Run(pair_N[:size], weight_NC[:size])


def merge_all(runs: list[Run]) -> Run:
    """All of them as one, the shortest first; at least one."""
    left = sorted(runs, key=lambda run: len(run.pair_N))
    while len(left) > 1:
        left.append(merged(left.pop(0), left.pop(0)))
        left.sort(key=lambda run: len(run.pair_N))
    return left[0]

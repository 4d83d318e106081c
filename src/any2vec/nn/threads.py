"""Kernels side by side, on as many threads as torch may use (`torch.get_num_threads`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise

import numpy as np
import torch

_LEAST = 1 << 17
"""numbers to add up below which a second thread does not pay"""


def in_parts(work: Callable[[int, int], object], num_threads: int) -> None:
    """work(part, parts) of each part, and all are done; the first one in the caller's thread."""
    others = [_pool(os.getpid(), num_threads).submit(work, part, num_threads) for part in range(1, num_threads)]
    try:
        work(0, num_threads)
    finally:
        for other in others:
            other.result()


def threads_for(numbers: int) -> int:
    """How many threads pay for so many numbers to add up."""
    return int(torch.get_num_threads()) if numbers >= _LEAST else 1


def over_nodes(work: Callable[[int, int], object], stop_F1: np.ndarray, columns: int) -> None:
    """work(first, stop) of ranges of the F nodes with about as many edges each, one a thread."""
    num_nodes, num_edges = len(stop_F1) - 1, int(stop_F1[-1] - stop_F1[0])
    threads = threads_for((num_edges + num_nodes) * columns)
    if threads == 1:
        work(0, num_nodes)
        return
    ends = stop_F1[0] + num_edges * np.arange(1, threads) // threads
    cuts = list(pairwise([0, *np.searchsorted(stop_F1[:-1], ends).tolist(), num_nodes]))
    in_parts(lambda part, _: work(*cuts[part]), threads)


@cache
def _pool(process: int, num_threads: int) -> ThreadPoolExecutor:
    """Of this process: a forked one has none of its parent's threads."""
    return ThreadPoolExecutor(num_threads - 1, thread_name_prefix="any2vec-layers")

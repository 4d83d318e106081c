"""What the scripts of PyG and DGL train on, the same as any2vec's: random features and classes on a planted graph."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

BATCH, COLUMNS, CLASSES = 1024, 128, 16


class Inputs(NamedTuple):
    """Letters: N nodes, E edges."""

    order: np.ndarray
    """int64 (N,): nodes; the first ones are the seeds of an epoch"""
    x: torch.Tensor
    """float32 (N, COLUMNS)"""
    y: torch.Tensor
    """int64 (N,)"""
    indptr: torch.Tensor
    """int64 (N + 1,)"""
    indices: torch.Tensor
    """int64 (E,)"""

    def seeds(self, batches: str) -> torch.Tensor:
        """int64: those of so many batches."""
        return torch.from_numpy(self.order[: BATCH * int(batches)])


def inputs_of(path: str, threads: str) -> Inputs:
    """Of a graph's .npz file; torch uses so many threads from here on."""
    torch.set_num_threads(int(threads))
    torch.manual_seed(1)
    stored: Any = np.load(path)
    num, rng = len(stored["indptr"]) - 1, np.random.default_rng(1)
    order = rng.permutation(num)
    x = torch.from_numpy(rng.standard_normal((num, COLUMNS), np.float32))
    y = torch.from_numpy(rng.integers(0, CLASSES, num, np.int32).astype(np.int64))
    return Inputs(order, x, y, *(torch.from_numpy(stored[name].astype(np.int64)) for name in ("indptr", "indices")))

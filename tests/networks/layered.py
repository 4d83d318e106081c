"""What tests of inference share: graphs by lists, features that are watched, and the plain twin of all layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from any2vec.types import Csr


def csr_of(neighbors: list[Any]) -> Csr:
    """Of each node's neighbors."""
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in neighbors])]).astype(np.int64)
    return Csr(indptr, np.concatenate(neighbors).astype(np.int32), np.empty(0, np.float32))


class Counted:
    """Features that say how often each row is taken, how many at once, and whether neighbors in the file follow."""

    def __init__(self, row_ND: np.ndarray) -> None:
        self.row_ND, self.taken = row_ND, np.zeros(len(row_ND), int)
        self.most, self.is_in_order = 0, True

    def take(self, ids: np.ndarray) -> np.ndarray:
        self.most = max(self.most, len(ids))
        self.is_in_order &= bool((np.diff(ids) == 1).all())
        np.add.at(self.taken, ids, 1)
        return np.asarray(self.row_ND[ids])


def whole(network: Any, csr: Csr, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The plain twin: each layer over the whole graph."""
    import torch

    from any2vec.models.networks.network import block_of

    x, block = torch.from_numpy(features), block_of(csr)
    with torch.no_grad():
        for layer in network.layers[:-1]:
            x = network.activation(layer(x, block))
        return x.numpy(), network.layers[-1](x, block).numpy()

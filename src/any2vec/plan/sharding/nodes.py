"""Which host owns which node of a graph, by any partition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from any2vec.errors import InputError
from any2vec.plan.sharding.graph import partition
from any2vec.plan.sharding.sharding import Sharding, contiguous_bounds
from any2vec.types import Csr

_OWNER = np.uint16


@dataclass(frozen=True, kw_only=True)
class NodeSharding(Sharding):
    """Which host owns which node. Blocks and hashing are arithmetic; any other partition takes 2 bytes a node."""

    num_rows: int
    owners: int
    bounds: np.ndarray
    """int64 (parts + 1,) of contiguous blocks, (0,) otherwise"""
    part_of: np.ndarray
    """uint16 (N,) of any other partition; (0,) for blocks, and for hashing, where bounds are (0,) too"""

    @classmethod
    def make(cls, csr: Csr, owners: int, method: str) -> NodeSharding:
        """Of a partition by name, see `plan.sharding.graph.partition`.

        Raises:
            InputError: as there.
        """
        num_nodes = len(csr.indptr) - 1
        bounds, owner_N = np.empty(0, np.int64), np.empty(0, _OWNER)
        if method == "contiguous":
            bounds = np.array(contiguous_bounds(num_nodes, owners), np.int64)
        elif method != "hash":
            owner_N = partition(csr, owners, method).astype(_OWNER)
        return cls(num_rows=num_nodes, owners=owners, bounds=bounds, part_of=owner_N)

    @classmethod
    def of(cls, part_N: np.ndarray, owners: int) -> NodeSharding:
        """Of any partition: part_N int (N,), in [0, owners).

        Raises:
            InputError: a part is not one of them.
        """
        if len(part_N) and not 0 <= part_N.min() <= part_N.max() < owners:
            raise InputError(f"parts of nodes must lie in [0, {owners}), got [{part_N.min()}, {part_N.max()}].")
        owner_N = np.array(part_N, _OWNER)
        return cls(num_rows=len(part_N), owners=owners, bounds=np.empty(0, np.int64), part_of=owner_N)

    def owner(self, id_N: np.ndarray) -> np.ndarray:
        from any2vec.kernels.graph.walk_parts import find_owners

        owner_N = np.empty(len(id_N), np.int32)
        find_owners(self.part_of, self.bounds, self.owners, np.ascontiguousarray(id_N, np.int64), owner_N)
        return owner_N

    def slot(self, id_N: np.ndarray) -> np.ndarray:
        slot_N, owner_N = np.empty(len(id_N), np.int64), self.owner(id_N)
        for owner in np.unique(owner_N).tolist():
            slot_N[owner_N == owner] = np.searchsorted(self.ids(owner), id_N[owner_N == owner])
        return slot_N

    def ids(self, owner: int) -> np.ndarray:
        """The nodes of an owner, int32 (B,), ascending."""
        if len(self.bounds):
            return np.arange(self.bounds[owner], self.bounds[owner + 1], dtype=np.int32)
        step, found = 1 << 20, []
        for first in range(0, self.num_rows, step):
            nodes = np.arange(first, min(self.num_rows, first + step), dtype=np.int32)
            found.append(nodes[self.owner(nodes) == owner])
        return np.concatenate(found) if found else np.empty(0, np.int32)

    @property
    def nbytes(self) -> int:
        return self.bounds.nbytes + self.part_of.nbytes

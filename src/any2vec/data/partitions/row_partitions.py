"""Which row of a partitioned table an entity has.

Entities come in an order that means something: neighbors were named together. So they are permuted before the table
is cut, and every partition is a random sample of them. The permutation is computed, not stored
(kernels/common/permutation.py).

Letters: M entities asked for, p partitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from any2vec.checks import MAX_SEED, check_whole
from any2vec.errors import DataError
from any2vec.kernels.common.permutation import permute, unpermute
from any2vec.kernels.common.rng import PURPOSE_PARTS, stream_key

MOST_ENTITIES = 2**31 - 1
_REMEMBERED = 1 << 20
"""entities up to which their rows are computed once: 4 MB"""


@dataclass(frozen=True)
class RowPartitions:
    """A table's rows in partitions of nearly equal size, and the entities' places among them.

    Raises:
        InputError: a number is not legal.
    """

    num_entities: int
    """V, 1 or more"""
    partitions: int
    """p, 1 to V"""
    seed: int = 1
    """of the permutation"""

    def __post_init__(self) -> None:
        check_whole("num_entities", self.num_entities, 1, MOST_ENTITIES)
        check_whole("partitions", self.partitions, 1, self.num_entities)
        check_whole("seed", self.seed, 0, MAX_SEED)

    @cached_property
    def bounds(self) -> np.ndarray:
        """int64 (p + 1,): partition q has the rows [bounds[q], bounds[q + 1]); sizes differ by one at most."""
        return np.arange(self.partitions + 1, dtype=np.int64) * self.num_entities // self.partitions

    def rows(self, entity_M: np.ndarray) -> np.ndarray:
        """The rows of entities, int64 (M,).

        Raises:
            DataError: one is not in [0, V), as a name that training has not seen.
        """
        entity_M = np.asarray(entity_M)
        if len(entity_M) and not 0 <= (low := int(entity_M.min())) <= (high := int(entity_M.max())) < self.num_entities:
            wrong = low if low < 0 else high
            raise DataError(f"Entities are numbered from 0 to {self.num_entities - 1:,}, got {wrong:,}.")
        if self.num_entities <= _REMEMBERED:
            return self._rows_of_all[entity_M].astype(np.int64)
        found_M = np.empty(len(entity_M), np.int64)
        permute(entity_M, self.num_entities, self._key, found_M)
        return found_M

    def entities(self, row_M: np.ndarray) -> np.ndarray:
        """The entities that stand in rows, each in [0, V); int64 (M,)."""
        found_M = np.empty(len(row_M), np.int64)
        unpermute(np.asarray(row_M), self.num_entities, self._key, found_M)
        return found_M

    def part_of(self, row_M: np.ndarray) -> np.ndarray:
        """The partitions of rows; int64 (M,)."""
        return ((np.asarray(row_M, np.int64) + 1) * self.partitions - 1) // self.num_entities

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; `RowPartitions(**...)` is the same again."""
        return {"num_entities": self.num_entities, "partitions": self.partitions, "seed": self.seed}

    @cached_property
    def _rows_of_all(self) -> np.ndarray:
        """int32 (V,): the row of each entity."""
        found_V = np.empty(self.num_entities, np.int32)
        permute(np.arange(self.num_entities), self.num_entities, self._key, found_V)
        return found_V

    @property
    def _key(self) -> np.uint64:
        return stream_key(self.seed, PURPOSE_PARTS)

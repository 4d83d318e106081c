"""Plain twins of `any2vec.kernels.rows.placing`: shards are (first row, stop row, shift, owner)."""

from __future__ import annotations

import numpy as np

Shard = tuple[int, int, int, int]


def shard_of(row: int, shards: list[Shard]) -> Shard:
    (found,) = [shard for shard in shards if shard[0] <= row < shard[1]]
    return found


def place(ids: list[int], shards: list[Shard]) -> list[int]:
    return [row + shard_of(row, shards)[2] for row in ids]


def assigned(
    bags: list[list[int]], is_pooled: list[bool], shards: list[Shard], hosts: int
) -> list[list[tuple[int, list[int]]]]:
    """By host: its bags that have rows of its own, each with the places of those."""
    found = []
    for host in range(hosts):
        own = []
        for p, bag in enumerate(bags):
            places = [row + shard_of(row, shards)[2] for row in bag if shard_of(row, shards)[3] == host]
            if is_pooled[p % len(is_pooled)] and places:
                own.append((p, places))
        found.append(own)
    return found


def add_sums(sums: np.ndarray, bags: list[int], total: np.ndarray) -> np.ndarray:
    after = total.copy()
    for p, one in zip(bags, sums, strict=True):
        after[p] = after[p] + one
    return after

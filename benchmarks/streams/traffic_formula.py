"""Bytes on the wire of a batch of a stream, exactly: row-sparse from and to row servers, or the whole table all round.

Given the true numbers of rows this equals what the transport counts, byte for byte. The messages are those of
sync/drivers/served_batches.py and sync/drivers/dense_batches.py.

Legend: V rows of a table, D dim, T trainers, H hosts that own rows, N tables.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from any2vec.cluster.codec import ids_size, rows_size
from any2vec.cluster.message import overhead
from any2vec.plan.sharding.sharding import contiguous_bounds

REQUEST_BYTES, ANSWER_BYTES = 48, 16
"""of the control part of a request to a row server (tables/server/request.py), and of its answer"""


def sparse_bytes(
    asked_NH: Sequence[Sequence[int]], changed_NH: Sequence[Sequence[int]], size_H: Sequence[int], dim: int,
    hosts: int, own: int | None = None,
) -> dict[str, int]:  # fmt: skip
    """Bytes of one trainer's batch, both ways, by phase: "pull", "push" and "tick".

    Args:
        asked_NH: rows that the batch touches, by table and by owner.
        changed_NH: those that it has changed.
        size_H: rows of each owner's block of a table.
        hosts: all ranks of the run: each is told that the batch has ended.
        own: which of the owners is the trainer itself; None: none.
    """
    found = {"pull": 0, "push": 0, "tick": (hosts - 1) * (2 * overhead(1) + REQUEST_BYTES + ANSWER_BYTES)}
    for asked_H, changed_H in zip(asked_NH, changed_NH, strict=True):
        for owner, (asked, changed, size) in enumerate(zip(asked_H, changed_H, size_H, strict=True)):
            if owner == own:
                continue
            if asked:
                found["pull"] += overhead(2) + REQUEST_BYTES + ids_size(asked, size)
                found["pull"] += overhead(2) + ANSWER_BYTES + rows_size(asked, dim)
            if changed:
                found["push"] += overhead(3) + REQUEST_BYTES + ids_size(changed, size) + rows_size(changed, dim)
                found["push"] += overhead(1) + ANSWER_BYTES
    return found


def dense_bytes(num_rows: int, dim: int, trainers: int, tables: int = 2) -> dict[str, int]:
    """Bytes of one round of all trainers, a batch each, by phase: "reduce" and "broadcast"; batches do not matter.

    2 (T - 1) tables in all, so 2 (T - 1) / T for each trainer's batch, as of an all-reduce in a ring.
    """
    bounds = contiguous_bounds(num_rows, trainers)
    sizes = [after - before for before, after in itertools.pairwise(bounds)]
    # Every block goes from each other trainer to its owner, and back.
    once = sum((trainers - 1) * (overhead(tables) + tables * rows_size(size, dim)) for size in sizes)
    return {"reduce": once, "broadcast": once}


def assign_bytes(num_tokens: int, num_born: int = 0, changes: int = 0) -> int:
    """Bytes of a batch on its way to a trainer, and of the answer at its end.

    news: bytes of what the vocabulary says of all rows (noise 8, subsampling 8 a row), where it comes along.
    """
    parts = 8 if changes else 5
    return overhead(parts) + 8 + 64 + 8 + 4 * num_tokens + 8 * num_born + changes + overhead(2) + 8 + 32

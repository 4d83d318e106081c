"""Rows out of a table and back, copied without Python's lock, for logical hosts do it side by side; blocks of hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from any2vec.cluster.message import Part
from any2vec.cluster.transport import Transport
from any2vec.errors import MessageError
from any2vec.kernels.common.addresses import addresses
from any2vec.kernels.rows.rows import gather_rows, scatter_lists, scatter_rows
from any2vec.plan.sharding.sharding import Blocks, Striped


def rows_of(table_VD: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """float32 (K, D), a copy of the rows `ids`, int64 (K,)."""
    rows_KD = np.empty((len(ids), table_VD.shape[1]), table_VD.dtype)
    gather_rows(table_VD, ids, rows_KD)
    return rows_KD


def put_rows(table_VD: np.ndarray, ids: np.ndarray, rows_KD: np.ndarray) -> None:
    """Put float32 (K, D) into the rows `ids`, int64 (K,).

    Raises:
        MessageError: there is not a row for each id.
    """
    check_lists([ids], [rows_KD], table_VD.shape[1])
    scatter_rows(rows_KD, ids, table_VD)


def put_lists(table_VD: np.ndarray, ids: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> None:
    """`put_rows` of several lists, in one call: with many hosts lists are many and short."""
    check_lists(ids, rows, table_VD.shape[1])
    size_H = np.array([len(part) for part in ids], np.int64)
    scatter_lists(addresses(ids, np.int64), addresses(rows, np.float32), size_H, table_VD)


def check_lists(ids: Sequence[np.ndarray], rows: Sequence[np.ndarray], dim: int) -> None:
    """Raise MessageError unless there is a row of `dim` numbers for each id: kernels that take addresses trust them."""
    for which, values in zip(ids, rows, strict=True):
        if values.shape != (len(which), dim):
            raise MessageError(f"A host sent rows of shape {values.shape} where ({len(which)}, {dim}) are due.")


def stripes(tables: Mapping[str, np.ndarray], hosts: int) -> dict[str, Striped]:
    """Who owns the rows of each table."""
    sizes = {len(table) for table in tables.values()}
    found = {size: Striped(size, hosts) for size in sizes}
    return {name: found[len(table)] for name, table in tables.items()}


def gather_blocks(
    transport: Transport, blocks: Mapping[str, np.ndarray], shardings: Mapping[str, Blocks]
) -> dict[str, np.ndarray] | None:
    """The whole tables at rank 0, None elsewhere.

    blocks: name -> float32 (B, D) that this host owns, copies that nobody changes. All hosts call it together, in phase
    "gather".
    """
    found = transport.gather([Part("rows", rows) for rows in blocks.values()], "gather")
    if not found:
        return None
    tables = {}
    for index, name in enumerate(blocks):
        assigned = np.concatenate([parts[index].array for parts in found.values()])
        tables[name] = np.empty_like(assigned)
        put_rows(tables[name], shardings[name].rows(np.arange(shardings[name].num_rows)), assigned)
    return tables

"""Rows out of a table and back, copied without Python's lock, for logical hosts do it side by side; blocks of hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from any2vec.cluster.codec import packed_lists
from any2vec.cluster.message import Part
from any2vec.cluster.transport import Transport
from any2vec.errors import MessageError
from any2vec.kernels.common.addresses import addresses
from any2vec.kernels.rows.quantize import restore_to
from any2vec.kernels.rows.rows import gather_rows, scatter_lists, scatter_rows
from any2vec.plan.cost.volume import GATHERED
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


def put_packed(table_VD: np.ndarray, ids: Sequence[np.ndarray], packed: Sequence[Sequence[Part]]) -> None:
    """`put_rows` of several lists, as `pack_rows` packed them: with many hosts lists are many and short. Rounded rows
    are restored where they belong.

    Raises:
        MessageError: there is not a row for each id, or messages are none of `pack_rows`.
    """
    found = packed_lists(packed)
    check_lists(ids, found.arrays, table_VD.shape[1])
    id_H, is_coded = addresses(ids, np.int64), found.scale_H > 0
    if not is_coded.all():
        scatter_lists(id_H[~is_coded], found.value_H[~is_coded], found.size_H[~is_coded], table_VD)
    if is_coded.any():
        coded = (found.scale_H[is_coded], found.value_H[is_coded], found.size_H[is_coded])
        restore_to(id_H[is_coded], *coded, found.like, table_VD)


def check_lists(ids: Sequence[np.ndarray], rows: Sequence[np.ndarray], dim: int) -> None:
    """Raise MessageError unless there is a row of `dim` numbers for each id: kernels that take addresses trust them."""
    for which, values in zip(ids, rows, strict=True):
        if values.shape != (len(which), dim):
            raise MessageError(f"A host sent rows of shape {values.shape} where ({len(which)}, {dim}) are due.")


def num_rows_of(tables: Mapping[str, np.ndarray]) -> dict[str, int]:
    """name -> V."""
    return {name: len(table) for name, table in tables.items()}


def stripes(num_rows: Mapping[str, int], hosts: int) -> dict[str, Striped]:
    """Who owns the rows of each table."""
    found = {size: Striped(size, hosts) for size in set(num_rows.values())}
    return {name: found[size] for name, size in num_rows.items()}


def gather_blocks(
    transport: Transport, blocks: Mapping[str, np.ndarray], shardings: Mapping[str, Blocks]
) -> dict[str, np.ndarray] | None:
    """The whole tables at rank 0, None elsewhere; beside them it holds GATHERED bytes of rows at a time.

    blocks: name -> float32 (B, D) that this host owns; nobody changes them before this returns. All hosts call it
    together, in phase "gather".
    """
    is_root = transport.rank == 0
    shapes = {name: (shardings[name].num_rows, rows.shape[1]) for name, rows in blocks.items()}
    tables = {name: np.empty(shape, blocks[name].dtype) for name, shape in shapes.items()} if is_root else None
    turns = max(1, -(-4 * sum(rows * dim for rows, dim in shapes.values()) // GATHERED))
    for turn in range(turns):
        if turn:
            transport.share((), "gather")  # nobody sends more before rank 0 has put away what was sent
        own = [rows[slice(*_part(len(rows), turn, turns))] for rows in blocks.values()]
        found = transport.gather([Part("rows", rows if is_root else rows.copy()) for rows in own], "gather")
        if tables is None:
            continue
        for host, parts in found.items():
            for (name, table), part in zip(tables.items(), parts, strict=True):
                low, high = shardings[name].block(host)
                begin, end = _part(high - low, turn, turns)
                put_rows(table, shardings[name].rows(np.arange(low + begin, low + end)), part.array)
    return tables


def _part(size: int, turn: int, turns: int) -> tuple[int, int]:
    """The rows of a block that travel in one turn."""
    return size * turn // turns, size * (turn + 1) // turns

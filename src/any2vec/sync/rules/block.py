"""The rows that a host owns: it merges what all hosts made of them, in rank order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from any2vec.cluster.codec import pack_rows, unpack_lists
from any2vec.cluster.message import Part
from any2vec.cluster.transport import Transport
from any2vec.kernels.common.addresses import addresses
from any2vec.kernels.rows.merge import (
    ADASUM,
    ADASUM_SYMMETRIC,
    MEAN,
    SUM,
    changed_rows,
    finish_rows,
    merge_hosts,
    merge_rows,
)
from any2vec.plan.sharding.sharding import Striped
from any2vec.sync.base.copying import check_lists, put_lists, put_rows, rows_of
from any2vec.sync.base.crew import Crew

RULES = {"adasum": ADASUM, "adasum-symmetric": ADASUM_SYMMETRIC, "blend": ADASUM, "mean": MEAN, "sum": SUM}
"""name of a merge rule -> its number in the kernels; mean is over the hosts that changed the row"""
COMMON = 1000.0
"""occurrences in an epoch of a row that "blend" merges mostly by AdaSum (a share of 63 %); measured, see docs/log.md"""
STRETCH_BYTES = 1 << 20
"""of rows and of what is merged of them, at a time: a share of a core's second-level cache"""


def compile_merges(dim: int, bits: int = 32) -> None:
    """Compile the kernels that merge rows of `dim` numbers and carry them, or load them from the cache."""
    block, rows = Block(np.zeros((1, dim), np.float32), "sum"), np.zeros((1, dim), np.float32)
    for is_delta in (False, True):
        block.merge(np.zeros(1, np.int64), rows, is_delta)
        block.finish(is_delta)
        block.merge_all([(np.zeros(1, np.int64), rows)], is_delta, Crew(1))
    carried = unpack_lists([pack_rows(rows, bits)])
    put_lists(rows, [np.zeros(1, np.int64)], carried)
    changed_rows(rows, rows, np.zeros(1, np.uint8))


def gather_blocks(
    transport: Transport, blocks: Mapping[str, np.ndarray], sharding: Striped
) -> dict[str, np.ndarray] | None:
    """The whole tables at rank 0, None elsewhere.

    blocks: name -> float32 (B, D) that this host owns, copies that nobody changes. All hosts call it together, in phase
    "gather".
    """
    found = transport.gather([Part("rows", rows) for rows in blocks.values()], "gather")
    if not found:
        return None
    rows, tables = sharding.rows(np.arange(sharding.num_rows)), {}
    for index, name in enumerate(blocks):
        dealt = np.concatenate([parts[index].array for parts in found.values()])
        tables[name] = np.empty_like(dealt)
        put_rows(tables[name], rows, dealt)
    return tables


@dataclass(frozen=True)
class Rule:
    """How owners merge what hosts made of a row.

    "blend" is asymmetric AdaSum for rows that occur often and the sum for rare ones. AdaSum takes once what hosts'
    changes have in common: right for a row that each host had time to move to where it belongs, but a rare one
    needs every step. The share of AdaSum is 1 - exp(-occurrences / COMMON).
    """

    name: str
    counts: Mapping[str, np.ndarray] = field(default_factory=dict)
    """table -> occurrences of its rows in an epoch, (V',); rows beyond them count as frequent"""

    def block(self, table: str, table_VD: np.ndarray, ids: np.ndarray) -> Block:
        """The block of the rows `ids`, int64 (B,), of a table with their present values."""
        share_B = None
        if self.name == "blend":
            share_V = np.ones(len(table_VD), np.float32)
            counts = self.counts.get(table, np.empty(0))
            share_V[: len(counts)] = -np.expm1(-counts.astype(np.float64) / COMMON)
            share_B = share_V[ids]
        return Block(rows_of(table_VD, ids), self.name, share_B)


class Block:
    """One host's block of one table: float32 (B, D), the values that all hosts agree on.

    Memory: 4 bytes a number; `merge` and `finish` add 12, `merge_all` only some for each thread.
    """

    def __init__(self, rows_BD: np.ndarray, rule: str, share_B: np.ndarray | None = None) -> None:
        """rows_BD is copied; share_B: float32 (B,) of AdaSum, None: all 1."""
        self.rows = rows_BD.copy()
        self._rule = RULES[rule]
        self._share = np.empty(0, np.float32) if share_B is None else share_B
        self._merging: _Merging | None = None

    def merge(self, slot_K: np.ndarray, now_KD: np.ndarray, is_delta: bool) -> None:
        """Take one host's values (or changes) of the rows slot_K, int64; host after host in rank order.

        Raises:
            MessageError: there is not a row for each slot.
        """
        check_lists([slot_K], [now_KD], self.rows.shape[1])
        if self._merging is None:
            self._merging = _Merging(*self.rows.shape)
        self._merging.add(self._rule, slot_K, now_KD, is_delta, self.rows, self._share)

    def finish(self, is_delta: bool) -> np.ndarray:
        """Agree on what was merged; the slots that any host changed, int64 ascending."""
        if self._merging is None:
            return np.empty(0, np.int64)
        return np.flatnonzero(self._merging.finish(self._rule, is_delta, self.rows))

    def merge_all(self, told: Sequence[tuple[np.ndarray, np.ndarray]], is_delta: bool, crew: Crew) -> np.ndarray:
        """Merge (slots ascending, values) of all hosts by rank, and agree; the slots that any host changed, ascending.

        Stretch after stretch, each small enough for a core's cache; threads take parts of the block. Each row meets its
        hosts in the same order, whatever the stretches and threads.
        """
        check_lists([slots for slots, _ in told], [values for _, values in told], self.rows.shape[1])
        slots_H = addresses([slots for slots, _ in told], np.int64)
        values_H = addresses([values for _, values in told], np.float32)
        size_H = np.array([len(slots) for slots, _ in told], np.int64)
        step = max(1, min(len(self.rows), STRETCH_BYTES // (16 * max(1, self.rows.shape[1]))))
        changed = np.zeros(len(self.rows), bool)

        def merge(part: tuple[int, int]) -> None:
            merge_hosts(
                self._rule, slots_H, values_H, size_H, step, part[0], part[1], is_delta, self.rows, self._share,
                changed,
            )  # fmt: skip

        crew.each(merge, crew.parts(len(self.rows)))
        return np.flatnonzero(changed)


class _Merging:
    """What is merged so far of up to B rows."""

    def __init__(self, num_rows: int, dim: int) -> None:
        self._value = np.empty((num_rows, dim), np.float32)
        self._sum = np.empty((num_rows, dim), np.float64)
        self._count = np.zeros(num_rows, np.int32)

    def add(
        self, rule: int, slot_K: np.ndarray, now_KD: np.ndarray, is_delta: bool, start_BD: np.ndarray,
        share_B: np.ndarray,
    ) -> None:  # fmt: skip
        if len(slot_K):
            merge_rows(rule, slot_K, 0, now_KD, is_delta, start_BD, self._value, self._sum, self._count, share_B)

    def finish(self, rule: int, is_delta: bool, start_BD: np.ndarray) -> np.ndarray:
        """Put what was merged into start_BD; bool (B,), whether any host changed a row."""
        size = len(start_BD)
        finish_rows(rule, is_delta, start_BD, self._value[:size], self._sum[:size], self._count[:size])
        changed = self._count[:size] > 0
        self._count[:] = 0
        return changed

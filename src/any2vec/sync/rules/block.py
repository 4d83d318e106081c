"""The rows that a host owns: it merges what all hosts made of them, by a rule, in rank order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from any2vec.cluster.codec import empty_parts, most_of, pack_rows, packed_lists, unpack_lists
from any2vec.cluster.message import Part
from any2vec.errors import InputError
from any2vec.kernels.common.addresses import addresses
from any2vec.kernels.rows.merge import changed_rows, finish_rows, merge_hosts, merge_rows
from any2vec.kernels.rows.merge_along import merge_along
from any2vec.kernels.rows.quantize import quantize_changes, quantize_slots, take_coded
from any2vec.sync.base.curvature import PairSteps
from any2vec.sync.base.pool import ThreadPool
from any2vec.sync.base.states import is_state
from any2vec.sync.rules.merge_rule import MergeRule, StateMean
from any2vec.sync.rules.merges import KernelRule, Sum
from any2vec.tables.copying import check_lists, put_packed, put_rows, rows_of
from any2vec.types import State

STRETCH_BYTES = 1 << 20
"""of rows and of what is merged of them, at a time: a share of a core's second-level cache"""


def compile_merges(dim: int, bits: int = 32) -> None:
    """Compile the kernels that merge rows of `dim` numbers and carry them, or load them from the cache."""
    block, rows = Block(np.zeros((1, dim), np.float32), Sum()), np.zeros((1, dim), np.float32)
    for is_delta in (False, True):
        block.merge(np.zeros(1, np.int64), rows, is_delta)
        block.finish(is_delta)
        block.merge_all([(np.zeros(1, np.int64), rows)], is_delta, ThreadPool(1))
    compile_copies(rows, bits)


def compile_copies(rows_1D: np.ndarray, bits: int) -> None:
    """Compile the kernels that carry rows of a table of one row, laid out as all that are like it."""
    which = np.zeros(1, np.int64)
    put_packed(rows_1D, [which], [pack_rows(rows_of(rows_1D, which), bits)])
    put_rows(rows_1D, which, rows_of(rows_1D, which))
    changed_rows(rows_1D, rows_1D.copy(), np.zeros(1, np.uint8))
    if bits < 32:
        (codes, scales), rows, most = empty_parts(rows_1D.shape, bits), rows_of(rows_1D, which), most_of(bits)
        quantize_slots(rows, which, most, scales.array, codes.array)
        take_coded(scales.array, codes.array, which, scales.array, codes.array)
        start = packed_lists([(codes, scales)])
        quantize_changes(
            rows, start.value_H, start.scale_H, start.size_H, start.like, 0, 1, which, rows, most, scales.array,
            codes.array,
        )  # fmt: skip


@dataclass(frozen=True)
class Rules:
    """How owners merge what hosts made of a row, table by table."""

    kind: type[MergeRule]
    """of tables of values; states of optimizers have their mean"""
    counts: Mapping[str, np.ndarray] = field(default_factory=dict)
    """table -> occurrences of its rows in an epoch, (V',); rows beyond them count as frequent"""
    steps: Callable[[], PairSteps] | None = None
    """gives those of the task, for rules that ask for curvature"""

    def block(self, table: str, rows_BD: np.ndarray, ids: np.ndarray) -> Block:
        """The block of the rows `ids`, int64 (B,), of a table, with these values, float32 (B, D), copied."""
        if is_state(table):
            return Block(rows_BD, StateMean())
        counts, occurrence_B = self.counts.get(table, np.empty(0)), np.full(len(ids), np.inf)
        known = ids < len(counts)
        occurrence_B[known] = counts[ids[known]]
        return Block(rows_BD, self.kind(occurrence_B))


class Block:
    """One host's block of one table: float32 (B, D), the values that all hosts agree on.

    Memory: 4 bytes a number; `merge` and `finish` add 12, `merge_all` only some for each thread.
    """

    def __init__(self, rows_BD: np.ndarray, rule: MergeRule) -> None:
        """rows_BD is copied."""
        self.rows = rows_BD.copy()
        self.rule = rule
        self._merging: _Merging | _Combining | None = None

    def merge(self, slot_K: np.ndarray, now_KD: np.ndarray, is_delta: bool) -> None:
        """Take one host's values (or changes) of the rows slot_K, int64; host after host in rank order.

        Raises:
            MessageError: there is not a row for each slot.
        """
        check_lists([slot_K], [now_KD], self.rows.shape[1])
        if self._merging is None:
            is_kernel = isinstance(self.rule, KernelRule)
            self._merging = _Merging(*self.rows.shape) if is_kernel else _Combining()
        self._merging.add(self.rule, slot_K, now_KD, is_delta, self.rows)

    def finish(self, is_delta: bool) -> np.ndarray:
        """Agree on what was merged; the slots that any host changed, int64 ascending."""
        if self._merging is None:
            return np.empty(0, np.int64)
        return np.flatnonzero(self._merging.finish(self.rule, is_delta, self.rows))

    def merge_all(
        self, changes: Sequence[tuple[np.ndarray, np.ndarray]], is_delta: bool, pool: ThreadPool
    ) -> np.ndarray:
        """Merge (slots ascending, values) of all hosts by rank, and agree; the slots that any host changed, ascending.

        With a rule of kernels stretch after stretch, each small enough for a core's cache; threads take parts of the
        block. Each row meets its hosts in the same order, whatever the stretches and threads.
        """
        return self.merge_packed([(slots, pack_rows(values)) for slots, values in changes], is_delta, pool)

    def merge_packed(
        self, changes: Sequence[tuple[np.ndarray, Sequence[Part]]], is_delta: bool, pool: ThreadPool
    ) -> np.ndarray:
        """`merge_all` of values as `pack_rows` has packed them."""
        rule, slots = self.rule, [slots for slots, _ in changes]
        directions = rule.directions() if isinstance(rule, KernelRule) else None
        if directions is not None:
            found = packed_lists([packed for _, packed in changes])
            check_lists(slots, found.arrays, self.rows.shape[1])
            changed = np.zeros(len(self.rows), bool)
            slots_H, step = addresses(slots, np.int64), self._stretch()

            def merge_stretches(part: tuple[int, int]) -> None:
                merge_along(
                    slots_H, found.value_H, found.scale_H, found.size_H, found.like, step, *part, is_delta, self.rows,
                    *directions, changed,
                )  # fmt: skip

            pool.each(merge_stretches, pool.parts(len(self.rows)))
            return np.flatnonzero(changed)
        values = unpack_all([packed for _, packed in changes], pool)
        if not isinstance(rule, KernelRule):
            for which, rows in zip(slots, values, strict=True):
                self.merge(which, rows, is_delta)
            return self.finish(is_delta)
        return self._merge_hosts(rule, slots, values, is_delta, pool)

    def _merge_hosts(
        self, rule: KernelRule, slots: Sequence[np.ndarray], values: Sequence[np.ndarray], is_delta: bool,
        pool: ThreadPool,
    ) -> np.ndarray:  # fmt: skip
        check_lists(slots, values, self.rows.shape[1])
        slots_H, values_H = addresses(slots, np.int64), addresses(values, np.float32)
        size_H = np.array([len(which) for which in slots], np.int64)
        changed, step = np.zeros(len(self.rows), bool), self._stretch()

        def merge(part: tuple[int, int]) -> None:
            merge_hosts(
                rule.number, slots_H, values_H, size_H, step, part[0], part[1], is_delta, self.rows, rule.share_B,
                changed,
            )  # fmt: skip

        pool.each(merge, pool.parts(len(self.rows)))
        return np.flatnonzero(changed)

    def _stretch(self) -> int:
        """Rows that are merged at a time."""
        return max(1, min(len(self.rows), STRETCH_BYTES // (16 * max(1, self.rows.shape[1]))))


class _Merging:
    """What is merged so far of up to B rows."""

    def __init__(self, num_rows: int, dim: int) -> None:
        self._value = np.empty((num_rows, dim), np.float32)
        self._sum = np.empty((num_rows, dim), np.float64)
        self._count = np.zeros(num_rows, np.int32)

    def add(
        self, rule: MergeRule, slot_K: np.ndarray, now_KD: np.ndarray, is_delta: bool, start_BD: np.ndarray
    ) -> None:
        assert isinstance(rule, KernelRule)
        if len(slot_K):
            merge_rows(
                rule.number, slot_K, 0, now_KD, is_delta, start_BD, self._value, self._sum, self._count, rule.share_B
            )

    def finish(self, rule: MergeRule, is_delta: bool, start_BD: np.ndarray) -> np.ndarray:
        """Put what was merged into start_BD; bool (B,), whether any host changed a row."""
        assert isinstance(rule, KernelRule)
        size = len(start_BD)
        rule.settle(self._sum[:size], self._count[:size])
        finish_rows(rule.number, is_delta, start_BD, self._value[:size], self._sum[:size], self._count[:size])
        changed = self._count[:size] > 0
        self._count[:] = 0
        return changed


class _Combining:
    """The changes of each host so far, for rules that are no kernels."""

    def __init__(self) -> None:
        self._changes: list[np.ndarray] = []

    def add(
        self, rule: MergeRule, slot_K: np.ndarray, now_KD: np.ndarray, is_delta: bool, start_BD: np.ndarray
    ) -> None:
        change_BD = np.zeros(start_BD.shape)
        change_BD[slot_K] = now_KD if is_delta else now_KD.astype(np.float64) - start_BD[slot_K]
        self._changes.append(change_BD)

    def finish(self, rule: MergeRule, is_delta: bool, start_BD: np.ndarray) -> np.ndarray:
        """Put what the rule makes of the changes into start_BD; bool (B,), whether a row has changed anywhere."""
        changes, self._changes = self._changes, []
        out_BD = np.empty_like(start_BD)
        rule.combine(start_BD, changes, out_BD)
        changed = np.any([change_BD.any(axis=1) for change_BD in changes], axis=0) | (out_BD != start_BD).any(axis=1)
        start_BD[:] = checked(rule, out_BD)
        return changed


def unpack_all(packed: Sequence[Sequence[Part]], pool: ThreadPool) -> list[np.ndarray]:
    """`unpack_lists`, by all threads."""
    lists = pool.each(lambda part: unpack_lists(packed[slice(*part)]), pool.parts(len(packed)))
    return [rows for some in lists for rows in some]


def checked(rule: MergeRule, out_BD: np.ndarray) -> np.ndarray:
    """What a rule has made, within its bound.

    Raises:
        InputError: some of it is no number.
    """
    if not np.isfinite(out_BD).all():
        raise InputError(f"The merge rule {type(rule).__name__} has made rows that are not finite; fix the rule.")
    return np.clip(out_BD, -rule.bound, rule.bound)


def rule_states(blocks: Mapping[str, Block]) -> State:
    """What the rules of blocks remember, by name."""
    states = {table: block.rule.state_dict() for table, block in blocks.items()}
    return {f"{table}.rule.{name}": array for table, state in states.items() for name, array in state.items()}


def load_rule_states(blocks: Mapping[str, Block], states: Sequence[State], rank: int, hosts: int) -> None:
    """Let rules go on from `rule_states`, by rank; with another number of hosts blocks are others, and begin anew."""
    for table, block in blocks.items() if len(states) == hosts else ():
        begin = f"{table}.rule."
        kept = {name.removeprefix(begin): array for name, array in states[rank].items() if name.startswith(begin)}
        if kept:
            block.rule.load_state_dict(kept)

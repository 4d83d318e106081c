"""Rows of a table that grows: a row that is born, or given to another key, is started afresh where it is served.

Legend: B rows of the block, D dim, K rows of a request, M rows that are born.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from any2vec.cluster.codec import pack_state, unpack_state
from any2vec.cluster.message import Part
from any2vec.cluster.transport import text_part
from any2vec.errors import InputError
from any2vec.tables.server.blocks.row_block import Merger, RowBlock
from any2vec.types import Stateful

START, METRICS, MEMORY, RECALL = range(1, 5)
"""operations. START: slots, int64 (M,), and the number of the birth, int64 (1,); then, where rows are not to begin with
their start values, others, float32 (M, D); gives nothing. METRICS: nothing; gives what the block can tell, as JSON.
MEMORY: nothing; gives what its rule remembers, as `pack_state`. RECALL: takes that again; gives nothing"""


class GrowingBlock(RowBlock):
    """A `RowBlock` whose rows are started when they are born; what was learned of a row's former key is left out.

    Births are numbered from 1 by whoever gives rows to keys. Not in step, `push` has as its clock the last birth that
    the pusher's batch knows of: a row that was born later belongs to another key by now, and its change is dropped. In
    step, all births of a round take effect before anyone reads in it, so nothing has to be dropped.

    Args:
        merger, in_step: as `RowBlock`.
        values: from slots int64 (M,) to their start values, float32 (M, D).
        more: what else it can tell.
        rule: by which it merges, where that is one with a memory.
    """

    def __init__(
        self,
        merger: Merger,
        in_step: bool,
        values: Callable[[np.ndarray], np.ndarray],
        more: Callable[[], Mapping[str, Any]] = dict,
        rule: Stateful | None = None,
    ) -> None:
        super().__init__(merger, in_step)
        self._values = values
        self._more = more
        self._rule = rule
        self._birth_B = np.zeros(len(merger.rows), np.int64)
        """the number of each row's last birth"""
        self.dropped = 0
        """rows of pushes that came too late for their keys"""

    def push(self, trainer: int, clock: int, slot_K: np.ndarray, value_KD: np.ndarray, is_delta: bool) -> None:
        """As `RowBlock`; not in step, `clock` is the last birth that the batch knows of.

        Raises:
            InputError: as `RowBlock`.
        """
        if not self._in_step:
            self._check(slot_K)
            with self._lock:
                is_late = self._birth_B[slot_K] > clock
            if is_late.any():
                self.dropped += int(is_late.sum())
                slot_K, value_KD = slot_K[~is_late], value_KD[~is_late]
        super().push(trainer, clock, slot_K, value_KD, is_delta)

    def call(self, operation: int, trainer: int, parts: Sequence[Part]) -> list[Part]:
        """START, METRICS, MEMORY and RECALL.

        Raises:
            InputError: another operation, or slots that are not of this block.
        """
        if operation == METRICS:
            return [text_part(json.dumps({"dropped": self.dropped, "updates": self.updates, **self._more()}))]
        if self._rule is not None and operation in (MEMORY, RECALL):
            with self._lock:
                if operation == MEMORY:
                    return pack_state(self._rule.state_dict())
                self._rule.load_state_dict(unpack_state(parts))
            return []
        if operation != START or len(parts) not in (2, 3) or parts[1].array.shape != (1,):
            raise InputError(f"Operation {operation} with {len(parts)} parts was asked of a block that grows.")
        slot_M, birth = parts[0].array.astype(np.int64), int(parts[1].array[0])
        self._check(slot_M)
        value_MD = self._values(slot_M) if len(parts) == 2 else parts[2].array
        if value_MD.shape != (len(slot_M), self.dim) or value_MD.dtype != np.float32:
            raise InputError(f"{len(slot_M)} rows were to begin with {value_MD.dtype} of shape {value_MD.shape}.")
        with self._lock:
            self._merger.rows[slot_M] = value_MD
            self.version_B[slot_M] += 1
            self._birth_B[slot_M] = birth
        return []

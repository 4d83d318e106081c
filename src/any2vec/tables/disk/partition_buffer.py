"""Some partitions of a table in memory, while others are on their way: read ahead, and written back, behind training.

All stand in one array of slots, in blocks of a partition's size that begin at a page; a partition that enters is read
into a free block, one that leaves is written from its own, and nothing is copied in memory. Two threads move them: one
reads what the next states of the walk (plan/order/buffer_walk.py) bring, as far as blocks are free; one writes. A
partition is read again only after it is written.

What is trained between two commits is lost when the process is killed. A commit writes every partition in memory that
has changed, which the walk alone would not: c partitions, where a swap writes one. So commits are for some minutes'
work or the end of an epoch, not for every state.

Source: the buffer of Marius (Mohoney et al., OSDI 2021), with exchanged blocks instead of copies, and commits.

Legend: S slots, C columns of a row, P partitions.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from any2vec.background import Background
from any2vec.data.io.direct import aligned_rows
from any2vec.errors import StorageError
from any2vec.plan.order.buffer import block_rows
from any2vec.plan.order.buffer_walk import Place, Turn
from any2vec.tables.disk.partition_store import PartitionStore

PATIENCE = 600.0
"""seconds without a partition read or written after which the disk is given up"""


@dataclass(frozen=True)
class BufferCounts:
    """What a buffer has moved."""

    loads: int
    """partitions"""
    stores: int
    bytes_read: int
    bytes_written: int
    seconds_waited: float
    """that training stood still for partitions to enter"""
    seconds_committing: float
    commits: int

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


class PartitionBuffer(Background):
    """The partitions that are trained now. One thread owns it, and trains nothing while it calls `advance` or `commit`.

    Use as a context: its threads end with it. What was not committed is lost.

    Args:
        store: nobody else uses it meanwhile.
        walk: the turns; gone through twice, for the same.
        blocks: of memory (`BufferWalk.blocks`).
        patience: seconds without a partition read or written after which waiting ends.
        fetch: fills a block with a partition that comes from elsewhere in a turn; False: the store has it.
    """

    def __init__(
        self, store: PartitionStore, walk: Iterable[Turn], blocks: int, patience: float = PATIENCE,
        fetch: Callable[[Turn, int, np.ndarray], bool] | None = None,
    ) -> None:  # fmt: skip
        super().__init__([("partition-reader", self._read), ("partition-writer", self._write)], patience)
        self.store = store
        self.block_rows = block_rows(store.largest(), 4 * store.columns)
        """slots of a block"""
        self.table_SC = aligned_rows(blocks * self.block_rows, store.columns)
        """float32; block b has the slots from b * block_rows on"""
        self.first_slot_P = np.full(store.num_partitions, -1, np.int64)
        """where each partition begins, -1 where it is not there"""
        self.turn: Turn | None = None
        self.seconds_waited = self.seconds_committing = 0.0
        self.commits = 0
        self._walk, self._fetch = walk, fetch
        self._turns = iter(walk)
        self._begun = (-1, -1)
        """epoch and state of the turn whose leaving partitions are on their way"""
        self._fetched: set[int] = set()
        """partitions that came from elsewhere and have not entered: the store lacks them"""
        self._changed: set[int] = set()
        """partitions in memory that differ from the store's"""
        self._is_clear = [True] * blocks
        """blocks that hold nothing that is still wanted"""
        self._is_at_rest = [True] * store.num_partitions
        """partitions that the store has as they are, and that are nowhere else"""
        self._ready: set[int] = set()
        """partitions that are read and have not entered"""
        self._writes: deque[tuple[Place, bool]] = deque()
        """what is to be written, and whether it leaves"""

    @property
    def resident(self) -> list[tuple[int, int]]:
        """(first slot, stop slot) of each partition that is trained now, by partition."""
        held = self.turn.held if self.turn else ()
        return [(block * self.block_rows, block * self.block_rows + self.store.rows_of(part)) for part, block in held]

    @property
    def counts(self) -> BufferCounts:
        """So far."""
        store = self.store
        return BufferCounts(
            store.loads, store.stores, store.bytes_read, store.bytes_written, self.seconds_waited,
            self.seconds_committing, self.commits,
        )  # fmt: skip

    def turns(self) -> Iterator[Turn]:
        """Turn after turn, each when its partitions are in memory."""
        while (turn := self.advance()) is not None:
            yield turn

    def advance(self) -> Turn | None:
        """Let partitions leave and enter; None behind the last turn, where all stay.

        Raises:
            StorageError: the disk is full, or does not answer.
            FormatError: a partition is damaged.
        """
        turn = next(self._turns, None)
        if turn is None:
            self.check()
            return None
        for place in turn.leaving:
            self._let_go(place)
        with self._condition:
            self._begun = turn.epoch, turn.state
            self._condition.notify_all()
        begun = time.monotonic()
        wanted = {part for part, _ in turn.entering}
        self._await(lambda: wanted <= self._ready, lambda: self._stalled("read"))
        self.seconds_waited += time.monotonic() - begun
        self._ready -= wanted
        self._changed |= self._fetched & wanted
        self._fetched -= wanted
        for part, block in turn.entering:
            self.first_slot_P[part] = block * self.block_rows
        self.turn = turn
        return turn

    def mark(self) -> None:
        """Say that the partitions that are there are being changed: all, for negatives come from all of them."""
        assert self.turn is not None
        self._changed.update(part for part, _ in self.turn.held)

    def commit(self, note: Mapping[str, Any], dense: Mapping[str, np.ndarray] | None = None) -> None:
        """Bring everything to the disk, with a note of where the run stands and arrays that belong to this moment.

        Raises:
            StorageError: the disk is full, or does not answer; the store is as at the commit before.
        """
        begun = time.monotonic()
        assert self.turn is not None
        with self._condition:
            self._writes.extend((place, False) for place in self.turn.held if place.part in self._changed)
            self._condition.notify_all()
        self._await(lambda: not self._writes, lambda: self._stalled("written"))
        self.store.commit(dict(note), dense)
        self._changed.clear()
        self.commits += 1
        self.seconds_committing += time.monotonic() - begun

    def await_rest(self, part: int, epoch: int, state: int) -> bool:
        """Wait until a partition has left behind this state, and the store has it; False: the run has ended by an
        error. For other threads.
        """

        def is_over() -> bool:
            return self._is_over or self._error is not None

        with self._condition:
            self._condition.wait_for(lambda: is_over() or (self._begun > (epoch, state) and self._is_at_rest[part]))
            return self._is_at_rest[part] and not is_over()

    def _let_go(self, place: Place) -> None:
        self.first_slot_P[place.part] = -1
        with self._condition:
            if place.part in self._changed:
                self._changed.remove(place.part)
                self._writes.append((place, True))
            else:
                self._is_at_rest[place.part] = self._is_clear[place.block] = True
            self._condition.notify_all()

    def _stalled(self, what: str) -> StorageError:
        return StorageError(
            f"The disk of {self.store.folder} has not {what} partitions for {self._patience:g} s; look whether it "
            "works."
        )

    def _read(self) -> None:
        for turn in self._walk:
            for part, block in turn.entering:
                if not self._awaits_work(lambda: self._is_clear[block] and self._is_at_rest[part]):  # noqa: B023
                    return
                self._is_clear[block] = False
                is_fetched = self._fetch is not None and self._fetch(turn, part, self._rows(block))
                self._is_at_rest[part] = False  # not before: who gives it back may have to take it from here first
                if not is_fetched:
                    self.store.read(part, self._rows(block))
                with self._condition:
                    self._ready.add(part)
                    if is_fetched:
                        self._fetched.add(part)
                    self._progress()

    def _write(self) -> None:
        while self._awaits_work(lambda: bool(self._writes)):
            (part, block), is_leaving = self._writes[0]
            self.store.write(part, self._rows(block))
            with self._condition:
                self._writes.popleft()
                if is_leaving:
                    self._is_at_rest[part] = self._is_clear[block] = True
                self._progress()

    def _rows(self, block: int) -> np.ndarray:
        return self.table_SC[block * self.block_rows : (block + 1) * self.block_rows]

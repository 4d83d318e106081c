"""Triples of a state of the buffer in random order, from disk, in a memory that does not grow with the graph.

A state trains some buckets. Their chunks (data/partitions/buckets.py) are permuted; as many as a window holds are read
and shuffled together, so that a batch has triples of many buckets, as it has without partitions. Which triples make a
window, and their order in it, depend on (seed, epoch, state, window) alone.

Letters: M triples.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from any2vec.background import Background
from any2vec.checks import check_whole
from any2vec.data.partitions.buckets import Buckets, Chunk, TripleBuckets, chunk_buffer
from any2vec.errors import InputError, StorageError
from any2vec.kernels.common.permutation import permute, shuffle_rows
from any2vec.kernels.common.rng import PURPOSE_WINDOW, draw, stream_key
from any2vec.plan.order.buffer_walk import BufferWalk, Position, Turn
from any2vec.plan.order.shared_walk import SharedWalk
from any2vec.types import ProgressLine, Round, Work

WINDOW = 1 << 20
"""triples that are shuffled together"""


class Window(NamedTuple):
    """Triples that are trained one after another."""

    turn: Turn
    position: Position
    """where the run stands behind it"""
    before: int
    """triples of its epoch that come before it"""
    total: int
    """triples of its epoch"""
    slot_M3: np.ndarray
    """int32: slot of the head, relation (none in pairs), slot of the tail; slots are those of the turn's blocks"""
    ends_turn: bool
    made: Any = None
    """what has been made of it before it is trained"""


class TripleWindows:
    """The windows of a run, in order: a `Schedule[Window]`. A turn without triples has one empty window.

    Args:
        walk: turns; its start is where to go on.
        block_rows: slots of a block.
        window: triples of a window; at least one chunk is.
        is_shuffled: the triples of a window; else they stand chunk by chunk, for who brings them into an order anyway.
        sweeps: of an epoch over all states of the buffer: what walk and buckets call epochs.
    """

    def __init__(
        self, buckets: Buckets, walk: BufferWalk | SharedWalk, block_rows: int, seed: int = 1, window: int = WINDOW,
        is_shuffled: bool = True, sweeps: int = 1,
    ) -> None:  # fmt: skip
        check_whole("window", window, 1, 1 << 28)
        self._buckets, self._walk, self._block_rows = buckets, walk, block_rows
        self._seed, self._window, self._is_shuffled, self._sweeps = seed, window, is_shuffled, sweeps
        self._start = walk.start

    def __iter__(self) -> Iterator[Work[Window]]:
        epoch, before, start = -1, 0, self._start
        for turn in self._walk if start == self._walk.start else replace(self._walk, start=start):
            buckets = self._buckets.of(turn.epoch)
            if turn.epoch != epoch:
                epoch, before = turn.epoch, _triples(buckets, turn.before)  # none, unless a run goes on
            for window in self._of(buckets, turn, before, start.done if start[:2] == (turn.epoch, turn.state) else 0):
                self._start = window.position
                yield self._work(window)
            before += _triples(buckets, turn.buckets)

    def peek(self, steps: int) -> list[Work[Window]]:
        """The windows to come, which are read for that."""
        return list(islice(iter(copy(self)), steps))

    def state_dict(self) -> dict[str, int]:
        """The position behind the last window that was given."""
        return self._start._asdict()

    def load_state_dict(self, state: Mapping[str, int], hosts: int) -> None:
        """Go on from there.

        Raises:
            InputError: on another number of hosts, which have another walk.
        """
        own = self._walk.hosts if isinstance(self._walk, SharedWalk) else 1
        if hosts != own:
            raise InputError(f"A walk of {own} hosts cannot go on with {hosts}; go on with as many as before.")
        self._start = Position(**state)

    def _work(self, window: Window) -> Work[Window]:
        """A round is a sweep: triples are counted through it."""
        sweep, sweeps, stop = window.turn.epoch, self._walk.epochs, window.before + len(window.slot_M3)
        line = ProgressLine(0, window.total, sweep / sweeps, (sweep + 1) / sweeps)
        is_last = window.ends_turn and window.turn.ends_epoch
        return Work(
            window, sweep // self._sweeps, Round(sweep), line.progress(stop), window.before == 0, is_last,
            ends_part=window.ends_turn and not is_last, ends_epoch=is_last and (sweep + 1) % self._sweeps == 0,
        )  # fmt: skip

    def _of(self, buckets: TripleBuckets, turn: Turn, before: int, skipped: int) -> Iterator[Window]:
        key = np.uint64(draw(stream_key(self._seed, PURPOSE_WINDOW, turn.epoch), np.uint64(turn.state)))
        pieces = list(_cut(_permuted(list(buckets.chunks(turn.buckets)), key), self._window)) or [[]]
        done = 0
        for number, chunks in enumerate(pieces):
            first, ends_turn = done, number == len(pieces) - 1
            done += sum(chunk.size for chunk in chunks)
            if first >= skipped:
                slot_M3 = self._read(buckets, chunks, turn, np.uint64(draw(key, np.uint64(number + 1))))
                position = turn.after if ends_turn else Position(turn.epoch, turn.state, done)
                yield Window(turn, position, before + first, buckets.num_triples, slot_M3, ends_turn)

    def _read(self, buckets: TripleBuckets, chunks: list[Chunk], turn: Turn, key: np.uint64) -> np.ndarray:
        read_M3 = np.empty((sum(chunk.size for chunk in chunks), buckets.columns), np.int32)
        buffer, at, bounds = chunk_buffer(), 0, buckets.parts.bounds
        block_of = turn.block_of
        for chunk in chunks:
            own_M3 = read_M3[at : at + chunk.size]
            own_M3[:] = buckets.read(chunk, buffer)
            for column, part in ((0, chunk.head_part), (-1, chunk.tail_part)):
                own_M3[:, column] += np.int32(block_of[part] * self._block_rows - int(bounds[part]))
            at += chunk.size
        if not self._is_shuffled:
            return read_M3
        found_M3 = np.empty_like(read_M3)
        shuffle_rows(read_M3, key, found_M3)
        return found_M3


class Ahead(Background):
    """The works of an iterator, made by a thread, one before it is asked for. A context: the thread ends with it.

    moves: a number that changes while the thread gets on.

    Raises (iterating): whatever the iterator raises; StorageError where none comes for `patience` seconds, and `moves`
    stands still.
    """

    def __init__(self, works: Iterable[Work[Window]], patience: float, moves: Callable[[], int] = lambda: 0) -> None:
        super().__init__([("triple-reader", self._work)], patience)
        self.seconds_waited = 0.0
        """that was waited for windows"""
        self._works, self._moves_behind = works, moves
        self._made: deque[Work[Window]] = deque()
        self._is_made = False
        """all of them"""

    def __iter__(self) -> Iterator[Work[Window]]:
        while True:
            begun = time.monotonic()
            self._await(lambda: bool(self._made) or self._is_made, self._stalled)
            self.seconds_waited += time.monotonic() - begun
            with self._condition:
                if not self._made:
                    return
                work = self._made.popleft()
                self._condition.notify_all()
            yield work

    def _stalled(self) -> StorageError:
        return StorageError(f"No triples were read for {self._patience:g} s; look whether the disk works.")

    def _moved(self) -> int:
        return super()._moved() + self._moves_behind()

    def _work(self) -> None:
        for work in self._works:
            if not self._awaits_work(lambda: not self._made):
                return
            with self._condition:
                self._made.append(work)
                self._progress()
        with self._condition:
            self._is_made = True
            self._progress()


def window_bytes(window: int) -> int:
    """Memory of windows: one is trained, one waits, and one is made of what was read."""
    return 4 * 12 * window


def _triples(buckets: TripleBuckets, which: Iterable[tuple[int, int]]) -> int:
    return sum(int(buckets.count_PP[bucket]) for bucket in which)


def _permuted(chunks: list[Chunk], key: np.uint64) -> list[Chunk]:
    place_N = np.empty(len(chunks), np.int64)
    permute(np.arange(len(chunks)), len(chunks), key, place_N)
    return [chunks[place] for place in place_N]


def _cut(chunks: list[Chunk], window: int) -> Iterator[list[Chunk]]:
    """As many chunks at a time as a window holds, one at least."""
    found: list[Chunk] = []
    size = 0
    for chunk in chunks:
        if found and size + chunk.size > window:
            yield found
            found, size = [], 0
        found.append(chunk)
        size += chunk.size
    if found:
        yield found

"""Triples of a state of the buffer in random order, from disk, in a memory that does not grow with the graph.

A state trains some buckets. Their chunks (data/triple_buckets.py) are permuted; as many as a window holds are read and
shuffled together, so that a batch has triples of many buckets, as it has without partitions. Which triples make a
window, and their order in it, depend on (seed, epoch, state, window) alone.

Letters: M triples.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from any2vec.checks import check_whole
from any2vec.data.triple_buckets import Buckets, Chunk, TripleBuckets, chunk_buffer
from any2vec.errors import StorageError
from any2vec.kernels.permutation import permute, shuffle_rows
from any2vec.kernels.rng import PURPOSE_WINDOW, draw, stream_key
from any2vec.plan.buffer_walk import START, Position, Turn

WINDOW = 1 << 20
"""triples that are shuffled together"""
_LOOK = 0.2
"""seconds after which the thread that reads ahead looks whether anybody still wants its windows"""


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
    """The windows of a run, in order; iterate as often as you like. A turn without triples has one empty window.

    Args:
        walk: turns, from that of `start` on.
        block_rows: slots of a block.
        window: triples of a window; at least one chunk is.
        start: where to go on: a position that a window has told.
    """

    def __init__(
        self, buckets: Buckets, walk: Iterable[Turn], block_rows: int, seed: int = 1, window: int = WINDOW,
        start: Position = START,
    ) -> None:  # fmt: skip
        check_whole("window", window, 1, 1 << 28)
        self._buckets, self._walk, self._block_rows = buckets, walk, block_rows
        self._seed, self._window, self._start = seed, window, start

    def __iter__(self) -> Iterator[Window]:
        epoch, before = -1, 0
        for turn in self._walk:
            buckets = self._buckets.of(turn.epoch)
            if turn.epoch != epoch:
                epoch, before = turn.epoch, _triples(buckets, turn.before)  # none, unless a run goes on
            yield from self._of(buckets, turn, before)
            before += _triples(buckets, turn.buckets)

    def _of(self, buckets: TripleBuckets, turn: Turn, before: int) -> Iterator[Window]:
        key = np.uint64(draw(stream_key(self._seed, PURPOSE_WINDOW, turn.epoch), np.uint64(turn.state)))
        pieces = list(_cut(_permuted(list(buckets.chunks(turn.buckets)), key), self._window)) or [[]]
        done, skipped = 0, self._start.done if self._start[:2] == (turn.epoch, turn.state) else 0
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
        found_M3 = np.empty_like(read_M3)
        shuffle_rows(read_M3, key, found_M3)
        return found_M3


class Ahead:
    """The windows of an iterator, made by a thread, one before it is asked for. A context: the thread ends with it.

    moves: a number that changes while the thread gets on.

    Raises (iterating): whatever the iterator raises; StorageError where none comes for `patience` seconds, and `moves`
    stands still.
    """

    def __init__(self, windows: Iterable[Window], patience: float, moves: Callable[[], int] = lambda: 0) -> None:
        self.seconds_waited = 0.0
        """that was waited for windows"""
        self._windows, self._patience, self._moves = windows, patience, moves
        self._made: queue.Queue[Window | BaseException | None] = queue.Queue(1)
        self._is_over = False
        self._thread = threading.Thread(target=self._work, name="triple-reader", daemon=True)

    def __enter__(self) -> Ahead:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        self._thread.join(self._patience)

    def __iter__(self) -> Iterator[Window]:
        while True:
            begun = time.monotonic()
            made = self._next()
            self.seconds_waited += time.monotonic() - begun
            if made is None:
                return
            if isinstance(made, BaseException):
                raise made
            yield made

    def _next(self) -> Window | BaseException | None:
        while True:
            moves = self._moves()
            try:
                return self._made.get(timeout=self._patience)
            except queue.Empty:
                if self._moves() == moves:
                    raise StorageError(
                        f"No triples were read for {self._patience:g} s; look whether the disk works."
                    ) from None

    def _work(self) -> None:
        """The thread's own function."""
        try:
            for window in self._windows:
                if not self._hand_over(window):
                    return
            self._hand_over(None)
        except BaseException as error:
            self._hand_over(error)

    def _hand_over(self, made: Window | BaseException | None) -> bool:
        """Whether somebody still wants it."""
        while not self._is_over:
            try:
                self._made.put(made, timeout=_LOOK)
                return True
            except queue.Full:
                pass
        return False


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

"""Pairs of (context, center) on disk, by bucket: each sweep has its own, made where it begins.

A sweep is a part of an epoch's stream. Its pairs are a function of the seed, the epoch and the positions: windows and
subsampling are those of a run in memory. So only one sweep's are kept, 8 bytes each, and what a killed run has not
finished is made again. To the rest of the run a sweep is an epoch: it goes through all states of the buffer.

Letters: M pairs, V items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from any2vec.data.io.storage import remove_of_run, storage_errors
from any2vec.data.partitions.buckets import BLOCK, TripleBuckets
from any2vec.data.partitions.row_partitions import RowPartitions
from any2vec.errors import FormatError
from any2vec.kernels.common.rng import PURPOSE_TOKEN, stream_key
from any2vec.kernels.skipgram.pairs import list_pairs
from any2vec.models.words.source import TokenSource


class SweptPairs:
    """The pairs of a token stream; what `OutOfCoreRun` takes for buckets.

    Args:
        folder: of the pairs of one sweep.
        keep_V: float64, probability that an occurrence is kept.
        window: furthest context.
        digest: of the stream.
        sweeps: of an epoch.
        tick: called now and then while pairs are made, with (positions done, positions in all) of two passes over the
            sweep's; may raise.
    """

    def __init__(
        self, folder: Path, source: TokenSource, keep_V: np.ndarray, window: int, parts: RowPartitions, digest: str,
        sweeps: int = 1, tick: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:  # fmt: skip
        self.folder, self.parts, self.digest = folder, parts, digest
        self._pieces = 0
        """of the stream, that were read"""
        self._source, self._window, self._sweeps, self._tick = source, window, sweeps, tick
        self._keep_V = np.minimum(keep_V * 2.0**32, 2.0**32).astype(np.uint64)
        self._row_V = parts.rows(np.arange(parts.num_entities)).astype(np.int32)
        self._sweep = -1
        self._buckets: TripleBuckets | None = None
        self._read_before = 0
        """bytes of former sweeps"""

    @property
    def bytes_read(self) -> int:
        return self._read_before + (self._buckets.bytes_read if self._buckets is not None else 0)

    @property
    def moves(self) -> int:
        """Bytes read, and pieces of the stream."""
        return self.bytes_read + self._pieces

    def of(self, epoch: int) -> TripleBuckets:
        """The pairs of a sweep, by its number in the run: made now unless they are there; those of another go first."""
        if self._buckets is None or self._sweep != epoch:
            self._read_before, self._buckets = self.bytes_read, None
            self._buckets, self._sweep = self._found(epoch) or self._made(epoch), epoch
        return self._buckets

    def blocks(self, sweep: int) -> Iterator[np.ndarray]:
        """The pairs as rows, int32 (M, 2), in the order of the stream; an array is good until the next one comes."""
        source, (epoch, number) = self._source, divmod(sweep, self._sweeps)
        key = stream_key(self.parts.seed, PURPOSE_TOKEN, epoch)
        step = piece_positions(source.unit, self._window)
        pair_M2 = np.empty((2 * self._window * step, 2), np.int32)
        first, last = (self.cut(cut) for cut in (number, number + 1))
        for start in range(first, last, step):
            tokens, begin, end, offset = source.piece(epoch, start, min(last, start + step))
            size = list_pairs(tokens, begin, end, offset, self._keep_V, key, self._window, self._row_V, pair_M2)
            self._pieces += 1
            yield pair_M2[:size]

    def cut(self, number: int) -> int:
        """Where the sweep of an epoch with that number begins: at a whole unit, or the end of the stream."""
        num, unit = self._source.num_positions, self._source.unit
        return min(num, -(-(num * number // self._sweeps) // unit) * unit)

    def _found(self, sweep: int) -> TripleBuckets | None:
        """What a killed run has left of this sweep, if it is whole."""
        try:
            buckets = TripleBuckets.open(self.folder)
        except FormatError:
            return None
        return buckets if buckets.note == self._note(sweep) and buckets.parts == self.parts else None

    def _made(self, sweep: int) -> TripleBuckets:
        with storage_errors(self.folder):
            remove_of_run(self.folder)  # first: there may not be room for two
        number = sweep % self._sweeps
        positions, done = self.cut(number + 1) - self.cut(number), 0

        def blocks() -> Iterator[np.ndarray]:
            nonlocal done
            for pair_M2 in self.blocks(sweep):
                self._tick(done, 2 * positions)
                done = min(2 * positions, done + piece_positions(self._source.unit, self._window))
                yield pair_M2

        note = self._note(sweep)
        return TripleBuckets.create(self.folder, self.parts, 0, blocks, overwrite=True, note=note, are_rows=True)

    def _note(self, sweep: int) -> dict[str, int | str]:
        return {"sweep": sweep, "sweeps": self._sweeps, "window": self._window, "stream": self.digest}


def piece_positions(unit: int, window: int) -> int:
    """Positions whose pairs are made at once: whole units, of no more than BLOCK pairs where that can be."""
    return max(1, BLOCK // (2 * window) // unit) * unit

"""How tests of sources read them: lines as bytes, and until something is so."""

from __future__ import annotations

import time
from collections.abc import Callable

from any2vec.sources.base.cutter import LineBatch
from any2vec.sources.base.pump import Batches

LONG = 300.0
"""seconds after which a test gives up: no test waits for it"""


def texts_of(batch: LineBatch) -> list[bytes]:
    """The lines of a batch, without their line feeds."""
    starts = [0, *batch.stop_N[:-1].tolist()]
    stops = batch.stop_N.tolist()
    assert batch.text_B[batch.stop_N - 1].tolist() == [10] * len(batch)
    return [batch.text_B[start : stop - 1].tobytes() for start, stop in zip(starts, stops, strict=True)]


def read_until(batches: Batches, is_enough: Callable[[list[LineBatch]], bool]) -> list[LineBatch]:
    """Batches until there are enough, or the source ends."""
    found: list[LineBatch] = []
    until = time.monotonic() + LONG
    while not is_enough(found) and time.monotonic() < until:
        try:
            batch = next(batches)
        except StopIteration:
            break
        if batch is not None:
            found.append(batch)
    return found


def read_lines(batches: Batches, count: int) -> list[LineBatch]:
    """Batches until so many lines have come."""
    return read_until(batches, lambda found: sum(map(len, found)) >= count)


def read_all(batches: Batches) -> list[LineBatch]:
    """Batches until the source ends."""
    return read_until(batches, lambda found: False)


def all_texts(found: list[LineBatch]) -> list[bytes]:
    return [text for batch in found for text in texts_of(batch)]


def all_ids(found: list[LineBatch]) -> list[str]:
    return [batch.id_of(line) for batch in found for line in range(len(batch))]

"""Walk segments: the nodes that walkers of another host have visited here; and rows that one host copies for another.

A walk segment is int32: -1 - ticket, the nodes that the walk visited, END where it ended early; then the next walk's.
Visits cost 4 bytes each and a stay at a host 4 more. Nodes that traveled with the walker would cost 4 bytes at every
later crossing: 2 c L**2 bytes for a walk of L nodes with c crossings a step, against 4 L + 4 c L.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit
from any2vec.kernels.graph.walk_parts import DONE, END, ENDED, STATUS, TICKET, PartRows, local_row


@jit
def write_segments(
    walkers_WC: np.ndarray,
    segment: np.ndarray,
    segment_W1: np.ndarray,
    chosen: np.ndarray,
    length: int,
    out: np.ndarray,
) -> int:
    """The segments of the walkers `chosen`, int64 (any,), of what `advance` left, into out int32; how long they are.

    out: room for 2 more than the nodes of each. Walkers with nothing to tell leave nothing.
    """
    filled = 0
    for number in chosen:
        first, stop = segment_W1[number], segment_W1[number + 1]
        ended_early = walkers_WC[number, STATUS] == ENDED and walkers_WC[number, DONE] < length
        if stop > first or ended_early:
            out[filled] = -1 - walkers_WC[number, TICKET]
            filled += 1
        for place in range(first, stop):
            out[filled] = segment[place]
            filled += 1
        if ended_early:
            out[filled] = END
            filled += 1
    return filled


@jit
def read_segments(segments: np.ndarray, first_ticket: int, length: int, filled_W: np.ndarray, out: np.ndarray) -> int:
    """Append segments, int32 (any,), to the walks whose tickets begin at first_ticket; how many of them are over now.

    filled_W: int64 (walks,), nodes that each has already; out: int32 (walks * (length + 1),). -1 where a segment is of
    another walk, or longer than a walk is.
    """
    over = 0
    walk = 0
    for word in segments:
        if word == END:
            over += 1
        elif word < 0:
            walk = -1 - word - first_ticket
            if walk < 0 or walk >= filled_W.size:
                return -1
        elif walk >= filled_W.size or filled_W[walk] >= length:
            return -1
        else:
            out[walk * (length + 1) + filled_W[walk]] = word
            filled_W[walk] += 1
            over += filled_W[walk] == length
    return over


@jit
def copy_rows(rows: PartRows, nodes: np.ndarray, room: int, out: np.ndarray) -> tuple[int, int]:
    """Copy the rows of `nodes`, int32 (any,), all owned, into out int32, each behind its length.

    Stops before the row that would fill more than `room`, but copies one at least. Returns (rows, words of out).
    """
    filled = 0
    for number in range(nodes.size):
        row = local_row(rows, nodes[number])
        first, degree = rows.indptr[row], rows.indptr[row + 1] - rows.indptr[row]
        if number > 0 and filled + 1 + degree > room:
            return number, filled
        out[filled] = degree
        for place in range(degree):
            out[filled + 1 + place] = rows.indices[first + place]
        filled += 1 + degree
    return nodes.size, filled

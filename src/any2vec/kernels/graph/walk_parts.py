"""Random walks on one part of a graph: a batch of walkers goes as far as it can among the nodes that this host owns.

The draws are those of `kernels.graph.walk`, word for word, so a walk that travels is the walk that one host would have
made. A walker carries no state but counts: its stream is keyed by its number, and stands where so many draws have left
it.

Letters: N nodes of the whole graph, n of them owned, E edges out of these, W walkers, C columns of a walker, Q
queries. A walker is a row of int64 (W, C), see the columns below.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.rng import below, draw, mix64, unit
from any2vec.kernels.graph.walk import start_node

TICKET, WALK, NODE, LAST, DONE, DRAWS, TRIES, FOUND, STATUS, IS_HOME = range(10)
"""columns: number among the walks under way at all hosts; of the walk; where it stands; where it stood before (from the
second node on); nodes so far; words drawn so far; rejections of this step; the candidate that it asks about; one of
the words below; whether it was sent out by this host"""
COLUMNS = 10
GO, ARRIVED, NEAR, FAR, ROW = range(5)
"""status on entry: goes on; goes on, and its node is not in a segment yet; got its answer (the candidate is a neighbor
of the last node, or is none); got the row of the last node"""
LEAVES, ASKS_EDGE, ASKS_ROW, ENDED = range(5, 9)
"""status on exit: stands on another host's node; asks whether last -> candidate is an edge; asks for the row of the
last node; is over"""
END = -(1 << 31)
"""mark in a walk segment: the walk ends here, before its full length"""
_STEP = np.uint64((2 * 0x9E3779B97F4A7C15) % (1 << 64))
_ZERO, _ONE, _2, _4, _6, _32, _56 = (np.uint64(value) for value in (0, 1, 2, 4, 6, 32, 56))
_LOW32 = np.uint64(0xFFFFFFFF)
_5S, _3S, _FS, _1S = (np.uint64(int(digits * 16, 16) & 0xFFFFFFFFFFFFFFFF) for digits in ("5", "3", "0f", "01"))


class PartRows(NamedTuple):
    """What one host holds of a graph."""

    indptr: np.ndarray
    """int64 (n + 1,)"""
    indices: np.ndarray
    """int32 (E,): nodes of the whole graph, ascending in each row"""
    weights: np.ndarray
    """float32 (E,), or (0,)"""
    threshold: np.ndarray
    """uint32 (E,), or (0,): alias tables of the rows"""
    alias: np.ndarray
    """int32 (E,), or (0,)"""
    row_weight: np.ndarray
    """float64 (n,), or (0,): sums of the rows' weights"""
    owned: np.ndarray
    """uint64 (N // 64 + 1, 2): which nodes are owned, a bit each, and how many are before the word; (0, 2) when they
    are those from `first` on"""
    first: int


class WalkParams(NamedTuple):
    """How to walk."""

    is_second_order: bool
    is_directed: bool
    biases: np.ndarray
    """float64 (3,): return 1/p, neighbor 1, far 1/q"""
    accept: np.ndarray
    """uint64 (4,), see `kernels.graph.walk.second_order_walks`"""
    patience: int
    length: int
    """nodes of a walk"""


@jit
def count_ones(word: np.uint64) -> np.int64:
    """Bits that are set in a uint64."""
    word -= (word >> _ONE) & _5S
    word = (word & _3S) + ((word >> _2) & _3S)
    return np.int64((((word + (word >> _4)) & _FS) * _1S) >> _56)


@jit
def local_row(rows: PartRows, node: int) -> np.int64:
    """The row of `node` (of the whole graph) in this part, -1 when another host owns it."""
    if rows.owned.size == 0:
        row = np.int64(node) - rows.first
        return row if 0 <= row < rows.indptr.size - 1 else np.int64(-1)
    word, bit = rows.owned[node >> 6, 0], _ONE << np.uint64(node & 63)
    if word & bit == _ZERO:
        return np.int64(-1)
    return np.int64(rows.owned[node >> 6, 1]) + count_ones(word & (bit - _ONE))


@jit
def hash_part(node: int, parts: int) -> np.int64:
    """The part of a node by hash, in [0, parts): SplitMix64 at the node's number."""
    return below(draw(_ZERO, np.uint64(node)) >> _32, parts)


@jit
def find_owners(owner_N: np.ndarray, bounds: np.ndarray, parts: int, nodes: np.ndarray, out: np.ndarray) -> None:
    """Owner of each of `nodes` into out int32 (any,): read from owner_N uint16 (N,), or, where that is (0,), found by
    bounds int64 (parts + 1,) of contiguous blocks, or, where these are (0,) too, by hash."""
    for place in range(nodes.size):
        node = nodes[place]
        if owner_N.size > 0:
            out[place] = owner_N[node]
        elif bounds.size > 0:
            low, high = 0, parts
            while high - low > 1:
                middle = (low + high) >> 1
                low, high = (middle, high) if bounds[middle] <= node else (low, middle)
            out[place] = low
        else:
            out[place] = hash_part(node, parts)


@jit
def mark_owned(nodes_n: np.ndarray, owned: np.ndarray) -> None:
    """Set the bits of nodes_n int32 (n,) in owned uint64 (words, 2), zeros on entry; count those before each word."""
    for node in nodes_n:
        owned[node >> 6, 0] |= _ONE << np.uint64(node & 63)
    before = _ZERO
    for word in range(owned.shape[0]):
        owned[word, 1] = before
        before += np.uint64(count_ones(owned[word, 0]))


@jit
def has_edge(rows: PartRows, row: int, dst: int) -> bool:
    """Whether `dst` is in the row `row` of this part."""
    low, left = rows.indptr[row], rows.indptr[row + 1] - rows.indptr[row]
    while left > 1:
        half = left >> 1
        low += half if rows.indices[low + half] <= dst else 0
        left -= half
    return left > 0 and rows.indices[low] == dst


@jit
def answer_edges(rows: PartRows, asked_Q2: np.ndarray, near_Q: np.ndarray) -> None:
    """Whether each edge of asked_Q2 int32 (Q, 2) exists: 1 or 0 into near_Q uint8 (Q,). Their sources are owned."""
    for place in range(asked_Q2.shape[0]):
        near_Q[place] = has_edge(rows, local_row(rows, asked_Q2[place, 0]), asked_Q2[place, 1])


@jit
def start_nodes(order_key: np.uint64, start: int, num_nodes: int, out: np.ndarray) -> None:
    """Where the walks from `start` on begin, into out int64 (any,)."""
    for place in range(out.size):
        out[place] = start_node(order_key, start + place, num_nodes)


@jit
def advance(
    rows: PartRows, params: WalkParams, walk_key: np.uint64, walkers_WC: np.ndarray, near_R: np.ndarray,
    segment: np.ndarray, segment_W1: np.ndarray,
) -> None:  # fmt: skip
    """Let each walker go on until it leaves, asks, or ends; its row is rewritten, STATUS says which.

    near_R: int32 (any,), rows of last nodes, each behind its length; FOUND of a walker of status ROW says where its own
    begins. segment: int32, room for the nodes that the walkers lack and one more each; the nodes that walker w has to
    tell its home are written to segment[segment_W1[w]:segment_W1[w + 1]], int64 (W + 1,).

    A node is written by the host that chose it where that is the walker's home, else by the host that owns it; the last
    node of a walk by the one that chose it, for nobody goes there.
    """
    filled = 0
    for number in range(walkers_WC.shape[0]):
        walker = walkers_WC[number]
        segment_W1[number] = filled
        if walker[STATUS] == ARRIVED:
            segment[filled] = walker[NODE]
            filled += 1
        near_row = near_R[:0]
        if walker[STATUS] == ROW:
            at = walker[FOUND]
            near_row = near_R[at + 1 : at + 1 + near_R[at]]
        while True:
            status = _step(rows, params, walk_key, walker, near_row)
            if status != GO:
                break
            if walker[IS_HOME] or walker[DONE] == params.length or local_row(rows, walker[NODE]) >= 0:
                segment[filled] = walker[NODE]
                filled += 1
        walker[STATUS] = status
    segment_W1[walkers_WC.shape[0]] = filled


@jit
def _step(
    rows: PartRows, params: WalkParams, walk_key: np.uint64, walker: np.ndarray, near_row: np.ndarray
) -> np.int64:
    """One step. GO: it is at its next node; otherwise why it cannot go."""
    node, done = walker[NODE], walker[DONE]
    row = local_row(rows, node)
    if done == params.length:
        return np.int64(ENDED)
    if row < 0:
        return np.int64(LEAVES)
    if rows.indptr[row] == rows.indptr[row + 1]:
        return np.int64(ENDED)
    state = (draw(walk_key, np.uint64(walker[WALK])) | _ONE) + np.uint64(walker[DRAWS]) * _STEP
    if done > 1 and params.is_second_order:
        status = _second_order_step(rows, params, walker, row, state, near_row)
        if status != GO:
            return np.int64(status)
    else:
        bits = mix64(state + _STEP)
        walker[DRAWS] += 1
        walker[FOUND] = rows.indices[_drawn_edge(rows, row, bits)]
    walker[LAST], walker[NODE] = node, walker[FOUND]
    walker[DONE], walker[TRIES], walker[STATUS] = done + 1, 0, GO
    return np.int64(GO)


@jit
def _drawn_edge(rows: PartRows, row: int, bits: np.uint64) -> np.int64:
    """An edge of the row by its weight: the high half chooses the column, the low half tosses its coin."""
    first = rows.indptr[row]
    edge = first + below(bits >> _32, rows.indptr[row + 1] - first)
    if rows.threshold.size > 0 and (bits & _LOW32) >= np.uint64(rows.threshold[edge]):
        edge = first + rows.alias[edge]
    return np.int64(edge)


@jit
def _second_order_step(
    rows: PartRows, params: WalkParams, walker: np.ndarray, row: int, state: np.uint64, near_row: np.ndarray
) -> np.int64:
    """Candidates until one is kept (FOUND; GO), or until it must ask."""
    degree = rows.indptr[row + 1] - rows.indptr[row]
    last = walker[LAST]
    status, draws, tries, found = walker[STATUS], walker[DRAWS], walker[TRIES], walker[FOUND]
    near_wins = params.accept[1] > params.accept[0]
    outcome = np.int64(GO)
    moved = False
    while not moved:
        if status in (NEAR, FAR):
            moved = (status == NEAR) == near_wins
        elif status != ROW:
            found, draws, state, moved, is_open = _candidate(rows, params, row, last, state, draws)
            tries += 1
            if is_open:
                nearness = _nearness(rows, params, last, found)
                if nearness < 0:
                    outcome = np.int64(ASKS_EDGE)
                    break
                moved = (nearness == 1) == near_wins
        if not moved and tries > degree + params.patience:
            last_row = local_row(rows, last)
            if last_row < 0 and status != ROW:
                outcome = np.int64(ASKS_ROW)
                break
            if last_row >= 0:
                near_row = rows.indices[rows.indptr[last_row] : rows.indptr[last_row + 1]]
            state += _STEP
            draws += 1
            found = exact_step_beside(rows, row, near_row, params.biases, last, unit(mix64(state)))
            moved = True
        status = GO
    walker[DRAWS], walker[TRIES], walker[FOUND] = draws, tries, found
    return outcome


@jit
def _candidate(
    rows: PartRows, params: WalkParams, row: int, last: int, state: np.uint64, draws: int
) -> tuple[np.int64, int, np.uint64, bool, bool]:
    """(candidate, draws, state, kept, whether that depends on its being a neighbor of the last node)."""
    is_weighted = rows.threshold.size > 0
    state += _STEP
    draws += 1
    bits = mix64(state)
    coin = bits & _LOW32
    found = np.int64(rows.indices[_drawn_edge(rows, row, bits)])
    if is_weighted:
        state += _STEP
        draws += 1
        coin = mix64(state) >> _32
    ceiling = max(params.biases[1], params.biases[2])
    surplus = params.biases[0] - ceiling
    if surplus > 0:
        total = rows.row_weight[row] if is_weighted else np.float64(rows.indptr[row + 1] - rows.indptr[row])
        state += _STEP
        draws += 1
        extra = surplus * weight_of(rows, row, last)
        if unit(mix64(state)) * (total * ceiling + extra) < extra:
            return np.int64(last), draws, state, True, False
    if found == last:
        return found, draws, state, coin < params.accept[2], False
    low, high = min(params.accept[0], params.accept[1]), max(params.accept[0], params.accept[1])
    return found, draws, state, coin < low, low <= coin < high


@jit
def _nearness(rows: PartRows, params: WalkParams, last: int, found: int) -> np.int64:
    """1 where last -> found is an edge, 0 where it is none, -1 where only another host can tell."""
    last_row = local_row(rows, last)
    if last_row >= 0:
        return np.int64(has_edge(rows, last_row, found))
    if not params.is_directed:
        found_row = local_row(rows, found)
        if found_row >= 0:
            return np.int64(has_edge(rows, found_row, last))
    return np.int64(-1)


@jit
def weight_of(rows: PartRows, row: int, dst: int) -> float:
    """Weight of the edge to `dst` in the row (1 when unweighted), 0 when there is none; float64."""
    low, left = rows.indptr[row], rows.indptr[row + 1] - rows.indptr[row]
    while left > 1:
        half = left >> 1
        low += half if rows.indices[low + half] <= dst else 0
        left -= half
    if left == 0 or rows.indices[low] != dst:
        return 0.0
    return np.float64(rows.weights[low]) if rows.weights.size else 1.0


@jit
def exact_step_beside(
    rows: PartRows, row: int, near_row: np.ndarray, biases: np.ndarray, last: int, share: float
) -> np.int64:
    """`kernels.graph.walk.exact_step` with the row of the last node given, int32 ascending: it came from its owner."""
    target = np.inf
    for _ in range(2):  # once for the sum, once to find the place in it
        total = 0.0
        near = 0
        for edge in range(rows.indptr[row], rows.indptr[row + 1]):
            found = rows.indices[edge]
            while near < near_row.size and near_row[near] < found:
                near += 1
            bias = biases[1] if near < near_row.size and near_row[near] == found else biases[2]
            if found == last:
                bias = biases[0]
            total += bias * np.float64(rows.weights[edge]) if rows.weights.size else bias
            if total > target:
                return np.int64(found)
        target = share * total
    return np.int64(rows.indices[rows.indptr[row + 1] - 1])

"""Random walks on a CSR: first order (DeepWalk) and second order by rejection (node2vec), several walks interleaved.

Every walk has its own SplitMix64 stream, so a walk depends on its number alone. A second-order step draws a neighbor
by the edges' weights and keeps it with probability bias / largest bias (KnightKing, Yang et al. 2019, section 4); what
`p` asks for beyond the other biases is drawn first, by itself, so that a small p costs no rejections (ibid., outliers).
After `degree + PATIENCE` rejections the step is drawn from the enumerated weights, which leaves the law as it is.

"Is x a neighbor of u?" is a look into u's bit set: of 2**bits_log bits at most, where every row sees x at its own
place (exact), and of 8 to 16 bits a neighbor in shorter rows, where a set bit is confirmed by a search.
The loops hold no unpredictable branch but that one: the position of a walk grows by the outcome of its coin.

Letters: N nodes, E edges, S bit-set words. Arrays: rows_N4 int64 (first edge, degree, first word, shift of the bit
set), indices_E int32, words_S uint64, threshold_E uint32 and alias_E int32 (alias tables of the rows; (0,) when
unweighted), weights_E float32, biases float64 (return 1/p, neighbor 1, far 1/q).
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.rng import below, draw, mix64, unit

SLOTS = 16
"""walks in flight per call: their cache misses overlap"""
PATIENCE = 32
BITS_PER_NEIGHBOR = 8
_STEP = np.uint64((2 * 0x9E3779B97F4A7C15) % (1 << 64))
"""even, so that a state that began odd is never 0"""
_SCATTER = np.uint64(0x9E3779B1)
_ZERO, _ONE, _2, _3, _6, _32, _63 = (np.uint64(value) for value in (0, 1, 2, 3, 6, 32, 63))
_LOW32 = np.uint64(0xFFFFFFFF)


@jit
def lay_out_rows(indptr: np.ndarray, bits_log: int, rows_N4: np.ndarray) -> int:
    """Fill rows_N4 int64 (N, 4); return the number of uint64 words of all bit sets. 2**bits_log >= N, bits_log >= 6."""
    words = 0
    for node in range(indptr.size - 1):
        degree = indptr[node + 1] - indptr[node]
        log = 6
        while log < bits_log and (1 << log) < BITS_PER_NEIGHBOR * degree:
            log += 1
        rows_N4[node, 0] = indptr[node]
        rows_N4[node, 1] = degree
        rows_N4[node, 2] = words if degree > 0 else 0
        rows_N4[node, 3] = bits_log - log
        if degree > 0:
            words += 1 << (log - 6)
    return words


@jit
def fill_bit_sets(rows_N4: np.ndarray, indices_E: np.ndarray, bits_log: int, words_S: np.ndarray) -> None:
    """Set the bit of each neighbor; words_S uint64 (S,), zeros on entry."""
    mask = (_ONE << np.uint64(bits_log)) - _ONE
    for node in range(rows_N4.shape[0]):
        for edge in range(rows_N4[node, 0], rows_N4[node, 0] + rows_N4[node, 1]):
            place = ((np.uint64(indices_E[edge]) * _SCATTER) & mask) >> np.uint64(rows_N4[node, 3])
            words_S[rows_N4[node, 2] + np.int64(place >> _6)] |= _ONE << (place & _63)


@jit
def start_node(order_key: np.uint64, walk: int, num_nodes: int) -> np.int64:
    """The node where walk number `walk` starts: pass `walk // num_nodes` visits the nodes in a random order of its own.

    The order is a Feistel network over the next power of two, walked until it falls below num_nodes (Black and Rogaway
    2002, "Ciphers with arbitrary finite domains", cycle walking): no table, so nothing to share between threads.
    """
    pass_key = draw(order_key, np.uint64(walk // num_nodes))
    log = 2
    while (1 << log) < num_nodes:
        log += 1
    low_log = np.uint64(log >> 1)
    low_mask = (_ONE << low_log) - _ONE
    high_mask = (_ONE << (np.uint64(log) - low_log)) - _ONE
    x = np.uint64(walk % num_nodes)
    while True:
        low, high = x & low_mask, x >> low_log
        for turn in range(4):
            high ^= draw(pass_key, low | (np.uint64(2 * turn) << _32)) & high_mask
            low ^= draw(pass_key, high | (np.uint64(2 * turn + 1) << _32)) & low_mask
        x = (high << low_log) | low
        if x < np.uint64(num_nodes):
            return np.int64(x)


@jit
def begin_walk(
    rows_N4: np.ndarray,
    indices_E: np.ndarray,
    threshold_E: np.ndarray,
    alias_E: np.ndarray,
    keys: np.ndarray,
    walk: int,
    length: int,
    at: int,
    out: np.ndarray,
) -> np.uint64:
    """Write the first one or two nodes of a walk at out[at:], and the padding where it ends with them.

    keys: (walk key, order key), uint64 (2,). Returns the walk's stream state (uint64), or 0 when the walk is over.
    """
    node = start_node(keys[1], walk, rows_N4.shape[0])
    out[at] = node
    degree = rows_N4[node, 1]
    done = 1
    state = draw(keys[0], np.uint64(walk)) | _ONE
    if length > 1 and degree > 0:
        state += _STEP
        bits = mix64(state)
        edge = rows_N4[node, 0] + below(bits >> _32, degree)
        if threshold_E.size and (bits & _LOW32) >= np.uint64(threshold_E[edge]):
            edge = rows_N4[node, 0] + alias_E[edge]
        out[at + 1] = indices_E[edge]
        done = 2
    if done == 2 and length > 2:
        return state
    for slot in range(done, length + 1):
        out[at + slot] = -1
    return np.uint64(0)


@jit
def first_order_walks(
    rows_N4: np.ndarray,
    indices_E: np.ndarray,
    threshold_E: np.ndarray,
    alias_E: np.ndarray,
    keys: np.ndarray,
    start: int,
    stop: int,
    length: int,
    out: np.ndarray,
) -> None:
    """Walks [start, stop) into out int32 ((stop - start) * (length + 1),), each padded with -1."""
    stride = length + 1
    state_W = np.empty(SLOTS, np.uint64)
    place_W = np.empty(SLOTS, np.int64)
    end_W = np.empty(SLOTS, np.int64)
    is_weighted = threshold_E.size > 0
    walk, active, slot = start, 0, 0
    while True:
        while active < SLOTS and walk < stop:
            at = (walk - start) * stride
            state = begin_walk(rows_N4, indices_E, threshold_E, alias_E, keys, walk, length, at, out)
            walk += 1
            if state != 0:
                state_W[active], place_W[active], end_W[active] = state, at + 2, at + length
                active += 1
        if active == 0:
            return
        slot = 0
        while slot < active:
            place = place_W[slot]
            node = np.int64(out[place - 1])
            degree = rows_N4[node, 1]
            if degree > 0:
                state = state_W[slot] + _STEP
                state_W[slot] = state
                bits = mix64(state)
                edge = rows_N4[node, 0] + below(bits >> _32, degree)
                if is_weighted and (bits & _LOW32) >= np.uint64(threshold_E[edge]):
                    edge = rows_N4[node, 0] + alias_E[edge]
                out[place] = indices_E[edge]
                place += 1
                place_W[slot] = place
            if degree == 0 or place == end_W[slot]:
                for rest in range(place, end_W[slot] + 1):
                    out[rest] = -1
                active -= 1
                state_W[slot], place_W[slot], end_W[slot] = state_W[active], place_W[active], end_W[active]
                if walk < stop:
                    break
            else:
                slot += 1


@jit
def second_order_walks(
    rows_N4: np.ndarray, indices_E: np.ndarray, words_S: np.ndarray, bits_log: int, threshold_E: np.ndarray,
    alias_E: np.ndarray, weights_E: np.ndarray, row_weight_N: np.ndarray, is_directed: bool, biases: np.ndarray,
    accept: np.ndarray,
    keys: np.ndarray, start: int, stop: int, length: int, patience: int, out: np.ndarray,
) -> None:  # fmt: skip
    """As `first_order_walks`, biased by p and q.

    accept: uint64 (4,), 2**32 * bias / ceiling of a far node, a neighbor of the last node, and (twice) the last node
    itself, ceiling = max(1, 1/q). row_weight_N: float64 (N,) sums of the rows' weights, (0,) when unweighted.
    "Neighbor" is an edge from the last node to the candidate. patience: rejections beyond the degree before a step
    is enumerated.
    """
    stride = length + 1
    rows_R = rows_N4.ravel().view(np.uint64)
    state_W = np.empty(SLOTS, np.uint64)
    place_W = np.empty(SLOTS, np.uint64)
    end_W = np.empty(SLOTS, np.uint64)
    tries_W = np.zeros(SLOTS, np.uint64)
    back_W = np.zeros(SLOTS, np.float64)
    is_weighted = threshold_E.size > 0
    mask = (_ONE << np.uint64(bits_log)) - _ONE
    unsure_from, unsure_to = min(accept[0], accept[1]), max(accept[0], accept[1])
    either = _ZERO if is_directed else _ONE
    ceiling = max(biases[1], biases[2])
    surplus = biases[0] - ceiling
    walk, active, slot = start, 0, _ZERO
    while True:
        while active < SLOTS and walk < stop:
            at = (walk - start) * stride
            state = begin_walk(rows_N4, indices_E, threshold_E, alias_E, keys, walk, length, at, out)
            walk += 1
            if state != 0:
                state_W[active], place_W[active], end_W[active] = state, np.uint64(at + 2), np.uint64(at + length)
                tries_W[active] = 0
                active += 1
        if active == 0:
            return
        slot, num_active = _ZERO, np.uint64(active)
        while slot < num_active:
            place = place_W[slot]
            last = np.uint64(out[place - _2])
            node = np.uint64(out[place - _ONE])
            first, degree = rows_R[node << _2], rows_R[(node << _2) + _ONE]
            if degree > _ZERO:
                state = state_W[slot] + _STEP
                bits = mix64(state)
                coin = bits & _LOW32
                edge = first + (((bits >> _32) * degree) >> _32)
                if is_weighted:
                    if coin >= np.uint64(threshold_E[edge]):
                        edge = first + np.uint64(alias_E[edge])
                    state += _STEP
                    coin = mix64(state) >> _32
                found = np.uint64(indices_E[edge])
                is_surplus = _ZERO
                if surplus > 0:
                    if tries_W[slot] == _ZERO:
                        back_W[slot] = edge_weight(rows_N4, indices_E, weights_E, np.int64(node), np.int64(last))
                    total = row_weight_N[node] if is_weighted else np.float64(degree)
                    state += _STEP
                    extra = surplus * back_W[slot]
                    if unit(mix64(state)) * (total * ceiling + extra) < extra:
                        is_surplus, found = _ONE, last
                # Differences of numbers below 2**63, whose top bits say "less": written as comparisons, the compiler
                # makes branches of them, and half of those are mispredicted.
                # In an undirected graph either row may be asked; the finer bit set is the likelier to be exact.
                found_shift, last_shift = rows_R[(found << _2) + _3], rows_R[(last << _2) + _3]
                swap = (_ZERO - (((found_shift - last_shift) >> _63) & either)) & (last ^ found)
                asked, about = (last ^ swap) << _2, found ^ swap
                shift = rows_R[asked + _3]
                bit = ((about * _SCATTER) & mask) >> shift
                is_near = (words_S[rows_R[asked + _2] + (bit >> _6)] >> (bit & _63)) & _ONE
                is_other = (_ZERO - (last ^ found)) >> _63
                if ((coin - unsure_from) ^ (coin - unsure_to)) & (_ZERO - shift) & ((is_near & is_other) << _63) != 0:
                    low, left = rows_R[asked], rows_R[asked + _ONE]
                    while left > _ONE:
                        half = left >> _ONE
                        low += half & (((about - np.uint64(indices_E[low + half])) >> _63) - _ONE)
                        left -= half
                    is_near = np.uint64(np.uint64(indices_E[low]) == about)
                out[place] = found
                moved = ((coin - accept[is_near + ((_ONE - is_other) << _ONE)]) >> _63) | is_surplus
                tries = tries_W[slot] + _ONE
                if np.int64(tries) > np.int64(degree) + patience and moved == _ZERO:
                    state += _STEP
                    share = unit(mix64(state))
                    out[place] = exact_step(
                        rows_N4, indices_E, weights_E, biases, np.int64(last), np.int64(node), share
                    )
                    moved = _ONE
                state_W[slot] = state
                tries_W[slot] = tries & (moved - _ONE)
                place += moved
                place_W[slot] = place
            if degree == _ZERO or place == end_W[slot]:
                for rest in range(place, end_W[slot] + _ONE):
                    out[rest] = -1
                active -= 1
                state_W[slot], place_W[slot], end_W[slot] = state_W[active], place_W[active], end_W[active]
                tries_W[slot], back_W[slot] = tries_W[active], back_W[active]
                num_active = np.uint64(active)
                if walk < stop:
                    break
            else:
                slot += _ONE


@jit
def edge_weight(rows_N4: np.ndarray, indices_E: np.ndarray, weights_E: np.ndarray, src: int, dst: int) -> float:
    """Weight of the edge src -> dst (1 when unweighted), 0 when there is none; float64."""
    low, left = rows_N4[src, 0], rows_N4[src, 1]
    while left > 1:
        half = left >> 1
        low += half if indices_E[low + half] <= dst else 0
        left -= half
    if left == 0 or indices_E[low] != dst:
        return 0.0
    return np.float64(weights_E[low]) if weights_E.size else 1.0


@jit
def exact_step(
    rows_N4: np.ndarray,
    indices_E: np.ndarray,
    weights_E: np.ndarray,
    biases: np.ndarray,
    last: int,
    node: int,
    share: float,
) -> int:
    """The neighbor of `node` at `share` (float64, [0, 1)) of its enumerated second-order weights."""
    first, stop = rows_N4[node, 0], rows_N4[node, 0] + rows_N4[node, 1]
    target = np.inf
    for _ in range(2):  # once for the sum, once to find the place in it
        total = 0.0
        near, near_stop = rows_N4[last, 0], rows_N4[last, 0] + rows_N4[last, 1]
        for edge in range(first, stop):
            found = indices_E[edge]
            while near < near_stop and indices_E[near] < found:
                near += 1
            bias = biases[1] if near < near_stop and indices_E[near] == found else biases[2]
            if found == last:
                bias = biases[0]
            total += bias * np.float64(weights_E[edge]) if weights_E.size else bias
            if total > target:
                return found
        target = share * total
    return indices_E[stop - 1]


@jit
def count_rows(tokens: np.ndarray, counts: np.ndarray) -> None:
    """Add to counts int64 (N,) the uses of each row in tokens int32 (any,); -1 is skipped."""
    for token in tokens:
        if token >= 0:
            counts[token] += 1

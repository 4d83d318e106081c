"""Samples of neighbors: which entries of a row of the adjacency a node takes, and the small numbers of who is found.

A sample depends on (key of the hop, node) alone. Uniform draws without replacement are Floyd's (Bentley and Floyd 1987,
"A sample of brilliance"); LABOR's are Balin and Çatalyürek 2023 (arXiv 2210.13339) by sequential Poisson sampling: the
fan-out's number of sources with the least draws, a source's draw being the same for all nodes that it neighbors.

Letters: N nodes of the graph, E its entries, F nodes of a frontier, S entries sampled by it, C those of a chunk.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.grouping import cut_by
from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.prefetch import prefetch_place
from any2vec.kernels.common.rng import below, draw, unit

UNIFORM, LABOR, WEIGHTED = 0, 1, 2
"""laws"""
CHUNK = 2048
"""entries whose reads are in flight together: what belongs to them fits into the first cache level"""
_AHEAD = 16
_PATIENCE = 8
"""draws a neighbor that may fall on ones already taken, before the rest of the row is drawn by its weights"""
_32, _63, _ONE = np.uint64(32), np.uint64(63), np.uint64(1)
_LOW32 = np.uint64(0xFFFFFFFF)


@jit
def count_samples(
    indptr: np.ndarray, node_F: np.ndarray, fanout: int, repeats: bool, start_F: np.ndarray, degree_F: np.ndarray,
    stop_F1: np.ndarray,
) -> tuple[int, int]:  # fmt: skip
    """Where the row of each node starts, how long it is, and where its sample will end, behind stop[0].

    fanout: -1 takes whole rows; repeats: with replacement. indptr int64 (N + 1,), node int32, the others int64.
    Returns (entries in all, the most of one node).
    """
    total, widest = 0, 0
    for i in range(node_F.size):
        if i + _AHEAD < node_F.size:
            prefetch_place(indptr, node_F[i + _AHEAD])
        start = indptr[node_F[i]]
        degree = indptr[node_F[i] + 1] - start
        taken = degree if fanout < 0 or degree < fanout else fanout
        if repeats and degree > 0 and fanout >= 0:
            taken = fanout
        start_F[i], degree_F[i] = start, degree
        total += taken
        widest = max(widest, taken)
        stop_F1[i + 1] = stop_F1[0] + total
    return total, widest


@jit
def sample_hop(
    indices: np.ndarray, threshold: np.ndarray, alias: np.ndarray, weights: np.ndarray, node_F: np.ndarray,
    start_F: np.ndarray, degree_F: np.ndarray, stop_F1: np.ndarray, law: int, repeats: bool, key: np.uint64,
    base: int, seen_N: np.ndarray, found: np.ndarray, num_found: int, place_C: np.ndarray, local: np.ndarray,
    edge: np.ndarray,
) -> int:  # fmt: skip
    """Sample for each node what `count_samples` has counted; returns how many nodes are found by now.

    threshold, alias: of `build_row_alias`, (E,), for the law WEIGHTED; else (0,), like weights. seen int32 (N,): base +
    the number of a node that is found, below base of another. found int32: the nodes by number, one place more than can
    be. local int32, edge int64 (0 long: not wanted): number of the neighbor, and place in the adjacency, at [stop[i],
    stop[i + 1]). place int64 (CHUNK or the most of one node, whichever is more,): scratch.
    """
    first = 0
    while first < node_F.size:
        offset, i = stop_F1[first], first
        while i < node_F.size and stop_F1[i + 1] - offset <= place_C.size:
            at, taken = stop_F1[i] - offset, stop_F1[i + 1] - stop_F1[i]
            start, degree = start_F[i], degree_F[i]
            if taken == degree and not repeats:
                for j in range(degree):
                    place_C[at + j] = start + j
                prefetch_place(indices, start)
            elif law == UNIFORM:
                _take_uniform(
                    indices, start, degree, repeats, draw(key, np.uint64(node_F[i])), place_C[at : at + taken]
                )
            elif law == LABOR:
                _take_least(indices, start, degree, key, place_C[at : at + taken])
            else:
                own = draw(key, np.uint64(node_F[i]))
                _take_weighted(
                    threshold, alias, weights, start, degree, repeats, own, place_C[at : at + taken], indices
                )
            i += 1
        stop = stop_F1[i]
        for j in range(stop - offset):
            node = indices[place_C[j]]
            local[offset + j] = node
            prefetch_place(seen_N, node)
        if edge.size > 0:
            edge[offset:stop] = place_C[: stop - offset]
        for j in range(offset, stop):  # without a branch: whether a node is new is as good as a coin
            node = local[j]
            is_new = seen_N[node] < base
            number = num_found if is_new else seen_N[node] - base
            seen_N[node] = base + number
            found[num_found] = node
            num_found += 1 if is_new else 0
            local[j] = number
        first = i
    return num_found


@jit
def draw_places(
    node_F: np.ndarray, start_F: np.ndarray, degree_F: np.ndarray, stop_F1: np.ndarray, repeats: bool, key: np.uint64,
    place_S: np.ndarray,
) -> None:  # fmt: skip
    """The places that `sample_hop` takes by the law UNIFORM, at [stop[i], stop[i + 1]) of node i; no entry is read.

    place: int64 (S,), S = stop[F], stop[0] = 0; the others as there.
    """
    for i in range(node_F.size):
        place_K = place_S[stop_F1[i] : stop_F1[i + 1]]
        if place_K.size == degree_F[i] and not repeats:
            for j in range(place_K.size):
                place_K[j] = start_F[i] + j
        elif place_K.size > 0:  # what is prefetched is any memory: entries lie elsewhere
            _take_uniform(place_S, start_F[i], degree_F[i], repeats, draw(key, np.uint64(node_F[i])), place_K)


@jit
def _take_uniform(
    indices: np.ndarray, start: int, degree: int, repeats: bool, key: np.uint64, place_K: np.ndarray
) -> None:
    """K places of [start, start + degree), K <= degree, each set alike; repeats: each place alike, any K.

    `taken` holds a bit for each place below 64, and shared by others beyond: where it is not set, the place is new.
    """
    size = place_K.size
    if repeats:
        for j in range(size):
            place_K[j] = start + below(draw(key, np.uint64(j)) >> _32, degree)
            prefetch_place(indices, place_K[j])
        return
    taken = np.uint64(0)
    for j in range(size):
        top = degree - size + j
        chosen = below(draw(key, np.uint64(j)) >> _32, top + 1)
        bit = _ONE << (np.uint64(chosen) & _63)
        if taken & bit:
            for q in range(j):
                if place_K[q] == start + chosen:
                    chosen = top
                    bit = _ONE << (np.uint64(top) & _63)
                    break
        taken |= bit
        place_K[j] = start + chosen
        prefetch_place(indices, start + chosen)


@jit
def _take_least(indices: np.ndarray, start: int, degree: int, key: np.uint64, place_K: np.ndarray) -> None:
    """The K < degree places whose sources have the least draws, in no order. On average O(degree + K^2 log(degree))."""
    size, worst = place_K.size, 0
    mark_K = np.empty(size, np.uint64)
    for place in range(start, start + degree):
        mark, number = draw(key, np.uint64(indices[place])), place - start
        if number >= size and mark >= mark_K[worst]:
            continue
        number = number if number < size else worst
        place_K[number], mark_K[number] = place, mark
        if place - start >= size - 1:
            worst = 0
            for q in range(1, size):
                if mark_K[q] > mark_K[worst]:
                    worst = q


@jit
def _take_weighted(
    threshold: np.ndarray, alias: np.ndarray, weights: np.ndarray, start: int, degree: int, repeats: bool,
    key: np.uint64, place_K: np.ndarray, indices: np.ndarray,
) -> None:  # fmt: skip
    """K places, each by its weight among those left (repeats: among all). Draws that fall on taken ones are repeated.

    Where weights are so unequal that this takes long, what is left is drawn as Efraimidis and Spirakis 2006 do, which
    is of the same law: least -log(u) / weight.
    """
    size, filled, at = place_K.size, 0, np.uint64(0)
    patience = np.uint64(_PATIENCE * size)
    while filled < size and (repeats or at < patience):
        bits = draw(key, at)
        at += _ONE
        column = start + below(bits >> _32, degree)
        place = column if (bits & _LOW32) < np.uint64(threshold[column]) else start + np.int64(alias[column])
        if repeats or not _is_in(place, place_K, filled):
            place_K[filled] = place
            prefetch_place(indices, place)  # type: ignore[arg-type]
            filled += 1
    while filled < size:
        best, least = start, np.inf
        for place in range(start, start + degree):
            time = -np.log(1.0 - unit(draw(key, patience + np.uint64(place - start)))) / np.float64(weights[place])
            if time < least and not _is_in(place, place_K, filled):
                best, least = place, time
        place_K[filled] = best
        filled += 1


@jit
def _is_in(place: int, place_K: np.ndarray, filled: int) -> bool:
    for q in range(filled):  # noqa: SIM110 - what numba compiles
        if place_K[q] == place:
            return True
    return False


@jit
def number_seeds(seed_B: np.ndarray, base: int, seen_N: np.ndarray, found: np.ndarray) -> bool:
    """Number the seeds, int32, from 0 on, as `sample_hop` does; False where one comes twice."""
    for i in range(seed_B.size):
        if seen_N[seed_B[i]] >= base:
            return False
        seen_N[seed_B[i]] = base + i
        found[i] = seed_B[i]
    return True


@jit
def write_edge_index(stop_F1: np.ndarray, local_S: np.ndarray, edge_2S: np.ndarray) -> None:
    """edge[0] = neighbors, edge[1] = who has sampled them, int64: the edges as PyTorch Geometric has them."""
    for i in range(stop_F1.size - 1):
        for j in range(stop_F1[i], stop_F1[i + 1]):
            edge_2S[0, j] = local_S[j]
            edge_2S[1, j] = i


@jit
def group_by_target(
    src_E: np.ndarray, dst_E: np.ndarray, indptr: np.ndarray, src_M: np.ndarray, id_M: np.ndarray
) -> None:
    """The in-neighbors of each node in the order in which the edges came, and the edges' numbers: all are kept.

    indptr: int64 (N + 1,), zeros on entry; src int32, id int64 (E,).
    """
    cut_by(dst_E, indptr)
    place = indptr[:-1].copy()
    for edge in range(dst_E.size):
        at = place[dst_E[edge]]
        place[dst_E[edge]] += 1
        src_M[at] = src_E[edge]
        id_M[at] = edge

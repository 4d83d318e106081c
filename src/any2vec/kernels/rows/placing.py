"""Rows in the order in which servers hold them: where an id stands, and bags dealt to the servers that own their rows.

A shard is a range of rows that one server holds; the placed number of a row is its own plus the shift of its shard.

Legend: S shards, U distinct rows of a batch (ascending), K those of them that are pulled (in placed order), M ids, P
bags, F columns (bag p is of column p % F), W values of a row, H hosts, Q bags as dealt: one for each host that owns
rows of it.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit


@jit
def place_ids(id_M: np.ndarray, start_S: np.ndarray, shift_S: np.ndarray, placed_M: np.ndarray) -> None:
    """placed_M[m] = id + shift of the shard with the last start that is not beyond it; all int64, start_S ascending."""
    for m in range(id_M.size):
        placed_M[m] = id_M[m] + shift_S[_shard_of(id_M[m], start_S)]


@jit
def place_groups(
    row_U: np.ndarray, low_S: np.ndarray, size_S: np.ndarray, shift_S: np.ndarray, placed_K: np.ndarray,
    where_U: np.ndarray,
) -> None:  # fmt: skip
    """Placed numbers, int64, of row_U[low_S[s]:low_S[s] + size_S[s]], shard by shard; where_U[u] (int32) = its place k.

    Ascending where the shards are in placed order. Rows of no such range keep their where_U.
    """
    k = 0
    for s in range(low_S.size):
        for u in range(low_S[s], low_S[s] + size_S[s]):
            placed_K[k] = row_U[u] + shift_S[s]
            where_U[u] = k
            k += 1


@jit
def pool_placed(
    value_KW: np.ndarray, where_U: np.ndarray, place_M: np.ndarray, start_P1: np.ndarray, is_pooled_F: np.ndarray,
    sum_PW: np.ndarray,
) -> None:  # fmt: skip
    """`pool_bags` over rows that were pulled: that of position m is value_KW[where_U[place_M[m]]].

    Bags of columns that servers pool become 0: their sums are added later.
    """
    width = sum_PW.shape[1]
    for p in range(start_P1.size - 1):
        first, stop = start_P1[p], start_P1[p + 1]
        if is_pooled_F[p % is_pooled_F.size] or first == stop:
            for w in range(width):
                sum_PW[p, w] = np.float32(0.0)
            continue
        row = where_U[place_M[first]]
        for w in range(width):
            sum_PW[p, w] = value_KW[row, w]
        for m in range(first + 1, stop):
            row = where_U[place_M[m]]
            for w in range(width):
                sum_PW[p, w] += value_KW[row, w]


@jit
def sum_placed(
    gradient_PW: np.ndarray, bag_M: np.ndarray, member_M: np.ndarray, first_U1: np.ndarray, low_S: np.ndarray,
    size_S: np.ndarray, sum_KW: np.ndarray,
) -> None:  # fmt: skip
    """`sum_gradients` of the rows of `place_groups`, in their order."""
    width = sum_KW.shape[1]
    k = 0
    for s in range(low_S.size):
        for u in range(low_S[s], low_S[s] + size_S[s]):
            bag = bag_M[member_M[first_U1[u]]]
            for w in range(width):
                sum_KW[k, w] = gradient_PW[bag, w]
            for m in range(first_U1[u] + 1, first_U1[u + 1]):
                bag = bag_M[member_M[m]]
                for w in range(width):
                    sum_KW[k, w] += gradient_PW[bag, w]
            k += 1


@jit
def assign_bags(
    id_M: np.ndarray, start_P1: np.ndarray, is_pooled_F: np.ndarray, start_S: np.ndarray, shift_S: np.ndarray,
    owner_S: np.ndarray, slot_M: np.ndarray, bag_M: np.ndarray, count_M: np.ndarray, id_end_H1: np.ndarray,
    bag_end_H1: np.ndarray,
) -> None:  # fmt: skip
    """Deal the ids of the bags of pooled columns to the hosts that own them; in its bags' and their own order.

    Host h gets slot_M[id_end_H1[h]:id_end_H1[h + 1]] (id plus shift of its shard), in the bags
    bag_M[bag_end_H1[h]:bag_end_H1[h + 1]] of count_M ids each, 1 or more. All int64; the two ends are 0 when it begins,
    slot_M, bag_M and count_M have room for all ids. start_S ascending.
    """
    hosts, columns = id_end_H1.size - 1, is_pooled_F.size
    shard_M = np.empty(id_M.size, np.int32)
    last_H = np.full(hosts, -1, np.int64)
    for p in range(start_P1.size - 1):
        if not is_pooled_F[p % columns]:
            continue
        for m in range(start_P1[p], start_P1[p + 1]):
            shard_M[m] = _shard_of(id_M[m], start_S)
            host = owner_S[shard_M[m]]
            id_end_H1[host + 1] += 1
            if last_H[host] != p:
                last_H[host] = p
                bag_end_H1[host + 1] += 1
    for host in range(hosts):
        id_end_H1[host + 1] += id_end_H1[host]
        bag_end_H1[host + 1] += bag_end_H1[host]
    id_at_H, bag_at_H = id_end_H1[:-1].copy(), bag_end_H1[:-1] - 1
    last_H[:] = -1
    for p in range(start_P1.size - 1):
        if not is_pooled_F[p % columns]:
            continue
        for m in range(start_P1[p], start_P1[p + 1]):
            host = owner_S[shard_M[m]]
            slot_M[id_at_H[host]] = id_M[m] + shift_S[shard_M[m]]
            id_at_H[host] += 1
            if last_H[host] != p:
                last_H[host] = p
                bag_at_H[host] += 1
                bag_M[bag_at_H[host]] = p
                count_M[bag_at_H[host]] = 0
            count_M[bag_at_H[host]] += 1


@jit
def add_sums(sum_QW: np.ndarray, bag_Q: np.ndarray, sum_PW: np.ndarray) -> None:
    """sum_PW[bag_Q[q]] += sum_QW[q]."""
    for q in range(bag_Q.size):
        for w in range(sum_PW.shape[1]):
            sum_PW[bag_Q[q], w] += sum_QW[q, w]


@jit
def _shard_of(row: int, start_S: np.ndarray) -> int:
    """The last shard that does not start beyond the row."""
    low, high = 0, start_S.size
    while high - low > 1:
        middle = (low + high) // 2
        if start_S[middle] <= row:
            low = middle
        else:
            high = middle
    return low

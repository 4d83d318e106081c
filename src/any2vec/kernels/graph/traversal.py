"""Breadth-first orders of a graph's nodes, and orders dealt from several of them.

Letters: N nodes, T training nodes, S sequences.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit


@jit
def breadth_first(
    indptr: np.ndarray, indices: np.ndarray, place_N: np.ndarray, root_T: np.ndarray, seen_N: np.ndarray,
    queue_N: np.ndarray, found_T: np.ndarray,
) -> None:  # fmt: skip
    """Write the places of all training nodes in the order in which a search finds them. O(N + edges).

    place_N: int32, of each training node, -1 of others. root_T: nodes where searches begin, one behind the other, where
    those before have not been. seen_N: uint8, zeros on entry. queue_N: int32. found_T: int32.
    """
    num = 0
    for root in root_T:
        if seen_N[root]:
            continue
        seen_N[root], queue_N[0] = 1, root
        first, last = 0, 1
        while first < last:
            node = queue_N[first]
            first += 1
            if place_N[node] >= 0:
                found_T[num] = place_N[node]
                num += 1
            for edge in range(indptr[node], indptr[node + 1]):
                neighbor = indices[edge]
                if not seen_N[neighbor]:
                    seen_N[neighbor], queue_N[last] = 1, neighbor
                    last += 1


@jit
def deal_in_turn(sequence_ST: np.ndarray, start_S: np.ndarray, is_dealt_T: np.ndarray, found_T: np.ndarray) -> None:
    """Take one of each sequence in turn, from its start on and round its end, that none has given before.

    sequence_ST: int32, each a permutation of [0, T). start_S: int64 in [0, T), changed. is_dealt_T: uint8, zeros on
    entry. found_T: int64.
    """
    num, size = 0, found_T.size
    while num < size:
        for s in range(start_S.size):
            if num == size:
                break
            place = start_S[s]
            while is_dealt_T[sequence_ST[s, place]]:
                place = place + 1 if place + 1 < size else 0
            is_dealt_T[sequence_ST[s, place]] = 1
            found_T[num] = sequence_ST[s, place]
            num += 1
            start_S[s] = place

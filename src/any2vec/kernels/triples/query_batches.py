"""Training examples of triples as sortable keys: direction of the relation, given entity, position of the example.

Letters: M triples, N = 2 M examples (m asks for a tail, M + m for a head), G queries, which are a way and an entity.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit


@jit
def pack_queries(
    triple_M3: np.ndarray, num_relations: int, given_bits: int, place_bits: int, key_N: np.ndarray, answer_N: np.ndarray
) -> None:
    """key_N uint64 = way, given entity, place, from the highest bits down; answer_N int64: the answer of each example.

    triple_M3 int: slot of the head, relation, slot of the tail. num_relations: by so much ways to heads are higher than
    ways to tails; 0: relations are not looked at, and there is one way.
    """
    size = len(triple_M3)
    for m in range(size):
        way = np.uint64(triple_M3[m, 1]) if num_relations else np.uint64(0)
        head, tail = triple_M3[m, 0], triple_M3[m, 2]
        answer_N[m], answer_N[size + m] = tail, head
        key_N[m] = (((way << np.uint64(given_bits)) | np.uint64(head)) << np.uint64(place_bits)) | np.uint64(m)
        back = (way + np.uint64(num_relations)) << np.uint64(given_bits)
        key_N[size + m] = ((back | np.uint64(tail)) << np.uint64(place_bits)) | np.uint64(size + m)


@jit
def group_queries(
    key_N: np.ndarray, given_bits: int, place_bits: int, answer_N: np.ndarray, sorted_N: np.ndarray,
    first_G1: np.ndarray, given_G: np.ndarray, way_G: np.ndarray,
) -> int:  # fmt: skip
    """The number of queries of sorted keys: examples of query g are [first_G1[g], first_G1[g + 1]).

    sorted_N: answer_N as the keys stand; first_G1, given_G, way_G int64, with room for N queries.
    """
    places, givens = np.uint64((1 << place_bits) - 1), np.uint64((1 << given_bits) - 1)
    groups, former = 0, np.uint64(0)
    for n in range(len(key_N)):
        sorted_N[n] = answer_N[key_N[n] & places]
        query = key_N[n] >> np.uint64(place_bits)
        if n == 0 or query != former:
            first_G1[groups] = n
            given_G[groups], way_G[groups] = query & givens, query >> np.uint64(given_bits)
            groups, former = groups + 1, query
    first_G1[groups] = len(key_N)
    return groups

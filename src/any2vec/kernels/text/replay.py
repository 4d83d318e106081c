"""Sentences in a ring of fixed size, and a tree of sums that draws them in proportion to their priorities.

Legend: P tokens that come, C tokens of the ring, Q sentences of the ring (a power of two), N drawn sentences.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.rng import draw, unit

FIRST, NEXT, TOKENS_PUT = range(3)
"""fields of `mark`: the oldest sentence of the ring and the one that comes next, by number; tokens ever put"""
MARKS = 3


@jit
def set_priority(tree_2Q: np.ndarray, slot: int, priority: float) -> None:
    """Set leaf `slot` of the tree float64 (2 Q,), whose leaves are from Q on.

    tree[i] = tree[2 i] + tree[2 i + 1], so tree[1] is the sum of all leaves.
    """
    at = tree_2Q.size // 2 + slot
    tree_2Q[at] = priority
    while at > 1:
        at >>= 1
        tree_2Q[at] = tree_2Q[2 * at] + tree_2Q[2 * at + 1]


@jit
def find_leaf(tree_2Q: np.ndarray, mass: float) -> int:
    """The leaf in which `mass`, in [0, tree[1]), falls when leaves lie one behind another; never one of priority 0."""
    at = 1
    while at < tree_2Q.size // 2:
        left = tree_2Q[2 * at]
        if mass < left or tree_2Q[2 * at + 1] == 0:
            at = 2 * at
        else:
            mass -= left
            at = 2 * at + 1
    return at - tree_2Q.size // 2


@jit
def put_sentences(
    token_P: np.ndarray,
    births: int,
    priority: float,
    ring_C: np.ndarray,
    start_Q: np.ndarray,
    length_Q: np.ndarray,
    births_Q: np.ndarray,
    tree_2Q: np.ndarray,
    mark: np.ndarray,
) -> None:
    """Put the sentences of token_P int32 (each with -1 behind it) into the ring, over the oldest ones.

    Sentence number n lies in slot n mod Q, from token start_Q int64 (counted for ever, place mod C) on, length_Q int32
    long. One of more than C / 4 tokens is put in pieces; one of a single word, which has no pair, is left out.
    """
    begin = 0
    for at in range(token_P.size):
        is_end = token_P[at] < 0
        length = at - begin + (not is_end)
        if not is_end and length < ring_C.size // 4:
            continue
        if length >= 2:
            while mark[NEXT] > mark[FIRST] and (
                mark[NEXT] - mark[FIRST] == start_Q.size
                or mark[TOKENS_PUT] + length - start_Q[mark[FIRST] % start_Q.size] > ring_C.size
            ):
                set_priority(tree_2Q, mark[FIRST] % start_Q.size, 0.0)
                mark[FIRST] += 1
            slot = mark[NEXT] % start_Q.size
            start_Q[slot], length_Q[slot], births_Q[slot] = mark[TOKENS_PUT], length, births
            for place in range(length):
                ring_C[(mark[TOKENS_PUT] + place) % ring_C.size] = token_P[begin + place]
            set_priority(tree_2Q, slot, priority)
            mark[TOKENS_PUT] += length
            mark[NEXT] += 1
        begin = at + 1


@jit
def draw_sentences(tree_2Q: np.ndarray, key: np.uint64, counter: int, slot_N: np.ndarray) -> None:
    """slot_N int64: one of each N-th of the priorities' sum (Schaul et al. 2016, section 3.3, appendix B.2.1)."""
    for n in range(slot_N.size):
        share = (n + unit(draw(key, np.uint64(counter + n)))) / slot_N.size
        slot_N[n] = find_leaf(tree_2Q, share * tree_2Q[1])


@jit
def copy_sentences(
    slot_N: np.ndarray,
    birth_V: np.ndarray,
    ring_C: np.ndarray,
    start_Q: np.ndarray,
    length_Q: np.ndarray,
    births_Q: np.ndarray,
    token_P: np.ndarray,
) -> None:
    """token_P int32 = the sentences, -1 behind each; a row that has got another word since becomes V."""
    rows, size = birth_V.size, 0
    for n in range(slot_N.size):
        slot = slot_N[n]
        for place in range(length_Q[slot]):
            row = ring_C[(start_Q[slot] + place) % ring_C.size]
            token_P[size] = row if row < rows and birth_V[row] < births_Q[slot] else rows
            size += 1
        token_P[size] = -1
        size += 1

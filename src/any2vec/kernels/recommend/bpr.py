"""Bayesian personalized ranking: stochastic gradient steps on (user, item, item that the user has not).

Rendle et al. 2009, "BPR: Bayesian personalized ranking from implicit feedback", figure 4. The pairs of an epoch come in
runs of RUN adjacent ones, nearly always of one user, whose row stays in a register file or the nearest cache meanwhile;
runs come in random order, each once. Of several negatives the one that the model ranks highest is trained (dynamic
negative sampling, Zhang et al. 2013).

Legend: U users, I items, D numbers of a row, E pairs, user by user, N negatives drawn for a pair.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import fast_jit, jit
from any2vec.kernels.common.permutation import bits_of, permuted
from any2vec.kernels.common.prefetch import prefetch_row
from any2vec.kernels.common.rng import below, draw
from any2vec.kernels.common.scalar import bounded, log_loss, rate_at

RUN = 16
"""adjacent pairs that are trained together"""
MARKS = 16
"""bits for each pair of a user, in which an item is looked for before the items themselves"""
MOST_TRIES = 32
"""draws of a negative; a user that has nearly all items may go without"""
_LOW32 = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15 & 0xFFFFFFFF)
_ONE = np.float32(1.0)
_FAR = np.float32(60.0)


@jit
def num_runs(num_pairs: int) -> int:
    return (num_pairs + RUN - 1) // RUN


@jit
def is_among(item: int, item_E: np.ndarray, start: int, stop: int) -> bool:
    """Whether item_E[start:stop], ascending and not empty, has an item. The search has no branches to predict."""
    size = stop - start
    while size > 1:
        half = size >> 1
        start = start + half if item_E[start + half] <= item else start
        size -= half
    return bool(item_E[start] == item)


@jit
def mark_place(item: int, start: int, stop: int) -> np.int64:
    """Which of the marks of items start..stop - 1 an item has: among MARKS for each of them."""
    hashed = (np.uint64(item) * _GOLDEN) & _LOW32
    return np.int64(MARKS * start + below(hashed, MARKS * (stop - start)))


@jit
def mark_items(indptr: np.ndarray, item_E: np.ndarray) -> np.ndarray:
    """uint8 (E * MARKS / 8,): a bit is set where an item of the user has its mark; others have not been taken."""
    marks = np.zeros((item_E.size * MARKS + 7) // 8, np.uint8)
    for user in range(indptr.size - 1):
        for e in range(indptr[user], indptr[user + 1]):
            place = mark_place(item_E[e], indptr[user], indptr[user + 1])
            marks[place >> 3] |= np.uint8(1 << (place & 7))
    return marks


@jit
def draw_negative(
    counter: int, stride: int, key: np.uint64, popular: int, item_E: np.ndarray, marks: np.ndarray, start: int,
    stop: int, num_items: int,
) -> np.int64:  # fmt: skip
    """An item that is not among item_E[start:stop]; -1: none was found.

    counter: of the draw, below `stride`, the number of all draws of the epoch. popular: of 2**32 draws, how many are
    the item of a pair (so that items come as often as they occur), the others any item.
    """
    for attempt in range(MOST_TRIES):
        bits = draw(key, np.uint64(counter + attempt * stride))
        if (bits & _LOW32) < np.uint64(popular):
            item = np.int64(item_E[np.int64(((bits >> _32) * np.uint64(item_E.size)) >> _32)])
        else:
            item = below(bits >> _32, num_items)
        place = mark_place(item, start, stop)
        if not (marks[place >> 3] >> (place & 7)) & 1 or not is_among(item, item_E, start, stop):
            return item
    return np.int64(-1)


@fast_jit
def highest(own_D: np.ndarray, item_ID: np.ndarray, bias_I: np.ndarray, item_N: np.ndarray) -> np.int64:
    """The item of item_N whose score is highest, of the first of equal ones; those below 0 are none."""
    found, most = np.int64(-1), np.float32(0.0)
    for n in range(item_N.size):
        item = item_N[n]
        if item >= 0:
            score = bias_I[item]
            for d in range(own_D.size):
                score += own_D[d] * item_ID[item, d]
            if found < 0 or score > most:
                found, most = item, score
    return found


@fast_jit
def train_bpr(
    indptr: np.ndarray, user_E: np.ndarray, item_E: np.ndarray, marks: np.ndarray, start: int, stop: int,
    order_key: np.uint64, negative_key: np.uint64, num_draws: int, popular: int, user_UD: np.ndarray,
    item_ID: np.ndarray, bias_I: np.ndarray, lr_zero: float, lr_step: float, l2: float, l2_bias: float,
) -> tuple[int, float, int]:  # fmt: skip
    """Train positions [start, stop) of an epoch, multiples of RUN; returns (pairs, sum of the loss).

    indptr: int64 (U + 1,), user_E: int32 (E,) the user of each pair, item_E: int32 (E,), ascending within a user.
    Rows are float32 (U, D), (I, D), changed in place; bias_I float32 (I,). Rates as `rate_at` takes them.
    """
    num_pairs, num_items, dim = item_E.size, item_ID.shape[0], item_ID.shape[1]
    runs = num_runs(num_pairs)
    bits = bits_of(runs)
    stride = runs * RUN * num_draws
    ahead = np.empty((2, RUN * num_draws), np.int64)
    own = np.empty(dim, np.float32)
    l2_32, l2_bias_32 = np.float32(l2), np.float32(l2_bias)
    pairs, measured, loss = 0, 0, 0.0
    place = np.int64(0)
    first_run, last_run = start // RUN, stop // RUN
    for turn in range(first_run, last_run + 1):
        now, then = turn & 1, (turn & 1) ^ 1
        before = place
        if turn < last_run:  # the next run is drawn, and asked for, while this one is trained
            place = permuted(turn, runs, bits, order_key) * RUN
            for k in range(min(RUN, int(num_pairs - place))):
                e = place + k
                user = np.int64(user_E[e])
                if k == 0:
                    prefetch_row(user_UD, int(user))
                prefetch_row(item_ID, int(item_E[e]))
                for n in range(num_draws):
                    counter = (turn * RUN + k) * num_draws + n
                    item = draw_negative(
                        counter, stride, negative_key, popular, item_E, marks, indptr[user], indptr[user + 1], num_items
                    )
                    ahead[now, k * num_draws + n] = item
                    if item >= 0:
                        prefetch_row(item_ID, item)
        if turn == first_run:
            continue
        held = np.int64(-1)
        for k in range(min(RUN, int(num_pairs - before))):
            e = before + k
            user, good = np.int64(user_E[e]), np.int64(item_E[e])
            if user != held:
                if held >= 0:
                    for d in range(dim):
                        user_UD[held, d] = own[d]
                for d in range(dim):
                    own[d] = user_UD[user, d]
                held = user
            bad = ahead[then, k * num_draws]
            if num_draws > 1:
                bad = highest(own, item_ID, bias_I, ahead[then, k * num_draws : (k + 1) * num_draws])
            if bad < 0:
                continue
            margin = bias_I[good] - bias_I[bad]
            for d in range(dim):
                margin += own[d] * (item_ID[good, d] - item_ID[bad, d])
            rate = rate_at((turn - 1) * RUN + k, lr_zero, lr_step)
            pull = _ONE / (_ONE + np.exp(min(max(margin, -_FAR), _FAR)))  # without the branch of a sigmoid
            pairs += 1
            if k == 0:
                loss += log_loss(margin)
                measured += 1
            for d in range(dim):
                u, i, j = own[d], item_ID[good, d], item_ID[bad, d]
                own[d] = bounded(u + rate * (pull * (i - j) - l2_32 * u))
                item_ID[good, d] = bounded(i + rate * (pull * u - l2_32 * i))
                item_ID[bad, d] = bounded(j - rate * (pull * u + l2_32 * j))
            bias_I[good] = bounded(bias_I[good] + rate * (pull - l2_bias_32 * bias_I[good]))
            bias_I[bad] = bounded(bias_I[bad] - rate * (pull + l2_bias_32 * bias_I[bad]))
        if held >= 0:
            for d in range(dim):
                user_UD[held, d] = own[d]
    return pairs, loss, measured

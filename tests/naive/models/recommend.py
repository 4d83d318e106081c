"""Slow twins of the models of implicit feedback, of the lists they make, and of their metrics."""

from __future__ import annotations

import math

import numpy as np

from any2vec.kernels.common.permutation import bits_of, permuted
from any2vec.kernels.common.rng import below, draw
from any2vec.kernels.recommend.bpr import MOST_TRIES, RUN


def negative(counter, stride, key, popular, item_E, own, num_items):
    for attempt in range(MOST_TRIES):
        bits = int(draw(key, np.uint64(counter + attempt * stride)))
        high, low = bits >> 32, bits & 0xFFFFFFFF
        item = int(item_E[(high * len(item_E)) >> 32]) if low < popular else int(below(np.uint64(high), num_items))
        if item not in own:
            return item
    return -1


def train_bpr(
    items_of, start, stop, order_key, negative_key, num_draws, popular, users, items, bias, lr_zero, lr_step, l2,
    l2_bias,
):  # fmt: skip
    """BPR one pair at a time, in float64; items_of: a list of items for each user. Returns (pairs, loss)."""
    pair = [(user, item) for user, own in enumerate(items_of) for item in own]
    item_E = [item for _, item in pair]
    runs = -(-len(pair) // RUN)
    bits, stride, pairs, loss = bits_of(runs), runs * RUN * num_draws, 0, 0.0
    for run in range(start // RUN, stop // RUN):
        place = int(permuted(run, runs, bits, order_key)) * RUN
        for k, (user, good) in enumerate(pair[place : place + RUN]):
            own = set(items_of[user])
            drawn = [
                negative((run * RUN + k) * num_draws + n, stride, negative_key, popular, item_E, own, len(items))
                for n in range(num_draws)
            ]
            drawn = [item for item in drawn if item >= 0]
            if not drawn:
                continue
            bad = max(drawn, key=lambda item: bias[item] + users[user] @ items[item])  # the first of equal ones
            margin = bias[good] - bias[bad] + users[user] @ (items[good] - items[bad])
            rate, pull = lr_zero + lr_step * (run * RUN + k), 1 / (1 + math.exp(margin))
            pairs += 1
            loss += math.log1p(math.exp(-margin)) if k == 0 else 0.0
            u, i, j = users[user].copy(), items[good].copy(), items[bad].copy()
            users[user] = u + rate * (pull * (i - j) - l2 * u)
            items[good] = i + rate * (pull * u - l2 * i)
            items[bad] = j - rate * (pull * u + l2 * j)
            bias[good] += rate * (pull - l2_bias * bias[good])
            bias[bad] -= rate * (pull + l2_bias * bias[bad])
    return pairs, loss


def solve_row(items, weights, other, alpha, l2):
    """The row that solves equation 4 of Hu, Koren and Volinsky, exactly; and its part of equation 3."""
    confidence = 1 + alpha * weights
    left = other.T @ other + l2 * np.eye(other.shape[1]) + (other[items].T * (confidence - 1)) @ other[items]
    x = np.linalg.solve(left, other[items].T @ confidence)
    is_own = np.zeros(len(other))
    is_own[items] = 1
    each = np.ones(len(other))
    each[items] = confidence
    return x, float((each * (is_own - other @ x) ** 2).sum() + l2 * x @ x)


def best_items(score_I, left_out, k):
    order = sorted((-score, item) for item, score in enumerate(score_I) if item not in left_out and score > -math.inf)
    return [item for _, item in order[:k]]


def metrics(lists, test, k):
    """(recall, ndcg, hit rate) of lists of items, by user; test: user -> its held-out items."""
    found = []
    for user, wanted in test.items():
        if not wanted:
            continue
        hits = [item in wanted for item in lists[user][:k]]
        gain = sum(hit / math.log2(rank + 2) for rank, hit in enumerate(hits))
        best = sum(1 / math.log2(rank + 2) for rank in range(min(k, len(wanted))))
        found.append((sum(hits) / len(wanted), gain / best, float(any(hits))))
    return tuple(np.mean(found, axis=0))

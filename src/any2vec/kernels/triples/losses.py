"""Losses of training examples of triples, over the scores of a block of candidates; scores become gradients in place.

A query asks for the other end of triples with one entity and one relation; each of its examples has one answer. The
answer of one example of a query is not a negative of its others.

Legend: Q queries, K candidates, B examples: those of query q are first_Q1[q] <= b < first_Q1[q + 1]; H partitions of
the candidates: those of partition h are first_H1[h] <= k < first_H1[h + 1]. column_B: the answer's place among the
candidates, -1 where it is not among them; own_B its score; weight_QH float32: what a negative of partition h counts to
query q (plan/order/shares.py), as if it came so often. The gradients of answers among the candidates go into
their columns, those of others into own_B. Losses are sums over examples, float64.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import fast_jit
from any2vec.kernels.common.scalar import log_loss, sigmoid

_LOW = np.float32(-1e30)
_ZERO, _ONE, _HALF = np.float32(0.0), np.float32(1.0), np.float32(0.5)
_PER_LOG2 = np.float32(1.4426950408889634)
_LEAST = np.float32(-126.0)
_C1, _C2, _C3 = np.float32(0.6931471805599453), np.float32(0.2402265069591007), np.float32(0.05550410866482158)
_C4, _C5, _C6 = np.float32(0.009618129107628477), np.float32(0.0013333558146428443), np.float32(0.00015403530393381608)
_BIAS, _MANTISSA = np.int32(127), np.int32(23)


@fast_jit
def exp_below(x: np.float32) -> np.float32:
    """exp of a float32 of at most 0: 2 to a whole number times Taylor's series of 2 to the rest; relative error 4e-6.

    Loops over it are vectorized, those over np.exp are not. Below -87 it is all but 0.
    """
    power = max(x * _PER_LOG2, _LEAST)
    whole = np.floor(power + _HALF)
    rest = power - whole
    series = _ONE + rest * (_C1 + rest * (_C2 + rest * (_C3 + rest * (_C4 + rest * (_C5 + rest * _C6)))))
    bits = np.int32((np.int32(whole) + _BIAS) << _MANTISSA)
    return np.float32(series * bits.view(np.float32))


@fast_jit
def hide_answers(score_QK: np.ndarray, first_Q1: np.ndarray, column_B: np.ndarray) -> None:
    """The answers of a query are no negatives of it: their columns score below everything. Before each loss."""
    for q in range(score_QK.shape[0]):
        for b in range(first_Q1[q], first_Q1[q + 1]):
            if column_B[b] >= 0:
                score_QK[q, column_B[b]] = _LOW


@fast_jit
def _show_answers(row_K: np.ndarray, column_B: np.ndarray, own_B: np.ndarray, first: int, stop: int) -> None:
    """Gradients of answers go to their columns, which hold next to nothing by now; one that comes twice has both."""
    for b in range(first, stop):
        if column_B[b] >= 0:
            row_K[column_B[b]] += own_B[b]
            own_B[b] = _ZERO


@fast_jit
def softmax_loss(
    score_QK: np.ndarray, top_Q: np.ndarray, first_Q1: np.ndarray, column_B: np.ndarray, own_B: np.ndarray,
    first_H1: np.ndarray, weight_QH: np.ndarray,
) -> float:  # fmt: skip
    """- log(exp(own) / (exp(own) + sum of weight times exp over negatives)), nats. top_Q: the highest negative.

    Sums are over the highest negative, or the answer where that is higher: answers of one query may lie far apart.
    """
    loss = 0.0
    for q in range(score_QK.shape[0]):
        row_K, top, first, stop = score_QK[q], top_Q[q], first_Q1[q], first_Q1[q + 1]
        for k in range(row_K.size):  # apart from the sums: partitions may be short
            row_K[k] = exp_below(row_K[k] - top)
        total = _ZERO
        for h in range(first_H1.size - 1):
            count = weight_QH[q, h]
            for k in range(first_H1[h], first_H1[h + 1]):
                each = count * row_K[k]
                row_K[k] = each
                total += each
        weight = _ZERO
        for b in range(first, stop):
            highest = max(top, own_B[b])
            own, scale = exp_below(own_B[b] - highest), exp_below(top - highest)
            whole = own + scale * total
            loss += np.log(np.float64(whole)) - np.float64(own_B[b] - highest)
            weight += scale / whole
            own_B[b] = -scale * total / whole
        for k in range(row_K.size):
            row_K[k] *= weight
        _show_answers(row_K, column_B, own_B, first, stop)
    return loss


@fast_jit
def logistic_loss(
    score_QK: np.ndarray, top_Q: np.ndarray, first_Q1: np.ndarray, column_B: np.ndarray, own_B: np.ndarray,
    first_H1: np.ndarray, weight_QH: np.ndarray, temperature: float,
) -> float:  # fmt: skip
    """- log sigmoid(own) - mean of log sigmoid(-score) over negatives, nats.

    The mean is by weight_QH times exp(temperature * score), which has no gradient: self-adversarial (Sun et al. 2019,
    equation 5); with temperature 0 all of a partition are alike.
    """
    loss, sharp = 0.0, np.float32(temperature)
    for q in range(score_QK.shape[0]):
        row_K, top, first, stop = score_QK[q], top_Q[q], first_Q1[q], first_Q1[q + 1]
        total, of_negatives = _ZERO, 0.0
        for h in range(first_H1.size - 1):
            part = _ZERO
            for k in range(first_H1[h], first_H1[h + 1]):
                if row_K[k] > _HALF * _LOW:
                    part += exp_below(sharp * (row_K[k] - top))
            total += weight_QH[q, h] * part
        each = np.float32(stop - first) / max(total, np.float32(1e-30))
        for h in range(first_H1.size - 1):
            own_share = weight_QH[q, h] * each
            for k in range(first_H1[h], first_H1[h + 1]):
                if row_K[k] > _HALF * _LOW:
                    weight = own_share * exp_below(sharp * (row_K[k] - top))
                    of_negatives += np.float64(weight) * log_loss(-row_K[k])
                    row_K[k] = weight * sigmoid(row_K[k])
                else:
                    row_K[k] = _ZERO
        loss += of_negatives
        for b in range(first, stop):
            loss += log_loss(own_B[b])
            own_B[b] = -sigmoid(-own_B[b])
        _show_answers(row_K, column_B, own_B, first, stop)
    return loss


@fast_jit
def margin_loss(
    score_QK: np.ndarray, first_Q1: np.ndarray, column_B: np.ndarray, own_B: np.ndarray, first_H1: np.ndarray,
    weight_QH: np.ndarray, margin: float,
) -> float:  # fmt: skip
    """Mean over negatives, by weight_QH, of max(0, margin - own + score)."""
    loss, wide = 0.0, np.float32(margin)
    for q in range(score_QK.shape[0]):
        row_K, first, stop = score_QK[q], first_Q1[q], first_Q1[q + 1]
        total = _ZERO
        for h in range(first_H1.size - 1):
            shown = 0
            for k in range(first_H1[h], first_H1[h + 1]):
                shown += int(row_K[k] > _HALF * _LOW)
            total += weight_QH[q, h] * np.float32(shown)
        gradient_B = np.zeros(stop - first, np.float32)
        for h in range(first_H1.size - 1):
            share = weight_QH[q, h] / max(total, np.float32(1e-30))
            for k in range(first_H1[h], first_H1[h + 1]):
                count = _ZERO
                for b in range(first, stop):
                    short = wide - own_B[b] + row_K[k]
                    if short > _ZERO:
                        loss += np.float64(share * short)
                        count += share
                        gradient_B[b - first] -= share
                row_K[k] = count
        own_B[first:stop] = gradient_B
        _show_answers(row_K, column_B, own_B, first, stop)
    return loss

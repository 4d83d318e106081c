"""A planted click stream: Zipf ids, dense numbers, and the logits of a factor-model teacher that stores no factors.

Whatever is drawn depends on a key and the number of the example (or row) alone, so that any range can be made alone.
A teacher's numbers of a row are uniform with mean 0 and variance 1, four of them from one 64-bit draw; dense numbers
are the sum of four uniforms (Irwin-Hall), scaled to variance 1.

Letters: B examples, F categorical columns, P = B * F bags, M ids, X dense columns, R rows of a column, K factors of a
row, H hidden units of the dense part.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from any2vec.kernels.common.alias import draw_alias
from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.rng import below, draw, unit

FIRST_VALUE = 2
"""the first row of a column that stands for a value; 0 is a missing one, 1 a rare one"""
PURPOSE_IDS, PURPOSE_LENGTHS, PURPOSE_DENSE, PURPOSE_FACTORS, PURPOSE_LABELS, PURPOSE_LAYOUT = (
    101,
    102,
    103,
    104,
    105,
    106,
)
_16, _32, _48 = np.uint64(16), np.uint64(32), np.uint64(48)
_LOW16 = np.uint64(0xFFFF)
_PIECE = 1.0 / 65536.0
_SQRT3, _SQRT12 = math.sqrt(3.0), math.sqrt(12.0)


class Ids(NamedTuple):
    """How ids are drawn."""

    key: np.uint64
    threshold_R: np.ndarray
    """uint32 (R,): alias table of the rows in the order of the columns' rows, shared by all columns"""
    alias_R: np.ndarray
    """int32 (R,)"""
    shift_F: np.ndarray
    """int64 (F,): each column turns the order by this many rows"""
    offset_F: np.ndarray
    """int64 (F + 1,): the first row of each column in the table of all"""
    longest: int
    """ids of a bag at most"""


class Teacher(NamedTuple):
    """What gives the logit of an example."""

    key: np.uint64
    num_factors: int
    scale_F: np.ndarray
    """float64 (F,): what a column's numbers are multiplied by"""
    scale_R: np.ndarray
    """float64 (R,): what a row's numbers are multiplied by, in the order of `Ids.threshold_R`"""
    hidden_XH: np.ndarray
    """float64 (X, H)"""
    out_H: np.ndarray
    """float64 (H,)"""
    weight_3: np.ndarray
    """float64 (3,): weights of the linear, pairwise and dense parts"""
    intercept: float


@jit
def fill_starts(
    key: np.uint64, start: int, num_single: int, num_columns: int, longest: int, start_P: np.ndarray
) -> None:
    """Where bags begin: 1 id in the first num_single columns, 0..longest (uniform) in the others.

    key: of lengths. start: number of the first example. start_P: int64 (B * F + 1,), written.
    """
    start_P[0] = 0
    bag = 0
    for number in range(start, start + (start_P.size - 1) // num_columns):
        for column in range(num_columns):
            length = 1
            if column >= num_single:
                length = below(draw(key, np.uint64(number * num_columns + column)) >> _32, longest + 1)
            start_P[bag + 1] = start_P[bag] + length
            bag += 1


@jit
def fill_ids(ids: Ids, start: int, start_P: np.ndarray, id_M: np.ndarray) -> None:
    """Draw the ids of all bags, rows of the one table. start: the first example's number; id_M: int64 (M,), written."""
    num_columns = ids.shift_F.size
    num_rows = ids.threshold_R.size
    bag = 0
    for number in range(start, start + (start_P.size - 1) // num_columns):
        for column in range(num_columns):
            first = (number * num_columns + column) * ids.longest - start_P[bag]
            for at in range(start_P[bag], start_P[bag + 1]):
                row = draw_alias(draw(ids.key, np.uint64(first + at)), ids.threshold_R, ids.alias_R)
                row += ids.shift_F[column]
                if row >= num_rows:
                    row -= num_rows
                id_M[at] = ids.offset_F[column] + FIRST_VALUE + row
            bag += 1


@jit
def fill_dense(key: np.uint64, start: int, dense_BX: np.ndarray) -> None:
    """Numbers of mean 0 and variance 1 in (-2 sqrt 3, 2 sqrt 3). dense_BX: float32 (B, X), written."""
    width = dense_BX.shape[1]
    for b in range(dense_BX.shape[0]):
        for x in range(width):
            bits = draw(key, np.uint64((start + b) * width + x))
            total = (bits & _LOW16) + ((bits >> _16) & _LOW16) + ((bits >> _32) & _LOW16) + (bits >> _48)
            dense_BX[b, x] = np.float32(((np.float64(total) + 2.0) * _PIECE - 2.0) * _SQRT3)


@jit
def add_numbers(key: np.uint64, row: int, share: float, number_N: np.ndarray) -> None:
    """Add share times the numbers of a row of the table (uniform, mean 0, variance 1) to number_N: float64, N = 4 n."""
    num_words = number_N.size >> 2
    for word in range(num_words):
        bits = draw(key, np.uint64(row * num_words + word))
        for at in range(4):
            piece = np.float64((bits >> np.uint64(16 * at)) & _LOW16) + 0.5
            number_N[4 * word + at] += share * (piece * (_PIECE * _SQRT12) - _SQRT3)


@jit
def fill_categorical(teacher: Teacher, ids: Ids, id_M: np.ndarray, start_P: np.ndarray, parts_B3: np.ndarray) -> None:
    """The linear and the pairwise part: sum of the bags' weights, and of the products of the factors of each two bags.

    A row's numbers (weight first, then factors) count times its column's scale and that of its rank; a bag's are the
    means of its ids', of an empty bag 0. parts_B3[:, :2] (float64) is written. The pairwise part is that of a
    factorization machine (Rendle 2010, equation 5).
    """
    num_used = teacher.num_factors + 1
    bag_N = np.empty((num_used + 3) // 4 * 4)
    total_N = np.empty(bag_N.size)
    for b in range(parts_B3.shape[0]):
        squares = 0.0
        total_N[:] = 0.0
        for column in range(teacher.scale_F.size):
            bag = b * teacher.scale_F.size + column
            bag_N[:] = 0.0
            share = teacher.scale_F[column] / max(1, start_P[bag + 1] - start_P[bag])
            for at in range(start_P[bag], start_P[bag + 1]):
                place = id_M[at] - ids.offset_F[column] - FIRST_VALUE - ids.shift_F[column]
                if place < 0:
                    place += teacher.scale_R.size
                add_numbers(teacher.key, id_M[at], share * teacher.scale_R[place], bag_N)
            for n in range(num_used):
                total_N[n] += bag_N[n]
            for n in range(1, num_used):
                squares += bag_N[n] * bag_N[n]
        pairs = -squares
        for n in range(1, num_used):
            pairs += total_N[n] * total_N[n]
        parts_B3[b, 0] = total_N[0]
        parts_B3[b, 1] = 0.5 * pairs


@jit
def fill_dense_part(teacher: Teacher, dense_BX: np.ndarray, parts_B3: np.ndarray) -> None:
    """The dense part: a layer of rectifiers and a sum. parts_B3[:, 2] (float64) is written."""
    inner_H = np.empty(teacher.out_H.size)
    for b in range(dense_BX.shape[0]):
        inner_H[:] = 0.0
        for x in range(dense_BX.shape[1]):
            number = np.float64(dense_BX[b, x])
            for h in range(inner_H.size):
                inner_H[h] += teacher.hidden_XH[x, h] * number
        total = 0.0
        for h in range(inner_H.size):
            total += teacher.out_H[h] * max(0.0, inner_H[h])
        parts_B3[b, 2] = total


@jit
def fill_probability(teacher: Teacher, parts_B3: np.ndarray, probability_B: np.ndarray) -> None:
    """Probability of a click, float64 (B,), written."""
    for b in range(probability_B.size):
        logit = teacher.intercept
        for part in range(3):
            logit += teacher.weight_3[part] * parts_B3[b, part]
        probability_B[b] = 1.0 / (1.0 + math.exp(-logit))


@jit
def fill_labels(key: np.uint64, start: int, probability_B: np.ndarray, label_B: np.ndarray) -> None:
    """1 with the example's probability, else 0: float32 (B,), written."""
    for b in range(label_B.size):
        label_B[b] = np.float32(unit(draw(key, np.uint64(start + b))) < probability_B[b])


@jit
def fill_draws(key: np.uint64, bits_N: np.ndarray) -> None:
    """The first N draws of a stream, uint64 (N,), written."""
    for n in range(bits_N.size):
        bits_N[n] = draw(key, np.uint64(n))

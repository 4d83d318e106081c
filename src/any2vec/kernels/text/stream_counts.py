"""Counts of words in a stream without end: they decay, the rarest are dropped, and the frequent ones have rows.

A use counts `unit`, and the unit grows instead of all counts shrinking (forward decay: Cormode, Shkapenyuk, Srivastava,
Xu 2009): a count over the unit is the decayed one. All words of a line count alike.

Legend: P tokens, T types (words in the table), V rows, S slots of the hash table.
"""

from __future__ import annotations

import math

import numpy as np

from any2vec.kernels.common.jit import jit

POSITION, BASE, TABLES_AT, ROWS_USED, FIRST_RESTING, NUM_RESTING, BIRTHS, NUM_BORN, BORN_BEFORE, ROWLESS, EVENT = range(
    11
)
"""fields of `mark`: words so far; the position where the unit is 1; the position from which tables are due; rows ever
used; the ring of resting rows; births so far; rows born since they were asked for, and births before that; uses that
found no row free; why `count_uses` stopped"""
MARKS = 11
UNIT, TOTAL, BAR, MISSED = range(4)
"""fields of `value`: what a use counts; the sum of all uses; the count that a word without a row has to exceed; what
the count of a word may lack at most (all but the first are to be divided by the unit)"""
VALUES = 4
NOTHING, NEEDS_ROWS, NEEDS_SCALE, NEEDS_TABLES = range(4)
"""values of mark[EVENT]"""
MOST_HALVINGS = 256
"""so often may the unit double before everything is divided by it"""

_32 = np.uint64(32)
_LOW32 = np.uint64(0xFFFFFFFF)


@jit
def count_uses(
    token_P: np.ndarray,
    start: int,
    stop: int,
    half_life: int,
    min_count: int,
    rest: int,
    count_T: np.ndarray,
    row_T: np.ndarray,
    type_V: np.ndarray,
    birth_V: np.ndarray,
    resting_V: np.ndarray,
    freed_V: np.ndarray,
    born_V: np.ndarray,
    value: np.ndarray,
    mark: np.ndarray,
) -> int:
    """Count the types in token_P[start:stop] and put their rows in their places; the first token not yet done.

    token_P int32: ids of types, -1 ends a line; a type without a row becomes V. count_T float64; row_T int32, -1 for
    none; type_V int32, -1 for a free row; birth_V int64, the number of a row's last birth. resting_V int32 and freed_V
    int64 are the ring of freed rows, oldest first, each with the position at which it was freed: it is given away
    `rest` positions later. born_V int32 collects the rows that were given away. half_life 0: no decay. Stops early with
    a reason in mark[EVENT].
    """
    mark[EVENT] = NOTHING
    rows = type_V.size
    unit, position = value[UNIT], mark[POSITION]
    at = start
    while at < stop:
        kind = token_P[at]
        if kind < 0:
            at += 1
            if half_life > 0:
                age = position - mark[BASE]
                if age >= MOST_HALVINGS * half_life:
                    mark[EVENT] = NEEDS_SCALE
                    break
                unit = math.exp2(age / half_life)
            if position >= mark[TABLES_AT]:
                mark[EVENT] = NEEDS_TABLES
                break
            continue
        count = count_T[kind] + unit
        row = row_T[kind]
        if row < 0:
            row = rows
            if count >= min_count * unit and count > value[BAR]:
                first = mark[FIRST_RESTING]
                if mark[ROWS_USED] < rows:
                    row = mark[ROWS_USED]
                    mark[ROWS_USED] += 1
                elif mark[NUM_RESTING] == 0:
                    mark[EVENT] = NEEDS_ROWS
                    break
                elif freed_V[first] + rest <= position:
                    row = resting_V[first]
                    mark[FIRST_RESTING] = (first + 1) % rows
                    mark[NUM_RESTING] -= 1
                else:
                    mark[ROWLESS] += 1
            if row < rows:
                row_T[kind] = row
                type_V[row] = kind
                if birth_V[row] < mark[BORN_BEFORE]:  # else it is among the born already
                    born_V[mark[NUM_BORN]] = row
                    mark[NUM_BORN] += 1
                birth_V[row] = mark[BIRTHS]
                mark[BIRTHS] += 1
        count_T[kind] = count
        value[TOTAL] += unit
        position += 1
        token_P[at] = row
        at += 1
    value[UNIT] = unit
    mark[POSITION] = position
    return at


@jit
def row_counts(count_T: np.ndarray, type_V: np.ndarray, unit: float, count_V: np.ndarray) -> None:
    """count_V float64 (V,) = the decayed counts of the rows, 0 for free ones."""
    for row in range(type_V.size):
        count_V[row] = count_T[type_V[row]] / unit if type_V[row] >= 0 else 0.0


@jit
def drop_types(table_2S: np.ndarray, arena_8: np.ndarray, length_T: np.ndarray, is_kept_T: np.ndarray) -> int:
    """Leave only the kept types (bool (T,)), in their order, with new ids 0.. and places in the arena, moved together.

    table_2S, arena_8: those of `tokens.encode_words`; the table loses its order and has to be rehashed. length_T int32
    (bytes) stays as it is. Returns how much of the arena is used.
    """
    place_T = np.empty(is_kept_T.size, np.uint64)
    kept, source, target = 0, 0, 0
    for kind in range(is_kept_T.size):
        chunks = (length_T[kind] >> 3) + 1
        if is_kept_T[kind]:
            place_T[kind] = np.uint64(kept) | (np.uint64(target) << _32)
            for chunk in range(chunks):
                arena_8[target + chunk] = arena_8[source + chunk]
            kept += 1
            target += chunks
        source += chunks
    for slot in range(0, table_2S.size, 2):
        if table_2S[slot] != 0:
            owner = np.int64(table_2S[slot + 1] & _LOW32)
            if is_kept_T[owner]:
                table_2S[slot + 1] = place_T[owner]
            else:
                table_2S[slot] = 0
    return target

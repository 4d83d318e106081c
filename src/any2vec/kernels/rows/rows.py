"""Rows of a table: their start values, the way into a block's own copy, and the way of its changes back.

Legend: V rows of the table, D dim, N rows of a block, P numbers of a block's row (`padded`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import config, types
from numba.core.cgutils import alloca_once_value, for_range_slice
from numba.extending import intrinsic

from any2vec.kernels.common.addresses import rows_at, slots_at
from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.rng import draw, unit
from any2vec.kernels.common.scalar import BOUND
from any2vec.kernels.common.vectors import (
    I64,
    VECTOR,
    WIDTH,
    ZERO,
    at,
    data_of,
    each_register,
    fma,
    rows_of,
    splat,
    sum_of_lanes,
)  # fmt: skip


@jit
def fill_uniform(rows_KD: np.ndarray, id_K: np.ndarray, key: np.uint64, spread: float) -> None:
    """Rows id_K, int64, of a table whose numbers are uniform in [-spread, spread) / D: its element i is draw i."""
    dim = rows_KD.shape[1]
    for k in range(id_K.size):
        for q in range(dim):
            value = 2.0 * unit(draw(key, np.uint64(id_K[k] * dim + q))) - 1.0
            rows_KD[k, q] = np.float32(spread * value / dim)


@jit
def gather_rows(table_VD: np.ndarray, id_K: np.ndarray, rows_KD: np.ndarray) -> None:
    """rows[k] = table[id[k]]; id_K int64, each in [0, V). As NumPy's indexing, but without Python's lock."""
    for k in range(id_K.size):
        row = id_K[k]
        for d in range(table_VD.shape[1]):
            rows_KD[k, d] = table_VD[row, d]


@jit
def scatter_rows(rows_KD: np.ndarray, id_K: np.ndarray, table_VD: np.ndarray) -> None:
    """table[id[k]] = rows[k]; as `gather_rows`."""
    for k in range(id_K.size):
        row = id_K[k]
        for d in range(table_VD.shape[1]):
            table_VD[row, d] = rows_KD[k, d]


@jit
def scatter_lists(ids_H: np.ndarray, rows_H: np.ndarray, size_H: np.ndarray, table_VD: np.ndarray) -> None:
    """`scatter_rows` of H lists of ids, int64 (K,), and rows, float32 (K, D), by address, uint64; size_H: each K."""
    for h in range(size_H.size):
        if size_H[h] > 0:
            scatter_rows(
                rows_at(rows_H[h], np.float32(0), size_H[h], table_VD.shape[1]), slots_at(ids_H[h], size_H[h]), table_VD
            )


@intrinsic
def _take_rows(
    typing_context: Any, table_VD: Any, id_N: Any, local_NP: Any, norm_N: Any, other_NP: Any, dot_N: Any
) -> Any:
    has_other = not isinstance(other_NP, types.NoneType)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = signature.args
        table, dim = rows_of(context, builder, kinds[0], arguments[0])
        local, width = rows_of(context, builder, kinds[2], arguments[2])
        ids = context.make_array(kinds[1])(context, builder, arguments[1])
        results = [(data_of(context, builder, kinds[3], arguments[3]), alloca_once_value(builder, ZERO))]
        if has_other:
            other, _ = rows_of(context, builder, kinds[4], arguments[4])
            results.append((data_of(context, builder, kinds[5], arguments[5]), alloca_once_value(builder, ZERO)))
        with for_range_slice(builder, I64(0), builder.extract_value(ids.shape, 0), I64(1), intp=I64) as (n, _):
            row = builder.sext(builder.load(builder.gep(ids.data, [n])), I64)
            for _, total in results:
                builder.store(ZERO, total)

            def copy(column: Any, load: Any, store: Any) -> None:
                value = load(builder, at(builder, table, row, dim, column))
                store(builder, value, at(builder, local, n, width, column))
                partners = [value, load(builder, at(builder, other, n, width, column))] if has_other else [value]
                for partner, (_, total) in zip(partners, results, strict=True):
                    builder.store(fma(builder, value, partner, builder.load(total)), total)

            each_register(builder, dim, copy)
            for target, total in results:
                builder.store(sum_of_lanes(builder, builder.load(total)), builder.gep(target, [n]))
        return context.get_dummy_value()

    return types.void(table_VD, id_N, local_NP, norm_N, other_NP, dot_N), generate


@intrinsic
def _give_rows(typing_context: Any, change_NP: Any, factor_N: Any, id_N: Any, table_VD: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = signature.args
        change, width = rows_of(context, builder, kinds[0], arguments[0])
        factors = data_of(context, builder, kinds[1], arguments[1])
        ids = context.make_array(kinds[2])(context, builder, arguments[2])
        table, dim = rows_of(context, builder, kinds[3], arguments[3])
        high, low = (ir.Constant(VECTOR, [bound] * WIDTH) for bound in (float(BOUND), -float(BOUND)))
        with for_range_slice(builder, I64(0), builder.extract_value(ids.shape, 0), I64(1), intp=I64) as (n, _):
            row = builder.sext(builder.load(builder.gep(ids.data, [n])), I64)
            factor = splat(builder, builder.load(builder.gep(factors, [n])))

            def add(column: Any, load: Any, store: Any) -> None:
                target = at(builder, table, row, dim, column)
                value = fma(
                    builder, factor, load(builder, at(builder, change, n, width, column)), load(builder, target)
                )
                value = builder.select(builder.fcmp_ordered("<", value, high), value, high)
                store(builder, builder.select(builder.fcmp_ordered(">", value, low), value, low), target)

            each_register(builder, dim, add)
        return context.get_dummy_value()

    return types.void(change_NP, factor_N, id_N, table_VD), generate


if config.DISABLE_JIT:  # type: ignore[attr-defined]

    def take_rows(table_VD: np.ndarray, id_N: np.ndarray, local_NP: np.ndarray, norm_N: np.ndarray) -> None:
        """local[n] = table[id[n]] and norm[n] = |local[n]| ** 2"""
        local_NP[: id_N.size, : table_VD.shape[1]] = table_VD[id_N]
        norm_N[: id_N.size] = (table_VD[id_N] ** 2).sum(axis=1)

    def take_partners(
        table_VD: np.ndarray, id_N: np.ndarray, local_NP: np.ndarray, norm_N: np.ndarray, other_NP: np.ndarray,
        dot_N: np.ndarray,
    ) -> None:  # fmt: skip
        """`take_rows`, and dot[n] = local[n] . other[n]"""
        take_rows(table_VD, id_N, local_NP, norm_N)
        dot_N[: id_N.size] = (local_NP[: id_N.size] * other_NP[: id_N.size]).sum(axis=1)

    def give_rows(change_NP: np.ndarray, factor_N: np.ndarray, id_N: np.ndarray, table_VD: np.ndarray) -> None:
        """table[id[n]] += factor[n] change[n], within scalar.BOUND"""
        for n in range(id_N.size):
            row = table_VD[id_N[n]]
            row[:] = np.clip(row + factor_N[n] * change_NP[n, : row.size], -BOUND, BOUND)

else:

    @jit
    def take_rows(table_VD: np.ndarray, id_N: np.ndarray, local_NP: np.ndarray, norm_N: np.ndarray) -> None:
        """local[n] = table[id[n]] and norm[n] = |local[n]| ** 2; float32, C order, id_N int32, P as `padded`."""
        _take_rows(table_VD, id_N, local_NP, norm_N, None, None)  # type: ignore[call-arg]

    @jit
    def take_partners(
        table_VD: np.ndarray, id_N: np.ndarray, local_NP: np.ndarray, norm_N: np.ndarray, other_NP: np.ndarray,
        dot_N: np.ndarray,
    ) -> None:  # fmt: skip
        """`take_rows`, and dot[n] = local[n] . other[n] in the same pass."""
        _take_rows(table_VD, id_N, local_NP, norm_N, other_NP, dot_N)  # type: ignore[call-arg]

    @jit
    def give_rows(change_NP: np.ndarray, factor_N: np.ndarray, id_N: np.ndarray, table_VD: np.ndarray) -> None:
        """table[id[n]] += factor[n] change[n], row after row, within scalar.BOUND."""
        _give_rows(change_NP, factor_N, id_N, table_VD)  # type: ignore[call-arg]

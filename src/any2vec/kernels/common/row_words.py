"""What kernels over single rows of a table are built of, a register at a time: rows are short, and of any width.

LLVM's own loops over so few numbers spend more time on checks and remainders than on the numbers. Every array is
float32 and C-ordered; float32 sums are made in the order that is told, so that their bits are always the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import config, types
from numba.core.cgutils import alloca_once_value, for_range_slice
from numba.core.errors import TypingError
from numba.extending import intrinsic

from any2vec.kernels.common.scalar import BOUND
from any2vec.kernels.common.vectors import (
    I64,
    VECTOR,
    WIDTH,
    ZERO,
    at,
    each_register,
    rows_of,
    splat,
    sum_of_lanes,
)  # fmt: skip


def _check_order(*arrays: Any) -> None:
    if any(array.layout != "C" or array.dtype != types.float32 for array in arrays):
        raise TypingError("rows must be float32 in C order")


@intrinsic
def _sum_rows(
    typing_context: Any, source_NC: Any, index_K: Any, first: Any, stop: Any, target_TW: Any, row: Any
) -> Any:
    _check_order(source_NC, target_TW)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = signature.args
        source, stride = rows_of(context, builder, kinds[0], arguments[0])
        index = context.make_array(kinds[1])(context, builder, arguments[1]).data
        target, width = rows_of(context, builder, kinds[4], arguments[4])
        first, stop, row = arguments[2], arguments[3], arguments[5]
        total = alloca_once_value(builder, ZERO)

        def add(column: Any, load: Any, store: Any) -> None:
            def of(k: Any) -> Any:
                number = builder.sext(builder.load(builder.gep(index, [k])), I64)
                return load(builder, at(builder, source, number, stride, column))

            builder.store(of(first), total)
            with for_range_slice(builder, builder.add(first, I64(1)), stop, I64(1), intp=I64) as (k, _):
                builder.store(builder.fadd(builder.load(total), of(k)), total)
            store(builder, builder.load(total), at(builder, target, row, width, column))

        each_register(builder, width, add)
        return context.get_dummy_value()

    return types.void(source_NC, index_K, types.int64, types.int64, target_TW, types.int64), generate


@intrinsic
def _square_of(typing_context: Any, row_UW: Any, row: Any) -> Any:
    _check_order(row_UW)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows, width = rows_of(context, builder, signature.args[0], arguments[0])
        total = alloca_once_value(builder, ZERO)
        builder.store(ZERO, total)

        def add(column: Any, load: Any, store: Any) -> None:
            value = load(builder, at(builder, rows, arguments[1], width, column))
            builder.store(builder.fadd(builder.load(total), builder.fmul(value, value)), total)

        each_register(builder, width, add)
        return sum_of_lanes(builder, builder.load(total))

    return types.float32(row_UW, types.int64), generate


@intrinsic
def _step_row(typing_context: Any, table_VC: Any, row: Any, gradient_UW: Any, place: Any, factor: Any) -> Any:
    _check_order(table_VC, gradient_UW)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = signature.args
        table, stride = rows_of(context, builder, kinds[0], arguments[0])
        gradients, width = rows_of(context, builder, kinds[2], arguments[2])
        high, low = (ir.Constant(VECTOR, [bound] * WIDTH) for bound in (float(BOUND), -float(BOUND)))
        factor = splat(builder, arguments[4])

        def step(column: Any, load: Any, store: Any) -> None:
            target = at(builder, table, arguments[1], stride, column)
            change = builder.fmul(factor, load(builder, at(builder, gradients, arguments[3], width, column)))
            value = builder.fsub(load(builder, target), change)
            value = builder.select(builder.fcmp_ordered("<", value, high), value, high)
            store(builder, builder.select(builder.fcmp_ordered(">", value, low), value, low), target)

        each_register(builder, width, step)
        return context.get_dummy_value()

    return types.void(table_VC, types.int64, gradient_UW, types.int64, types.float32), generate


def _plain_sum_rows(
    source_NC: np.ndarray, index_K: np.ndarray, first: int, stop: int, target_TW: np.ndarray, row: int
) -> None:
    target_TW[row] = source_NC[index_K[first], : target_TW.shape[1]]
    for k in range(first + 1, stop):
        target_TW[row] += source_NC[index_K[k], : target_TW.shape[1]]


def _plain_square_of(row_UW: np.ndarray, row: int) -> np.float32:
    return np.float32((row_UW[row] ** 2).sum())


def _plain_step_row(table_VC: np.ndarray, row: int, gradient_UW: np.ndarray, place: int, factor: np.float32) -> None:
    values = table_VC[row, : gradient_UW.shape[1]]
    values[:] = np.clip(values - np.float32(factor) * gradient_UW[place], -BOUND, BOUND)


# The words themselves, not kernels around them: LLVM does not always inline those, and a call costs as much as a row.
_is_plain = bool(config.DISABLE_JIT)  # type: ignore[attr-defined]
sum_rows: Any = _plain_sum_rows if _is_plain else _sum_rows
"""sum_rows(source, index, first, stop, target, row): target[row] = the sum of the first W columns of
source[index[first:stop]], one row or more, one after the other; index int32 or int64"""
square_of: Any = _plain_square_of if _is_plain else _square_of
"""square_of(rows, row): the sum of the squares of a row, float32: lane by lane, then over the lanes"""
step_row: Any = _plain_step_row if _is_plain else _step_row
"""step_row(table, row, gradient, place, factor): table[row] = bounded(table[row] - factor * gradient[place]) in the
first W columns; factor float32"""

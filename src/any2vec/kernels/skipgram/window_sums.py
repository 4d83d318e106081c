"""Sums over windows: CBOW's context means and the way back, a block of centers at a time.

Windows are `left`, `right` int32 (E,), as `gather_windows` writes them: entries of the stream, of which `low` is row 0
of the block; center e is row own + e. A row is held in registers while its window goes by.

Legend: C rows of the block, E centers, P numbers of a row (a multiple of LANES).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import config, types
from numba.core.cgutils import for_range_slice
from numba.extending import intrinsic

from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.vectors import (
    FAST,
    I64,
    VECTOR,
    ZERO,
    at,
    by_registers,
    columns,
    data_of,
    load,
    rows_of,
    splat,
    store,
)


def _window_rows(context: Any, builder: Any, kinds: Any, arguments: Any) -> Any:
    """(left, right, low, own) -> function from a loop's e to (left[e] - low, right[e] - low, own + e), all i64."""
    (left_kind, right_kind), (left, right, low, own) = kinds, arguments
    pointers = [data_of(context, builder, kind, value) for kind, value in ((left_kind, left), (right_kind, right))]

    def window(e: Any) -> tuple[Any, Any, Any]:
        begin, end = (builder.sext(builder.load(builder.gep(p, [e])), I64) for p in pointers)
        return builder.sub(begin, low), builder.sub(end, low), builder.add(own, e)

    return window


@intrinsic
def _sum_windows(
    typing_context: Any, x_CP: Any, left_E: Any, right_E: Any, low: Any, own: Any, scale_E: Any, out_EP: Any, num_e: Any
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = signature.args
        x, padded = rows_of(context, builder, kinds[0], arguments[0])
        out, _ = rows_of(context, builder, kinds[6], arguments[6])
        window = _window_rows(context, builder, kinds[1:3], arguments[1:5])
        scale = data_of(context, builder, kinds[5], arguments[5])

        def stretch(column: Any, vectors: int) -> None:
            places = columns(builder, column, vectors)
            with for_range_slice(builder, I64(0), arguments[7], I64(1), intp=I64) as (e, _):
                begin, end, center = window(e)
                less = [builder.fneg(load(builder, at(builder, x, center, padded, q))) for q in places]
                before = builder.block
                body, after = builder.append_basic_block("sum"), builder.append_basic_block("summed")
                builder.branch(body)
                builder.position_at_end(body)
                row, totals = builder.phi(I64), [builder.phi(VECTOR) for _ in places]
                row.add_incoming(begin, before)
                following = builder.add(row, I64(1))
                row.add_incoming(following, body)
                for total, first, q in zip(totals, less, places, strict=True):
                    total.add_incoming(first, before)
                    value = load(builder, at(builder, x, row, padded, q))
                    total.add_incoming(builder.fadd(total, value, flags=FAST), body)
                builder.cbranch(builder.icmp_signed("<", following, end), body, after)
                builder.position_at_end(after)
                factor = splat(builder, builder.load(builder.gep(scale, [e])))
                for total, q in zip(totals, places, strict=True):
                    value = builder.fmul(total.incomings[1][0], factor, flags=FAST)
                    store(builder, value, at(builder, out, e, padded, q))

        by_registers(builder, padded, stretch)
        return context.get_dummy_value()

    i64 = types.int64
    return types.void(x_CP, left_E, right_E, i64, i64, scale_E, out_EP, i64), generate


@intrinsic
def _spread_windows(
    typing_context: Any, x_EP: Any, left_E: Any, right_E: Any, low: Any, own: Any, out_CP: Any, num_e: Any, num_c: Any
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = signature.args
        x, padded = rows_of(context, builder, kinds[0], arguments[0])
        out, _ = rows_of(context, builder, kinds[5], arguments[5])
        window = _window_rows(context, builder, kinds[1:3], arguments[1:5])

        def stretch(column: Any, vectors: int) -> None:
            places = columns(builder, column, vectors)
            with for_range_slice(builder, I64(0), arguments[7], I64(1), intp=I64) as (row, _):
                for q in places:
                    store(builder, ZERO, at(builder, out, row, padded, q))
            with for_range_slice(builder, I64(0), arguments[6], I64(1), intp=I64) as (e, _):
                begin, end, center = window(e)
                changes = [load(builder, at(builder, x, e, padded, q)) for q in places]
                with for_range_slice(builder, begin, end, I64(1), intp=I64) as (row, _):
                    # the center is no context of its own: its share goes to a row that nobody reads, without a branch
                    target_row = builder.select(builder.icmp_signed("==", row, center), arguments[7], row)
                    for change, q in zip(changes, places, strict=True):
                        target = at(builder, out, target_row, padded, q)
                        store(builder, builder.fadd(load(builder, target), change, flags=FAST), target)

        by_registers(builder, padded, stretch)
        return context.get_dummy_value()

    i64 = types.int64
    return types.void(x_EP, left_E, right_E, i64, i64, out_CP, i64, i64), generate


if config.DISABLE_JIT:  # type: ignore[attr-defined]

    def sum_windows(
        x_CP: np.ndarray, left_E: np.ndarray, right_E: np.ndarray, low: int, own: int, scale_E: np.ndarray,
        out_EP: np.ndarray, num_e: int,
    ) -> None:  # fmt: skip
        """out[e] = scale[e] (sum of x[left[e] - low : right[e] - low] - x[own + e])"""
        for e in range(num_e):
            out_EP[e] = scale_E[e] * (x_CP[left_E[e] - low : right_E[e] - low].sum(axis=0) - x_CP[own + e])

    def spread_windows(
        x_EP: np.ndarray, left_E: np.ndarray, right_E: np.ndarray, low: int, own: int, out_CP: np.ndarray,
        num_e: int, num_c: int,
    ) -> None:  # fmt: skip
        """out[c] = sum of x[e] over the windows left[e] - low <= c < right[e] - low where c is not own + e"""
        out_CP[:num_c] = 0
        for e in range(num_e):
            for c in range(left_E[e] - low, right_E[e] - low):
                out_CP[num_c if c == own + e else c] += x_EP[e]

else:

    @jit
    def sum_windows(
        x_CP: np.ndarray, left_E: np.ndarray, right_E: np.ndarray, low: int, own: int, scale_E: np.ndarray,
        out_EP: np.ndarray, num_e: int,
    ) -> None:  # fmt: skip
        """out[e] = scale[e] (sum of x[left[e] - low : right[e] - low] - x[own + e]) for e < num_e; no window is empty.

        x_CP, out_EP float32, scale_E float32, left_E, right_E int32.
        """
        _sum_windows(x_CP, left_E, right_E, low, own, scale_E, out_EP, num_e)  # type: ignore[call-arg]

    @jit
    def spread_windows(
        x_EP: np.ndarray, left_E: np.ndarray, right_E: np.ndarray, low: int, own: int, out_CP: np.ndarray,
        num_e: int, num_c: int,
    ) -> None:  # fmt: skip
        """out[c] = sum of x[e] over the windows left[e] - low <= c < right[e] - low where c is not own + e.

        For c < num_c; row num_c of `out` is scratch. The transpose of `sum_windows`, less its scale.
        """
        _spread_windows(x_EP, left_E, right_E, low, own, out_CP, num_e, num_c)  # type: ignore[call-arg]

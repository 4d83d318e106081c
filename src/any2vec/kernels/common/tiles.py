"""Products of small blocks of rows, register tile by register tile.

A block of the embedding kernels multiplies some 30 rows by some 30 rows of a few hundred numbers: too small for a BLAS
to reach its pace, and more than LLVM's loop vectorizer can keep in registers. So these two products are written as
LLVM vector code. Rows are padded to a whole number of LANES (`padded`), counts of rows to a multiple of 4 (`fours`).

Legend: P numbers of a row (a multiple of LANES), R and S rows of the two sides.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import config, types
from numba.core.cgutils import for_range_slice
from numba.extending import intrinsic

from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.vectors import (
    I32,
    I64,
    VECTOR,
    WIDTH,
    ZERO,
    at,
    by_registers,
    columns,
    fma,
    load,
    rows_of,
    splat,
    store,
    sum_lanes,
)  # fmt: skip

_TILE_R, _TILE_S, _MIX_ROWS = {16: (4, 4, 2), 8: (2, 4, 2), 4: (2, 2, 2)}[WIDTH]
"""tile of `dot_rows` (rows by rows, as many sums as a register has lanes) and rows of a tile of `mix_rows`, a stretch
wide: all partial sums and operands fit into the registers there are"""


@intrinsic
def _dot_rows(typing_context: Any, y_RP: Any, x_SP: Any, out_RS: Any, num_r: Any, num_s: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = signature.args
        y, padded = rows_of(context, builder, kinds[0], arguments[0])
        x, _ = rows_of(context, builder, kinds[1], arguments[1])
        out, out_stride = rows_of(context, builder, kinds[2], arguments[2])
        with for_range_slice(builder, I64(0), arguments[3], I64(_TILE_R), intp=I64) as (r, _):  # noqa: SIM117
            with for_range_slice(builder, I64(0), arguments[4], I64(_TILE_S), intp=I64) as (s, _):
                before = builder.block
                body, after = builder.append_basic_block("dot"), builder.append_basic_block("dotted")
                builder.branch(body)
                builder.position_at_end(body)
                column = builder.phi(I64)
                column.add_incoming(I64(0), before)
                sums = [builder.phi(VECTOR) for _ in range(_TILE_R * _TILE_S)]
                for total in sums:
                    total.add_incoming(ZERO, before)
                left = [load(builder, at(builder, y, builder.add(r, I64(i)), padded, column)) for i in range(_TILE_R)]
                right = [load(builder, at(builder, x, builder.add(s, I64(j)), padded, column)) for j in range(_TILE_S)]
                for index, total in enumerate(sums):
                    i, j = divmod(index, _TILE_S)
                    total.add_incoming(fma(builder, left[i], right[j], total), builder.block)
                following = builder.add(column, I64(WIDTH))
                column.add_incoming(following, builder.block)
                finished = [total.incomings[1][0] for total in sums]
                builder.cbranch(builder.icmp_signed("<", following, padded), body, after)
                builder.position_at_end(after)
                tile = sum_lanes(builder, finished)
                for i in range(_TILE_R):
                    lanes = ir.Constant(ir.VectorType(I32, _TILE_S), list(range(i * _TILE_S, (i + 1) * _TILE_S)))
                    part = builder.shuffle_vector(tile, tile, lanes)
                    store(builder, part, at(builder, out, builder.add(r, I64(i)), out_stride, s))
        return context.get_dummy_value()

    return types.void(y_RP, x_SP, out_RS, types.int64, types.int64), generate


def _mix_tile(builder: Any, a: Any, y: Any, out: Any, place: dict[str, Any], vectors: int) -> None:
    """One tile of `mix_rows`: _MIX_ROWS rows by `vectors` registers, summed over all R."""
    before = builder.block
    body, after = builder.append_basic_block("mix"), builder.append_basic_block("mixed")
    builder.branch(body)
    builder.position_at_end(body)
    r = builder.phi(I64)
    r.add_incoming(I64(0), before)
    sums = [builder.phi(VECTOR) for _ in range(_MIX_ROWS * vectors)]
    for total in sums:
        total.add_incoming(ZERO, before)
    places = columns(builder, place["column"], vectors)
    rows = [load(builder, at(builder, y, r, place["padded"], column)) for column in places]
    start = builder.mul(r, place["step_r"])
    for i in range(_MIX_ROWS):
        index = builder.add(start, builder.mul(builder.add(place["s"], I64(i)), place["step_s"]))
        weight = splat(builder, builder.load(builder.gep(a, [index])))
        for v in range(vectors):
            total = sums[i * vectors + v]
            total.add_incoming(fma(builder, weight, rows[v], total), body)
    following = builder.add(r, I64(1))
    r.add_incoming(following, body)
    finished = [total.incomings[1][0] for total in sums]
    builder.cbranch(builder.icmp_signed("<", following, place["num_r"]), body, after)
    builder.position_at_end(after)
    for i in range(_MIX_ROWS):
        for v in range(vectors):
            target = at(builder, out, builder.add(place["s"], I64(i)), place["padded"], places[v])
            store(builder, finished[i * vectors + v], target)


@intrinsic
def _mix_rows(
    typing_context: Any, a: Any, step_r: Any, step_s: Any, y_RP: Any, out_SP: Any, num_r: Any, num_s: Any
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = signature.args
        coefficients, _ = rows_of(context, builder, kinds[0], arguments[0])
        y, padded = rows_of(context, builder, kinds[3], arguments[3])
        out, _ = rows_of(context, builder, kinds[4], arguments[4])

        def stretch(column: Any, vectors: int) -> None:
            with for_range_slice(builder, I64(0), arguments[6], I64(_MIX_ROWS), intp=I64) as (s, _):
                place = {
                    "s": s, "column": column, "padded": padded, "step_r": arguments[1], "step_s": arguments[2],
                    "num_r": arguments[5],
                }  # fmt: skip
                _mix_tile(builder, coefficients, y, out, place, vectors)

        by_registers(builder, padded, stretch)
        return context.get_dummy_value()

    signature = types.void(a, types.int64, types.int64, y_RP, out_SP, types.int64, types.int64)
    return signature, generate


@jit
def fours(size: int) -> int:
    """A number of rows rounded up to a multiple of 4."""
    return (size + 3) // 4 * 4


if config.DISABLE_JIT:  # type: ignore[attr-defined]

    def dot_rows(y_RP: np.ndarray, x_SP: np.ndarray, out_RS: np.ndarray, num_r: int, num_s: int) -> None:
        """out[r, s] = y[r] . x[s]"""
        out_RS[:num_r, :num_s] = y_RP[:num_r] @ x_SP[:num_s].T

    def mix_rows(a_RS: np.ndarray, y_RP: np.ndarray, out_SP: np.ndarray, num_r: int, num_s: int) -> None:
        """out[s] = sum_r a[r, s] y[r]"""
        out_SP[:num_s] = a_RS[:num_r, :num_s].T @ y_RP[:num_r]

    def mix_rows_across(a_SR: np.ndarray, y_RP: np.ndarray, out_SP: np.ndarray, num_r: int, num_s: int) -> None:
        """out[s] = sum_r a[s, r] y[r]"""
        out_SP[:num_s] = a_SR[:num_s, :num_r] @ y_RP[:num_r]

else:

    @jit
    def dot_rows(y_RP: np.ndarray, x_SP: np.ndarray, out_RS: np.ndarray, num_r: int, num_s: int) -> None:
        """out[r, s] = y[r] . x[s] for r < num_r, s < num_s, both multiples of 4; float32, C order, P as `padded`."""
        _dot_rows(y_RP, x_SP, out_RS, num_r, num_s)  # type: ignore[call-arg]

    @jit
    def mix_rows(a_RS: np.ndarray, y_RP: np.ndarray, out_SP: np.ndarray, num_r: int, num_s: int) -> None:
        """out[s] = sum_r a[r, s] y[r] over r < num_r, for s < num_s, a multiple of 4."""
        _mix_rows(a_RS, np.int64(a_RS.shape[1]), np.int64(1), y_RP, out_SP, num_r, num_s)  # type: ignore[call-arg]

    @jit
    def mix_rows_across(a_SR: np.ndarray, y_RP: np.ndarray, out_SP: np.ndarray, num_r: int, num_s: int) -> None:
        """out[s] = sum_r a[s, r] y[r] over r < num_r, for s < num_s, a multiple of 4."""
        _mix_rows(a_SR, np.int64(1), np.int64(a_SR.shape[1]), y_RP, out_SP, num_r, num_s)  # type: ignore[call-arg]

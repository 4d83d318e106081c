"""Products of small blocks of rows, register tile by register tile.

A block of the embedding kernels multiplies some 30 rows by some 30 rows of a few hundred numbers: too small for a BLAS
to reach its pace, and more than LLVM's loop vectoriser can keep in registers. So these two products are written as
LLVM vector code. Rows are padded to a whole number of LANES (`padded`), counts of rows to a multiple of 4 (`fours`).

Legend: P numbers of a row (a multiple of LANES), R and S rows of the two sides.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba.core import config, types
from numba.core.cgutils import for_range_slice
from numba.extending import intrinsic

from any2vec.kernels.jit import inline_jit

_FEATURES = llvm.get_host_cpu_features()
LANES = 16
"""float32 numbers that rows are padded to: one 512-bit register, and a whole number of smaller ones"""
_WIDTH, _TILE_R, _TILE_S, _MIX_ROWS, _MIX_VECTORS = (
    (16, 4, 4, 2, 8) if _FEATURES.get("avx512f") else (8, 2, 4, 2, 4) if _FEATURES.get("avx2") else (4, 2, 2, 2, 8)
)
"""numbers a register holds; tile of `dot_rows` (rows by rows, as many sums as lanes); tile of `mix_rows` (rows by
registers): all partial sums and operands fit into the 32 (16 with AVX2) registers there are"""

_I64, _F32, _I32 = ir.IntType(64), ir.FloatType(), ir.IntType(32)
_VECTOR = ir.VectorType(_F32, _WIDTH)
_FAST = ("reassoc", "contract", "nsz")


def _rows_of(context: Any, builder: Any, kind: Any, value: Any) -> tuple[Any, Any]:
    """(pointer to the first number, numbers from row to row) of a C-ordered 2-D array."""
    array = context.make_array(kind)(context, builder, value)
    return array.data, builder.extract_value(array.shape, 1)


def _at(builder: Any, pointer: Any, row: Any, stride: Any, column: Any) -> Any:
    return builder.gep(pointer, [builder.add(builder.mul(row, stride), column)])


def _load(builder: Any, pointer: Any) -> Any:
    value = builder.load(builder.bitcast(pointer, _VECTOR.as_pointer()))
    value.align = 4
    return value


def _store(builder: Any, value: Any, pointer: Any) -> None:
    builder.store(value, builder.bitcast(pointer, value.type.as_pointer())).align = 4


def _splat(builder: Any, value: Any) -> Any:
    lone = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, _I32(0))
    return builder.shuffle_vector(
        lone, ir.Constant(_VECTOR, ir.Undefined), ir.Constant(ir.VectorType(_I32, _WIDTH), [0] * _WIDTH)
    )


def _fma(builder: Any, a: Any, b: Any, c: Any) -> Any:
    # llvmlite's fma takes no vectors; with `contract` LLVM fuses the two wherever the processor can.
    return builder.fadd(builder.fmul(a, b, flags=_FAST), c, flags=_FAST)


def _sum_lanes(builder: Any, vectors: list[Any]) -> Any:
    """One vector whose lane i is the sum over the lanes of vectors[i]: _WIDTH vectors, halved log2(_WIDTH) times."""
    even = ir.Constant(ir.VectorType(_I32, _WIDTH), list(range(0, 2 * _WIDTH, 2)))
    odd = ir.Constant(ir.VectorType(_I32, _WIDTH), list(range(1, 2 * _WIDTH, 2)))
    while len(vectors) > 1:
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [
            builder.fadd(builder.shuffle_vector(a, b, even), builder.shuffle_vector(a, b, odd)) for a, b in pairs
        ]
    return vectors[0]


@intrinsic
def _dot_rows(typing_context: Any, y_RP: Any, x_SP: Any, out_RS: Any, num_r: Any, num_s: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = signature.args
        y, padded = _rows_of(context, builder, kinds[0], arguments[0])
        x, _ = _rows_of(context, builder, kinds[1], arguments[1])
        out, out_stride = _rows_of(context, builder, kinds[2], arguments[2])
        zero = ir.Constant(_VECTOR, [0.0] * _WIDTH)
        with for_range_slice(builder, _I64(0), arguments[3], _I64(_TILE_R), intp=_I64) as (r, _):  # noqa: SIM117
            with for_range_slice(builder, _I64(0), arguments[4], _I64(_TILE_S), intp=_I64) as (s, _):
                before = builder.block
                body, after = builder.append_basic_block("dot"), builder.append_basic_block("dotted")
                builder.branch(body)
                builder.position_at_end(body)
                column = builder.phi(_I64)
                column.add_incoming(_I64(0), before)
                sums = [builder.phi(_VECTOR) for _ in range(_TILE_R * _TILE_S)]
                for total in sums:
                    total.add_incoming(zero, before)
                left = [
                    _load(builder, _at(builder, y, builder.add(r, _I64(i)), padded, column)) for i in range(_TILE_R)
                ]
                right = [
                    _load(builder, _at(builder, x, builder.add(s, _I64(j)), padded, column)) for j in range(_TILE_S)
                ]
                for index, total in enumerate(sums):
                    i, j = divmod(index, _TILE_S)
                    total.add_incoming(_fma(builder, left[i], right[j], total), builder.block)
                following = builder.add(column, _I64(_WIDTH))
                column.add_incoming(following, builder.block)
                finished = [total.incomings[1][0] for total in sums]
                builder.cbranch(builder.icmp_signed("<", following, padded), body, after)
                builder.position_at_end(after)
                tile = _sum_lanes(builder, finished)
                for i in range(_TILE_R):
                    lanes = ir.Constant(ir.VectorType(_I32, _TILE_S), list(range(i * _TILE_S, (i + 1) * _TILE_S)))
                    part = builder.shuffle_vector(tile, tile, lanes)
                    _store(builder, part, _at(builder, out, builder.add(r, _I64(i)), out_stride, s))
        return context.get_dummy_value()

    return types.void(y_RP, x_SP, out_RS, types.int64, types.int64), generate


def _mix_tile(builder: Any, a: Any, y: Any, out: Any, place: dict[str, Any], vectors: int) -> None:
    """One tile of `mix_rows`: _MIX_ROWS rows by `vectors` registers, summed over all R."""
    zero = ir.Constant(_VECTOR, [0.0] * _WIDTH)
    before = builder.block
    body, after = builder.append_basic_block("mix"), builder.append_basic_block("mixed")
    builder.branch(body)
    builder.position_at_end(body)
    r = builder.phi(_I64)
    r.add_incoming(_I64(0), before)
    sums = [builder.phi(_VECTOR) for _ in range(_MIX_ROWS * vectors)]
    for total in sums:
        total.add_incoming(zero, before)
    columns = [builder.add(place["column"], _I64(v * _WIDTH)) for v in range(vectors)]
    rows = [_load(builder, _at(builder, y, r, place["padded"], column)) for column in columns]
    start = builder.mul(r, place["step_r"])
    for i in range(_MIX_ROWS):
        index = builder.add(start, builder.mul(builder.add(place["s"], _I64(i)), place["step_s"]))
        weight = _splat(builder, builder.load(builder.gep(a, [index])))
        for v in range(vectors):
            total = sums[i * vectors + v]
            total.add_incoming(_fma(builder, weight, rows[v], total), body)
    following = builder.add(r, _I64(1))
    r.add_incoming(following, body)
    finished = [total.incomings[1][0] for total in sums]
    builder.cbranch(builder.icmp_signed("<", following, place["num_r"]), body, after)
    builder.position_at_end(after)
    for i in range(_MIX_ROWS):
        for v in range(vectors):
            target = _at(builder, out, builder.add(place["s"], _I64(i)), place["padded"], columns[v])
            _store(builder, finished[i * vectors + v], target)


@intrinsic
def _mix_rows(
    typing_context: Any, a: Any, step_r: Any, step_s: Any, y_RP: Any, out_SP: Any, num_r: Any, num_s: Any
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = signature.args
        coefficients, _ = _rows_of(context, builder, kinds[0], arguments[0])
        y, padded = _rows_of(context, builder, kinds[3], arguments[3])
        out, _ = _rows_of(context, builder, kinds[4], arguments[4])
        vectors = builder.sdiv(padded, _I64(_WIDTH))
        pieces = builder.sdiv(builder.add(vectors, _I64(_MIX_VECTORS - 1)), _I64(_MIX_VECTORS))
        even = builder.sdiv(builder.sub(builder.add(vectors, pieces), _I64(1)), pieces)
        step = builder.mul(even, _I64(_WIDTH))  # seven registers are 7, thirteen are 7 and 6
        with for_range_slice(builder, _I64(0), padded, step, intp=_I64) as (column, _):
            left = builder.sdiv(builder.sub(padded, column), _I64(_WIDTH))
            left = builder.select(builder.icmp_signed("<", left, even), left, even)
            with for_range_slice(builder, _I64(0), arguments[6], _I64(_MIX_ROWS), intp=_I64) as (s, _):
                place = {
                    "s": s, "column": column, "padded": padded, "step_r": arguments[1], "step_s": arguments[2],
                    "num_r": arguments[5],
                }  # fmt: skip
                done = builder.append_basic_block("done")
                cases = {v: builder.append_basic_block(f"wide{v}") for v in range(1, _MIX_VECTORS + 1)}
                switch = builder.switch(left, cases[_MIX_VECTORS])
                for vectors, block in cases.items():
                    if vectors < _MIX_VECTORS:
                        switch.add_case(_I64(vectors), block)
                    builder.position_at_end(block)
                    _mix_tile(builder, coefficients, y, out, place, vectors)
                    builder.branch(done)
                builder.position_at_end(done)
        return context.get_dummy_value()

    signature = types.void(a, types.int64, types.int64, y_RP, out_SP, types.int64, types.int64)
    return signature, generate


@inline_jit
def padded(dim: int) -> int:
    """dim rounded up to a whole number of LANES."""
    return (dim + 15) // 16 * 16


@inline_jit
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

    @inline_jit
    def dot_rows(y_RP: np.ndarray, x_SP: np.ndarray, out_RS: np.ndarray, num_r: int, num_s: int) -> None:
        """out[r, s] = y[r] . x[s] for r < num_r, s < num_s, both multiples of 4; float32, C order, P as `padded`."""
        _dot_rows(y_RP, x_SP, out_RS, num_r, num_s)  # type: ignore[call-arg]

    @inline_jit
    def mix_rows(a_RS: np.ndarray, y_RP: np.ndarray, out_SP: np.ndarray, num_r: int, num_s: int) -> None:
        """out[s] = sum_r a[r, s] y[r] over r < num_r, for s < num_s, a multiple of 4."""
        _mix_rows(a_RS, np.int64(a_RS.shape[1]), np.int64(1), y_RP, out_SP, num_r, num_s)  # type: ignore[call-arg]

    @inline_jit
    def mix_rows_across(a_SR: np.ndarray, y_RP: np.ndarray, out_SP: np.ndarray, num_r: int, num_s: int) -> None:
        """out[s] = sum_r a[s, r] y[r] over r < num_r, for s < num_s, a multiple of 4."""
        _mix_rows(a_SR, np.int64(1), np.int64(a_SR.shape[1]), y_RP, out_SP, num_r, num_s)  # type: ignore[call-arg]

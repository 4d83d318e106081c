"""Vector registers: the words that kernels are built of where LLVM's own loop vectorizer does not serve well.

Each function with a `builder` adds LLVM instructions to a kernel that is being compiled. float32 alone; a register
holds WIDTH numbers. Rows of a block are padded to a whole number of LANES (`padded`).
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba.core.cgutils import for_range_slice, get_or_insert_function

from any2vec.kernels.common.jit import jit


def _host_features() -> dict[str, bool]:
    try:
        return dict(llvm.get_host_cpu_features())
    except RuntimeError:  # LLVM cannot tell on this system: the narrowest registers, which every processor has
        return {}


FEATURES = _host_features()
LANES = 16
"""float32 numbers that rows are padded to: one 512-bit register, and a whole number of smaller ones"""
WIDTH = 16 if FEATURES.get("avx512f") else 8 if FEATURES.get("avx2") else 4
"""numbers that a register holds"""
STRETCH = 8 if WIDTH == 16 or FEATURES.get("neon") else 4
"""registers that hold a stretch of one row while others are in use: AVX2 and SSE have 16 of them,
AVX-512 and NEON 32"""

I64, F32, I32 = ir.IntType(64), ir.FloatType(), ir.IntType(32)
VECTOR = ir.VectorType(F32, WIDTH)
FAST = ("reassoc", "contract", "nsz")
ZERO = ir.Constant(VECTOR, [0.0] * WIDTH)
_MASK = ir.VectorType(ir.IntType(1), WIDTH)


def rows_of(context: Any, builder: Any, kind: Any, value: Any) -> tuple[Any, Any]:
    """(pointer to the first number, numbers from row to row) of a C-ordered 2-D array."""
    array = context.make_array(kind)(context, builder, value)
    return array.data, builder.extract_value(array.shape, 1)


def at(builder: Any, pointer: Any, row: Any, stride: Any, column: Any) -> Any:
    return builder.gep(pointer, [builder.add(builder.mul(row, stride), column)])


def load(builder: Any, pointer: Any) -> Any:
    value = builder.load(builder.bitcast(pointer, VECTOR.as_pointer()))
    value.align = 4
    return value


def store(builder: Any, value: Any, pointer: Any) -> None:
    builder.store(value, builder.bitcast(pointer, value.type.as_pointer())).align = 4


def splat(builder: Any, value: Any) -> Any:
    """A register whose lanes all hold `value`."""
    kind = ir.VectorType(value.type, WIDTH)
    lone = builder.insert_element(ir.Constant(kind, ir.Undefined), value, I32(0))
    return builder.shuffle_vector(
        lone, ir.Constant(kind, ir.Undefined), ir.Constant(ir.VectorType(I32, WIDTH), [0] * WIDTH)
    )


def fma(builder: Any, a: Any, b: Any, c: Any) -> Any:
    # llvmlite's fma takes no vectors; with `contract` LLVM fuses the two wherever the processor can.
    return builder.fadd(builder.fmul(a, b, flags=FAST), c, flags=FAST)


def sum_lanes(builder: Any, vectors: list[Any]) -> Any:
    """One vector whose lane i is the sum over the lanes of vectors[i]: WIDTH vectors, halved log2(WIDTH) times."""
    even = ir.Constant(ir.VectorType(I32, WIDTH), list(range(0, 2 * WIDTH, 2)))
    odd = ir.Constant(ir.VectorType(I32, WIDTH), list(range(1, 2 * WIDTH, 2)))
    while len(vectors) > 1:
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [
            builder.fadd(builder.shuffle_vector(a, b, even), builder.shuffle_vector(a, b, odd)) for a, b in pairs
        ]
    return vectors[0]


def data_of(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Pointer to the first number of an array."""
    return context.make_array(kind)(context, builder, value).data


def first_lanes(builder: Any, count: Any) -> Any:
    """Mask of the lanes below count (i64)."""
    lanes = ir.Constant(ir.VectorType(I64, WIDTH), list(range(WIDTH)))
    return builder.icmp_signed("<", lanes, splat(builder, count))


def load_lanes(builder: Any, pointer: Any, mask: Any) -> Any:
    """The numbers at `pointer` where the mask is set, 0 elsewhere; what lies there is not touched."""
    place = builder.bitcast(pointer, VECTOR.as_pointer())
    kind = ir.FunctionType(VECTOR, [place.type, I32, _MASK, VECTOR])
    function = get_or_insert_function(builder.module, kind, f"llvm.masked.load.v{WIDTH}f32.p0")
    return builder.call(function, [place, I32(4), mask, ZERO])


def store_lanes(builder: Any, value: Any, pointer: Any, mask: Any) -> None:
    place = builder.bitcast(pointer, VECTOR.as_pointer())
    kind = ir.FunctionType(ir.VoidType(), [VECTOR, place.type, I32, _MASK])
    function = get_or_insert_function(builder.module, kind, f"llvm.masked.store.v{WIDTH}f32.p0")
    builder.call(function, [value, place, I32(4), mask])


def sum_of_lanes(builder: Any, value: Any) -> Any:
    function = get_or_insert_function(
        builder.module, ir.FunctionType(F32, [F32, VECTOR]), f"llvm.vector.reduce.fadd.v{WIDTH}f32"
    )
    return builder.call(function, [F32(0.0), value], fastmath=("reassoc",))


def each_register(builder: Any, dim: Any, work: Any) -> None:
    """work(column, load, store) for each register of a row of `dim` numbers; the last one may be a part."""
    whole = builder.and_(dim, I64(-WIDTH))
    rest = builder.sub(dim, whole)
    with for_range_slice(builder, I64(0), whole, I64(WIDTH), intp=I64) as (column, _):
        work(column, load, store)
    lanes = first_lanes(builder, rest)
    with builder.if_then(builder.icmp_signed(">", rest, I64(0))):
        work(
            whole,
            lambda builder, pointer: load_lanes(builder, pointer, lanes),
            lambda builder, value, pointer: store_lanes(builder, value, pointer, lanes),
        )


def by_registers(builder: Any, padded: Any, work: Any) -> None:
    """work(column, vectors) for stretches of a padded row that fit into STRETCH registers.

    The number of registers must be known to the code that names them, so each gets a branch of its own. Setting the
    branches up costs some ten nanoseconds, so loops over rows belong inside `work`.
    """
    most = I64(STRETCH)
    with for_range_slice(builder, I64(0), padded, I64(STRETCH * WIDTH), intp=I64) as (column, _):
        left = builder.ashr(builder.sub(padded, column), I64(WIDTH.bit_length() - 1))
        left = builder.select(builder.icmp_signed("<", left, most), left, most)
        done = builder.append_basic_block("done")
        for count in range(STRETCH, 0, -1):
            wide, narrower = builder.append_basic_block("wide"), builder.append_basic_block("narrower")
            builder.cbranch(builder.icmp_signed(">=", left, I64(count)), wide, narrower)
            builder.position_at_end(wide)
            work(column, count)
            builder.branch(done)
            builder.position_at_end(narrower)
        builder.branch(done)
        builder.position_at_end(done)


def columns(builder: Any, column: Any, vectors: int) -> list[Any]:
    return [builder.add(column, I64(v * WIDTH)) for v in range(vectors)]


@jit
def padded(dim: int) -> int:
    """dim rounded up to a whole number of LANES."""
    return (dim + LANES - 1) // LANES * LANES


@jit
def local_rows(rows: int, width: int) -> np.ndarray:
    """Zeros float32 (rows, width), C order, from the start of a cache line on: no register of a row straddles two."""
    size = rows * width
    memory = np.zeros(size + LANES, np.float32)
    skip = (-memory.ctypes.data // 4) % LANES
    return memory[skip : skip + size].reshape((rows, width))

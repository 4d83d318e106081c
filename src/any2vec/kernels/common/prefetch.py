"""Ask the processor for rows and items before they are needed: tables outgrow the caches, and ids are known ahead."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, config, types
from numba.extending import intrinsic

from any2vec.kernels.common.jit import jit


def _request(places: int, is_read: bool = False) -> Any:
    """What generates llvm.prefetch of &array[places]: for writing, into all caches; of a wide row that is only read
    into all but the first, where a core's few requests under way are what it waits for.
    """
    flag = ir.IntType(32)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer = cgutils.get_item_pointer(
            context, builder, signature.args[0], array, list(arguments[1 : 1 + places]), wraparound=False
        )
        byte_pointer = builder.bitcast(pointer, ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [byte_pointer.type, flag, flag, flag])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        how = (flag(0), flag(2)) if is_read else (flag(1), flag(3))
        builder.call(function, [byte_pointer, *how, flag(1)])
        return context.get_dummy_value()

    return generate


@intrinsic
def _prefetch_item(typing_context: Any, table: Any, row: Any, column: Any) -> Any:
    """Of &table[row, column]."""
    return types.void(table, types.intp, types.intp), _request(2)


@intrinsic
def _prefetch_place(typing_context: Any, array: Any, place: Any) -> Any:
    """Of &array[place]."""
    return types.void(array, types.intp), _request(1)


@intrinsic
def _prefetch_read(typing_context: Any, table: Any, row: Any, column: Any) -> Any:
    """Of &table[row, column], which is only read."""
    return types.void(table, types.intp, types.intp), _request(2, is_read=True)


@intrinsic
def _line(typing_context: Any, table: Any) -> Any:
    """Numbers in a line of 64 bytes, known when it is compiled: loops over a row's lines are then unrolled."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        size = context.get_abi_sizeof(context.get_data_type(signature.args[0].dtype))
        return context.get_constant(types.intp, 64 // size)

    return types.intp(table), generate


if config.DISABLE_JIT:  # type: ignore[attr-defined]

    def prefetch_row(table_VD: np.ndarray, row: int) -> None:
        """Nothing: without the compiler there is no such instruction."""

    def prefetch_read(table_VD: np.ndarray, row: int) -> None:
        """Nothing."""

    def prefetch_place(array_N: np.ndarray, place: int) -> None:
        """Nothing."""
else:

    @jit
    def prefetch_row(table_VD: np.ndarray, row: int) -> None:
        """Fetch row `row` of a (V, D) table into the caches, one request a line of 64 bytes."""
        line: int = _line(table_VD)  # type: ignore[call-arg]
        for column in range(0, table_VD.shape[1], line):
            _prefetch_item(table_VD, row, column)

    @jit
    def prefetch_read(table_VD: np.ndarray, row: int) -> None:
        """`prefetch_row` for a row that is only read; one of 512 bytes or more is not wanted in the first cache yet."""
        dim = table_VD.shape[1]
        line: int = _line(table_VD)  # type: ignore[call-arg]
        if dim >= 8 * line:
            for column in range(0, dim, line):
                _prefetch_read(table_VD, row, column)
        else:
            for column in range(0, dim, line):
                _prefetch_item(table_VD, row, column)

    @jit
    def prefetch_place(array_N: np.ndarray, place: int) -> None:
        """Fetch the line of array[place] of a one-dimensional array into the caches."""
        _prefetch_place(array_N, place)  # type: ignore[call-arg]

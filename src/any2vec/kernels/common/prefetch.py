"""Ask the processor for rows and items before they are needed: tables outgrow the caches, and ids are known ahead."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, config, types
from numba.extending import intrinsic

from any2vec.kernels.common.jit import jit


def _request(places: int) -> Any:
    """What generates llvm.prefetch of &array[places] for writing, to be kept in all cache levels."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer = cgutils.get_item_pointer(
            context, builder, signature.args[0], array, list(arguments[1 : 1 + places]), wraparound=False
        )
        byte_pointer = builder.bitcast(pointer, ir.IntType(8).as_pointer())
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte_pointer.type, flag, flag, flag])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [byte_pointer, flag(1), flag(3), flag(1)])
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


if config.DISABLE_JIT:  # type: ignore[attr-defined]

    def prefetch_row(table_VD: np.ndarray, row: int) -> None:
        """Nothing: without the compiler there is no such instruction."""

    def prefetch_place(array_N: np.ndarray, place: int) -> None:
        """Nothing."""
else:

    @jit
    def prefetch_row(table_VD: np.ndarray, row: int) -> None:
        """Fetch row `row` of a (V, D) table into the caches, one request a line of 64 bytes."""
        for column in range(0, table_VD.shape[1], 64 // table_VD.itemsize):
            _prefetch_item(table_VD, row, column)  # type: ignore[call-arg]

    @jit
    def prefetch_place(array_N: np.ndarray, place: int) -> None:
        """Fetch the line of array[place] of a one-dimensional array into the caches."""
        _prefetch_place(array_N, place)  # type: ignore[call-arg]

"""Ask the processor for a row before it is needed: tables outgrow the caches, and the ids are known ahead."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, config
from numba.extending import intrinsic

from any2vec.kernels.common.jit import jit


@intrinsic
def _prefetch_item(typing_context: Any, table: Any, row: Any, column: Any) -> Any:
    """llvm.prefetch of &table[row, column] for writing, to be kept in all cache levels."""
    from numba.core import types

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer = cgutils.get_item_pointer(
            context, builder, signature.args[0], array, [arguments[1], arguments[2]], wraparound=False
        )
        byte_pointer = builder.bitcast(pointer, ir.IntType(8).as_pointer())
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte_pointer.type, flag, flag, flag])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [byte_pointer, flag(1), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(table, types.intp, types.intp), generate


if config.DISABLE_JIT:  # type: ignore[attr-defined]

    def prefetch_row(table_VD: np.ndarray, row: int) -> None:
        """Nothing: without the compiler there is no such instruction."""
else:

    @jit
    def prefetch_row(table_VD: np.ndarray, row: int) -> None:
        """Fetch row `row` of a float32 (V, D) table into the caches, one request a line of 64 bytes."""
        for column in range(0, table_VD.shape[1], 16):
            _prefetch_item(table_VD, row, column)  # type: ignore[call-arg]

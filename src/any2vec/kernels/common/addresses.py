"""Arrays by their addresses: a kernel takes no list of arrays, but it takes an array of addresses.

The caller keeps the arrays alive, and sees to it that they are C-ordered, aligned and of the right type (`addresses`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import carray
from numba.core import config, types
from numba.extending import intrinsic

from any2vec.kernels.common.jit import jit


def addresses(arrays: Sequence[np.ndarray], dtype: type) -> np.ndarray:
    """uint64 (H,), where the numbers of each array begin. ValueError: one is not C-ordered, aligned or of the type."""
    for array in arrays:
        if array.dtype != dtype or not (array.flags.c_contiguous and array.flags.aligned):
            raise ValueError(f"no kernel can read an array of {array.dtype} with {array.flags}")
    return np.array([array.ctypes.data for array in arrays], np.uint64)


@intrinsic
def _pointer(typing_context: Any, address: Any, like: Any) -> Any:
    """A pointer to numbers of the type of `like` at an address, uint64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(like)(address, like), generate


if config.DISABLE_JIT:  # type: ignore[attr-defined]

    def numbers_at(address: int, like: Any, count: int) -> np.ndarray:
        memory = (ctypes.c_char * (count * like.nbytes)).from_address(int(address))
        return np.ndarray(count, like.dtype, memory)

else:

    @jit
    def numbers_at(address: int, like: Any, count: int) -> np.ndarray:
        """(count,) numbers of the type of `like` at an address; count is not 0."""
        return carray(_pointer(address, like), count)  # type: ignore[call-arg]


@jit
def slots_at(address: int, count: int) -> np.ndarray:
    """int64 (count,) at an address; count is not 0."""
    return numbers_at(address, np.int64(0), count)


@jit
def rows_at(address: int, like: Any, count: int, dim: int) -> np.ndarray:
    """(count, dim) numbers of the type of `like` at an address; count is not 0."""
    return numbers_at(address, like, count * dim).reshape(count, dim)

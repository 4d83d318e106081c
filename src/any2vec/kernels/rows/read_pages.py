"""Many small reads of a file, one after the other, without the interpreter between them.

Legend: R reads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.core.typing import signature

from any2vec.kernels.common.jit import jit

_pread: Any = types.ExternalFunction(
    "pread", signature(types.int64, types.int32, types.uintp, types.uintp, types.int64)
)  # of the C library, by name: so that it may be cached


@jit
def read_pages(
    descriptor: int, start_R: np.ndarray, stop_R: np.ndarray, at_R: np.ndarray, end: int, address: int
) -> int:  # fmt: skip
    """How many bytes were read; -1: the file ended too soon, or could not be read.

    descriptor: of the file. start, stop: int64, bytes of the file; what lies behind `end` need not be there. at: int64,
    where each read goes in the memory at `address`, which holds them.
    """
    total = 0
    for r in range(len(start_R)):
        done, wanted = 0, min(stop_R[r], end) - start_R[r]
        while done < wanted:
            count = _pread(
                np.int32(descriptor), np.uintp(address + at_R[r] + done), np.uintp(stop_R[r] - start_R[r] - done),
                start_R[r] + done,
            )  # fmt: skip
            if count <= 0:
                return -1
            done += count
        total += done
    return total

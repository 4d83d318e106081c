"""`round_rows`: rows in bfloat16, or in 8 bits with a scale a row, whose sums over a graph read so much less memory.

Legend: M nodes that have rows, D columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from any2vec.errors import InputError

_MOST = 127


class RoundedRows(NamedTuple):
    """Rows as `round_rows` keeps them, for `aggregate`."""

    row_MD: np.ndarray
    """uint16, the bits of bfloat16; or int8, codes"""
    scale_M: np.ndarray
    """float32 (M,) of codes: a row is scale times its codes; else (0,)"""

    def __len__(self) -> int:
        return len(self.row_MD)


def round_rows(x: torch.Tensor, dtype: torch.dtype = torch.bfloat16) -> RoundedRows:
    """Rows rounded to bfloat16, or to whole numbers of 8 bits with a scale a row, once for many sums.

    Args:
        x: float32 or float64 (M, D), finite, on the processor; without gradients, which do not go through rounding.
        dtype: torch.bfloat16 (2 bytes a number): each is off by 2^-8 of itself at most; or torch.int8 (1 byte): by
            1/254 of the row's largest number. A sum is off by no more than what its rows are together, beside the
            rounding of float32.

    Raises:
        InputError: it is of another kind, not finite, or wants gradients.
    """
    if dtype not in (torch.bfloat16, torch.int8):
        raise InputError(f"dtype must be torch.bfloat16 or torch.int8, got {dtype}.")
    if not isinstance(x, torch.Tensor) or x.dtype not in (torch.float32, torch.float64) or x.ndim != 2:
        kind = f"{x.dtype} {tuple(x.shape)}" if isinstance(x, torch.Tensor) else type(x).__name__
        raise InputError(f"x must be float32 or float64 (nodes, columns), got {kind}.")
    if x.requires_grad or x.device.type != "cpu":
        what = "wants gradients" if x.requires_grad else f"is on {x.device}"
        raise InputError(f"Rows that are rounded are fixed ones on cpu, and x {what}; give x.detach().cpu().")
    found, none = x.to(torch.bfloat16), np.empty(0, np.float32)
    if not bool(found.isfinite().all()):
        raise InputError("x holds NaN, or a number beyond 3e38; clean the rows first.")
    if dtype is torch.bfloat16:
        return RoundedRows(found.contiguous().view(torch.uint16).numpy(), none)
    from any2vec.kernels.rows.quantize import quantize_rows

    code_MD, scale_M = np.empty(x.shape, np.int8), np.empty(len(x), np.float32)
    quantize_rows(x.float().contiguous().numpy(), _MOST, scale_M, code_MD)
    return RoundedRows(code_MD, scale_M)

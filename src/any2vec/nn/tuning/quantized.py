"""Numbers rounded to so many levels in training, as if they were kept in few bits, with the gradient of no rounding.

Source: the levels and the straight-through gradient are those of integer training (Jacob et al. 2018, section 3); that
nodes of one degree class have a range of their own is of GCoD (You et al., HPCA 2022). Ours: a range is that of all
numbers, not a mean of rows' ranges.

Legend: N nodes, D columns, C degree classes.
"""

from __future__ import annotations

import torch

BITS = (2, 16)
"""fewest and most"""


def quantized(x: torch.Tensor, bits: int | None, class_N: torch.Tensor | None = None) -> torch.Tensor:
    """x, float (N, D), with each number at the nearest of 2**bits levels from the least to the largest one.

    bits: 2..16; None: x as it is. class: int64 (N,), from 0: rows of a class have levels of their own.
    """
    if bits is None or not x.numel():
        return x
    found = x.detach()
    low_C, high_C = _ends(found, class_N)
    low, high = (ends if class_N is None else ends[class_N][:, None] for ends in (low_C, high_C))
    step = ((high - low) / (2**bits - 1)).clamp_(min=torch.finfo(x.dtype).tiny)
    rounded = ((found - low) / step).round_() * step + low
    return x + (rounded - found)


def _ends(x: torch.Tensor, class_N: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Least and largest number, (1,), or of each class, (C,)."""
    if class_N is None:
        low, high = x.aminmax()
        return low[None], high[None]
    num = int(class_N.max()) + 1
    low_N, high_N = x.aminmax(dim=1)
    found = x.new_zeros(num)
    return (
        found.scatter_reduce(0, class_N, low_N, "amin", include_self=False),
        found.scatter_reduce(0, class_N, high_N, "amax", include_self=False),
    )

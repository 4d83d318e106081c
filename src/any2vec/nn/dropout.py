"""Dropout (Srivastava et al. 2014) on the processor: torch's own draws each number in turn there, ours many at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

_STEPS = 65_536
"""in which shares are counted"""


def dropout(
    x: torch.Tensor, p: float, generator: torch.Generator | None = None, inplace: bool = False
) -> torch.Tensor:  # fmt: skip
    """x with a share p of its numbers, 0..0.99, set to 0, and the others divided by 1 - p, p rounded to 1 / 65,536.

    Args:
        x: float32 or float64, on the processor, of fewer than 2**33 numbers.
        generator: of what is dropped, one draw of it a call; by default torch's own.
        inplace: x itself is changed; no gradient goes through it.
    """
    threshold = round(p * _STEPS)
    if threshold == 0:
        return x
    key = int(torch.randint(1 << 62, (1,), generator=generator))
    if inplace:
        return _dropped(x, key, threshold)
    found: torch.Tensor = _Dropout.apply(x, key, threshold)
    return found


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, key: int, threshold: int) -> torch.Tensor:
        ctx.known = key, threshold
        return _dropped(x.clone(memory_format=torch.contiguous_format), key, threshold)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return _dropped(grad.clone(memory_format=torch.contiguous_format), *ctx.known), None, None


def _dropped(x: torch.Tensor, key: int, threshold: int) -> torch.Tensor:
    from any2vec.kernels.rows.dropout import drop

    halves = np.array([key & 0xFFFFFFFF, key >> 32, threshold], np.uint32)
    drop(x.detach().numpy().reshape(-1), *halves)
    return x

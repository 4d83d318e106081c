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
    draw = draw_of(p, generator)
    if draw is None:
        return x
    if inplace:
        return _dropped(x, draw)
    found: torch.Tensor = _Dropout.apply(x, draw)
    return found


def draw_of(p: float, generator: torch.Generator | None) -> np.ndarray | None:
    """What kernels are told of a share p: uint32, the halves of a key and a threshold; None: nothing is dropped."""
    threshold = round(p * _STEPS)
    if threshold == 0:
        return None
    key = int(torch.randint(1 << 62, (1,), generator=generator))
    return np.array([key & 0xFFFFFFFF, key >> 32, threshold], np.uint32)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, draw: np.ndarray) -> torch.Tensor:
        ctx.draw = draw
        return _dropped(x.clone(memory_format=torch.contiguous_format), draw)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return _dropped(grad.clone(memory_format=torch.contiguous_format), ctx.draw), None


def _dropped(x: torch.Tensor, draw: np.ndarray) -> torch.Tensor:
    from any2vec.kernels.rows.dropout import drop

    drop(x.detach().numpy().reshape(-1), *draw)
    return x

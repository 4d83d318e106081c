"""What tests of all loaders ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def same(one: Any, other: Any) -> bool:
    """Whether two values, or dicts of such within dicts, are the same."""
    import torch

    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else bool(one == other)


@pytest.fixture
def same_batch() -> Callable[[Any, Any], bool]:
    """Whether two batches hold the same."""
    return lambda one, other: same(one.to_dict(), other.to_dict())


@pytest.fixture
def check_passes() -> Callable[[Any, Any, Any], None]:
    """Loaders that differ in their threads give the same batches, and the third goes on where the second stood."""

    def check(one: Any, other: Any, again: Any) -> None:
        num, whole = len(one), [batch.to_dict() for _ in range(2) for batch in one]
        assert all(same(a, b.to_dict()) for a, b in zip(whole[:num], other, strict=True))
        running = iter(other)
        first = next(running)
        again.load_state_dict(other.state_dict())
        running.close()
        assert all(same(a, b.to_dict()) for a, b in zip(whole[num:], [first, *again], strict=True))

    return check

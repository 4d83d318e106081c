"""Dropout: its twin's numbers, shares that are what they should be, and gradients through what is kept alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from any2vec.kernels.rows.dropout import drop
from marks import uint64_wraps
from naive.rows.dropout import is_kept

torch = pytest.importorskip("torch")

from any2vec.nn.dropout import dropout  # noqa: E402

pytestmark = uint64_wraps


def seeded(seed: int) -> Any:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("num", [1, 2, 7, 4096, 4099, 9001])
def test_what_is_kept_is_the_twins(num: int, dtype: Any) -> None:
    low, high, threshold = 0xDEADBEEF, 0x12345678, 20_000
    x = np.arange(1, num + 1, dtype=dtype)
    found = x.copy()
    drop(found, np.uint32(low), np.uint32(high), np.uint32(threshold))
    kept = is_kept(num, low, high, threshold)
    assert np.array_equal(found, np.where(kept, x * dtype(65536 / (65536 - threshold)), 0))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_share_is_kept_by_row_by_column_between_neighbors_and_from_call_to_call(share: float) -> None:
    generator, ones = seeded(3), torch.ones(2000, 64)
    first, second = (dropout(ones, share, generator) > 0 for _ in range(2))
    expected, deviation = 1 - share, (share * (1 - share)) ** 0.5
    for kept, axes in ((first, (0, 1)), (first, 0), (first, 1), (second, (0, 1))):
        found = kept.float().mean(dim=axes)
        assert float((found - expected).abs().max()) < 5 * deviation / (kept.numel() / found.numel()) ** 0.5
    beside = (first, second), (first[1:], first[:-1]), (first[:, 1:], first[:, :-1]), (first[1000:], first[:1000])
    for one, other in beside:
        both = (one & other).float().mean()
        bound = (expected**2 * (1 - expected**2) / one.numel()) ** 0.5
        assert abs(float(both) - expected**2) < 5 * bound


def test_gradients_go_through_what_is_kept() -> None:
    x = torch.randn(30, 7, dtype=torch.float64, requires_grad=True)
    found = dropout(x, 0.3, seeded(1))
    found.sum().backward()
    scale = 65536 / (65536 - round(0.3 * 65536))
    assert torch.equal(x.grad, (found != 0) * torch.tensor(scale, dtype=torch.float64))
    assert torch.equal(found, x * x.grad)
    assert torch.equal(dropout(x, 0.3, seeded(1)), found) and not torch.equal(dropout(x, 0.3, seeded(2)), found)


def test_rows_that_are_owned_are_changed_in_place_and_others_are_not() -> None:
    x = torch.randn(30, 7)
    before, mine = x.clone(), x.clone()
    assert torch.equal(dropout(x, 0.5, seeded(1)), dropout(mine, 0.5, seeded(1), inplace=True))
    assert torch.equal(x, before) and not torch.equal(mine, before)
    assert dropout(x, 0.0) is x
    assert torch.equal(dropout(x.T, 0.5, seeded(1)), dropout(x.T.contiguous(), 0.5, seeded(1)))

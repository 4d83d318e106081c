"""Sums over rows in bfloat16 and in 8 bits: those of a plain twin, and no further off than is promised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from any2vec.errors import InputError
from naive.models.aggregate import aggregated, to_bfloat16, to_codes

torch = pytest.importorskip("torch")

from any2vec.nn import aggregate, round_rows  # noqa: E402
from any2vec.nn.aggregate import Neighbors  # noqa: E402

KINDS = ("bfloat16", "int8")


def planted(dim: int) -> tuple[list[list[int]], Any]:
    """A graph with nodes of 0 to 13 neighbors, and rows of very different sizes, one of zeros."""
    rng = np.random.default_rng(dim)
    edges = [rng.integers(0, 40, degree % 14).tolist() for degree in range(30)]
    rows = rng.standard_normal((40, dim)) * 10.0 ** rng.integers(-3, 4, (40, 1))
    rows[7] = 0
    return edges, rows.astype(np.float32)


def neighbors_of(edges: list[list[int]]) -> Neighbors:
    stop = np.concatenate([[0], np.cumsum([len(row) for row in edges])])
    return Neighbors(stop, np.concatenate([np.array(row, np.int32) for row in edges]))


def rounded(rows: np.ndarray, kind: str) -> np.ndarray:
    if kind == "int8":
        return np.array([to_codes(row) for row in rows.astype(float).tolist()])
    return np.array([[to_bfloat16(value) for value in row] for row in rows.tolist()])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("dim", [1, 16, 33])
def test_sums_equal_the_twin(dim: int, reduce: str, kind: str) -> None:
    edges, rows = planted(dim)
    found = aggregate(round_rows(torch.from_numpy(rows), getattr(torch, kind)), neighbors_of(edges), None, reduce)
    exact = aggregated(edges, rounded(rows, kind), reduce == "mean")
    assert found.dtype == torch.float32
    assert np.allclose(found, exact, rtol=1e-5, atol=1e-6 * float(np.abs(rows).max()))


@pytest.mark.parametrize("kind", KINDS)
def test_errors_are_within_the_bounds(kind: str) -> None:
    """And not far below: a kernel that kept more bits would read more bytes."""
    edges, rows = planted(64)
    sums = aggregate(round_rows(torch.from_numpy(rows), getattr(torch, kind)), neighbors_of(edges), reduce="sum")
    off = np.abs(sums.numpy() - aggregated(edges, rows.astype(float), mean=False))
    largest = np.abs(rows).max(axis=1, keepdims=True) / 254
    each = np.abs(rows) / 256 if kind == "bfloat16" else np.broadcast_to(largest, rows.shape)
    bound = aggregated(edges, each.astype(float), mean=False)
    assert (off <= bound * 1.001 + 1e-30).all()
    assert off.sum() > 0.05 * bound.sum()


@pytest.mark.parametrize("kind", KINDS)
def test_threads_give_the_same_sums_along_an_edge_index_too(kind: str) -> None:
    generator = torch.Generator().manual_seed(3)
    x, edge_index = torch.randn(500, 48), torch.randint(0, 500, (2, 9000), generator=generator)
    rows, before, found = round_rows(x, getattr(torch, kind)), torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(aggregate(rows, edge_index, 510, "sum"))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found) and found[0].shape == (510, 48) and not found[0][500:].any()


def test_what_cannot_be_rounded_is_said() -> None:
    x = torch.randn(4, 3)
    edge_index = torch.tensor([[0, 1], [2, 3]])
    for bad, message in (
        (lambda: round_rows(x, torch.float16), "torch.bfloat16 or torch.int8"),
        (lambda: round_rows(x.int()), "float32 or float64"),
        (lambda: round_rows([1.0]), "got list"),
        (lambda: round_rows(x.clone().requires_grad_()), "x.detach"),
        (lambda: round_rows(x * float("nan")), "NaN"),
        (lambda: aggregate(round_rows(x), edge_index, 4, "max"), "sums and means"),
        (lambda: aggregate(round_rows(x), edge_index + 2, 4, "sum"), "edge_index"),
    ):
        with pytest.raises(InputError, match=message):
            bad()

"""Layers of networks over samples: attention and sums whose neighbors stand for those that a sample leaves out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from any2vec import GAT, GIN, GATv2
from any2vec.models.networks.network import AttentionLayer, Block, GinLayer, block_of, blocks_of
from any2vec.sampling.neighbors import NeighborOptions, NeighborSampler
from any2vec.types import Csr

NODES, COLUMNS = 60, 5


@pytest.fixture(scope="module")
def csr() -> Csr:
    """Degrees from none to 40, no self-loops."""
    rng = np.random.default_rng(3)
    sizes, others = rng.integers(0, 41, NODES), [np.delete(np.arange(NODES), node) for node in range(NODES)]
    rows = [np.sort(rng.choice(rest, size, replace=False)) for rest, size in zip(others, sizes, strict=True)]
    indptr = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return Csr(indptr, np.concatenate(rows).astype(np.int32), np.empty(0, np.float32))


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(1)


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    return torch.randn(NODES, COLUMNS, generator=torch.Generator().manual_seed(1))


def means(csr: Csr, x: torch.Tensor, law: Any, asked: Callable[[torch.Tensor, Block], torch.Tensor]) -> Any:
    """(mean of what is asked of the first 20 nodes over samples of 3 neighbors, its standard error)."""
    degree, found = np.diff(csr.indptr).astype(np.float32), []
    for seed in range(300):
        hood = NeighborSampler(csr, NeighborOptions(fanouts=(3,), law=law, seed=seed)).sample(np.arange(20))
        found.append(asked(x[hood.node_M.astype(np.int64)], blocks_of(hood, degree)[0]).detach().numpy())
    return np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(len(found))


@pytest.mark.parametrize("law", ["uniform", "labor"])
@pytest.mark.parametrize("model", [GAT(hidden=4, heads=2), GATv2(hidden=4, heads=2)], ids=["gat", "gatv2"])
def test_even_attention_over_samples_is_right_in_the_mean(csr: Csr, x: torch.Tensor, model: Any, law: Any) -> None:
    """Where all neighbors weigh the same, so that the node itself is one of all, not one of the sample."""
    layer = AttentionLayer(model, COLUMNS, 4, is_last=False)
    for name, part in layer.named_parameters():
        if "att" in name:
            torch.nn.init.zeros_(part)
    exact = layer(x, block_of(csr)).detach().numpy()[:20]
    mean, error = means(csr, x, law, layer)
    assert (np.abs(mean - exact) <= 4.5 * error + 1e-5).all()


def test_a_larger_sample_attends_more_like_all(csr: Csr, x: torch.Tensor) -> None:
    layer = AttentionLayer(GAT(hidden=4, heads=1), COLUMNS, 4, is_last=False)
    exact, degree, errors = layer(x, block_of(csr)).detach()[:20], np.diff(csr.indptr).astype(np.float32), []
    for fanout in (2, 10, 40):
        hood = NeighborSampler(csr, NeighborOptions(fanouts=(fanout,))).sample(np.arange(20))
        found = layer(x[hood.node_M.astype(np.int64)], blocks_of(hood, degree)[0])
        errors.append(float((found - exact).detach().square().mean()))
    assert errors[0] > errors[1] > errors[2] and errors[2] < 1e-12


@pytest.mark.parametrize("columns", [3, 9])  # narrower than what comes in, and wider
@pytest.mark.parametrize("train_eps", [False, True])
def test_gin_is_its_equation_and_right_in_the_mean(csr: Csr, x: torch.Tensor, columns: int, train_eps: bool) -> None:
    layer, x = GinLayer(GIN(hidden=columns, train_eps=train_eps), COLUMNS, 4).double(), x.double()
    with torch.no_grad():
        layer.shift += 1000.0  # nothing is below 0, so that the layer is linear
        if layer.eps is not None:
            layer.eps += 0.7
    adjacency = np.zeros((NODES, NODES))
    for node in range(NODES):
        adjacency[node, csr.indices[csr.indptr[node] : csr.indptr[node + 1]]] = 1
    weight = {name: part.detach().numpy() for name, part in layer.named_parameters()}
    sums = (adjacency + (1.7 if train_eps else 1.0) * np.eye(NODES)) @ x.numpy()
    hidden = sums @ weight["first.weight"].T / np.sqrt(1 + 1e-5) + weight["shift"]
    expected = hidden @ weight["last.weight"].T + weight["last.bias"]
    np.testing.assert_allclose(layer(x, block_of(csr)).detach().numpy(), expected, atol=1e-9)
    mean, error = means(csr, x, "uniform", layer)
    assert (np.abs(mean - expected[:20]) <= 4.5 * error + 1e-9).all()


def test_gin_normalizes_batches_and_remembers_them(csr: Csr, x: torch.Tensor) -> None:
    layer, draws = GinLayer(GIN(hidden=6), COLUMNS, 6), torch.Generator()
    torch.nn.init.eye_(layer.last.weight)
    sums = layer.first(x + torch.stack([
        x[csr.indices[csr.indptr[node] : csr.indptr[node + 1]].astype(np.int64)].sum(dim=0) for node in range(NODES)
    ])).detach()  # fmt: skip
    normal = (sums - sums.mean(dim=0)) / (sums.var(dim=0, unbiased=False) + 1e-5).sqrt()
    found = layer(x, block_of(csr), draws)
    np.testing.assert_allclose(found.detach(), (normal.relu() + layer.last.bias).detach(), atol=1e-4)
    np.testing.assert_allclose(layer.mean, 0.1 * sums.mean(dim=0), rtol=1e-3, atol=1e-4)
    kept = layer.mean.clone()
    layer(x, block_of(csr))
    assert torch.equal(layer.mean, kept)

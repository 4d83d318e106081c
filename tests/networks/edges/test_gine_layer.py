"""Sums of rows and features of edges: by the plain twin, by finite differences, and beside PyG's GINEConv."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from any2vec.errors import InputError
from any2vec.nn import GINEConv
from any2vec.nn.aggregate import Neighbors
from any2vec.nn.gin import edge_relu_sum
from naive.models.aggregate import edge_relu_sums


def drawn(num: int, sources: int, targets: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """(sources, targets) of edges by target; the first nodes have none, and one has many."""
    rng = np.random.default_rng(seed)
    target = np.sort(np.where(rng.random(num) < 0.2, targets - 2, rng.integers(3, targets, num)))
    return rng.integers(0, sources, num), target


def neighbors_of(source: np.ndarray, target: np.ndarray, num: int, weight_S: Any = None) -> Neighbors:
    stop_F1 = np.searchsorted(target, np.arange(num + 1))
    return Neighbors(stop_F1, source.astype(np.int32), None, weight_S)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_sums_are_those_of_the_plain_twin(is_weighted: bool) -> None:
    source, target = drawn(300, 40, 25)
    rng = np.random.default_rng(2)
    x, edge = rng.normal(size=(40, 7)).astype(np.float32), rng.normal(size=(300, 7)).astype(np.float32)
    weight = rng.random(300).astype(np.float32) if is_weighted else None
    by_node = [[(int(source[at]), at) for at in np.flatnonzero(target == node)] for node in range(25)]
    expected = edge_relu_sums(by_node, x, edge, np.ones(300) if weight is None else weight)
    found = edge_relu_sum(torch.from_numpy(x), torch.from_numpy(edge), neighbors_of(source, target, 25, weight))
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)
    assert not found[:3].any() and found[3:].any()


@pytest.mark.parametrize("is_weighted", [False, True])
def test_gradients_are_those_of_finite_differences(is_weighted: bool) -> None:
    source, target = drawn(30, 9, 6)
    rng = np.random.default_rng(3)
    x, edge = (torch.from_numpy(rng.normal(size=shape)).requires_grad_() for shape in ((9, 3), (30, 3)))
    weight = rng.random(30) if is_weighted else None
    neighbors = neighbors_of(source, target, 6, weight)
    assert torch.autograd.gradcheck(lambda one, other: edge_relu_sum(one, other, neighbors), (x, edge))


def test_threads_give_the_same_bits() -> None:
    source, target = drawn(9000, 300, 200)
    rng = np.random.default_rng(4)
    x, edge, ahead = (torch.from_numpy(rng.normal(size=(num, 24)).astype(np.float32)) for num in (300, 9000, 200))
    neighbors, found, before = neighbors_of(source, target, 200), [], torch.get_num_threads()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            rows, of_edges = x.clone().requires_grad_(), edge.clone().requires_grad_()
            out = edge_relu_sum(rows, of_edges, neighbors)
            (out * ahead).sum().backward()
            found.append((out.detach(), rows.grad, of_edges.grad))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_what_is_no_number_stays_none() -> None:
    x = torch.tensor([[float("nan")], [1.0]])
    found = edge_relu_sum(x, torch.zeros(2, 1), neighbors_of(np.array([0, 1]), np.array([0, 1]), 2))
    assert found.isnan().tolist() == [[True], [False]]


@pytest.mark.parametrize("edge_dim", [3, None])
@pytest.mark.parametrize("is_sorted", [True, False])
def test_the_layer_has_pygs_numbers_with_the_same_weights(is_sorted: bool, edge_dim: int | None) -> None:
    geometric = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(1)
    layers = [
        kind(torch.nn.Sequential(torch.nn.Linear(7, 9), torch.nn.ReLU(), torch.nn.Linear(9, 4)), 0.3, True, edge_dim)
        for kind in (geometric.GINEConv, GINEConv)
    ]
    layers[1].load_state_dict(layers[0].state_dict())
    layers[0].load_state_dict(layers[1].state_dict())
    for sources, targets in ((50, 50), (50, 20)):
        edge_index = torch.from_numpy(np.stack(drawn(200, sources, targets)))
        edge_index = edge_index if is_sorted else edge_index[:, torch.randperm(200)]
        found = []
        for layer in layers:
            torch.manual_seed(2)
            own, x = torch.randn(targets, 7), torch.randn(sources, 7, requires_grad=True)
            edge_attr = torch.randn(200, edge_dim or 7, requires_grad=True)
            layer.zero_grad()
            out = layer((x, own) if targets < sources else x, edge_index, edge_attr)
            out.square().sum().backward()
            named = sorted((name, part.grad) for name, part in layer.named_parameters())
            found.append([out, x.grad, edge_attr.grad, *(grad.clone() for _, grad in named)])
        assert len(found[0]) == len(found[1]) == 8 + 2 * (edge_dim is not None)
        scale = max(float(part.detach().abs().max()) for part in found[0])
        assert all(torch.allclose(one, other, atol=1e-5 * scale, rtol=1e-5) for one, other in zip(*found, strict=True))
    before = layers[1].state_dict()["nn.0.weight"].clone()
    layers[1].reset_parameters()
    assert float(layers[1].eps.detach()) == pytest.approx(0.3) and not torch.equal(layers[1].nn[0].weight, before)


def test_rows_and_features_may_be_changed_in_place_behind_the_layer() -> None:
    """As behind PyG's, whose gradients these are."""
    geometric = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(1)
    before, linear = torch.nn.Linear(5, 7), torch.nn.Linear(7, 7)
    edge_index = torch.from_numpy(np.stack(drawn(200, 50, 50)))
    x_N, attr_S, found = torch.randn(50, 5), torch.randn(200, 7), []
    for kind in (geometric.GINEConv, GINEConv):
        before.zero_grad()
        linear.zero_grad()
        own = attr_S.clone().requires_grad_()
        x, edge_attr = before(x_N), own * 2
        x += kind(linear)(x, edge_index, edge_attr)
        edge_attr.zero_()
        x.square().sum().backward()
        found.append([x.detach(), own.grad, before.weight.grad.clone(), linear.weight.grad.clone()])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-3)


def test_what_does_not_fit_is_refused() -> None:
    linear, edges, x = torch.nn.Linear(4, 2), torch.tensor([[0, 1], [1, 0]]), torch.ones(2, 4)
    cases: list[tuple[Any, str]] = [
        (lambda: GINEConv(3), "nn must be a torch.nn.Module, got int"),
        (lambda: GINEConv(linear, edge_dim=0), "edge_dim must be"),
        (lambda: GINEConv(torch.nn.ReLU(), edge_dim=2), "nn must have in_features or in_channels"),
        (lambda: GINEConv(linear)(x, edges), r"a torch tensor \(edges, 4\); edge_attr is missing"),
        (lambda: GINEConv(linear)(x, edges, np.ones((2, 4))), "edge_attr is ndarray"),
        (lambda: GINEConv(linear)(x, edges, torch.ones(2, 3)), r"edge_attr must be torch.float32 \(2, 4\)"),
        (lambda: GINEConv(linear, edge_dim=3)(x, edges, torch.ones(2, 4)), r"must be torch.float32 \(2, 3\)"),
        (lambda: GINEConv(linear)(x, edges, torch.ones(2, 4, dtype=torch.float64)), "got torch.float64"),
        (lambda: GINEConv(linear, edge_dim=3)(torch.ones(2, 9), edges, torch.ones(2, 3)), "4 columns.* got 9"),
        (lambda: GINEConv(linear)([[1.0]], edges, torch.ones(2, 1)), "x must be a torch tensor, got list"),
        (lambda: GINEConv(linear)(x, edges + 1, torch.ones(2, 4)), r"edge_index\[0\] must be from 0 to 1"),
    ]
    for call, message in cases:
        with pytest.raises(InputError, match=message):
            call()

"""Graph convolutions over weighted edges: PyG's numbers with PyG's weights, and its gradients."""

from __future__ import annotations

from typing import Any

import pytest

from any2vec.errors import InputError

torch = pytest.importorskip("torch")
geometric = pytest.importorskip("torch_geometric.nn")

from any2vec.nn import GCNConv, accelerate  # noqa: E402


def graph(seed: int, is_sorted: bool) -> tuple[Any, Any, Any]:
    """Rows, edges with two loops and equal ones, weights; nodes without any edge at the end."""
    generator = torch.Generator().manual_seed(seed)
    src, step = torch.randint(0, 20, (90,), generator=generator), torch.randint(1, 20, (90,), generator=generator)
    dst = (src + step) % 20
    src, dst = (torch.cat([ends, torch.tensor([3, 7])]) for ends in (src, dst))
    order = dst.argsort(stable=True) if is_sorted else torch.arange(92)
    weight = torch.rand(92, generator=generator) + 0.1
    return torch.randn(23, 6, generator=generator), torch.stack([src, dst])[:, order], weight[order]


@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize("columns", [4, 9])
def test_weighted_convolutions_are_those_of_pyg(columns: int, is_sorted: bool) -> None:
    """Rows get narrower, and wider; gradients of rows, of weights of edges and of parameters, too."""
    x, edge_index, weight = graph(columns, is_sorted)
    ours, theirs = GCNConv(6, columns), geometric.GCNConv(6, columns)
    theirs.load_state_dict(ours.state_dict())
    found = []
    for layer in (ours, theirs):
        rows, scale = x.clone().requires_grad_(), weight.clone().requires_grad_()
        out = layer(rows, edge_index, scale)
        out.square().sum().backward()
        found.append((out.detach(), rows.grad, scale.grad, layer.lin.weight.grad, layer.bias.grad))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours(x, edge_index, torch.ones(92)).mean(), theirs(x, edge_index, torch.ones(92)).mean())


def test_edges_of_weight_one_are_edges_without_weights() -> None:
    """Where the graph has no self-loops, and edges once: those stand for the one that is added, and add up."""
    x, edge_index, _ = graph(0, is_sorted=True)
    edge_index = torch.unique(edge_index[:, edge_index[0] != edge_index[1]], dim=1)
    layer = GCNConv(6, 5)
    torch.testing.assert_close(layer(x, edge_index, torch.ones(edge_index.shape[1])), layer(x, edge_index))


def test_an_accelerated_layer_takes_weights() -> None:
    x, edge_index, weight = graph(1, is_sorted=False)
    plain = geometric.GCN(6, 8, 2)
    expected = plain(x, edge_index, weight)
    kernels = accelerate(plain)
    torch.testing.assert_close(kernels(x, edge_index, edge_weight=weight), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("columns", [4, 9])
def test_rows_that_were_changed_in_place_since_have_no_wrong_gradients(columns: int) -> None:
    """Neither here nor behind PyG's layer are their old numbers known."""
    x, edge_index, weight = graph(columns, is_sorted=True)
    for layer in (GCNConv(6, columns), geometric.GCNConv(6, columns)):
        rows = x.clone().requires_grad_() * 1
        out = layer(rows, edge_index, weight)
        rows.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()


@pytest.mark.parametrize(
    "weight", [torch.ones(91), torch.ones(92, 2), torch.ones(92, dtype=torch.int64), torch.ones(92).double(), [1.0]]
)
def test_weights_of_another_kind_are_refused(weight: Any) -> None:
    x, edge_index, _ = graph(2, is_sorted=True)
    with pytest.raises(InputError, match=r"edge_weight must be torch.float32 \(92,\)"):
        GCNConv(6, 5)(x, edge_index, weight)

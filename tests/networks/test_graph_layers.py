"""Layers of graph networks: PyG's numbers with PyG's weights, and gradients that differences confirm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from any2vec.errors import InputError
from marks import uint64_wraps

torch = pytest.importorskip("torch")
geometric = pytest.importorskip("torch_geometric.nn")

from torch_geometric.data import Data  # noqa: E402
from torch_geometric.utils import scatter  # noqa: E402

from any2vec import NeighborLoader  # noqa: E402
from any2vec.nn import GCNConv, GINConv, SAGEConv, aggregate  # noqa: E402
from any2vec.nn.aggregate import Neighbors  # noqa: E402
from any2vec.nn.convolve import convolve  # noqa: E402

pytestmark = uint64_wraps


def edges(num: int, sources: int, targets: int, *, is_sorted: bool, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    src, dst = (torch.randint(0, size, (num,), generator=generator) for size in (sources, targets))
    return torch.stack([src, dst.sort().values if is_sorted else dst])


@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize("reduce", ["mean", "sum", "max"])
@pytest.mark.parametrize("dim", [1, 5, 16, 33])
def test_aggregates_equal_one_edge_at_a_time(dim: int, reduce: str, is_sorted: bool) -> None:
    edge_index = edges(300, 40, 25, is_sorted=is_sorted)
    x = torch.randn(40, dim, dtype=torch.float64)
    expected, combine = (
        np.full((30, dim), -np.inf if reduce == "max" else 0.0),
        np.maximum if reduce == "max" else np.add,
    )
    for source, target in edge_index.T.tolist():
        expected[target] = combine(expected[target], x[source].numpy())
    expected[np.isinf(expected)] = 0
    if reduce == "mean":
        expected /= np.maximum(np.bincount(edge_index[1], minlength=30), 1)[:, None]
    assert np.allclose(aggregate(x, edge_index, 30, reduce), expected)
    assert np.allclose(aggregate(x.float(), edge_index.int(), 30, reduce), expected, atol=1e-5)
    assert np.allclose(aggregate(x.T.contiguous().T, edge_index, 30, reduce), expected)


@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize("reduce", ["mean", "sum", "max"])
def test_gradients_equal_differences(reduce: str, is_sorted: bool) -> None:
    edge_index = edges(60, 12, 9, is_sorted=is_sorted)
    x = torch.randn(12, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda rows: aggregate(rows, edge_index, 10, reduce), x)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("reduce", ["mean", "sum", "max"])
def test_threads_and_edges_by_source_give_the_same_sums_and_gradients(reduce: str, threads: int) -> None:
    """Of a graph large enough for several threads, with a hub, and nodes without neighbors at both ends."""
    edge_index = edges(6000, 500, 400, is_sorted=True)
    edge_index[1] = (edge_index[1] + 20).clamp(max=390)
    stop = np.searchsorted(edge_index[1].numpy(), np.arange(421))
    there = Neighbors(stop, edge_index[0].numpy().astype(np.int32))
    order = edge_index[0].argsort(stable=True)
    sources, targets = edge_index[:, order].numpy()
    back = Neighbors(np.searchsorted(sources, np.arange(501)), targets.astype(np.int32))
    x, weight = torch.randn(500, 24, dtype=torch.float64), torch.randn(420, 24, dtype=torch.float64)
    found, before = [], torch.get_num_threads()
    for neighbors, number in ((there, 1), (there, threads), (there._replace(reverse=back), threads)):
        torch.set_num_threads(number)
        rows = x.clone().requires_grad_()
        out = aggregate(rows, neighbors, 420, reduce)
        (out * weight).sum().backward()
        found.append((out.detach(), rows.grad))
    torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(found[0], found[1], strict=True))
    assert all(torch.allclose(one, other) for one, other in zip(found[0], found[2], strict=True))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("is_sample", [False, True])
def test_convolutions_and_their_gradients_equal_one_edge_at_a_time(is_sample: bool, threads: int) -> None:
    """Of a directed graph with nodes without neighbors; over a sample each neighbor stands for several."""
    edge_index = edges(7000, 300, 300, is_sorted=True)
    edge_index[1] = edge_index[1].clamp(min=9)
    source, target = edge_index.numpy()
    there = Neighbors(np.searchsorted(target, np.arange(301)), source.astype(np.int32))
    order = source.argsort(kind="stable")
    back = Neighbors(np.searchsorted(source[order], np.arange(301)), target[order].astype(np.int32))
    counts = np.bincount(target, minlength=300)
    degree = counts * (3 if is_sample else 1)
    matrix = np.zeros((300, 300))
    for one, other in edge_index.T.tolist():
        matrix[other, one] += degree[other] / counts[other] / np.sqrt((degree[one] + 1) * (degree[other] + 1))
    matrix += np.diag(1 / (degree + 1))
    x, weight = torch.randn(300, 24, dtype=torch.float64), torch.randn(300, 24, dtype=torch.float64)
    before, exact = torch.get_num_threads(), torch.from_numpy(matrix)
    try:
        torch.set_num_threads(threads)
        for neighbors in (there, there._replace(reverse=back)):
            rows = x.clone().requires_grad_()
            out = convolve(rows, neighbors, torch.from_numpy(degree)[:, None])
            (out * weight).sum().backward()
            assert torch.allclose(out, exact @ x) and torch.allclose(rows.grad, exact.T @ weight)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("place", range(5))
def test_the_largest_of_what_is_no_number_is_none(place: int) -> None:
    """Wherever among the neighbors it stands; nor are the gradients of this column. As in PyG."""
    x = torch.arange(15, dtype=torch.float32).view(5, 3)
    x[place, 1] = float("nan")
    x.requires_grad_()
    edge_index = torch.stack([torch.arange(5), torch.zeros(5, dtype=torch.int64)])
    out = aggregate(x, edge_index, 2, "max")
    assert torch.equal(out.isnan(), torch.tensor([[False, True, False], [False, False, False]]))
    assert out[0, [0, 2]].tolist() == [12, 14] and not out[1].any()
    out.sum().backward()
    expected = torch.zeros(5, 3)
    expected[4], expected[:, 1] = 1, float("nan")
    assert x.grad is not None and torch.allclose(x.grad, expected, equal_nan=True)
    theirs = x.detach().clone().requires_grad_()
    scatter(theirs[edge_index[0]], edge_index[1], dim=0, dim_size=2, reduce="max").sum().backward()
    assert torch.allclose(theirs.grad, expected, equal_nan=True)


OPTIONS = [
    {},
    {"aggr": "sum"},
    {"aggr": "max"},
    {"aggr": "max", "project": True},
    {"normalize": True},
    {"root_weight": False},
    {"bias": False},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("channels", [(7, 4), (4, 7), ((7, 3), 5)])
def test_the_same_numbers_as_pyg_with_the_same_weights(channels: Any, options: dict[str, Any]) -> None:
    torch.manual_seed(1)
    theirs, ours = geometric.SAGEConv(*channels, **options), SAGEConv(*channels, **options)
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    is_pair = isinstance(channels[0], tuple)
    edge_index = edges(200, 50, 20 if is_pair else 50, is_sorted=False)
    found = []
    for layer in (theirs, ours):
        torch.manual_seed(2)
        x = torch.randn(50, 7 if is_pair else channels[0])
        x = x.mul(2).round().add(0.25).requires_grad_()  # many equally large; of zeros PyTorch counts one more
        rows: Any = (x, torch.randn(20, 3)) if is_pair else x
        out = layer(rows, edge_index)
        out.square().sum().backward()
        found.append([out, x.grad, *(part.grad for part in layer.parameters())])
    assert all(torch.allclose(one, other, atol=1e-5, rtol=1e-5) for one, other in zip(*found, strict=True))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("channels", [(7, 4), (4, 7)])
def test_gcn_has_pygs_numbers_with_the_same_weights(channels: Any, bias: bool) -> None:
    """Where the graph has self-loops, too, and equal edges."""
    torch.manual_seed(1)
    theirs, ours = geometric.GCNConv(*channels, bias=bias), GCNConv(*channels, bias=bias)
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    edge_index = edges(200, 50, 50, is_sorted=False)
    loops = torch.arange(0, 50, 9).repeat(2, 1)
    edge_index, found = torch.cat([edge_index[:, edge_index[0] != edge_index[1]], loops], dim=1), []
    for layer in (theirs, ours):
        torch.manual_seed(2)
        x = torch.randn(50, channels[0], requires_grad=True)
        out = layer(x, edge_index)
        out.square().sum().backward()
        found.append([out, x.grad, *(part.grad for part in layer.parameters())])
    names = [[name for name, _ in layer.named_parameters()] for layer in (theirs, ours)]
    assert sorted(names[0]) == sorted(names[1])
    order = [names[1].index(name) for name in names[0]]
    found[1] = [*found[1][:2], *(found[1][2 + place] for place in order)]
    assert all(torch.allclose(one, other, atol=1e-5, rtol=1e-5) for one, other in zip(*found, strict=True))
    with pytest.raises(InputError, match="must be from 0 to 49, got 3 to 50"):
        ours(x, torch.tensor([[3, 50], [0, 1]]))
    with pytest.raises(InputError, match="must be from 0 to 49, got 99 to 99"):
        ours(x, torch.tensor([[99], [99]]))
    for odd in (torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.bool)):
        with pytest.raises(InputError, match="edge_index must be whole numbers"):
            ours(x, odd)


@pytest.mark.parametrize("train_eps", [True, False])
def test_gin_has_pygs_numbers_with_the_same_weights(train_eps: bool) -> None:
    torch.manual_seed(1)
    layers = [
        kind(torch.nn.Sequential(torch.nn.Linear(7, 9), torch.nn.ReLU(), torch.nn.Linear(9, 4)), 0.3, train_eps)
        for kind in (geometric.GINConv, GINConv)
    ]
    layers[1].load_state_dict(layers[0].state_dict())
    layers[0].load_state_dict(layers[1].state_dict())
    for sources, targets in ((50, 50), (50, 20)):
        edge_index, found = edges(200, sources, targets, is_sorted=False), []
        own = torch.randn(targets, 7)
        for layer in layers:
            torch.manual_seed(2)
            x = torch.randn(sources, 7, requires_grad=True)
            layer.zero_grad()
            out = layer((x, own) if targets < sources else x, edge_index)
            out.square().sum().backward()
            named = sorted((name, part.grad) for name, part in layer.named_parameters())
            found.append([out, x.grad, *(grad.clone() for _, grad in named)])
        assert len(found[0]) == len(found[1]) == 6 + train_eps
        assert all(torch.allclose(one, other, atol=1e-4, rtol=1e-5) for one, other in zip(*found, strict=True))
    layers[1].reset_parameters()
    assert float(layers[1].eps.detach()) == pytest.approx(0.3)
    assert not torch.equal(layers[1].nn[0].weight, layers[0].nn[0].weight)


def test_a_network_learns_from_the_loader() -> None:
    """Two blocks, features that tell little of a node and all with its neighbors'."""
    torch.manual_seed(0)
    y = torch.arange(200) % 2
    src, dst = torch.randint(0, 200, (2, 6000))
    keep = (y[src] == y[dst]) | (torch.rand(6000) < 0.05)
    data = Data(x=torch.randn(200, 8) + 0.5 * y[:, None], y=y, edge_index=torch.stack([src, dst])[:, keep])
    layers = torch.nn.ModuleList([SAGEConv(8, 16), SAGEConv(16, 2)])
    optimizer = torch.optim.Adam(layers.parameters(), lr=0.02)
    for _ in range(8):
        for batch in NeighborLoader(data, [5, 5], batch_size=50, input_nodes=torch.arange(0, 200, 3), shuffle=True):
            out = layers[1](layers[0](batch.x, batch.edge_index).relu(), batch.edge_index)[: batch.batch_size]
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(out, batch.y[: batch.batch_size]).backward()
            optimizer.step()
    found = layers[1](layers[0](data.x, data.edge_index).relu(), data.edge_index).argmax(dim=1)
    rest = torch.arange(200) % 3 != 0
    assert (found == y)[rest].float().mean() > 0.9


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x, e: aggregate(x, e, reduce="min"), "reduce must be one of mean, sum, max, got 'min'"),
        (lambda x, e: aggregate(x.long(), e), "x must be float32"),
        (lambda x, e: aggregate(x[0], e), "x must be float32"),
        (lambda x, e: aggregate(x.numpy(), e), "x must be a torch tensor, got ndarray"),
        (lambda x, e: aggregate(x, e.float()), "edge_index must be whole"),
        (lambda x, e: aggregate(x, e.T), "edge_index must be whole"),
        (lambda x, e: aggregate(x, e + 9), r"edge_index\[0\] must be from 0 to 9"),
        (lambda x, e: aggregate(x, e, 3), r"edge_index\[1\] must be from 0 to 2"),
        (lambda x, e: SAGEConv(0, 3), "in_channels must be"),
        (lambda x, e: SAGEConv(3, 3, aggr="lstm"), "aggr must be"),
        (lambda x, e: GINConv(3), "nn must be a torch.nn.Module, got int"),
        (lambda x, e: GINConv(torch.nn.Linear(2, 2), eps=float("nan")), "eps must be"),
    ],
)  # fmt: skip
def test_what_is_refused(call: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        call(torch.ones(10, 2), edges(20, 10, 10, is_sorted=False))

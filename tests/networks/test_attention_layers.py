"""Attention: PyG's numbers with PyG's weights, a plain twin's, and gradients that differences confirm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from any2vec.errors import InputError
from naive.models.attention import attended, leaky

torch = pytest.importorskip("torch")
geometric = pytest.importorskip("torch_geometric.nn")

import any2vec.nn  # noqa: E402
from any2vec.nn.aggregate import neighbors_of  # noqa: E402

KINDS = ("GATConv", "GATv2Conv")
OPTIONS: list[dict[str, Any]] = [
    {}, {"heads": 3}, {"heads": 3, "concat": False}, {"negative_slope": 0.0}, {"add_self_loops": False},
    {"bias": False, "heads": 2},
]  # fmt: skip
SLOPE = 0.2


def edges(num: int, sources: int, targets: int, seed: int = 0) -> Any:
    """Unsorted, with some that come twice and some self-loops; the last target has none."""
    generator = torch.Generator().manual_seed(seed)
    src, dst = (torch.randint(0, size, (num,), generator=generator) for size in (sources, targets - 1))
    loops = torch.arange(0, min(sources, targets - 1), 4)
    return torch.cat([torch.stack([src, dst]), loops.repeat(2, 1)], dim=1)


def compared(theirs: Any, ours: Any, rows: tuple[Any, ...], edge_index: Any) -> None:
    """Forward and all gradients, by name."""
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    found = []
    for layer in (theirs, ours):
        given = [part.clone().requires_grad_() for part in rows]
        out = layer(given[0] if len(given) == 1 else tuple(given), edge_index)
        (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
        named = {name: part.grad for name, part in layer.named_parameters()}
        found.append({"out": out, **{f"x{place}": part.grad for place, part in enumerate(given)}} | named)
    assert found[0].keys() == found[1].keys()
    for name, expected in found[0].items():
        scale = max(1.0, float(expected.detach().abs().max()))
        assert torch.allclose(found[1][name], expected, atol=1e-5 * scale, rtol=1e-5), name


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_numbers_as_pyg_with_the_same_weights(kind: str, options: dict[str, Any]) -> None:
    torch.manual_seed(1)
    for channels in (7, (7, 4)):
        theirs, ours = (getattr(room, kind)(channels, 5, **options) for room in (geometric, any2vec.nn))
        pair = (torch.randn(50, 7), torch.randn(20, 4 if isinstance(channels, tuple) else 7))
        compared(theirs, ours, pair, edges(200, 50, 20))
        if not isinstance(channels, tuple):
            compared(theirs, ours, (torch.randn(50, 7),), edges(200, 50, 50))


def test_weights_may_be_shared_and_targets_outnumber_sources() -> None:
    torch.manual_seed(1)
    theirs, ours = (room.GATv2Conv(7, 5, heads=2, share_weights=True) for room in (geometric, any2vec.nn))
    compared(theirs, ours, (torch.randn(50, 7),), edges(200, 50, 50))
    theirs, ours = (room.GATConv((7, 3), 5, heads=2) for room in (geometric, any2vec.nn))
    compared(theirs, ours, (torch.randn(20, 7), torch.randn(50, 3)), edges(200, 20, 50))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"heads": 3, "concat": False}, {"heads": 2, "add_self_loops": False}])
def test_the_same_numbers_as_pyg_with_features_of_edges(kind: str, options: dict[str, Any]) -> None:
    """Gradients of the features, too; loops that are added have the mean of the node's other in-edges'."""
    torch.manual_seed(1)
    for channels, sources, targets in ((7, 50, 50), ((7, 4), 50, 20)):
        theirs, ours = (getattr(room, kind)(channels, 5, edge_dim=3, **options) for room in (geometric, any2vec.nn))
        ours.load_state_dict(theirs.state_dict())
        edge_index = edges(200, sources, targets)
        edge_attr = torch.randn(edge_index.shape[1], 3)
        rows = (torch.randn(sources, 7), torch.randn(targets, 4)) if isinstance(channels, tuple) else torch.randn(50, 7)
        found = []
        for layer in (theirs, ours):
            features = edge_attr.clone().requires_grad_()
            out = layer(rows, edge_index, features)
            (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
            grads = {name: part.grad for name, part in layer.named_parameters()}
            found.append({"out": out, "edges": features.grad} | grads)
        for name, expected in found[0].items():
            scale = max(1.0, float(expected.detach().abs().max()))
            assert torch.allclose(found[1][name], expected, atol=1e-5 * scale, rtol=1e-5), name


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_with_features_of_edges_equal_differences(kind: str) -> None:
    torch.manual_seed(3)
    layer = getattr(any2vec.nn, kind)((4, 3), 3, heads=2, edge_dim=2, dropout=0.4).double()
    edge_index = edges(40, 12, 9)
    names, parameters = zip(*layer.named_parameters(), strict=True)

    def out(source: Any, own: Any, features: Any, *given: Any) -> Any:
        draws, degree = torch.Generator().manual_seed(1), torch.arange(11.0, 20.0)
        return torch.func.functional_call(
            layer, dict(zip(names, given, strict=True)),
            args=((source, own), edge_index, features), kwargs={"num_neighbors": degree, "generator": draws},
        )  # fmt: skip

    rows = [torch.randn(*shape, dtype=torch.float64) for shape in ((12, 4), (9, 3), (edge_index.shape[1], 2))]
    given = [value.detach().clone().requires_grad_() for value in (*rows, *parameters)]
    assert torch.autograd.gradcheck(out, given)


@pytest.mark.parametrize("kind", KINDS)
def test_attention_with_features_of_edges_is_its_equation(kind: str) -> None:
    torch.manual_seed(2)
    layer = getattr(any2vec.nn, kind)(6, 5, negative_slope=SLOPE, bias=False, edge_dim=2).double()
    edge_index, x = torch.tensor([[1, 2, 0, 2], [0, 0, 1, 1]]), torch.randn(3, 6, dtype=torch.float64)
    features = torch.randn(4, 2, dtype=torch.float64)
    weight = {name: part.detach().numpy() for name, part in layer.named_parameters()}
    mean = (features[:2].mean(0), features[2:].mean(0), torch.zeros(2, dtype=torch.float64))
    known = {(1, 0): 0, (2, 0): 1, (0, 1): 2, (2, 1): 3}
    edge_row = {pair: features[at].numpy() for pair, at in known.items()} | {
        (node, node): mean[node].numpy() for node in range(3)
    }
    rows = {name: x.numpy() @ weight[f"{name}.weight"].T for name in ("lin", "lin_l", "lin_r") if hasattr(layer, name)}

    def score(other: int, node: int, head: int) -> float:
        edge = weight["lin_edge.weight"] @ edge_row[other, node]
        if kind == "GATConv":
            parts = (("att_src", rows["lin"][other]), ("att_dst", rows["lin"][node]), ("att_edge", edge))
            return float(leaky(sum(weight[name][0, 0] @ row for name, row in parts), SLOPE))
        return float(weight["att"][0, 0] @ leaky(rows["lin_l"][other] + rows["lin_r"][node] + edge, SLOPE))

    left = rows["lin" if kind == "GATConv" else "lin_l"].reshape(3, 1, 5)
    expected = attended([[1, 2], [0, 2], []], left, score, np.ones(3), 3)
    np.testing.assert_allclose(layer(x, edge_index, features).detach().numpy(), expected[:, 0], atol=1e-12)


def test_features_of_edges_that_do_not_fit_are_refused() -> None:
    x, edge_index = torch.randn(9, 4), edges(20, 9, 9)
    with pytest.raises(InputError, match="has no edge_dim, and got edge_attr"):
        any2vec.nn.GATConv(4, 3)(x, edge_index, torch.randn(edge_index.shape[1], 2))
    with pytest.raises(InputError, match="has edge_dim 2, and got no edge_attr"):
        any2vec.nn.GATv2Conv(4, 3, edge_dim=2)(x, edge_index)
    for features in (
        torch.randn(5, 2),
        torch.randn(edge_index.shape[1], 3),
        torch.randn(edge_index.shape[1], 2).double(),
    ):
        with pytest.raises(InputError, match=r"edge_attr must be torch\.float32"):
            any2vec.nn.GATConv(4, 3, edge_dim=2)(x, edge_index, features)
    given = {"x": x, "edge_index": edge_index, "edge_attr": torch.randn(edge_index.shape[1], 2)}
    for name, value in given.items():
        with pytest.raises(InputError, match=f"{name} must be a torch tensor, got ndarray"):
            any2vec.nn.GATConv(4, 3, edge_dim=2)(**(given | {name: value.numpy()}))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("heads", [1, 3])
def test_attention_is_its_equation(kind: str, heads: int) -> None:
    """Of a block whose first rows aggregate, each neighbor standing for several."""
    torch.manual_seed(2)
    layer = getattr(any2vec.nn, kind)(6, 5, heads=heads, negative_slope=SLOPE, bias=False).double()
    edge_index, x = edges(90, 30, 12), torch.randn(30, 6, dtype=torch.float64)
    degree = torch.arange(20.0, 32.0)
    counts = np.bincount(edge_index[1], minlength=12)
    lists: list[list[int]] = [[] for _ in range(12)]
    for source, target in edge_index.T.tolist():
        lists[target].append(source)
    weight = {name: part.detach().numpy() for name, part in layer.named_parameters()}

    def rows(name: str) -> np.ndarray:
        return (x.numpy() @ weight[f"{name}.weight"].T).reshape(30, heads, 5)

    if kind == "GATConv":
        left = right = rows("lin")
        source_MH, target_MH = (left * weight["att_src"]).sum(-1), (left * weight["att_dst"]).sum(-1)

        def score(other: int, node: int, head: int) -> float:
            return float(leaky(source_MH[other, head] + target_MH[node, head], SLOPE))
    else:
        left, right = rows("lin_l"), rows("lin_r")

        def score(other: int, node: int, head: int) -> float:
            return float(weight["att"][0, head] @ leaky(left[other, head] + right[node, head], SLOPE))

    expected = attended(lists, left, score, degree.numpy() / np.maximum(counts, 1), 12)
    found = layer(x, neighbors_of(edge_index, 30, 12), num_neighbors=degree).detach().numpy()
    np.testing.assert_allclose(found.reshape(12, heads, 5), expected, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{"heads": 2}, {"heads": 2, "add_self_loops": False, "concat": False}])
def test_gradients_equal_differences(kind: str, options: dict[str, Any]) -> None:
    """Of rows and all parameters, through what is dropped and through shares."""
    torch.manual_seed(3)
    layer = getattr(any2vec.nn, kind)((4, 3), 3, dropout=0.4, **options).double()
    edge_index = edges(40, 12, 9)
    names, parameters = zip(*layer.named_parameters(), strict=True)

    def out(source: Any, own: Any, *given: Any) -> Any:
        draws, degree = torch.Generator().manual_seed(1), torch.arange(11.0, 20.0)
        return torch.func.functional_call(
            layer, dict(zip(names, given, strict=True)),
            args=((source, own), edge_index), kwargs={"num_neighbors": degree, "generator": draws},
        )  # fmt: skip

    rows = [torch.randn(size, dtype=torch.float64, requires_grad=True) for size in ((12, 4), (9, 3))]
    assert torch.autograd.gradcheck(out, (*rows, *parameters))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_dropped_is_scaled_and_drawn_by_the_generator(kind: str) -> None:
    torch.manual_seed(4)
    layer = getattr(any2vec.nn, kind)(4, 3, heads=2, dropout=0.5)
    x, edge_index = torch.randn(40, 4), edges(300, 40, 40)
    found = [layer(x, edge_index, generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, *range(2, 600))]
    assert torch.equal(found[0], found[1]) and not torch.equal(found[1], found[2])
    layer.eval()
    exact, drawn = layer(x, edge_index), torch.stack(found[1:])
    error = drawn.std(dim=0) / len(drawn) ** 0.5
    assert ((drawn.mean(dim=0) - exact).abs() <= 5 * error + 1e-6).all()


def test_weights_start_as_pygs_do() -> None:
    torch.manual_seed(5)
    for kind in KINDS:
        layers = [getattr(room, kind)(30, 40, heads=20) for room in (geometric, any2vec.nn)]
        for name, expected in layers[0].named_parameters():
            found = dict(layers[1].named_parameters())[name]
            assert found.shape == expected.shape
            assert float(found.detach().std()) == pytest.approx(float(expected.detach().std()), rel=0.15, abs=1e-12)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: any2vec.nn.GATConv(0, 3), "in_channels must be"),
        (lambda: any2vec.nn.GATConv(3, 3, heads=0), "heads must be"),
        (lambda: any2vec.nn.GATv2Conv((3, 3), 3, dropout=1.0), "dropout must be"),
        (lambda: any2vec.nn.GATv2Conv(3, 3, negative_slope=-1), "negative_slope must be"),
        (lambda: any2vec.nn.GATConv(3, 3)(torch.ones(9, 3), torch.tensor([[9], [0]])), "must be from 0 to 8"),
        (lambda: any2vec.nn.GATConv(3, 3)(torch.ones(9, 3).int(), torch.tensor([[8], [0]])), "x must be float32"),
    ],
)  # fmt: skip
def test_what_is_refused(call: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        call()

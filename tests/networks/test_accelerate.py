"""PyG's layers by our kernels: their numbers and gradients, their parameters, and their own way where ours ends."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from any2vec.errors import InputError
from marks import uint64_wraps

torch = pytest.importorskip("torch")
geometric = pytest.importorskip("torch_geometric.nn")

from any2vec.nn import accelerate  # noqa: E402

pytestmark = uint64_wraps
LAYERS = {
    "sage": lambda: geometric.SAGEConv(6, 4),
    "sage, max, projected": lambda: geometric.SAGEConv(6, 8, aggr="max", project=True, normalize=True),
    "sage, sum, alone": lambda: geometric.SAGEConv(6, 4, aggr="sum", root_weight=False, bias=False),
    "gcn": lambda: geometric.GCNConv(6, 9),
    "gat": lambda: geometric.GATConv(6, 3, heads=4),
    "gat, mean": lambda: geometric.GATConv(6, 3, heads=4, concat=False, add_self_loops=False),
    "gatv2": lambda: geometric.GATv2Conv(6, 3, heads=4, share_weights=True),
    "gin": lambda: geometric.GINConv(torch.nn.Linear(6, 5), train_eps=True),
}


def graph(seed: int = 0) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(30, 6, generator=generator), torch.randint(0, 30, (2, 120), generator=generator)


@pytest.mark.parametrize("name", LAYERS)
def test_layers_give_the_numbers_and_gradients_that_they_gave_before(name: str) -> None:
    torch.manual_seed(1)
    plain = LAYERS[name]()
    fast = accelerate(copy.deepcopy(plain))
    x, edge_index = graph()
    found = []
    for layer in (plain, fast):
        rows = x.clone().requires_grad_()
        out = layer(rows, edge_index)
        (out * torch.arange(out.numel()).view(out.shape)).sum().backward()
        found.append((out.detach(), rows.grad, [value.grad for value in layer.parameters()]))
    assert torch.allclose(found[0][0], found[1][0], atol=1e-5)
    assert isinstance(fast, type(plain)) and repr(fast).startswith("Accelerated")
    for one, other in zip((found[0][1], *found[0][2]), (found[1][1], *found[1][2]), strict=True):
        assert torch.allclose(one, other, atol=1e-3, rtol=1e-4)
    assert list(fast.state_dict()) == list(plain.state_dict())


@pytest.mark.parametrize("name", LAYERS)
def test_the_kernels_run_and_go_along_with_new_parameters(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(2)
    layer, other = LAYERS[name](), LAYERS[name]()
    accelerate(accelerate(layer))
    monkeypatch.setattr(type(layer), "propagate", None)  # what PyG's own way would call
    x, edge_index = graph()
    before = layer(x, edge_index)
    layer.load_state_dict(other.state_dict())
    assert not torch.allclose(layer(x, edge_index), before)
    assert torch.allclose(layer.double()(x.double(), edge_index).float(), layer.float()(x, edge_index), atol=1e-5)


def test_a_model_with_its_dropout_trains_and_is_copied() -> None:
    torch.manual_seed(3)
    model = accelerate(geometric.models.GraphSAGE(6, 16, 2, 3, dropout=0.5))
    x, edge_index = graph()
    label = (x[:, 0] > 0).long()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(120):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x, edge_index), label).backward()
        optimizer.step()
    model.eval()
    assert float((model(x, edge_index).argmax(dim=1) == label).float().mean()) > 0.9
    assert torch.equal(model(x, edge_index), model(x, edge_index))
    model.train()
    assert not torch.equal(model(x, edge_index), model(x, edge_index))
    other = copy.deepcopy(model).eval()
    with torch.no_grad():
        for value in other.parameters():
            value.zero_()
    assert (other(x, edge_index) == 0).all() and not (model.eval()(x, edge_index) == 0).all()
    loaded = pickle.loads(pickle.dumps(model))
    assert torch.equal(loaded(x, edge_index), model(x, edge_index))


@pytest.mark.filterwarnings("ignore:Sparse")
def test_what_kernels_do_not_know_goes_pygs_own_way() -> None:
    torch.manual_seed(4)
    plain = geometric.GCNConv(6, 4)
    fast = accelerate(copy.deepcopy(plain))
    x, edge_index = graph()
    weight = torch.rand(120)
    assert torch.equal(fast(x, edge_index, weight), plain(x, edge_index, weight))
    assert torch.equal(fast(x, edge_index, edge_weight=weight), plain(x, edge_index, edge_weight=weight))
    matrix = torch.sparse_coo_tensor(edge_index.flip(0), torch.ones(120), (30, 30)).coalesce().to_sparse_csr()
    assert torch.equal(fast(x, matrix), plain(x, matrix))
    attention = accelerate(geometric.GATConv(6, 4))
    found, (_, weights) = attention(x, edge_index, return_attention_weights=True)
    assert len(weights) > 0 and found.shape == (30, 4)


@pytest.mark.parametrize("name", [*LAYERS, "rgcn"])
def test_layers_run_under_autocast_and_with_gradients(name: str) -> None:
    torch.manual_seed(4)
    plain = LAYERS[name]() if name in LAYERS else geometric.RGCNConv(6, 4, 3)
    fast = accelerate(copy.deepcopy(plain))
    more = () if name in LAYERS else (torch.arange(120) % 3,)
    x, edge_index = graph()
    with torch.autocast("cpu", torch.bfloat16):
        found, expected = (layer(x, edge_index, *more) for layer in (fast, plain))
    assert found.dtype == expected.dtype and torch.equal(found, expected)
    found.float().sum().backward()


@pytest.mark.parametrize("step", ["propagate", "message", "aggregate"])
@pytest.mark.parametrize("when", ["forward", "forward_pre"])
@pytest.mark.parametrize("name", ["gcn", "gin", "gatv2", "sage"])
def test_hooks_between_pygs_steps_are_called(name: str, when: str, step: str) -> None:
    torch.manual_seed(4)
    fast, (x, edge_index) = accelerate(LAYERS[name]()), graph()
    seen: list[Any] = []
    fast.fuse = False
    handle = getattr(fast, f"register_{step}_{when}_hook")(lambda *given: seen.append(given))
    fast(x, edge_index)
    assert seen
    handle.remove()
    seen.clear()
    fast(x, edge_index)
    assert not seen


def test_pairs_of_rows_are_as_pygs() -> None:
    torch.manual_seed(5)
    plain = geometric.SAGEConv((6, 3), 4)
    fast = accelerate(copy.deepcopy(plain))
    source, own, edge_index = (
        torch.randn(30, 6),
        torch.randn(12, 3),
        torch.stack([torch.arange(24), torch.arange(24) % 12]),
    )
    assert torch.allclose(fast((source, own), edge_index), plain((source, own), edge_index), atol=1e-5)


def test_modules_without_such_layers_are_refused() -> None:
    with pytest.raises(InputError, match="Linear holds no layer that can be accelerated; known are SAGEConv, GCNConv"):
        accelerate(torch.nn.Linear(3, 4))
    with pytest.raises(InputError, match=r"takes a torch\.nn\.Module, got str"):
        accelerate("model")
    with pytest.raises(InputError, match="holds no layer"):
        accelerate(geometric.GCNConv(3, 4, improved=True))


WITH_EDGES = {
    "gat": (lambda: geometric.GATConv(6, 3, heads=4, edge_dim=2), False),
    "gat, mean, no loops": (lambda: geometric.GATConv(6, 3, 2, concat=False, add_self_loops=False, edge_dim=2), False),
    "gatv2": (lambda: geometric.GATv2Conv(6, 3, heads=4, edge_dim=2), False),
    "gine": (lambda: geometric.GINEConv(torch.nn.Linear(6, 5), train_eps=True, edge_dim=2), False),
    "rgcn": (lambda: geometric.RGCNConv(6, 4, 3), True),
    "rgcn, bases, no root": (lambda: geometric.RGCNConv(6, 4, 3, num_bases=2, root_weight=False, bias=False), True),
    "rgcn, blocks": (lambda: geometric.RGCNConv(6, 4, 3, num_blocks=2), True),
}


@pytest.mark.parametrize("name", WITH_EDGES)
def test_features_and_types_of_edges_go_by_the_kernels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    made, are_types = WITH_EDGES[name]
    plain = made()
    fast = accelerate(copy.deepcopy(plain))
    x, edge_index = graph()
    of_edges = torch.randint(0, 3, (120,)) if are_types else torch.randn(120, 2)
    found = []
    for layer in (plain, fast):
        rows, beside = x.clone().requires_grad_(), of_edges.clone().requires_grad_(not are_types)
        out = layer(rows, edge_index, beside)
        (out * torch.linspace(-1, 1, out.numel()).view(out.shape)).sum().backward()
        grads = {name: value.grad for name, value in layer.named_parameters()}
        found.append({"out": out, "x": rows.grad, "edges": beside.grad} | grads)
        monkeypatch.setattr(type(fast), "propagate", None)  # what PyG's own way would call
    for part, expected in found[0].items():
        assert (expected is None and found[1][part] is None) or torch.allclose(
            found[1][part], expected, atol=1e-5, rtol=1e-5
        ), part


def test_nodes_in_place_of_rows_go_by_the_kernels_of_rgcn(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    plain = geometric.RGCNConv(30, 4, 3, num_bases=2)
    fast = accelerate(copy.deepcopy(plain))
    _, edge_index = graph()
    types = torch.randint(0, 3, (120,))
    expected = [plain(nodes, edge_index, edge_type=types) for nodes in (None, torch.arange(30))]
    monkeypatch.setattr(type(fast), "propagate", None)
    for nodes, rows in zip((None, torch.arange(30)), expected, strict=True):
        assert torch.allclose(fast(nodes, edge_index, edge_type=types), rows, atol=1e-5)


def test_features_of_edges_as_wide_as_rows_go_by_the_kernels_of_gine(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    plain = geometric.GINEConv(torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.ReLU()), eps=0.5)
    fast = accelerate(copy.deepcopy(plain))
    (x, edge_index), edge_attr = graph(), torch.randn(120, 6)
    pair = (x, x[:30].flip(0))
    expected = [plain(rows, edge_index, edge_attr=edge_attr) for rows in (x, pair)]
    for wrong in (None, torch.randn(120, 2)):  # in PyG's words
        with pytest.raises((ValueError, AttributeError)) as caught:
            plain(x, edge_index, wrong)
        with pytest.raises(type(caught.value)) as again:
            fast(x, edge_index, wrong)
        assert str(again.value) == str(caught.value) and not isinstance(again.value, InputError)
    assert torch.equal(fast(x, edge_index, edge_attr[:1]), plain(x, edge_index, edge_attr[:1]))  # one for all edges
    monkeypatch.setattr(type(fast), "propagate", None)
    for rows, given in zip((x, pair), expected, strict=True):
        assert torch.allclose(fast(rows, edge_index, edge_attr=edge_attr), given, atol=1e-5)


def test_what_the_kernels_do_not_know_of_edges_goes_its_own_way() -> None:
    torch.manual_seed(1)
    x, edge_index = graph()
    weights = torch.randn(120, 2)
    for made in (geometric.GATConv, geometric.GATv2Conv):
        plain = made(6, 3, edge_dim=2)
        fast = accelerate(copy.deepcopy(plain))
        assert torch.equal(fast(x, edge_index), plain(x, edge_index))
        out, (edges, shares) = fast(x, edge_index, weights, return_attention_weights=True)
        assert torch.equal(out, plain(x, edge_index, weights)) and edges.shape[1] == len(shares)
    with pytest.raises(InputError, match="no layer"):
        accelerate(geometric.GATConv(6, 3, edge_dim=2, fill_value=0.0))
    with pytest.raises(InputError, match="no layer"):
        accelerate(geometric.RGCNConv(6, 4, 3, aggr="max"))


@pytest.mark.parametrize("made", [geometric.GATConv, geometric.GATv2Conv])
def test_a_pair_of_rows_may_be_a_list(made: Any) -> None:
    torch.manual_seed(1)
    (x, edge_index), edge_attr = graph(), torch.randn(120, 2)
    plain = made((6, 6), 4, edge_dim=2)
    fast = accelerate(copy.deepcopy(plain))
    pair = [x, x[:30].flip(0)]
    assert torch.allclose(fast(pair, edge_index, edge_attr), plain(tuple(pair), edge_index, edge_attr), atol=1e-5)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("name", LAYERS)
def test_a_traced_layer_keeps_its_inputs(name: str) -> None:
    """As `torch.onnx.export` traces: what a kernel gives would stand in the file as a constant."""
    torch.manual_seed(3)
    plain = LAYERS[name]()
    fast = accelerate(copy.deepcopy(plain))
    traced = torch.jit.trace(fast, graph(), check_trace=False)
    x, edge_index = graph(5)
    x, edge_index = x[:20], edge_index[:, :80] % 20
    with torch.no_grad():
        assert torch.allclose(traced(x, edge_index), plain(x, edge_index), atol=1e-5)
        assert torch.allclose(fast(x, edge_index), plain(x, edge_index), atol=1e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_an_exported_layer_keeps_its_inputs(name: str, strict: bool) -> None:
    torch.manual_seed(3)
    plain = LAYERS[name]().eval()
    fast = accelerate(copy.deepcopy(plain))
    exported = torch.export.export(fast, graph(), strict=strict)
    x, edge_index = graph(5)
    with torch.no_grad():
        assert torch.allclose(exported.module()(x, edge_index), plain(x, edge_index), atol=1e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_model_may_be_compiled() -> None:
    torch.manual_seed(3)
    model, (x, edge_index) = accelerate(geometric.models.GraphSAGE(6, 8, 2, 3, dropout=0.5)), graph()
    compiled = torch.compile(model, backend="eager")
    compiled(x, edge_index).sum().backward()
    assert all(value.grad is not None for value in model.parameters())
    assert torch.allclose(compiled.eval()(x, edge_index), model.eval()(x, edge_index), atol=1e-5)


@pytest.mark.filterwarnings("ignore:There exist node types")
def test_what_holds_layers_for_types_of_edges_is_left_as_it_is() -> None:
    torch.manual_seed(4)
    module = geometric.HeteroConv({("a", "to", "b"): geometric.SAGEConv((4, 8), 3)})
    x = {"a": torch.randn(5, 4), "b": torch.randn(6, 8)}
    edges = {("a", "to", "b"): torch.tensor([[0, 1, 4], [0, 5, 5]])}
    before = module(x, edges)["b"]
    found = accelerate(module)
    assert type(next(iter(found.convs.values()))).__name__ == "AcceleratedSAGEConv"
    assert torch.allclose(found(x, edges)["b"], before, atol=1e-5)

"""Residual connections and jumping knowledge: PyG's numbers from the same weights, and only what each mode carries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from any2vec import GAT, GCN, GIN, GATv2, GraphSAGE, InputError
from any2vec.models.networks.network import Network, block_of, blocks_of
from any2vec.sampling.neighbors import NeighborOptions, NeighborSampler
from any2vec.types import Csr

NODES, COLUMNS, CLASSES, HIDDEN, LAYERS = 50, 6, 3, 8, 3
MODES = ["cat", "max", "lstm"]


@pytest.fixture(scope="module")
def csr() -> Csr:
    """Degrees from none to 9, no self-loops."""
    rng = np.random.default_rng(3)
    rows = [
        np.sort(rng.choice(np.delete(np.arange(NODES), node), rng.integers(0, 10), replace=False))
        for node in range(NODES)
    ]
    indptr = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return Csr(indptr, np.concatenate(rows).astype(np.int32), np.empty(0, np.float32))


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    return torch.randn(NODES, COLUMNS, generator=torch.Generator().manual_seed(1))


def edges(csr: Csr) -> torch.Tensor:
    targets = np.repeat(np.arange(NODES), np.diff(csr.indptr))
    return torch.from_numpy(np.stack([csr.indices, targets]).astype(np.int64))


def network_of(model: Any) -> Network:
    torch.manual_seed(4)
    return Network(model, COLUMNS, CLASSES)


def whole(network: Network, x: torch.Tensor, csr: Csr) -> torch.Tensor:
    """As inference computes it: layer by layer."""
    with torch.no_grad():
        for number in range(len(network.layers)):
            x = network.infer(number, x, block_of(csr))
    return x


def peer_of(kind: str, mode: str, nn: Any) -> Any:
    options = {"act": "elu", "heads": 2, "v2": kind == "gatv2"} if kind.startswith("gat") else {}
    made = {"sage": nn.GraphSAGE, "gcn": nn.GCN, "gat": nn.GAT, "gatv2": nn.GAT}[kind]
    return made(COLUMNS, HIDDEN, LAYERS, CLASSES, jk=mode, **options)


MODELS = {
    "sage": lambda mode: GraphSAGE(hidden=HIDDEN, num_layers=LAYERS, jumping_knowledge=mode),
    "gcn": lambda mode: GCN(hidden=HIDDEN, num_layers=LAYERS, jumping_knowledge=mode),
    "gat": lambda mode: GAT(hidden=HIDDEN, heads=2, num_layers=LAYERS, jumping_knowledge=mode),
    "gatv2": lambda mode: GATv2(hidden=HIDDEN, heads=2, num_layers=LAYERS, jumping_knowledge=mode),
}
RENAMED = {
    "layer.conv.": "", "layer.linear.weight": "lin.weight", "layer.linear.bias": "bias",
}  # fmt: skip


def to_pyg(name: str) -> str:
    """The name of a weight in PyG's basic networks."""
    _, number, rest = name.split(".", 2)
    if int(number) == LAYERS:
        return "lin." + rest.removeprefix("linear.")
    if rest.startswith(("lstm.", "attention.")):
        return "jk." + rest.replace("attention.", "att.")
    for ours, theirs in RENAMED.items():
        rest = rest.replace(ours, theirs)
    return f"convs.{number}.{rest}"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", MODELS)
def test_jumping_knowledge_is_pygs(csr: Csr, x: torch.Tensor, kind: str, mode: str) -> None:
    nn = pytest.importorskip("torch_geometric.nn")
    network, peer = network_of(MODELS[kind](mode)), peer_of(kind, mode, nn)
    peer.load_state_dict({to_pyg(name): weight for name, weight in network.state_dict().items()})
    with torch.no_grad():
        expected = peer.eval()(x, edges(csr))
    np.testing.assert_allclose(whole(network, x, csr), expected, atol=1e-5)
    with torch.no_grad():
        np.testing.assert_allclose(network(x, [block_of(csr)]), expected, atol=1e-5)  # as training has it


@pytest.mark.parametrize("kind, model", [("GATConv", GAT(hidden=HIDDEN, heads=2, residual=True)),
                                         ("GATv2Conv", GATv2(hidden=HIDDEN, heads=2, residual=True))])  # fmt: skip
def test_residual_is_pygs(csr: Csr, x: torch.Tensor, kind: str, model: Any) -> None:
    nn = pytest.importorskip("torch_geometric.nn")
    layer = network_of(model).layers[0]
    peer = getattr(nn, kind)(COLUMNS, HIDDEN // 2, 2, residual=True)
    weights = {name.removeprefix("layer.conv."): weight for name, weight in layer.state_dict().items()}
    peer.load_state_dict({name.replace("own.", "res."): weight for name, weight in weights.items()})
    with torch.no_grad():
        np.testing.assert_allclose(layer(x, block_of(csr)), peer(x, edges(csr)), atol=1e-5)


@pytest.mark.parametrize("kind", [GraphSAGE, GCN, GIN])
def test_residual_adds_the_own_row_times_a_matrix(csr: Csr, x: torch.Tensor, kind: Any) -> None:
    layer = network_of(kind(hidden=HIDDEN, residual=True)).layers[0]
    with torch.no_grad():
        expected = layer.layer(x, block_of(csr)) + x @ layer.own.weight.T
        np.testing.assert_allclose(layer(x, block_of(csr)), expected, atol=1e-6)
    assert (
        layer.own.bias is None and network_of(kind(hidden=HIDDEN, residual=True)).layers[-1].own.out_features == CLASSES
    )


@pytest.mark.parametrize("mode", [*MODES, None])
@pytest.mark.parametrize("kind", [GraphSAGE, GCN, GAT, GIN])
def test_a_batch_of_all_neighbors_is_the_whole_graph(csr: Csr, x: torch.Tensor, kind: Any, mode: Any) -> None:
    network = network_of(kind(hidden=HIDDEN, num_layers=LAYERS, residual=True, jumping_knowledge=mode)).eval()
    found = NeighborSampler(csr, NeighborOptions(fanouts=(-1,) * LAYERS)).sample(np.arange(10, 20))
    blocks = blocks_of(found, np.diff(csr.indptr).astype(np.float32))
    with torch.no_grad():
        scores = network(x[found.node_M.astype(np.int64)], blocks)
    np.testing.assert_allclose(scores, whole(network, x, csr)[10:20], atol=1e-5)


def test_what_is_carried_is_dropped_once_and_not_by_each_layer(csr: Csr, x: torch.Tensor) -> None:
    """With cat the scores' matrix sees the rows of each layer as they came, some set to 0 by its own dropout."""
    network = network_of(GCN(hidden=64, num_layers=3, jumping_knowledge="cat", dropout=0.5))
    seen = []
    network.layers[-1].register_forward_pre_hook(lambda layer, given: seen.append(given[0]))
    network(x, [block_of(csr)], torch.Generator().manual_seed(1))
    shares = [float((part.abs() < 1e-12).float().mean()) for part in seen[0].split(64, dim=1)]
    with torch.no_grad():
        plain = network.layers[0](x, block_of(csr))
    assert shares[0] == pytest.approx(0.5 + 0.5 * float((plain == 0).float().mean()), abs=0.1)
    assert all(0.55 < share < 0.85 for share in shares)


def test_gradients_reach_every_weight(csr: Csr, x: torch.Tensor) -> None:
    for mode in MODES:
        network = network_of(GAT(hidden=HIDDEN, heads=2, num_layers=3, residual=True, jumping_knowledge=mode))
        network(x, [block_of(csr)], torch.Generator().manual_seed(1)).square().sum().backward()
        assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in network.parameters())


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(InputError, match="jumping_knowledge must be one of cat, max, lstm"):
        GCN(jumping_knowledge="sum")  # type: ignore[arg-type]

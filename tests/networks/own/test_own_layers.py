"""A user's module, cut into stages: in batches and within any budget it is its forward over the whole graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch_geometric")

import torch
from tests.networks.own import own_modules
from tests.networks.own.own_modules import ZOO
from torch import nn

from any2vec.data.attributed.features import FeatureRows
from any2vec.errors import InputError
from any2vec.models.modules.network import ModuleNetwork
from any2vec.models.networks import inference as inference_module
from any2vec.models.networks.config.own import OwnModule
from any2vec.models.networks.inference import Inference, inference_over
from any2vec.nn.layerwise.cut import cut
from any2vec.nn.layerwise.trace import NotTracedError
from any2vec.types import Csr

NODES, COLUMNS, CLASSES, HIDDEN = 5000, 12, 3, 32

CASES = [(kind, True) for kind in ZOO] + [(kind, False) for kind in ("stack-sage", "skips", "parallel")]


@pytest.fixture(scope="module")
def csr() -> Csr:
    """Of 0 to 8 neighbors a node, some of them the node itself, and a hub."""
    draws = np.random.default_rng(1)
    rows = [np.unique(draws.integers(0, NODES, draws.integers(0, 9))) for _ in range(NODES)]
    for node in range(0, NODES, 5):
        rows[node] = np.unique(np.append(rows[node], node))
    rows[7] = np.sort(draws.choice(NODES, 40, replace=False))
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return Csr(indptr, np.concatenate(rows).astype(np.int32), np.empty(0, np.float32))


@pytest.fixture(scope="module")
def features() -> np.ndarray:
    return np.random.default_rng(2).normal(size=(NODES, COLUMNS)).astype(np.float32)


def network_of(factory: Callable[..., Any], accelerate: bool = True, **more: Any) -> ModuleNetwork:
    """With weights and running means that training has moved."""
    torch.manual_seed(5)
    model = OwnModule(module=factory, num_layers=3, accelerate=accelerate, **more)  # type: ignore[arg-type]
    network = ModuleNetwork(model, COLUMNS, CLASSES)
    with torch.no_grad():
        for value in network.state_dict().values():
            if value.dtype == torch.float32:
                value += 0.1 * torch.rand(value.shape)
    return network


def whole(network: ModuleNetwork, csr: Csr, features: np.ndarray) -> np.ndarray:
    targets = np.repeat(np.arange(NODES), np.diff(csr.indptr))
    edge_index = torch.from_numpy(np.stack([csr.indices, targets]).astype(np.int64))
    with torch.no_grad():
        found: np.ndarray = network.module.eval()(torch.from_numpy(features), edge_index).numpy()
    return found


def over(network: ModuleNetwork, csr: Csr, features: np.ndarray, budget: int = 0) -> Inference:
    rows = FeatureRows(features, np.empty(0, np.float32))
    return inference_over(OwnModule(module="any:Module"), csr, rows, budget)


@pytest.mark.parametrize(("kind", "accelerate"), CASES)
def test_layer_by_layer_it_is_the_whole_graph(csr: Csr, features: np.ndarray, kind: str, accelerate: bool) -> None:
    network = network_of(ZOO[kind], accelerate, module_args={"hidden": HIDDEN})
    assert network.cut is not None, network.why_whole
    expected = whole(network, csr, features)
    for budget in (0, int(0.9 * 4 * NODES * max(network.widths))):
        inference = over(network, csr, features, budget)
        hidden, scores = inference.hidden_and_scores(network)
        np.testing.assert_allclose(scores, expected, atol=1e-5 * max(1, np.abs(expected).max()))
        assert hidden.shape == (NODES, network.hidden_columns)
        assert (inference.counts.batches > 2 * len(network.cut.stages)) == (budget > 0)


@pytest.mark.parametrize("kind", ["residual", "parallel", "jumping-cat"])
def test_of_some_nodes(csr: Csr, features: np.ndarray, kind: str) -> None:
    network, nodes = network_of(ZOO[kind]), np.array([4999, 7, 7, 35])
    _, scores = over(network, csr, features).hidden_and_scores(network, nodes)
    np.testing.assert_allclose(scores, whole(network, csr, features)[nodes], atol=1e-5)


def test_batches_for_which_memory_does_not_suffice_are_made_again(
    csr: Csr, features: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = network_of(ZOO["parallel"])
    inference, infer = over(network, csr, features, 1_000_000), ModuleNetwork.infer

    def scarce(self: ModuleNetwork, number: int, x_MD: torch.Tensor, block: Any) -> torch.Tensor:
        if block.num_targets > 400:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes.")
        return infer(self, number, x_MD, block)

    monkeypatch.setattr(ModuleNetwork, "infer", scarce)
    monkeypatch.setattr(inference_module, "_is_at_hand", lambda rows: False)
    scores = inference.hidden_and_scores(network)[1]
    assert inference.counts.halved > 0
    np.testing.assert_allclose(scores, whole(network, csr, features), atol=1e-5)


STAGES = {
    "stack-sage": ((12, 16, 16, 3), 16),
    "jumping-cat": ((12, 16, 32, 48, 3), 48),  # all layers are carried to the matrix behind them
    "jumping-max": ((12, 16, 32, 16, 3), 16),
    "residual": ((12, 16, 16, 16, 16, 3), 16),  # before; three layers, the last one with a matrix; another one
    "parallel": ((12, 15, 35, 3), 32),  # the skip's 3 columns instead of the 12 of features
    "skips": ((12, 16, 3), 16),  # a matrix of own rows waits for its convolution: nothing is carried
}


@pytest.mark.parametrize("kind", STAGES)
def test_stages_carry_what_later_ones_want(kind: str) -> None:
    found = cut(ZOO[kind](COLUMNS, CLASSES), COLUMNS)
    assert (found.widths, found.hidden) == STAGES[kind]
    assert found.num_hops == (2 if kind in ("parallel", "skips") else 3)


class TrimsTooMuch(nn.Module):
    """Told what each hop has found, it leaves out edges that the seeds need; which its last layer does not show yet."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.first, self.last = own_modules.pyg.SAGEConv(in_channels, 8), own_modules.pyg.SAGEConv(8, 8)
        self.out = nn.Linear(8, out_channels)
        nn.init.zeros_(self.out.weight)

    def forward(
        self, x: torch.Tensor, edge_index: torch.Tensor, num_sampled_nodes_per_hop: Any = None,
        num_sampled_edges_per_hop: Any = None,
    ) -> Any:  # fmt: skip
        if num_sampled_edges_per_hop is not None:
            edge_index = edge_index[:, : num_sampled_edges_per_hop[0]]
        return self.out(self.last(self.first(x, edge_index).relu(), edge_index))


def test_a_layer_that_starts_at_zero_hides_no_wrong_trimming() -> None:
    network = network_of(TrimsTooMuch)
    assert network.is_cut and not network._is_trimmed


def test_the_module_is_left_as_it_was() -> None:
    module = ZOO["residual"](COLUMNS, CLASSES)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    cut(module, COLUMNS)
    assert torch.equal(torch.rand(2), expected) and module.training
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())


class Normed(nn.Module):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.conv, self.norm = own_modules.pyg.SAGEConv(COLUMNS, CLASSES), norm

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> Any:
        return self.norm(self.conv(x, edge_index))


class Shut(nn.Module):
    """What goes on before the last layer, or gate, is not seen in the output until that has learned."""

    def __init__(self, norm: nn.Module, gate: float | None = None) -> None:
        super().__init__()
        self.first, self.norm, self.last = pyg.SAGEConv(COLUMNS, 8), norm, pyg.SAGEConv(8, 8)
        self.out, self.gate = nn.Linear(8, CLASSES), None if gate is None else nn.Parameter(torch.tensor(gate))
        if gate is None:
            nn.init.zeros_(self.out.weight)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> Any:
        x = self.last(self.norm(self.first(x, edge_index)).relu(), edge_index)
        return self.out(x) if self.gate is None else self.out(x * self.gate.sigmoid())


class ShutInside(nn.Module):
    """A norm over all nodes that adds nothing yet, in one part with its gate."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.gate * x.mean(dim=0)


pyg = own_modules.pyg
SHUT = {
    "pair": lambda: pyg.PairNorm(),
    "graph": lambda: pyg.GraphNorm(8),
    "instance": lambda: pyg.InstanceNorm(8),
    "layer": lambda: pyg.LayerNorm(8, mode="graph"),
    "batch": lambda: pyg.BatchNorm(8, track_running_stats=False),
    "inside": ShutInside,
}
WHOLE = {
    "control-flow": (lambda: own_modules.ControlFlow(COLUMNS, CLASSES), "torch.fx cannot trace its forward"),
    "by-hand": (lambda: own_modules.ByHand(COLUMNS, CLASSES), "getitem takes the edges and is no layer of PyG"),
    "all-nodes": (lambda: Normed(pyg.GraphNorm(CLASSES)), "depends on more than the neighbors"),
    "hops": (lambda: pyg.SGConv(COLUMNS, CLASSES, K=2), "SGConv, reads more of the graph than the neighbors"),
    "cached": (lambda: pyg.GCNConv(COLUMNS, CLASSES, cached=True), "keeps the edges that it sees first"),
}


WHOLE |= {
    f"shut-{kind}": (lambda norm=norm: Shut(norm()), "depends on more than the neighbors")
    for kind, norm in SHUT.items()
}
WHOLE["shut-gate"] = (lambda: Shut(pyg.PairNorm(), -30.0), "depends on more than the neighbors")


@pytest.mark.parametrize("kind", WHOLE)
def test_what_is_not_cut_says_why_and_is_computed_at_once(csr: Csr, features: np.ndarray, kind: str) -> None:
    make, words = WHOLE[kind]
    with pytest.raises(NotTracedError, match=words):
        cut(make(), COLUMNS)
    network = network_of(lambda in_channels, out_channels: make())
    assert words in network.why_whole and not network.is_cut
    inference = over(network, csr, features)
    hidden, scores = inference.hidden_and_scores(network)
    np.testing.assert_allclose(scores, whole(network, csr, features), atol=1e-6)
    assert inference.counts.batches == 1 and len(hidden) == NODES
    with pytest.raises(InputError, match=rf"over the whole graph at once, for .*{words}.* takes about .* give it so"):
        over(network, csr, features, 200_000).hidden_and_scores(network)

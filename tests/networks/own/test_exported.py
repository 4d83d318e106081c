"""Trained networks as modules of PyG: the same scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch_geometric")

import torch
from tests.helpers.planted_nodes import plant
from tests.networks.own.own_modules import Skips

import any2vec
from any2vec import APPNP, GAT, GCN, GIN, SGC, GATv2, GraphSAGE, InputError, NetworkClassifier, OwnModule
from any2vec.models.networks.learner import weights_of
from any2vec.models.networks.network import make_network

COLUMNS, CLASSES = 12, 3
MODELS = [
    GraphSAGE(hidden=8), GraphSAGE(hidden=8, aggregator="max", residual=True), GraphSAGE(hidden=8, aggregator="pool"),
    GCN(hidden=16, num_layers=3), GCN(hidden=8, jumping_knowledge="cat"), GAT(hidden=8, heads=2, output_heads=2),
    GATv2(hidden=8, heads=4, residual=True, dropout=0), GIN(hidden=8, train_eps=True),
    GIN(hidden=8, num_layers=3, jumping_knowledge="max", residual=True), GraphSAGE(hidden=8, jumping_knowledge="lstm"),
    APPNP(hidden=8, hops=3), SGC(hops=2), GAT(hidden=8, heads=2, output_heads=2, jumping_knowledge="cat"),
    GATv2(hidden=8, heads=2, jumping_knowledge="max", residual=True),
]  # fmt: skip


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> any2vec.AttributedGraph:
    planted = plant(tmp_path_factory.mktemp("exported"))
    return any2vec.write_graph(planted["edges"], planted["edges"].parent / "graph", features=planted["features"])


def classifier(model: Any) -> NetworkClassifier:
    """All its weights drawn, biases and running means, too."""
    torch.manual_seed(4)
    network = make_network(model, COLUMNS, CLASSES)
    with torch.no_grad():
        for value in network.state_dict().values():
            if value.is_floating_point():
                value += 0.2 * torch.rand(value.shape)
    return NetworkClassifier(model, weights_of(network), COLUMNS, ["a", "b", "c"], False)


def given_by(module: torch.nn.Module, graph: any2vec.AttributedGraph) -> np.ndarray:
    targets = np.repeat(np.arange(len(graph)), np.diff(graph.csr.indptr))
    edge_index = torch.from_numpy(np.stack([graph.csr.indices, targets]).astype(np.int64))
    assert graph.features is not None
    with torch.no_grad():
        found: np.ndarray = module(torch.from_numpy(graph.features.take(np.arange(len(graph)))), edge_index).numpy()
    return found


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_a_module_of_pyg_gives_the_same_scores(graph: any2vec.AttributedGraph, model: Any) -> None:
    found = classifier(model)
    module = found.to_pyg()
    assert not module.training and type(module).__module__.startswith("torch_geometric.")
    np.testing.assert_allclose(given_by(module, graph), found.score(graph)[1], rtol=1e-5, atol=1e-5)
    again = classifier(model).to_pyg()
    again.load_state_dict(module.state_dict())


def test_a_users_module_is_itself(graph: any2vec.AttributedGraph) -> None:
    found = classifier(OwnModule(module=Skips))  # type: ignore[arg-type]
    module = found.to_pyg()
    assert isinstance(module, Skips)
    np.testing.assert_allclose(given_by(module, graph), found.score(graph)[1], atol=1e-5)


def test_onnx_needs_its_package_and_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = classifier(MODELS[0])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "onnx" else name)
    with pytest.raises(InputError, match="with the package onnx; pip install onnx"):
        found.to_onnx(tmp_path / "network.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("model", MODELS[:6], ids=lambda model: model.name)
def test_onnx_gives_the_same_scores(graph: any2vec.AttributedGraph, tmp_path: Path, model: Any) -> None:
    runtime = pytest.importorskip("onnxruntime")
    found, path = classifier(model), tmp_path / "network.onnx"
    found.to_onnx(path)
    targets = np.repeat(np.arange(len(graph)), np.diff(graph.csr.indptr))
    assert graph.features is not None
    given = {"x": graph.features.take(np.arange(len(graph))), "edge_index": np.stack([graph.csr.indices, targets])}
    given["edge_index"] = given["edge_index"].astype(np.int64)
    (scores,) = runtime.InferenceSession(str(path)).run(["scores"], given)
    np.testing.assert_allclose(scores, found.score(graph)[1], atol=1e-4)

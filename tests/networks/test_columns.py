"""Layers by columns: they are the layers over the whole graph, and read the rows of all nodes in their order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from any2vec import GCN, GraphSAGE, StorageError
from any2vec.models.networks import inference as module
from any2vec.models.networks.columns import Plan, Whole, by_columns, parts_of, plan
from any2vec.models.networks.config.layers import GAT, GIN, SGC
from any2vec.models.networks.inference import Inference
from any2vec.models.networks.network import Network, block_of
from any2vec.types import Csr

NODES, COLUMNS, CLASSES, NEIGHBORS = 700, 24, 4, 40
MODELS = [
    GraphSAGE(hidden=16), GraphSAGE(hidden=40), GraphSAGE(hidden=16, aggregator="max"),
    GraphSAGE(hidden=16, aggregator="pool"), GCN(hidden=16), GCN(hidden=40), GIN(hidden=16, train_eps=True),
    GIN(hidden=40), SGC(hops=2),
]  # fmt: skip
NAMES = ["sage", "sage-wide", "sage-max", "sage-pool", "gcn", "gcn-wide", "gin", "gin-wide", "sgc"]


class InOrder:
    """Features that know which rows were taken, and how many at once."""

    def __init__(self, row_ND: np.ndarray) -> None:
        self.row_ND, self.taken = row_ND, np.zeros(len(row_ND), int)
        self.most, self.is_in_order = 0, True

    def take(self, ids: np.ndarray) -> np.ndarray:
        self.most = max(self.most, len(ids))
        self.is_in_order &= bool((np.diff(ids) == 1).all())
        np.add.at(self.taken, ids, 1)
        return np.asarray(self.row_ND[ids])


@pytest.fixture(scope="module")
def csr() -> Csr:
    """Of 0 to 80 neighbors a node, from anywhere."""
    rng = np.random.default_rng(1)
    rows = [np.sort(rng.choice(NODES, rng.integers(0, 2 * NEIGHBORS), replace=False)) for _ in range(NODES)]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return Csr(indptr, np.concatenate(rows).astype(np.int32), np.empty(0, np.float32))


@pytest.fixture(scope="module")
def features() -> np.ndarray:
    return np.random.default_rng(2).normal(size=(NODES, COLUMNS)).astype(np.float32)


def network_of(model: Any) -> Network:
    torch.manual_seed(5)
    network = Network(model, COLUMNS, CLASSES)
    for value in network.parameters():  # biases begin at 0, and say nothing so
        torch.nn.init.normal_(value, std=0.3)
    return network.eval()


def whole(network: Network, csr: Csr, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The plain twin: each layer over the whole graph."""
    x, block = torch.from_numpy(features), block_of(csr)
    with torch.no_grad():
        for layer in network.layers[:-1]:
            x = network.activation(layer(x, block))
        return x.numpy(), network.layers[-1](x, block).numpy()


def graph_of(csr: Csr) -> Whole:
    return Whole(csr, np.diff(csr.indptr).astype(np.float32))


@pytest.mark.parametrize("model", MODELS, ids=NAMES)
@pytest.mark.parametrize(("columns", "step"), [(64, 64), (8, 64), (8, 300), (4, 1000)])
def test_a_layer_by_columns_is_the_layer(
    csr: Csr, features: np.ndarray, model: Any, columns: int, step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    network, rows = network_of(model), InOrder(features)
    parts = parts_of(network, 0)
    assert parts is not None
    with torch.no_grad():
        found = torch.cat(list(by_columns(parts, rows, graph_of(csr), Plan(min(columns, parts.size), step, 0, 0))))
        assert torch.equal(found, network.layers[0](torch.from_numpy(features), block_of(csr)))
    assert (rows.taken == 1 + parts.needs_own).all() and rows.is_in_order
    assert rows.most < step + 64 and not list(tmp_path.iterdir())


@pytest.mark.parametrize("model", MODELS, ids=NAMES)
def test_inference_goes_by_columns_where_batches_would_read_more(csr: Csr, features: np.ndarray, model: Any) -> None:
    """A batch that the budget allows reaches nearly all nodes."""
    network, rows, budget = network_of(model), InOrder(features), 300_000
    inference = Inference(csr, rows, budget)
    found = inference.hidden_and_scores(network)
    for given, expected in zip(found, whole(network, csr, features), strict=True):
        np.testing.assert_allclose(given, expected, atol=2e-5)
        assert np.array_equal(given, expected)
    assert inference.counts.by_columns > 0 and rows.is_in_order and rows.taken.max() <= 2
    assert 4 * COLUMNS * rows.most <= budget // 4


def test_batches_that_share_their_neighbors_stay(features: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each node has one neighbor: a batch reads hardly more rows than it answers for."""
    csr = Csr(np.arange(NODES + 1), np.arange(NODES, dtype=np.int32), np.empty(0, np.float32))
    network, rows = network_of(GraphSAGE(hidden=40)), InOrder(features)
    inference = Inference(csr, rows, 200_000)
    found = inference.hidden_and_scores(network)
    assert inference.counts.by_columns == 0 and inference.counts.batches > 2
    np.testing.assert_allclose(found[1], whole(network, csr, features)[1], atol=1e-5)


def test_other_layers_have_other_steps() -> None:
    assert parts_of(network_of(GAT(hidden=16, heads=4)), 0) is None
    assert parts_of(network_of(GraphSAGE(hidden=16, residual=True)), 0) is None
    assert parts_of(object(), 0) is None


def test_a_plan_keeps_to_its_memory() -> None:
    parts = parts_of(network_of(GraphSAGE(hidden=16)), 0)
    assert parts is not None and parts.size == 16
    assert plan(parts, 1000, COLUMNS, 16, 4 * 1000 * 3) is None
    found = plan(parts, 1000, COLUMNS, 16, 4 * 1000 * 14)
    assert found is not None and found.columns == 8  # 14 less a quarter: 10
    assert found.scratch_bytes == 4 * 1000 * 2 * 16 and found.cost == 1000 * (2 + 4 * 16 / COLUMNS)
    alone = plan(parts, 1000, COLUMNS, 16, 4 * 1000 * 22)
    assert alone is not None and (alone.columns, alone.cost, alone.scratch_bytes) == (16, 2000, 0)


def test_where_memory_runs_out_the_other_nodes_go_in_batches(
    csr: Csr, features: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, calls = network_of(GraphSAGE(hidden=16)), []

    def scarce(*asked: Any) -> Any:
        for piece in by_columns(*asked):
            calls.append(len(piece))
            if len(calls) == 3:
                raise MemoryError
            yield piece

    monkeypatch.setattr(module, "by_columns", scarce)
    inference = Inference(csr, InOrder(features), 300_000)
    found = inference.hidden_and_scores(network)
    assert inference.counts.halved > 0 and inference.counts.batches > 0
    np.testing.assert_allclose(found[1], whole(network, csr, features)[1], atol=1e-5)

    def broken(*asked: Any) -> Any:
        raise RuntimeError("another error")
        yield

    monkeypatch.setattr(module, "by_columns", broken)
    with pytest.raises(RuntimeError, match="another error"):
        Inference(csr, InOrder(features), 300_000).hidden_and_scores(network)


def test_a_disk_that_cannot_be_written_is_said(
    csr: Csr, features: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    parts = parts_of(network_of(GraphSAGE(hidden=16)), 0)
    assert parts is not None
    with pytest.raises(StorageError, match="none"), torch.no_grad():
        list(by_columns(parts, InOrder(features), graph_of(csr), Plan(8, 64, 0, 0)))

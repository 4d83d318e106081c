"""Layers by columns: they are the layers over the whole graph, and read the rows of all nodes in their order."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from tests.networks.layered import Counted, csr_of, whole

from any2vec import GCN, GraphSAGE, StorageError
from any2vec.models.networks import inference as module
from any2vec.models.networks.columns import LayerSteps, Plan, Whole, by_columns, plan, steps_of
from any2vec.models.networks.config.layers import GAT, GIN, SGC
from any2vec.models.networks.inference import Inference
from any2vec.models.networks.network import Network, block_of
from any2vec.types import Csr

NODES, COLUMNS, CLASSES, NEIGHBORS = 2100, 24, 4, 40
MODELS = [
    GraphSAGE(hidden=16), GraphSAGE(hidden=40), GraphSAGE(hidden=16, aggregator="max"),
    GraphSAGE(hidden=16, aggregator="pool"), GCN(hidden=16), GCN(hidden=40), GIN(hidden=16, train_eps=True),
    GIN(hidden=28), SGC(hops=2),
]  # fmt: skip
NAMES = ["sage", "sage-wide", "sage-max", "sage-pool", "gcn", "gcn-wide", "gin", "gin-wide", "sgc"]


@pytest.fixture(scope="module")
def csr() -> Csr:
    """Of 0 to 80 neighbors a node, from anywhere."""
    rng = np.random.default_rng(1)
    rows = [np.sort(rng.choice(NODES, rng.integers(0, 2 * NEIGHBORS), replace=False)) for _ in range(NODES)]
    return csr_of(rows)


@pytest.fixture(scope="module")
def features() -> np.ndarray:
    return np.random.default_rng(2).normal(size=(NODES, COLUMNS)).astype(np.float32)


def network_of(model: Any) -> Network:
    torch.manual_seed(5)
    network = Network(model, COLUMNS, CLASSES)
    for value in network.parameters():  # biases begin at 0, and say nothing so
        torch.nn.init.normal_(value, std=0.3)
    return network.eval()


def graph_of(csr: Csr) -> Whole:
    return Whole.of(csr, np.diff(csr.indptr).astype(np.float32))


def steps_in(network: Network) -> LayerSteps:
    found = steps_of(network.layers[0], network.widths[0])
    assert found is not None
    return found


def cuts_of(columns: int, size: int) -> list[slice]:
    return [slice(first, min(first + size, columns)) for first in range(0, columns, size)]


@pytest.mark.parametrize("model", MODELS, ids=NAMES)
@pytest.mark.parametrize(("columns", "at_once"), [(64, 64), (8, 64), (8, 300), (4, 1000)])
def test_a_layer_by_columns_is_the_layer(
    csr: Csr, features: np.ndarray, model: Any, columns: int, at_once: int, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """To the bit, for columns are multiples of 4."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    network, rows = network_of(model), Counted(features)
    steps = steps_in(network)
    with torch.no_grad():
        pieces = by_columns(steps, rows, graph_of(csr), Plan(cuts_of(steps.columns, columns), at_once, 0, 0))
        expected = network.layers[0](torch.from_numpy(features), block_of(csr))
        assert torch.equal(torch.cat(list(pieces)), expected)
    assert (rows.taken == 1 + steps.reads_own).all() and rows.is_in_order
    assert rows.most < at_once + 64 and not list(tmp_path.iterdir())


@pytest.mark.parametrize("model", [GraphSAGE(hidden=13), GCN(hidden=30), GIN(hidden=7)], ids=["sage", "gcn", "gin"])
@pytest.mark.parametrize("num", [1, 63, 65, 200])
def test_any_number_of_columns_and_nodes(features: np.ndarray, model: Any, num: int) -> None:
    neighbors = np.arange(num, dtype=np.int32)[::-1].copy()
    csr, network = Csr(np.arange(num + 1), neighbors, np.empty(0, np.float32)), network_of(model)
    steps, rows = steps_in(network), Counted(features[:num])
    with torch.no_grad():
        found = torch.cat(list(by_columns(steps, rows, graph_of(csr), Plan(cuts_of(steps.columns, 4), 64, 0, 0))))
        expected = network.layers[0](torch.from_numpy(features[:num]), block_of(csr))
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("model", MODELS, ids=NAMES)
def test_inference_goes_by_columns_where_batches_would_read_more(
    csr: Csr, features: np.ndarray, model: Any, threads: int
) -> None:
    """A batch that the budget allows reaches nearly all nodes."""
    network, rows, budget, before = network_of(model), Counted(features), 900_000, torch.get_num_threads()
    inference = Inference(csr, rows, budget)
    torch.set_num_threads(threads)
    try:
        found = inference.hidden_and_scores(network)
        for given, expected in zip(found, whole(network, csr, features), strict=True):
            assert np.array_equal(given, expected)
    finally:
        torch.set_num_threads(before)
    assert inference.counts.by_columns > 0 and rows.is_in_order and rows.taken.max() <= 2
    assert 4 * COLUMNS * rows.most <= budget // 4


def test_batches_that_share_their_neighbors_stay(features: np.ndarray) -> None:
    """Each node has the 30 that are nearest by number: batches read hardly more rows than they answer for."""
    near = (np.arange(NODES)[:, None] + np.arange(-15, 15)) % NODES
    csr = Csr(np.arange(0, near.size + 1, 30), np.sort(near).reshape(-1).astype(np.int32), np.empty(0, np.float32))
    network, rows = network_of(GraphSAGE(hidden=40)), Counted(features)
    inference = Inference(csr, rows, 400_000)
    found = inference.hidden_and_scores(network)
    assert inference.counts.by_columns == 0 and inference.counts.batches > 2
    np.testing.assert_allclose(found[1], whole(network, csr, features)[1], atol=1e-5)


def test_other_layers_have_other_steps() -> None:
    for model in (GAT(hidden=16, heads=4), GraphSAGE(hidden=16, residual=True)):
        assert steps_of(network_of(model).layers[0], COLUMNS) is None


def test_a_plan_keeps_to_its_memory() -> None:
    """Of 10,000 nodes and 50,000 entries; messages of all nodes have three fourths of the room."""
    steps, num = steps_in(network_of(GraphSAGE(hidden=16))), 10_000

    def planned(columns: float, most: int = num) -> Plan | None:
        return plan(steps, most, 5 * most, (COLUMNS, 16), int(4 * most * columns))

    assert steps.columns == 16 and planned(4) is None
    found = planned(12)  # 9
    assert found is not None and found.cuts == [slice(0, 8), slice(8, 16)]
    assert found.scratch_bytes == 4 * num * 2 * 16
    assert found.cost == pytest.approx(num * (2 + 4 * 16 / COLUMNS) + 5 * num / COLUMNS)
    alone = planned(22)
    assert alone is not None and alone.cuts == [slice(0, 16)] and alone.scratch_bytes == 0
    assert planned(22, most=100) is None  # too few rows at once


def test_where_memory_runs_out_the_other_nodes_go_in_batches(
    csr: Csr, features: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what was made by columns is gone by then."""
    network, calls, held = network_of(GraphSAGE(hidden=16)), [], []
    batches = Inference._batches

    def scarce(*asked: Any) -> Any:
        large = np.empty(1000)
        held.append(weakref.ref(large))
        for piece in by_columns(*asked):
            calls.append(len(piece))
            if len(calls) == 2:
                raise MemoryError
            yield piece

    def watched(self: Inference, layer: Any, rows: Any, ids: np.ndarray, room: int) -> Any:
        assert all(one() is None for one in held)
        return batches(self, layer, rows, ids, room)

    monkeypatch.setattr(module, "by_columns", scarce)
    monkeypatch.setattr(Inference, "_batches", watched)
    inference = Inference(csr, Counted(features), 900_000)
    found = inference.hidden_and_scores(network)
    assert inference.counts.batches > 0 and len(held) > 0
    assert np.array_equal(found[1], whole(network, csr, features)[1])

    def broken(*asked: Any) -> Any:
        raise RuntimeError("another error")
        yield

    monkeypatch.setattr(module, "by_columns", broken)
    with pytest.raises(RuntimeError, match="another error"):
        Inference(csr, Counted(features), 900_000).hidden_and_scores(network)


def test_a_disk_that_is_full_sends_nodes_to_batches(
    csr: Csr, features: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those by columns that need the disk alone: batches do not."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    network = network_of(GraphSAGE(hidden=16))
    steps = steps_in(network)
    chosen = Plan(cuts_of(16, 8), 64, 0, 1)
    with pytest.raises(StorageError, match="none"), torch.no_grad():
        list(by_columns(steps, Counted(features), graph_of(csr), chosen))
    monkeypatch.setattr(module, "plan", lambda *asked: chosen)
    inference = Inference(csr, Counted(features), 900_000)
    monkeypatch.setattr(inference, "_read_by_batches", lambda *asked: 1e9)
    monkeypatch.setattr(module._Step, "whole_bytes", lambda *asked: 1e9)
    found = inference.hidden_and_scores(network)
    assert inference.counts.by_columns == 0 and np.array_equal(found[1], whole(network, csr, features)[1])

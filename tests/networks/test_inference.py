"""Inference over all nodes: layer by layer and in batches, it is the whole graph at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from tests.networks.layered import Counted, csr_of, whole

from any2vec import GCN, GraphSAGE, InputError, StorageError
from any2vec.data.attributed.features import FeatureRows
from any2vec.models.networks import inference as module
from any2vec.models.networks.config.layers import APPNP, GAT, GIN, SGC, GATv2
from any2vec.models.networks.inference import Inference
from any2vec.models.networks.network import Network
from any2vec.types import Csr

NODES, COLUMNS, CLASSES = 3000, 24, 4
MODELS = [
    GraphSAGE(hidden=16, num_layers=3), GraphSAGE(hidden=40), GCN(hidden=16), GCN(hidden=40, num_layers=3),
]  # fmt: skip
NAMES = ["sage-narrow", "sage-wide", "gcn-narrow", "gcn-wide"]


def random_csr() -> Csr:
    """Of 0 to 12 neighbors a node, and a hub."""
    rng = np.random.default_rng(1)
    rows = [np.sort(rng.choice(NODES, rng.integers(0, 13), replace=False)) for _ in range(NODES)]
    rows[7] = np.sort(rng.choice(NODES, 150, replace=False))
    return csr_of(rows)


@pytest.fixture
def batches_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No layer goes by columns (tests/networks/test_columns.py)."""
    monkeypatch.setattr(module, "steps_of", lambda *asked: None)


@pytest.fixture(scope="module")
def csr() -> Csr:
    return random_csr()


@pytest.fixture(scope="module")
def features() -> np.ndarray:
    return np.random.default_rng(2).normal(size=(NODES, COLUMNS)).astype(np.float32)


def network_of(model: Any) -> Network:
    torch.manual_seed(5)
    return Network(model, COLUMNS, CLASSES)


@pytest.mark.usefixtures("batches_alone")
@pytest.mark.parametrize("model", MODELS, ids=NAMES)
@pytest.mark.parametrize("budget", [0, 2_000_000, 700_000])
def test_any_budget_gives_the_whole_graph(csr: Csr, features: np.ndarray, model: Any, budget: int) -> None:
    network = network_of(model)
    for rows in (FeatureRows(features, np.empty(0, np.float32)), Counted(features)):
        inference = Inference(csr, rows, budget)
        found = inference.hidden_and_scores(network)
        for given, expected in zip(found, whole(network, csr, features), strict=True):
            np.testing.assert_allclose(given, expected, atol=1e-5)
            assert np.array_equal(given, expected)  # columns are multiples of 4: the same order of all sums
        assert (inference.counts.batches > model.num_layers) == (0 < budget < 60_000 * model.hidden)
        assert (inference.counts.scratch_bytes > 0) == (budget == 700_000 and model.hidden == 40)


OTHERS = [
    GAT(hidden=16, heads=4), GIN(hidden=16), APPNP(hidden=16, hops=3), SGC(hops=3),
    GraphSAGE(hidden=16, num_layers=3, jumping_knowledge="cat"), GCN(hidden=16, num_layers=3, jumping_knowledge="max"),
    GIN(hidden=16, num_layers=4, jumping_knowledge="lstm", residual=True),
    GAT(hidden=16, heads=4, jumping_knowledge="lstm"), GATv2(hidden=16, heads=4, residual=True),
]  # fmt: skip


@pytest.mark.usefixtures("batches_alone")
@pytest.mark.parametrize("model", OTHERS, ids=lambda model: f"{model.name}-{getattr(model, 'jumping_knowledge', None)}")
def test_any_layer_that_takes_rows_of_neighbors_and_gives_rows(csr: Csr, features: np.ndarray, model: Any) -> None:
    network = network_of(model)
    inference = Inference(csr, Counted(features), 900_000)
    found = inference.hidden_and_scores(network.eval())
    assert inference.counts.batches > len(network.layers)
    for given, expected in zip(found, whole(network, csr, features), strict=True):
        np.testing.assert_allclose(given, expected, atol=1e-5)


@pytest.mark.usefixtures("batches_alone")
@pytest.mark.parametrize("model", MODELS, ids=NAMES)
def test_batches_of_two_nodes_give_the_same_bits(
    csr: Csr, features: np.ndarray, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fewer rows than a few are multiplied in another order of sums, so such batches are filled up."""
    monkeypatch.setattr(
        module, "_stop", lambda layer, end_K1, first, most, *more: min(first + 2 + 48 * (first > 99), most)
    )
    network = network_of(model)
    found = Inference(csr, FeatureRows(features, np.empty(0, np.float32)), 700_000).hidden_and_scores(network)
    for given, expected in zip(found, whole(network, csr, features), strict=True):
        assert np.array_equal(given, expected)


@pytest.mark.parametrize("budget", [0, 700_000])
def test_of_some_nodes_only_what_they_need_is_read(csr: Csr, features: np.ndarray, budget: int) -> None:
    network, rows, nodes = network_of(MODELS[1]), Counted(features), np.array([2999, 5, 5, 80])
    hidden, scores = Inference(csr, rows, budget).hidden_and_scores(network, nodes)
    for given, expected in zip((hidden, scores), whole(network, csr, features), strict=True):
        np.testing.assert_allclose(given, expected[nodes], atol=1e-5)
    seen = set(nodes.tolist())
    for _ in range(2):
        seen |= {int(one) for node in seen for one in csr.indices[csr.indptr[node] : csr.indptr[node + 1]]}
    assert set(np.flatnonzero(rows.taken).tolist()) == seen and len(seen) < NODES // 2
    assert Inference(csr, rows, budget).scores(network, nodes[:0]).shape == (0, CLASSES)


@pytest.mark.usefixtures("batches_alone")
def test_a_batch_that_reaches_too_much_is_halved(features: np.ndarray) -> None:
    """The first nodes share their neighbors, so what the next ones reach is not what was learnt."""
    near, far = [np.arange(8)] * 1500, [np.arange(8 * i, 8 * i + 8) % NODES for i in range(1500)]
    csr, network, rows = csr_of(near + far), network_of(MODELS[2]), Counted(features)
    inference = Inference(csr, rows, 700_000)
    found = inference.hidden_and_scores(network)
    assert inference.counts.halved > 0
    for given, expected in zip(found, whole(network, csr, features), strict=True):
        assert np.array_equal(given, expected)
    assert 4 * COLUMNS * rows.most <= 700_000


@pytest.mark.usefixtures("batches_alone")
def test_a_batch_for_which_memory_does_not_suffice_is_halved(
    csr: Csr, features: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, rows = network_of(MODELS[0]), Counted(features)
    take = rows.take

    def scarce(ids: np.ndarray) -> np.ndarray:
        if len(ids) > 900:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes.")
        return take(ids)

    monkeypatch.setattr(rows, "take", scarce)
    inference = Inference(csr, rows, 900_000)
    found = inference.hidden_and_scores(network)
    assert inference.counts.halved > 0 and rows.most <= 900
    assert np.array_equal(found[1], whole(network, csr, features)[1])

    def broken(ids: np.ndarray) -> np.ndarray:
        raise RuntimeError("another error")

    monkeypatch.setattr(rows, "take", broken)
    with pytest.raises(RuntimeError, match="another error"):
        Inference(csr, rows, 900_000).hidden_and_scores(network)


def test_scratch_files_are_gone(
    csr: Csr, features: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    network = network_of(MODELS[3])
    inference = Inference(csr, Counted(features), 700_000)
    hidden, _ = inference.hidden_and_scores(network)
    assert inference.counts.scratch_bytes > 0 and isinstance(hidden.base, np.memmap) and not list(tmp_path.iterdir())
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(StorageError, match=r"none: .*choose another place"):
        Inference(csr, Counted(features), 700_000).hidden_and_scores(network)


def test_a_budget_that_is_too_small_says_how_much_is_needed(csr: Csr, features: np.ndarray) -> None:
    network = network_of(MODELS[0])
    with pytest.raises(InputError, match=r"has 100.* and a node with 150 neighbors needs .*; give it so much"):
        Inference(csr, Counted(features), 100_000).hidden_and_scores(network)

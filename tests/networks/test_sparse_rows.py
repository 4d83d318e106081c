"""Features that are mostly 0: the same numbers as those of all rows with their zeros, from the others alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from any2vec import APPNP, GAT, GCN, GIN, SGC, GATv2, GraphSAGE
from any2vec.data.attributed.features import FeatureRows
from any2vec.models.networks.batches import LearnerData
from any2vec.models.networks.learner import GraphLearner
from any2vec.models.networks.network import Network
from any2vec.models.networks.node_order import OrderedFeatures
from any2vec.nn.dropout import dropout
from any2vec.nn.sparse.rows import LARGEST_SHARE, SparseRows
from any2vec.types import Csr, ProgressLine, Round, Span, Work

NODES, TRAINED, COLUMNS, CLASSES = 61, 40, 401, 3
NONE = np.empty(0, np.float32)


def planted(share: float = 0.02, rows: int = NODES) -> np.ndarray:
    """Some rows have none."""
    rng = np.random.default_rng(5)
    found = np.where(rng.random((rows, COLUMNS)) < share, rng.standard_normal((rows, COLUMNS)), 0)
    found[[0, 7]] = 0
    return found.astype(np.float32)


def sparse_of(x: np.ndarray) -> SparseRows:
    found = SparseRows.of(FeatureRows(x, NONE), len(x))
    assert found is not None
    return found


def with_gradient(matrix: torch.nn.Linear, rows: Any) -> tuple[torch.Tensor, torch.Tensor]:
    matrix.zero_grad()
    found = matrix(rows)
    (found * torch.arange(found.numel()).view_as(found)).sum().backward()
    assert matrix.weight.grad is not None
    return found.detach(), matrix.weight.grad.clone()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_matrix_gives_what_it_gives_of_all_numbers(threads: int) -> None:
    x = planted(rows=2000)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        matrix = torch.nn.Linear(COLUMNS, 70)
        ours, theirs = with_gradient(matrix, sparse_of(x)), with_gradient(matrix, torch.from_numpy(x))
    finally:
        torch.set_num_threads(before)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4 * float(other.abs().max()))


def test_sums_are_the_same_on_any_number_of_threads() -> None:
    rows, matrix, found = sparse_of(planted(rows=2000)), torch.nn.Linear(COLUMNS, 70), []
    before = torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        found.append(with_gradient(matrix, rows))
    torch.set_num_threads(before)
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))


@pytest.mark.parametrize("rows", [60, 61])
def test_dropout_drops_the_same_numbers(rows: int) -> None:
    x = planted(rows=rows)
    half = (x.size + 1) // 2  # of an odd number of numbers in all, the halves differ by one
    x.reshape(-1)[[0, half - 1, half, -1]] = 1
    for seed in range(8):
        ours = sparse_of(x).dropped(0.4, torch.Generator().manual_seed(seed))
        theirs = dropout(torch.from_numpy(x), 0.4, torch.Generator().manual_seed(seed))
        assert np.array_equal(ours.take(np.arange(rows)), theirs.numpy())
        assert 0 < np.count_nonzero(ours.value_S) < np.count_nonzero(x)


def test_no_dropout_draws_nothing() -> None:
    rows, draws = sparse_of(planted()), torch.Generator().manual_seed(8)
    before = draws.get_state()
    assert rows.dropped(0.0, draws) is rows
    assert torch.equal(draws.get_state(), before)


def test_rows_are_those_asked_for() -> None:
    x, ids = planted(), np.array([9, 0, 33, 9], np.int32)
    rows, matrix = sparse_of(x), torch.nn.Linear(COLUMNS, 5, bias=False)
    assert np.array_equal(rows.take(ids), x[ids])
    assert np.array_equal(rows.among(ids).take(np.arange(4)), x[ids])
    assert np.array_equal(rows[:11].take(np.arange(11)), x[:11])
    assert rows[:NODES] is rows
    assert len(rows[:11]) == 11
    assert (rows.shape, rows.columns) == ((NODES, COLUMNS), COLUMNS)
    theirs = with_gradient(matrix, torch.from_numpy(x[:11]))
    for mine, other in zip(with_gradient(matrix, rows[:11]), theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-3)
    with pytest.raises(ValueError, match="the first ones go alone"):
        rows[3:]


def test_only_matrices_take_them() -> None:
    with pytest.raises(TypeError):
        torch.relu(sparse_of(planted()))  # type: ignore[arg-type]


@pytest.mark.parametrize("of", ["rows", "halves", "codes", "ordered"])
def test_they_are_those_that_take_gives(of: str) -> None:
    x, order = planted(), np.random.default_rng(1).permutation(NODES)
    features: Any = FeatureRows(x, NONE)
    if of == "halves":
        features = FeatureRows(x.astype(np.float16), NONE)
    if of == "codes":
        features = FeatureRows(np.rint(x * 20).astype(np.int8), np.full(NODES, 0.05, np.float32))
    if of == "ordered":
        features = OrderedFeatures(features, order)
    found = SparseRows.of(features, NODES)
    assert found is not None
    assert np.array_equal(found.take(np.arange(NODES)), features.take(np.arange(NODES)))


def test_rows_that_are_wider_than_a_chunk_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    x = planted()
    monkeypatch.setattr("any2vec.nn.sparse.rows._CHUNK_BYTES", 4 * x.shape[1] - 1)
    found = SparseRows.of(FeatureRows(x, NONE), NODES)
    assert found is not None and np.array_equal(found.take(np.arange(NODES)), x)


def test_rows_with_many_numbers_stay_as_they_are() -> None:
    assert SparseRows.of(FeatureRows(planted(2 * LARGEST_SHARE), NONE), NODES) is None
    assert SparseRows.of(FeatureRows(planted(LARGEST_SHARE / 2), NONE), NODES) is not None


def data_of(x: np.ndarray) -> LearnerData:
    """An undirected graph of 61 nodes, and classes."""
    rng = np.random.default_rng(2)
    among = np.triu(rng.random((NODES, NODES)) < 0.08, 1)
    among |= among.T
    indptr = np.cumsum([0, *among.sum(axis=1)], dtype=np.int64)
    csr = Csr(indptr, np.nonzero(among)[1].astype(np.int32), NONE)
    nodes = np.arange(NODES)
    rows = {"train": nodes[:TRAINED], "val": nodes[TRAINED:50], "test": nodes[50:]}
    return LearnerData(csr, FeatureRows(x, NONE), rng.integers(0, CLASSES, NODES).astype(np.int32), CLASSES, rows)


def trained(model: Any, is_sparse: bool) -> tuple[GraphLearner, list[np.ndarray]]:
    """A learner behind two epochs, and its weights and scores of all nodes."""
    learner = GraphLearner(model, data_of(planted()), 3, 1)
    if is_sparse:
        learner.use_sparse_features()
    for epoch in range(2):
        learner.run(Work(Span(0, TRAINED, ProgressLine(0, TRAINED, 0.0, 0.0)), epoch, Round(0), 0.0))
    found = [*learner.state_dict().values(), learner.inference.scores(learner.network, np.arange(NODES))]
    found.append(learner.inference.scores(learner.network, np.array([3, 8])))
    return learner, found


FIRST = [
    GCN(), GraphSAGE(), GraphSAGE(aggregator="pool"), GAT(), GATv2(), GIN(), APPNP(), GCN(residual=True),
    GAT(jumping_knowledge="cat"), GIN(jumping_knowledge="max"), GraphSAGE(jumping_knowledge="lstm", num_layers=3),
]  # fmt: skip


CASES = [
    (number, sampling)
    for number, model in enumerate(FIRST)
    for sampling in ("full-graph", "neighbors")
    if sampling == "full-graph" or model.name != APPNP.name  # which knows the whole graph alone
]


@pytest.mark.parametrize(("number", "sampling"), CASES)
def test_a_network_learns_the_same(number: int, sampling: str) -> None:
    model = FIRST[number]
    batches = {"fanouts": "4,3,2" if model.num_layers == 3 else "4,3", "batch_size": 16}
    model = replace(model, hidden=16, sampling=sampling, **(batches if sampling == "neighbors" else {}))
    learner, ours = trained(model, True)
    assert isinstance(learner.batches.reader.features, SparseRows)
    for mine, other in zip(ours, trained(model, False)[1], strict=True):
        np.testing.assert_allclose(mine, other, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("model", [SGC(), GraphSAGE(aggregator="max"), GCN(hidden=512)])
def test_networks_that_add_up_first_take_all_numbers(model: Any) -> None:
    learner = GraphLearner(replace(model, sampling="full-graph"), data_of(planted()), 3, 1)
    learner.use_sparse_features()
    assert isinstance(learner.batches.reader.features, FeatureRows)


def test_which_networks_multiply_first() -> None:
    assert Network(GCN(hidden=16), COLUMNS, CLASSES).multiplies_first
    assert not Network(GCN(hidden=512), COLUMNS, CLASSES).multiplies_first
    assert not Network(SGC(), COLUMNS, CLASSES).multiplies_first

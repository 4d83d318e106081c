"""Graph networks on subgraphs: exact where all neighbors are there, right in the mean where not, refused where odd."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import any2vec
from any2vec import GCN, AttributedGraph, GraphSAGE, InputError
from any2vec.models.networks.batches import Batch, LearnerData, SubgraphBatches
from any2vec.models.networks.config.base import GraphNetwork
from any2vec.models.networks.config.layers import GAT, GIN
from any2vec.models.networks.config.relational import RGCN
from any2vec.models.networks.learner import GraphLearner
from any2vec.models.networks.network import Block, block_of
from any2vec.nn.aggregate import Neighbors, aggregate
from any2vec.nn.convolve import convolve
from cli_runs import called
from marks import uint64_wraps

pytestmark = uint64_wraps
NODES, CLASSES, COLUMNS = 120, 3, 5


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> AttributedGraph:
    """Directed, with nodes that have no in-neighbors; nodes 0 to 39 train."""
    rng = np.random.default_rng(3)
    label_N = rng.integers(0, CLASSES, NODES)
    src, dst = rng.integers(0, NODES, 500), rng.integers(0, NODES - 6, 500)
    features = (np.eye(CLASSES, COLUMNS)[label_N] + rng.normal(size=(NODES, COLUMNS))).astype(np.float32)
    split = np.repeat([0, 1, 2], NODES // 3)
    return any2vec.write_graph(
        (src, dst), tmp_path_factory.mktemp("directed") / "graph", features=features, labels=label_N, split=split,
        graph=any2vec.GraphOptions(directed=True),
    )  # fmt: skip


def learner_of(graph: AttributedGraph, model: GraphNetwork, seed: int = 1) -> GraphLearner:
    assert graph.features is not None and graph.labels is not None
    rows = {part: graph.rows(part) for part in ("train", "val", "test")}
    return GraphLearner(model, LearnerData(graph.csr, graph.features, graph.labels, CLASSES, rows), seed, threads=1)


def batches_of(learner: GraphLearner, epoch: int = 0) -> list[Batch]:
    return [made(learner, epoch, number) for number in range(learner.num_batches)]


def made(learner: GraphLearner, epoch: int, number: int) -> Batch:
    drawn, features = learner.batches.draw(epoch, number), learner.batches.reader.features
    return learner.batches.make(drawn, None if drawn.node_M is None else torch.from_numpy(features.take(drawn.node_M)))


def scores_of(learner: GraphLearner, batch: Batch) -> np.ndarray:
    with torch.no_grad():
        return learner.network(batch.x_MD, batch.blocks).numpy()[batch.row_B.numpy()]


def whole_scores(learner: GraphLearner, graph: AttributedGraph) -> np.ndarray:
    assert graph.features is not None
    with torch.no_grad():
        x_ND = torch.from_numpy(graph.features.take(np.arange(NODES)))
        return learner.network(x_ND, [block_of(graph.csr)]).numpy()


@pytest.mark.parametrize("kind", [GraphSAGE, GCN, GAT, GIN])
def test_parts_with_all_hops_around_them_are_scored_as_in_the_whole_graph(
    graph: AttributedGraph, kind: type[Any]
) -> None:
    learner = learner_of(graph, kind(hidden=8, sampling="cluster", num_parts=11, parts_per_batch=3, halo=2))
    whole, seen = whole_scores(learner, graph), []
    for batch in batches_of(learner):
        if not batch.size:
            continue
        node_B = learner.batches.nodes_of(0, batch.number)[batch.row_B.numpy()]
        np.testing.assert_allclose(scores_of(learner, batch), whole[node_B], atol=1e-4)
        assert batch.size == len(node_B) == len(batch.target.label_B)
        assert graph.labels is not None and batch.target.label_B.tolist() == graph.labels[node_B].tolist()
        seen += node_B.tolist()
    assert sorted(seen) == graph.rows("train").tolist()
    near = learner_of(graph, kind(hidden=8, sampling="cluster", num_parts=11, parts_per_batch=3))
    batch = next(one for one in batches_of(near) if one.size)
    node_B = near.batches.nodes_of(0, batch.number)[batch.row_B.numpy()]
    assert np.abs(scores_of(near, batch) - whole_scores(near, graph)[node_B]).max() > 1e-2


def test_one_part_is_the_whole_graph(graph: AttributedGraph) -> None:
    learner = learner_of(graph, GCN(hidden=8, sampling="cluster", num_parts=1))
    batch = made(learner, 3, 0)
    np.testing.assert_allclose(scores_of(learner, batch), whole_scores(learner, graph)[graph.rows("train")], atol=1e-5)
    full = learner_of(graph, GCN(hidden=8, sampling="full-graph"))
    full.network.load_state_dict(learner.network.state_dict())
    one, other = (of._loss(made(of, 3, 0), 0).detach() for of in (learner, full))
    assert float(one) == pytest.approx(float(other), abs=1e-5)


def test_batches_without_training_nodes_are_not_read(graph: AttributedGraph) -> None:
    model = GraphSAGE(hidden=8, sampling="cluster", num_parts=NODES, parts_per_batch=1, partitioner="ldg")
    learner = learner_of(graph, model)
    sizes = [batch.size for batch in batches_of(learner)]
    assert sorted(sizes) == [0] * (NODES - 40) + [1] * 40
    for number, size in enumerate(sizes):
        assert len(learner.batches.nodes_of(0, number)) == learner.batches.draw(0, number).num_nodes == size


def dense(neighbors: Neighbors, num: int) -> np.ndarray:
    assert neighbors.weight_S is not None
    found = np.zeros((len(neighbors.stop_F1) - 1, num))
    for i in range(len(found)):
        part = slice(neighbors.stop_F1[i], neighbors.stop_F1[i + 1])
        np.add.at(found[i], neighbors.neighbor_S[part], neighbors.weight_S[part])
    return found


def test_weights_of_edges_count_in_means_and_convolutions() -> None:
    """Values and gradients are those of matrices."""
    rng = np.random.default_rng(1)
    neighbors = Neighbors(np.array([0, 3, 3, 5]), np.array([1, 2, 3, 0, 3], np.int32), None,
                          rng.random(5).astype(np.float32))  # fmt: skip
    degree = torch.tensor([6.0, 0, 2, 5])[:, None]
    matrix = torch.from_numpy(dense(neighbors, 4))
    root = 1 / torch.sqrt(degree.double() + 1)
    own = torch.eye(4, dtype=torch.float64)[:3]
    convolved = root[:3] * (degree[:3] * matrix + own) * root.T
    for function, expected in (
        (lambda x: aggregate(x, neighbors, reduce="mean"), matrix),
        (lambda x: convolve(x, neighbors, degree), convolved),
    ):
        x = torch.from_numpy(rng.normal(size=(4, 2))).requires_grad_()
        out = function(x)
        np.testing.assert_allclose(out.detach(), expected @ x.detach(), atol=1e-6)
        out.sum().backward()
        assert x.grad is not None
        np.testing.assert_allclose(x.grad, expected.sum(dim=0)[:, None].expand(4, 2), atol=1e-6)


@pytest.mark.parametrize("kind", [GraphSAGE, GCN, GIN])
def test_what_walks_see_is_right_in_the_mean(graph: AttributedGraph, kind: type[Any]) -> None:
    """A layer over the batches that have a node, weighed as GraphSAINT does, gives in the mean what all neighbors give;
    unweighed it does not (Zeng et al. 2020, proposition 3.1).
    """
    node, errors = int(np.argmax(np.diff(graph.csr.indptr)[:40])), []
    for coverage in (3000, 0):
        model = kind(hidden=8, sampling="walks", batch_size=3, walk_steps=2, sample_coverage=coverage)
        learner = learner_of(graph, model)
        layer, found = learner.network.layers[0].eval(), []
        assert graph.features is not None
        x_ND = torch.from_numpy(graph.features.take(np.arange(NODES)))
        with torch.no_grad():
            exact = _linear(kind, layer, x_ND, block_of(graph.csr))[node]
            for epoch in range(300):
                for batch in batches_of(learner, epoch):
                    node_M = learner.batches.nodes_of(epoch, batch.number)
                    if node in node_M:
                        found.append(_linear(kind, layer, batch.x_MD, batch.blocks[0])[list(node_M).index(node)])
        mean, error = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(len(found))
        errors.append(float(np.max(np.abs(mean - exact.numpy()) / (error + 1e-9))))
    assert errors[0] < 5 < errors[1], errors


def _linear(kind: type[Any], layer: Any, x_MD: torch.Tensor, block: Block) -> torch.Tensor:
    """What is linear of a layer."""
    if kind is GIN:
        return aggregate(x_MD, block.neighbors) * block.degree_M1
    return layer(x_MD, block)


def test_losses_of_walks_are_weighed(graph: AttributedGraph) -> None:
    """The mean over batches is the mean loss over the training nodes, of scores that no batch changes."""
    model = GraphSAGE(hidden=8, sampling="walks", batch_size=5, walk_steps=1, dropout=0.0)
    learner = learner_of(graph, model)
    assert isinstance(learner.batches, SubgraphBatches)
    given_NC = torch.from_numpy(np.random.default_rng(0).normal(size=(NODES, CLASSES)).astype(np.float32))
    train = graph.rows("train")
    exact = float(learner.objective.loss(given_NC[train], learner.objective.all_seeds(0).target))
    losses = []
    for epoch in range(100):
        for batch in batches_of(learner, epoch):
            node_B = learner.batches.nodes_of(epoch, batch.number)[batch.row_B.numpy()]
            losses.append(float(learner.objective.loss(given_NC[node_B], batch.target)))
    error = 4 * np.std(losses) * (1 / np.sqrt(len(losses)) + 1 / np.sqrt(50 * learner.num_batches))
    assert abs(np.mean(losses) - exact) < error < 0.25 * exact


def test_the_parts_are_as_many_as_batches_ask_for(graph: AttributedGraph) -> None:
    model = GraphSAGE(hidden=8, sampling="cluster", batch_size=30, parts_per_batch=5, partitioner="ldg")
    learner = learner_of(graph, model)
    assert learner.num_batches == 4 and learner.batches.order.startswith("random parts of the graph: 20 parts by ldg")
    assert (
        model.parts_of(120) == 20 and model.parts_of(3) == 1 and GCN(sampling="cluster", batch_size=1).parts_of(7) == 7
    )
    by_cluster = learner_of(
        graph, GraphSAGE(batch_size=10, batch_order="cluster", parts_per_batch=2, partitioner="ldg")
    )
    assert by_cluster.objective.order.startswith("cluster: 8 parts by ldg")
    with pytest.raises(InputError, match="num_parts must be a whole number from 1 to 120, got 121"):
        learner_of(graph, GraphSAGE(sampling="cluster", num_parts=121))


@pytest.mark.parametrize("how", ["cluster", "walks"])
def test_the_command(graph: AttributedGraph, how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--num-parts", "12", "--parts-per-batch", "3", "--halo", "1"] if how == "cluster" else ["--walk-steps", "1"]
    arguments = ["train", "graphsage", str(graph.folder), "--hidden", "8", "--epochs", "3", "--threads", "2", "--json"]
    assert called([*arguments, "--sampling", how, *more, "--out", str(tmp_path / "run")]) == 0
    summary = json.loads(capsys.readouterr().out)
    words = "random parts of the graph: 12 parts by" if how == "cluster" else "walks of 1 steps from random"
    assert summary["batch_order"].startswith(words) and summary["rows_read"] > 0
    assert called([*arguments, "--sampling", how, "--fanouts", "2,2"]) == 2
    assert f"fanouts does nothing with sampling {how}" in " ".join(capsys.readouterr().err.split())


def test_edges_with_types_have_no_subgraphs() -> None:
    with pytest.raises(InputError, match="sampling walks is for edges without types"):
        RGCN(sampling="walks")
    with pytest.raises(InputError, match="batch_order cluster is for edges without types"):
        RGCN(batch_order="cluster")


def test_links_have_no_subgraphs() -> None:
    with pytest.raises(InputError, match="sampling cluster is for objective classes"):
        GCN(sampling="cluster", objective="links")
    with pytest.raises(InputError, match="batch_order cluster is for objective classes"):
        GraphSAGE(batch_order="cluster", objective="unsupervised")

"""Modules of a user's own that take features of edges: a graph in which nothing else tells the classes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch_geometric")

import torch
from tests.networks.edges.planted_edges import CLASSES, NODES, arguments, planted
from tests.networks.own import own_modules
from tests.networks.own.own_modules import HEEDING, ZOO

from any2vec import NodeOptions, OwnModule, Progress, fit
from any2vec.errors import InputError
from any2vec.models.modules.network import ModuleNetwork, sizes_of
from any2vec.models.networks.classifier import edges_for
from any2vec.models.networks.inference import inference_over
from cli_runs import called, done
from marks import uint64_wraps

pytestmark = uint64_wraps

WAYS: dict[str, dict[str, Any]] = {
    "neighbors": {"fanouts": "6,6", "batch_size": 64},
    "full-graph": {"node_order": "rcm"},
    "cluster": {"num_parts": 4, "parts_per_batch": 2, "partitioner": "ldg"},
    "walks": {"batch_size": 64, "walk_steps": 2},
}
PLACE = "tests.networks.own.own_modules:OfEdges"


def own(module: Any = own_modules.OfEdges, **more: Any) -> OwnModule:
    return OwnModule(**({"module": module, "edge_attr": True, "num_layers": 2, "learning_rate": 0.01} | more))


@pytest.mark.parametrize("way", WAYS)
def test_classes_that_edges_alone_tell_are_learned(tmp_path: Path, way: str) -> None:
    model = own(**WAYS[way], sampling=way)
    epochs = 150 if way == "full-graph" else 40
    found = fit(model, planted(tmp_path / "graph"), epochs=epochs, seed=1)
    assert found.summary["test_accuracy"] > 0.6 and found.summary["why_whole"] == ""
    assert "unused_edge_features" not in found.summary["data"]


@pytest.mark.parametrize("kind", HEEDING)
def test_layer_by_layer_it_is_the_whole_graph(tmp_path: Path, kind: str) -> None:
    graph, model = planted(tmp_path / "graph"), own(HEEDING[kind], num_layers=3)
    torch.manual_seed(1)
    network = ModuleNetwork(model, 3, CLASSES, 2)
    assert network.cut is not None, network.why_whole
    x, edge_index, edge_attr = arguments(graph)
    with torch.no_grad():
        expected = network.module.eval()(x.clone(), edge_index, edge_attr=edge_attr.clone()).numpy()
        reversed_ones = network.module(x, edge_index, edge_attr=edge_attr.flip(0)).numpy()
    assert np.abs(expected - reversed_ones).max() > 1e-2  # which edge has which features matters
    for budget in (0, 120_000 if kind == "in-place" else 400_000):
        inference = inference_over(model, edges_for(model, graph), graph.features, budget)
        scores = inference.hidden_and_scores(network)[1]
        np.testing.assert_allclose(scores, expected, atol=1e-5 * max(1, np.abs(expected).max()))
        assert (inference.counts.batches >= 2 * len(network.cut.stages)) == (budget > 0)


@pytest.mark.parametrize(("kind", "is_trimmed"), [("gat", True), ("gatv2", False), ("of-edges", False)])
def test_batches_are_trimmed_where_the_module_can(kind: str, is_trimmed: bool) -> None:
    assert ModuleNetwork(own(HEEDING[kind], num_layers=3), 3, CLASSES, 2)._is_trimmed == is_trimmed


def test_one_that_cannot_be_cut_is_computed_at_once(tmp_path: Path) -> None:
    graph = planted(tmp_path / "graph")
    found = fit(own(own_modules.GatedByEdges, num_layers=1, learning_rate=0.05), graph, epochs=150, seed=1)
    assert "is no layer of PyG" in found.summary["why_whole"] and found.summary["test_accuracy"] > 0.6


@pytest.mark.parametrize("way", ["full-graph", "neighbors"])
@pytest.mark.parametrize("is_traced", [True, False])
def test_a_forward_may_change_what_it_takes(tmp_path: Path, way: str, is_traced: bool) -> None:
    graph, given = planted(tmp_path / "graph"), {"is_traced": is_traced}
    assert graph.features is not None and graph.edge_features is not None
    before = [np.array(rows.row_ND) for rows in (graph.features, graph.edge_features)]
    model = own(own_modules.InPlace, num_layers=1, module_args=given, sampling=way)
    found = fit(model, graph, epochs=3, seed=1)
    assert (found.summary["why_whole"] == "") == is_traced
    once, again = (found.scorer.score(graph)[1] for _ in range(2))
    assert np.array_equal(once, again)
    for rows, old in zip((graph.features, graph.edge_features), before, strict=True):
        assert np.array_equal(rows.row_ND, old)


def test_a_convolution_that_normalizes_by_them_is_computed_at_once(tmp_path: Path) -> None:
    found = fit(own(own_modules.ByEdgeWeight, num_layers=1), planted(tmp_path / "graph"), epochs=1)
    assert "normalizes by features of all edges of a node" in found.summary["why_whole"]


def test_resumed_it_has_the_bits_of_a_run_that_never_stopped(tmp_path: Path) -> None:
    graph, model = planted(tmp_path / "graph"), own(fanouts="4,4", batch_size=64)

    def stop(record: Progress) -> None:
        if record.epoch >= 2:
            raise KeyboardInterrupt

    given: dict[str, Any] = {"threads": 1, "seed": 3, "epochs": 4}
    expected = fit(model, graph, out=tmp_path / "whole", **given).scorer.weights
    with pytest.raises(KeyboardInterrupt):
        fit(model, graph, out=tmp_path / "run", callback=stop, checkpoint_seconds=1e-6, **given)
    found = fit(model, graph, out=tmp_path / "run", resume=True, **given).scorer.weights
    assert all(np.array_equal(value, expected[name]) for name, value in found.items()) and len(found) == len(expected)


def test_the_command_trains_and_scores_another_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    planted(tmp_path / "graph")
    other = planted(tmp_path / "other", seed=2)
    planted(tmp_path / "plain", keep=False)
    graph, run = str(tmp_path / "graph"), str(tmp_path / "run")
    train = ["train", "module", graph, "--module", PLACE, "--edge-attr", "--fanouts", "6,6", "--batch-size", "64"]
    found = json.loads(done(*train, "--epochs", "40", "--learning-rate", "0.01", "--seed", "1", "--json", "--out", run))
    assert found["test_accuracy"] > 0.6
    lines = done("score", run, str(tmp_path / "other"), "--module", PLACE).splitlines()
    scored = dict(line.split("\t")[:2] for line in lines)
    labels = other.labels
    assert labels is not None and len(scored) == NODES
    assert np.mean([scored[str(node)] == str(labels[node]) for node in range(NODES)]) > 0.6
    assert json.loads(done("estimate", *train[1:], "--json"))["memory_bytes"] > 0
    capsys.readouterr()
    assert called(["score", run, str(tmp_path / "plain"), "--module", PLACE]) == 2
    assert "takes 2 features an edge, got 0" in " ".join(capsys.readouterr().err.split())


def test_the_trained_module_gives_the_same_in_pyg(tmp_path: Path) -> None:
    graph = planted(tmp_path / "graph")
    scorer = fit(own(), graph, epochs=1, seed=1).scorer
    x, edge_index, edge_attr = arguments(graph)
    with torch.no_grad():
        expected = scorer.to_pyg()(x, edge_index, edge_attr)
    np.testing.assert_allclose(scorer.score(graph)[1], expected.numpy(), atol=1e-5)
    with pytest.raises(InputError, match="ONNX files are of networks that take x and edge_index alone"):
        scorer.to_onnx(tmp_path / "network.onnx")


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    graph, plain = planted(tmp_path / "graph"), planted(tmp_path / "plain", keep=False)
    with pytest.raises(InputError, match="edge_attr asks for features of edges, and the graph has none"):
        fit(own(), plain, epochs=1)
    with pytest.raises(
        InputError, match=r"and edges with 2 \(TypeError: .*edge_attr.*forward\(x, edge_index, edge_attr="
    ):
        fit(own(own_modules.Residual), graph, epochs=1)
    with pytest.raises(InputError, match=r"without features \(edge_attr gives them\) or types of edges"):
        fit(own(edge_attr=False), graph, epochs=1)
    with pytest.raises(InputError, match=r"edge_features does nothing for module.*, or give edge_attr, too"):
        fit(own(edge_attr=False), (np.arange(3), np.arange(3)), nodes=NodeOptions(edge_features=np.ones((3, 1))))
    for kind in ("stack-gat", "stack-sage"):
        with pytest.raises(InputError, match="makes nothing of edge_attr; leave it out, or give its layers"):
            fit(own(ZOO[kind], num_layers=3), graph, epochs=1)
    narrow = own(HEEDING["gat"], num_layers=3)
    with pytest.raises(InputError, match="edges with 3"):
        ModuleNetwork(narrow, 3, CLASSES, 3)


def test_without_the_option_they_are_left_out_and_that_is_said(tmp_path: Path) -> None:
    graph = planted(tmp_path / "graph")
    found = fit(OwnModule(module=ZOO["stack-sage"], num_layers=3), graph, epochs=1)
    assert found.summary["data"]["unused_edge_features"] == "module"
    assert found.summary["data"]["num_edge_features"] == 2


def test_plans_count_them() -> None:
    few, many = (sizes_of(own(wide(num), num_layers=3), 3, CLASSES, num) for num in (2, 200))
    assert many.edge_columns == few.edge_columns + 198
    narrow, hidden = (sizes_of(own(module_args={"hidden": num}), 3, CLASSES, 2) for num in (16, 64))
    assert hidden.edge_columns >= narrow.edge_columns + 3 * 48  # the MLP's parts
    matrices = sizes_of(own(own_modules.Networked, num_layers=1), 3, CLASSES, 2)
    assert matrices.edge_columns >= 3 * 16 + 2


def wide(num: int) -> Any:
    return own_modules.stack("GAT", heads=2, edge_dim=num)

"""Modules of PyG's layers that users bring: trained like any model, and never imported from a folder unasked."""

from __future__ import annotations

import copy
import functools
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch_geometric")

import torch
from tests.helpers.planted_nodes import options, plant
from tests.networks.own import own_modules
from torch import nn
from typer.testing import CliRunner

import any2vec
from any2vec import InputError, NetworkClassifier, OwnModule
from any2vec.cli.app import app
from any2vec.formats.safetensors_file import write_safetensors
from any2vec.models.modules.imported import factory_at
from any2vec.models.modules.network import ModuleNetwork
from any2vec.models.networks.config.base import NETWORK, GraphNetwork
from any2vec.models.networks.network import Block
from any2vec.nn.aggregate import Neighbors

PLACE = "tests.networks.own.own_modules:Residual"
ARGUMENTS = '{"hidden": 8}'


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> any2vec.AttributedGraph:
    planted = plant(tmp_path_factory.mktemp("own"))
    given = {name: planted[name] for name in ("features", "labels", "split")}
    return any2vec.write_graph(planted["edges"], planted["edges"].parent / "graph", **given)


def module(**more: Any) -> OwnModule:
    return OwnModule(**({"module": PLACE, "module_args": ARGUMENTS, "fanouts": "4,3,3", "batch_size": 8} | more))


def trained(graph: Any, model: Any, **more: Any) -> any2vec.FitResult:
    return any2vec.fit(model, graph, **({"threads": 1, "seed": 3, "epochs": 4} | more))


def weights(result: any2vec.FitResult) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = result.scorer.weights
    return found


def test_it_learns_and_its_vectors_are_what_its_last_layer_takes(graph: any2vec.AttributedGraph) -> None:
    result = trained(graph, module(fanouts=None, num_layers=3), epochs=20)
    assert result.summary["val_accuracy"] > 0.8 and result.summary["why_whole"] == ""
    hidden, scores = result.scorer.score(graph)
    assert hidden.shape == (90, 8) and scores.shape == (90, 3)
    assert np.array_equal(result.embeddings.vectors, hidden)
    some = result.scorer.score(graph, np.array([5, 80]))[1]
    np.testing.assert_allclose(some, scores[[5, 80]], atol=1e-5)


@pytest.mark.parametrize(
    "more",
    [{}, {"sampling": "full-graph", "fanouts": None, "batch_size": 1024, "num_layers": 3},
     {"module": "tests.networks.own.own_modules:Sometimes"}],
    ids=["batches", "full-graph", "sometimes"],
)  # fmt: skip
def test_resumed_it_has_the_bits_of_a_run_that_never_stopped(
    graph: any2vec.AttributedGraph, tmp_path: Path, more: dict[str, Any]
) -> None:
    """Dropout, too, which the module draws by itself."""
    expected = trained(graph, module(**more), out=tmp_path / "whole")

    def stop(record: any2vec.Progress) -> None:
        if record.epoch >= 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(graph, module(**more), out=tmp_path / "run", callback=stop, checkpoint_seconds=1e-6)
    found = trained(graph, module(**more), out=tmp_path / "run", resume=True)
    assert weights(found).keys() == weights(expected).keys()
    for name, value in weights(found).items():
        assert np.array_equal(value, weights(expected)[name]), name
    assert "module" in more or "module.norms.0.num_batches_tracked" in weights(found)


@pytest.mark.parametrize("kind", ["class", "function", "module"])
def test_what_is_given_in_python_is_no_name_only(graph: any2vec.AttributedGraph, tmp_path: Path, kind: str) -> None:
    given: Any = {
        "class": own_modules.Skips,
        "function": lambda in_channels, out_channels: own_modules.Skips(in_channels, out_channels),
        "module": own_modules.Skips(12, 3),
    }[kind]
    model = OwnModule(module=given, num_layers=2)
    found = trained(graph, model, out=tmp_path / "run", epochs=1)
    _, scores = found.scorer.score(graph)
    assert trained(graph, model, out=tmp_path / "run", epochs=1, resume=True).summary["loss"] == found.summary["loss"]
    with pytest.raises(InputError, match=r"scoring runs its code; give --module .* if you trust it"):
        NetworkClassifier.load(tmp_path / "run").score(graph)
    again = NetworkClassifier.load(tmp_path / "run", module=given)
    assert np.array_equal(again.score(graph)[1], scores)
    with pytest.raises(InputError, match="has other weights than"):
        NetworkClassifier.load(tmp_path / "run", module=own_modules.Parallel)


def test_things_of_one_name_are_different_modules(graph: any2vec.AttributedGraph) -> None:
    """Each config and scorer keeps what it was given, whatever comes later; a text names what is imported."""
    sage = own_modules.pyg.GraphSAGE
    given = [sage(12, 8, 2, 3, act=act) for act in ("relu", "tanh")]
    first, wide = OwnModule(module=given[0]), OwnModule(module=sage(12, 32, 2, 3))
    assert first == OwnModule(module=given[0]) != OwnModule(module=given[1]) != wide
    assert copy.deepcopy(first) == first
    assert str(pickle.loads(pickle.dumps(first)).module) == str(first.module)
    found = trained(graph, first, epochs=1)
    hidden, scores = found.scorer.score(graph)
    assert trained(graph, OwnModule(module=given[1]), epochs=1).summary["dim"] == hidden.shape[1] == 8
    assert trained(graph, wide, epochs=1).summary["dim"] == 32
    assert np.array_equal(found.scorer.score(graph)[1], scores)
    named = OwnModule(module=str(first.module), module_args={"hidden_channels": 5, "num_layers": 2})
    assert trained(graph, named, epochs=1).summary["dim"] == 5


def test_functions_without_a_name_make_modules(graph: any2vec.AttributedGraph) -> None:
    made = [lambda *, of=each, **more: of(**more) for each in (own_modules.Skips, own_modules.Parallel)]
    for each in (*made, functools.partial(own_modules.Skips)):
        found = trained(graph, OwnModule(module=each), epochs=1)
        assert found.scorer.score(graph)[1].shape == (90, 3)


def test_trained_without_kernels_it_is_trained_alike(graph: any2vec.AttributedGraph) -> None:
    class Plain(nn.Module):
        def __init__(self, in_channels: int, out_channels: int) -> None:
            super().__init__()
            self.conv = own_modules.pyg.SAGEConv(in_channels, out_channels)

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> Any:
            return self.conv(x, edge_index)

    runs = [trained(graph, OwnModule(module=Plain, fanouts="5", accelerate=way), epochs=2) for way in (True, False)]
    for name, value in weights(runs[0]).items():
        np.testing.assert_allclose(value, weights(runs[1])[name], atol=1e-4)
    assert runs[0].summary["dim"] == 12  # one layer: it takes the features


@pytest.mark.parametrize(("jk", "is_trimmed"), [(None, True), ("cat", False)])
def test_layers_leave_out_what_seeds_do_not_need(
    graph: any2vec.AttributedGraph, jk: str | None, is_trimmed: bool
) -> None:
    """As PyG's `trim_to_layer`, and to the same numbers; behind jumping knowledge PyG's own models cannot."""
    arguments: Any = {"hidden_channels": 8, "num_layers": 2, "jk": jk}
    model = OwnModule(module="torch_geometric.nn:GraphSAGE", module_args=arguments, fanouts="4,4", batch_size=6)
    assert ModuleNetwork(model, 12, 3)._is_trimmed == is_trimmed
    found = trained(graph, model, epochs=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModuleNetwork, "_can_be_trimmed", lambda self: False)
        whole = trained(graph, model, epochs=2)
    for name, value in weights(found).items():
        np.testing.assert_allclose(value, weights(whole)[name], atol=1e-4)


def test_buffers_are_kept_in_their_own_types(graph: any2vec.AttributedGraph, tmp_path: Path) -> None:
    place = PLACE.replace("Residual", "Salted")
    model = module(module=place, module_args="{}", fanouts="4")
    result = trained(graph, model, epochs=1, out=tmp_path / "run")
    loaded = NetworkClassifier.load(tmp_path / "run", module=place)
    assert loaded.weights["module.salt"].dtype == np.int64 and loaded.weights["module.fine"].dtype == np.float64
    assert np.array_equal(loaded.score(graph)[1], result.scorer.score(graph)[1])
    with (tmp_path / "run" / NETWORK).open("wb") as file:  # as former versions wrote it
        former = {name: array.astype(np.float32) for name, array in loaded.weights.items()}
        about = {
            "model": model.as_dict(), "num_features": graph.num_features, "classes": graph.classes,
            "is_multi_label": False,
        }  # fmt: skip
        write_safetensors(file, former, "float32", {"any2vec": json.dumps(about)})
    assert NetworkClassifier.load(tmp_path / "run", module=place).score(graph)[1].shape == (90, 3)


def test_what_cannot_be_cut_trains_and_says_so(graph: any2vec.AttributedGraph) -> None:
    result = trained(graph, OwnModule(module=own_modules.ControlFlow, fanouts="5"), epochs=2)
    assert "torch.fx cannot trace its forward" in result.summary["why_whole"]
    assert result.embeddings.vectors.shape == (90, 8)


def cached(kind: str, **more: Any) -> Any:
    """Makes a layer of PyG's that keeps the edges that it sees first."""
    return lambda in_channels, out_channels: getattr(own_modules.pyg, kind)(in_channels, out_channels, **more)


def test_kept_edges_are_those_of_the_full_graph(graph: any2vec.AttributedGraph) -> None:
    """Or are not used: our kernel of GCNConv keeps none."""
    whole = OwnModule(module=cached("SGConv", cached=True), sampling="full-graph", batch_size=1024)
    assert "keeps the edges" in trained(graph, whole, epochs=1).summary["why_whole"]
    runs = [
        trained(graph, OwnModule(module=cached("GCNConv", cached=is_cached), fanouts="4", batch_size=8), epochs=2)
        for is_cached in (True, False)
    ]
    for name, value in weights(runs[0]).items():
        np.testing.assert_array_equal(value, weights(runs[1])[name])


@pytest.mark.parametrize("kind", [nn.BatchNorm1d, own_modules.pyg.BatchNorm])
def test_of_one_node_batch_normalization_goes_by_running_numbers(kind: Any) -> None:
    class Normed(nn.Module):
        def __init__(self, in_channels: int, out_channels: int) -> None:
            super().__init__()
            self.conv, self.norm = own_modules.pyg.SAGEConv(in_channels, out_channels), kind(out_channels)

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> Any:
            return self.norm(self.conv(x, edge_index))

    network = ModuleNetwork(OwnModule(module=Normed, num_layers=1), 12, 3)
    draws, before = torch.Generator(), copy.deepcopy(network.state_dict())

    def found(num: int, draws: torch.Generator | None) -> torch.Tensor:
        neighbors = Neighbors(np.zeros(num + 1, np.int64), np.empty(0, np.int32))
        return network(torch.ones(num, 12), [Block(neighbors, torch.zeros(num, 1))], draws)

    assert torch.equal(found(1, draws), found(1, None))
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    found(2, draws)
    assert not all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


@pytest.mark.parametrize("sampling", ["cluster", "walks"])
def test_subgraphs_whose_trial_is_one_node_train_batch_normalization(
    graph: any2vec.AttributedGraph, sampling: Any
) -> None:
    result = trained(graph, module(fanouts=None, num_layers=3, sampling=sampling), epochs=1)
    assert np.isfinite(result.summary["loss"])


def test_on_the_command_line(graph: any2vec.AttributedGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of the current folder; the folder of a run imports nothing by itself."""
    monkeypatch.chdir(tmp_path)
    text = "from tests.networks.own.own_modules import Skips as Net\nprint('imported')\n"
    (tmp_path / "own_nets.py").write_text(text)

    def call(*words: str) -> Any:
        sys.modules.pop("own_nets", None)
        return CliRunner().invoke(app, list(words))

    place = ("--module", "own_nets:Net")
    result = call("train", "module", str(graph.folder), *place, "--epochs", "1", "--threads", "1", "--out", "run")
    assert result.exit_code == 0 and "imported" in result.output, result.output
    labels = str(graph.folder.parent / "labels")
    for code, words in (
        (2, ("score", "run", str(graph.folder))),
        (0, ("evaluate", "run", "--task", "nodes", "--data", labels)),
    ):
        asked = call(*words)
        assert "imported" not in asked.output and asked.exit_code == code
    assert "give --module own_nets:Net" in call("score", "run", str(graph.folder)).output
    scored = call("score", "run", str(graph.folder), *place, "--out", "classes.tsv")
    assert scored.exit_code == 0 and len((tmp_path / "classes.tsv").read_text().splitlines()) == 90
    refused = call("train", "graphsage", str(graph.folder), "--epochs", "1", "--out", "sage", "--quiet")
    assert refused.exit_code == 0
    several = call("score", "sage", str(graph.folder), str(graph.folder))
    assert several.exit_code == 2 and "sage scores one file at a time, and 2 are given" in several.output
    other = call("score", "sage", str(graph.folder), *place)
    assert other.exit_code == 2 and "no module of your own" in other.output


def test_no_file_of_the_current_folder_stands_in_for_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who trusts torch_geometric.nn:GraphSAGE trusts no file of that name that came with a run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "colorsys.py").write_text("raise SystemExit('code of a stranger has run')\n")
    (tmp_path / "own_makers.py").write_text("def make(): return 7\n")
    sys.modules.pop("colorsys", None)
    before = list(sys.path)
    assert factory_at("colorsys:rgb_to_hsv")(1, 1, 1) == (0.0, 0.0, 1)
    assert factory_at("own_makers:make")() == 7 and sys.path == before


BAD = [
    ({"module": "nowhere_at_all:Net"}, "There is no nowhere_at_all among installed packages"),
    ({"module": "tests.networks.own.own_modules:Nix"}, "tests.networks.own.own_modules has no Nix"),
    ({"module": "tests.networks.own.own_modules"}, "module must be written package:Class"),
    ({"module": "tests.networks.own.own_modules:F"}, "is no class and no function that makes a module, but module"),
    ({"module": own_modules.NoModule}, "is no torch.nn.Module, but makes NoModule"),
    ({"module": own_modules.Residual, "module_args": {"wide": 3}}, r"cannot be made as .*wide=3\): TypeError"),
    ({"module": own_modules.WrongShape}, r"must give float32 \(53, 3\), .* it gives torch.float32 \(53, 4\)"),
    ({"module": own_modules.OnlyRows}, r"forward of .*OnlyRows fails .* called as forward\(x, edge_index\)"),
    ({"module": own_modules.NotANumber}, "gives values that are no numbers"),
    ({"module": own_modules.Residual, "fanouts": "5,5"}, "passes messages 3 times, and batches reach 2 hops"),
    ({"module": cached("SGConv", cached=True)}, "sampling neighbors, and its SGConv has cached=True; give it cached=F"),
    ({"module": cached("GCNConv", cached=True), "accelerate": False}, "GCNConv has cached=True; give"),
    ({"module": cached("SGConv", cached=True), "sampling": "walks"}, "edges of their first batch with sampling walks"),
]


@pytest.mark.parametrize(("options", "words"), BAD, ids=lambda value: None if isinstance(value, dict) else value[:20])
def test_bad_modules(graph: any2vec.AttributedGraph, tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        trained(graph, OwnModule(**options), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("[1]", "module_args must be a JSON object of names"),
        ("{", "module_args must be a JSON object"),
        ({"act": print}, "In Python a function that makes the module can take anything"),
        ({"in_channels": 3}, "module_args must not have in_channels"),
    ],
)
def test_bad_arguments(given: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        module(module_args=given)


def test_hops_follow_what_is_said() -> None:
    def hops(**given: Any) -> tuple[int, ...]:
        found: GraphNetwork = OwnModule(module=PLACE, **given)
        return found.fanouts_by_hop

    assert hops() == (10, 10) and hops(fanouts="5,4,3") == (5, 4, 3) and hops(fanouts="all") == (-1, -1)
    assert hops(module_args={"num_layers": 3}) == (10, 10, 10) and hops(num_layers=1) == (10,)


def test_options_of_a_planted_graph_are_read(tmp_path: Path) -> None:
    planted = plant(tmp_path)
    result = trained(planted["edges"], module(), nodes=options(planted), epochs=1)
    assert result.summary["rows"] == 90

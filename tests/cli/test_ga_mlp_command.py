"""GA-MLP from outside: bad input, and the command."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import any2vec
from any2vec.cli.app import app
from any2vec.errors import DataError, InputError
from planted_nodes import SMALL, options, plant, trained
from spreads import spread

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return plant(tmp_path_factory.mktemp("nodes"))


# ---- bad input


def bad(planted: dict[str, Any], name: str, value: Any, tmp_path: Path) -> any2vec.NodeOptions:
    if isinstance(value, np.ndarray):
        np.save(tmp_path / "bad.npy", value)
        value = tmp_path / "bad.npy"
    elif isinstance(value, dict):
        np.savez(tmp_path / "bad.npz", **value)
        value = tmp_path / "bad.npz"
    elif isinstance(value, str | tuple):
        file, text = ("bad", value) if isinstance(value, str) else value
        (tmp_path / file).write_text(text)
        value = tmp_path / file
    return options(planted, **{name: value})


NAN = np.ones((90, 3))
NAN[4, 1] = np.nan
BAD = {
    "a NaN": ("features", NAN, "holds NaN"),
    "numbers beyond float32": ("features", np.full((90, 3), 1e300), "infinite number (in float32)"),
    "nothing but 0": ("features", np.zeros((90, 3)), "nodes and of their neighbors are 0"),
    "text as .npz": ("features", ("x.npz", "hello"), "x.npz cannot be read as features: it holds no numbers"),
    "two arrays": ("features", {"a": np.ones((90, 3)), "b": np.ones(3)}, "bad.npz holds 2 arrays"),
    "a table": ("features", "1,2\n3,4\n", "Features are a .npy or .npz file, a table (Parquet, Arrow, CSV)"),
    "too few rows": ("features", np.ones((80, 3)), "10 of the graph's 90 nodes have no features"),
    "no matrix": ("features", np.ones(90), "must be a matrix"),
    "no features": ("features", None, "say where features are"),
    "no file": ("features", Path("nowhere.npz"), "There are no features"),
    "a class for nobody": ("labels", "0 a\n1 b\n90 a\n", "node '90' has no features"),
    "labels missing": ("labels", "0 a\n1 b\n", "is in the split and has no class"),
    "one class": ("labels", "".join(f"{node} a\n" for node in range(90)), "There are 1 classes"),
    "two classes": ("labels", "0 a b\n1 b\n", "several classes"),
    "an empty training split": ("split", "0 val\n1 test\n", "training split is empty"),
    "a training split of one class": ("split", "# nodes\n0 train\n1 train\n40 test\n", "All 2 training nodes have"),
    "commas alone": ("split", "0 train\n,,\n", "line 2: expected `node train|val|test`"),
    "an unknown part": ("split", "0 train\n1 dev\n", "line 2: expected `node train|val|test`"),
    "twice": ("split", "0 train\n0 test\n", "in the split twice"),
    "an unknown node": ("split", "0 train\n95 test\n", "node '95' has no features"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence(planted: dict[str, Any], tmp_path: Path, case: str) -> None:
    name, value, sentence = BAD[case]
    with pytest.raises((DataError, InputError), match=re.escape(sentence)):
        trained(planted, nodes=bad(planted, name, value, tmp_path), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("model", "more", "sentence"),
    [
        ({}, {"hosts": any2vec.HostOptions(logical_hosts=5)}, "more hosts than layers, 5 and 4"),
        ({}, {"threads": 2}, "has one thread"),
        (
            {"trainer": "adam"},
            spread(dual="computed", logical_hosts=2),
            "dual does nothing with trainer adam",
        ),
        ({"micro_batches": 2}, {}, "micro_batches does nothing with trainer pdadmm"),
        ({"trainer": "adam", "quantize": "8"}, {}, "quantize does nothing with trainer adam"),
        ({"learning_rate": 0.1}, {}, "learning_rate does nothing with trainer pdadmm"),
        ({"quantized": "p"}, {}, "quantized does nothing with quantize none"),
        ({"restart": 0.5}, {}, "restart does nothing with psi powers"),
        ({"growth": "5-2"}, {}, "growth must be ascending"),
        ({"quantize": "grid", "grid": "3,1"}, {}, "ascending numbers"),
        ({"quantize": "grid", "grid": "0,1e300"}, {}, "finite and ascending, each once, in float32"),
        ({"layers": 1}, {}, "layers must be a whole number from 2"),
        ({}, {"init": "vectors"}, r"ga-mlp has no --init \(init\): it has no table of rows; leave it out"),
    ],
)
def test_options_that_do_not_go_together(planted: dict[str, Any], model: Any, more: Any, sentence: str) -> None:
    with pytest.raises((DataError, InputError), match=sentence):
        trained(planted, 30, SMALL | model, **more)


@needs_torch
@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"learning_rate": 10.0, "weight_decay": 1000.0}, "diverged; lower learning_rate"),
        ({"micro_batches": 24}, "more micro-batches than training nodes, 24 and 23"),
    ],
)
def test_what_back_propagation_cannot_do(planted: dict[str, Any], tmp_path: Path, more: Any, sentence: str) -> None:
    with pytest.raises((DataError, InputError), match=sentence):
        trained(planted, 100, SMALL | {"trainer": "gd"} | more, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_labels_and_splits_in_memory(planted: dict[str, Any]) -> None:
    for name, value, sentence in (
        ("labels", np.full(90, -2), r"labels must be whole numbers from 0 \(-1 for none\) or names"),
        ("labels", np.zeros(89, int), "one for each of 90 nodes"),
        ("split", {"train": [0, 90]}, "rows beyond the 90 nodes"),
    ):
        with pytest.raises(DataError, match=sentence):
            trained(planted, nodes=options(planted, **{name: value}))


# ---- the command


def test_the_command_announces_accuracy_bytes_and_the_lagrangian(planted: dict[str, Any], tmp_path: Path) -> None:
    inputs = ["train", "ga-mlp", str(planted["edges"])]
    inputs += [f"--{name}={planted[name]}" for name in ("features", "labels", "split")]
    shape = ["--layers", "4", "--width", "8", "--growth", "2", "--hops", "2", "--epochs", "30", "--seed", "2"]
    more = ["--json", "--logical-hosts", "2", "--quantize", "8", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, [*inputs, *shape, *more])
    assert done.exit_code == 0, done.output
    reported = json.loads(done.stdout)
    assert (
        reported["test_accuracy"] > 0.7
        and len(reported["lagrangian"]) == 30
        and reported["bytes_by_kind"]["p"] == 30 * 23 * 8
    )
    report = CliRunner().invoke(app, ["report", str(tmp_path / "run")])
    assert report.exit_code == 0 and (tmp_path / "run" / "report-monitors.png").stat().st_size > 5000
    classifier = any2vec.NodeClassifier.load(tmp_path / "run")
    assert classifier.classes == ["c0", "c1", "c2"] and len(classifier.weights) == 4
    # node 90 is new, tells nothing itself, and knows five of the last community
    (tmp_path / "more").write_text(planted["edges"].read_text() + "".join(f"90\t{node}\n" for node in range(70, 75)))
    np.save(tmp_path / "x.npy", np.vstack([planted["x"], np.zeros(12)]))
    ask = ["score", str(tmp_path / "run"), str(tmp_path / "more"), "--features", str(tmp_path / "x.npy")]
    said = CliRunner().invoke(app, ask)
    assert said.exit_code == 0 and len(said.stdout.splitlines()) == 91
    node, name, share = said.stdout.splitlines()[-1].split("\t")
    assert (node, name) == ("90", "c2") and 1 / 3 < float(share) <= 1
    counted = CliRunner().invoke(app, [*ask, "--json", "--out", str(tmp_path / "told.tsv")])
    assert sum(json.loads(counted.stdout)["classes"].values()) == 91
    assert (tmp_path / "told.tsv").read_text() == said.stdout
    for wrong in (ask[:3], [*ask, "--batch-size", "3"], [*ask[:3], ask[2], *ask[3:]]):
        assert CliRunner().invoke(app, wrong).exit_code == 2
    shown = CliRunner().invoke(app, [*inputs, *shape, "--linear-probe"])  # without a folder, for the accuracy alone
    assert shown.exit_code == 0 and "accuracy" in shown.stdout and "result" not in shown.stdout
    assert "linear model" in shown.stdout


def test_a_plan_says_the_bytes_that_hosts_send(planted: dict[str, Any]) -> None:
    command = ["plan", "ga-mlp", str(planted["edges"]), "--layers=4", "--width=8", "--growth=", "--hops=1"]
    command += [f"--{name}={planted[name]}" for name in ("features", "labels", "split")]
    reported = CliRunner().invoke(app, [*command, "--hosts=2", "--quantize=8", "--dual=computed", "--json", "--quiet"])
    found = json.loads(reported.stdout)
    model = any2vec.GAMLP(layers=4, width=8, growth="", hops=1, quantize="8")
    ran = trained(planted, 25, model.__dict__, **spread(logical_hosts=2, dual="computed"))
    sent = ran.summary["bytes_by_kind"]
    assert {kind: 25 * found["bytes_by_kind"][kind] for kind in "pqu"} == {kind: sent[kind] for kind in "pqu"}
    assert sum(found["layers_by_host"]) == 4 and found["host"]["memory_bytes"] == sum(found["host"]["memory"].values())
    shape = CliRunner().invoke(app, ["estimate", "ga-mlp", "--rows", "1M"])
    assert shape.exit_code == 2 and "give an INPUT, and leave out --rows" in shape.stderr


def test_the_command_refuses_in_one_sentence(planted: dict[str, Any], tmp_path: Path) -> None:
    inputs = ["train", "ga-mlp", str(planted["edges"]), "--features", str(planted["features"])]
    for more, sentence in (
        ([], "say where labels are, --labels"),
        (["--labels", str(planted["labels"]), "--layers", "3", "--logical-hosts", "4"], "more hosts than layers"),
        (["--labels", str(planted["labels"]), "--layers", "3-4"], "layers must be a whole number"),
        (["--sync", "mean"], "ga-mlp has no --sync (sync): hosts hold layers"),
    ):
        done = CliRunner().invoke(app, [*inputs, *more, "--out", str(tmp_path / "out")])
        assert done.exit_code == 2 and sentence in " ".join(done.output.split()), done.output
        assert not (tmp_path / "out").exists()

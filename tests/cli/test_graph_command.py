"""`any2vec graph build` and `show`: a graph of files, what is said of it, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli_runs import done, refused, run
from planted_nodes import plant


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return plant(tmp_path_factory.mktemp("planted"))


def command(planted: dict[str, Any], out: Path, **given: Any) -> list[str]:
    chosen = {name: planted[name] for name in ("features", "labels", "split")} | given
    flags = [word for name, value in chosen.items() for word in (f"--{name}", str(value))]
    return ["graph", "build", str(planted["edges"]), "--out", str(out), *flags]


def test_build_and_show(planted: dict[str, Any], tmp_path: Path) -> None:
    built = json.loads(done(*command(planted, tmp_path / "g"), "--json"))
    assert built == json.loads(done("graph", "show", str(tmp_path / "g"), "--json"))
    num_edges = len(planted["edges"].read_text().splitlines())
    expected = {"nodes": 90, "edges": num_edges, "features": 12, "classes": 3, "labeled": 90, "splits": 1}
    assert {name: built[name] for name in expected} == expected
    assert (built["train"], built["val"], built["test"]) == ([23], [23], [44])
    shown = done("graph", "show", str(tmp_path / "g"), "--check")
    assert f"90 nodes, {num_edges:,} edges, undirected" in shown and "all as they were written" in shown


def test_show_finds_damage(planted: dict[str, Any], tmp_path: Path) -> None:
    done(*command(planted, tmp_path / "g", **{"feature-type": "int8"}), "--out-neighbors", "--quiet")
    path = tmp_path / "g" / "labels.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\x07")
    found = run("graph", "show", str(tmp_path / "g"), "--check", "--json")
    assert found.exit_code == 2 and json.loads(found.stdout)["problems"] == ["labels.npy: its checksum is another"]


def test_bad_input_is_refused(planted: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "g"
    (tmp_path / "split").write_text("0 train\n95 test\n")
    (tmp_path / "labels").write_text("0 a\nx b\n")
    assert "is not an attributed graph" in refused("graph", "show", str(tmp_path))
    assert "There are no features" in refused(*command(planted, out, features="nowhere.npy"))
    assert "node '95' is not there" in refused(*command(planted, out, split=tmp_path / "split"))
    assert "node 'x' is not there" in refused(*command(planted, out, labels=tmp_path / "labels"))
    assert "feature_type must be one of" in refused(*command(planted, out, **{"feature-type": "int4"}))
    assert "there is no 3" in refused(*command(planted, out, **{"split-index": 3}))
    assert "nowhere" in refused("graph", "build", "nowhere", "--out", str(out))
    assert not out.exists()


def test_scores_of_vectors_that_learned_the_classes_say_so(planted: dict[str, Any], tmp_path: Path) -> None:
    """Not of those that learned without."""
    pytest.importorskip("torch")
    graph, labels = str(tmp_path / "g"), ["--task", "nodes", "--data", str(planted["labels"]), "--fractions", "0.5"]
    done(*command(planted, tmp_path / "g"))
    for objective in ("classes", "unsupervised"):
        out = str(tmp_path / objective)
        done("train", "graphsage", graph, "--objective", objective, "--epochs", "1", "--threads", "1", "--out", out)
        told = run("evaluate", out, *labels)
        is_learned = objective == "classes"
        assert told.exit_code == 0 and ("learned from the classes of 23 nodes" in told.output) == is_learned
        assert json.loads(done("evaluate", out, *labels, "--json")).get("num_trained", 0) == 23 * is_learned

"""The command line end to end: every help, the main job on words and on a graph, one JSON object per command."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from any2vec._version import __version__
from any2vec.cli import main
from any2vec.cli.app import COMMANDS, app
from any2vec.embeddings import Embeddings

HELPS = [*COMMANDS, "data show", "data get"]
COLORS, ANIMALS = ["red", "green", "blue", "pink"], ["cat", "dog", "cow", "hen"]


def invoke(*arguments: str, code: int = 0, columns: int = 80) -> Any:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": str(columns)})
    assert result.exit_code == code, result.output
    return result


def run(*arguments: str) -> dict[str, Any]:
    """A command with --json: standard output is one JSON object."""
    return json.loads(invoke(*arguments, "--json").stdout)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text of two topics, a graph of two cliques, labels, pairs and questions; a run on each."""
    folder = tmp_path_factory.mktemp("cli")
    rng = random.Random(1)
    lines = [" ".join(rng.choices(rng.choice([COLORS, ANIMALS]), k=10)) for _ in range(2000)]
    (folder / "text.txt").write_text("\n".join(lines))
    nodes = {side: [f"{side}{number}" for number in range(8)] for side in "lr"}
    edges = [pair for side in "lr" for pair in combinations(nodes[side], 2)] + [("l0", "r0")]
    (folder / "edges.txt").write_text("\n".join(f"{a} {b}" for a, b in edges))
    (folder / "labels.txt").write_text("\n".join(f"{node} {side}" for side in "lr" for node in nodes[side]))
    pairs = [("red", "blue", 9), ("cat", "dog", 8), ("red", "cow", 1), ("hen", "pink", 2)]
    (folder / "pairs.txt").write_text("\n".join(f"{a}\t{b}\t{score}" for a, b, score in pairs))
    (folder / "questions.txt").write_text(": topics\nred blue cat dog\nred green cow hen\n")
    train("words", folder, "skipgram", "text.txt", "--dim", "12", "--subsample", "0", "--epochs", "2")
    train("nodes", folder, "node2vec", "edges.txt", "--dim", "12", "--window", "3", "--q", "0.5")
    return folder


def train(out: str, folder: Path, model: str, source: str, *arguments: str) -> dict[str, Any]:
    summary = run("train", model, str(folder / source), "--out", str(folder / out), "--threads", "1", *arguments)
    (folder / f"{out}.json").write_text(json.dumps(summary))
    return summary


@pytest.mark.parametrize("name", HELPS)
def test_every_help(name: str) -> None:
    text = invoke(*name.split(), "--help").stdout
    assert "Usage" in text and name.split()[-1] in text
    assert max(map(len, text.splitlines())) <= 80
    assert invoke(*name.split(), "-h").stdout == text


def test_the_root() -> None:
    text = invoke("--help").stdout
    assert all(name in text for name in COMMANDS)
    assert invoke("--version").stdout == f"any2vec {__version__}\n"


def test_train_json(place: Path) -> None:
    words, nodes = (json.loads((place / f"{name}.json").read_text()) for name in ("words", "nodes"))
    for summary in (words, nodes):
        assert {"items_per_s", "seconds", "loss", "peak_rss_bytes", "rows", "dim", "train_seconds"} <= set(summary)
        assert all(summary[name] > 0 for name in ("items_per_s", "seconds", "loss", "peak_rss_bytes"))
        assert summary["dim"] == 12
    assert (words["rows"], nodes["rows"]) == (8, 16)
    assert words["items"] == 2 * 20_000 and words["model"] == "skipgram"


def test_nearest_and_analogy(place: Path) -> None:
    near = run("nearest", str(place / "words"), "red", "-k", "3")
    assert near["key"] == "red" and {one["key"] for one in near["neighbors"]} == {"green", "blue", "pink"}
    assert -1 <= near["neighbors"][2]["score"] <= near["neighbors"][0]["score"] <= 1.0001
    assert len(run("nearest", str(place / "nodes"), "l1", "r1", "-k", "2")["queries"]) == 2
    Embeddings([7, 5, -3], np.eye(3)).save(place / "numbers", overwrite=True)
    assert "5" in invoke("nearest", str(place / "numbers"), "7").stdout
    assert {one["key"] for one in run("nearest", str(place / "numbers"), "7")["neighbors"]} == {"5", "-3"}
    assert len(run("analogy", str(place / "words"), "red", "blue", "cat", "-k", "4")["answers"]) == 4
    assert "'grey' is not among" in invoke("analogy", str(place / "words"), "red", "grey", "cat", code=2).stderr
    some = invoke("nearest", str(place / "words"), "red", "grey", "cat", "-k", "2", code=2)
    assert "nearest to red" in some.stdout and "nearest to cat" in some.stdout and "'grey' is not among" in some.stderr
    shown = invoke("nearest", str(place / "words"), "red", "-k", "2").stdout
    assert "nearest to red" in shown and "cosine" in shown and "\x1b" not in shown


def test_evaluate_and_report(place: Path) -> None:
    words, nodes = str(place / "words"), str(place / "nodes")
    found = run("evaluate", words, "--task", "similarity", "--data", str(place / "pairs.txt"))
    assert found["task"] == "similarity" and found["spearman"] > 0.5 and found["covered"] == 4
    assert (
        run("evaluate", words, "--task", "analogy", "--data", str(place / "questions.txt"))["total"]["questions"] == 2
    )
    labels = ["--task", "nodes", "--data", str(place / "labels.txt"), "--fractions", "0.5", "--shuffles", "3"]
    assert run("evaluate", nodes, *labels)["scores"][0]["micro_f1"] > 0.9
    assert "micro F1" in invoke("evaluate", nodes, *labels).stdout
    assert len((place / "nodes" / "evaluation.jsonl").read_text().splitlines()) == 1
    page = Path(run("report", nodes)["page"])
    assert page.is_file() and "micro" in page.read_text()


def test_split_then_links(place: Path, tmp_path: Path) -> None:
    split = run("split", str(place / "edges.txt"), "--out", str(tmp_path / "split"), "--negatives", "4")
    edges = Path(split["train_edges"])
    assert split["num_train_edges"] + split["num_test_edges"] == 57 == split["num_edges"]
    train("run", tmp_path, "deepwalk", str(edges), "--dim", "12", "--window", "3", "--epochs", "5")
    found = run("evaluate", str(tmp_path / "run"), "--task", "links", "--data", str(tmp_path / "split"))
    assert found["auc"] > 0.8 and 0 <= found["mrr"] <= 1


def test_walk_then_train(place: Path, tmp_path: Path) -> None:
    options = ["--walks-per-node", "5", "--walk-length", "10"]
    walked = run("walk", str(place / "edges.txt"), "--out", str(tmp_path / "walks"), *options, "--threads", "2")
    assert walked["walks"] == 80 and walked["steps"] == 800 and walked["steps_per_s"] > 0
    assert train("run", tmp_path, "deepwalk", "walks", "--dim", "8")["items"] == 800


@pytest.mark.parametrize(
    "format", ["word2vec", "word2vec-binary", "glove", "safetensors", "parquet", "arrow", "npz", "tensorboard"]
)
def test_export(place: Path, tmp_path: Path, format: str) -> None:
    out = tmp_path / "vectors"
    done = run("export", str(place / "words"), "--format", format, "--out", str(out))
    assert done["rows"] == 8 and done["bytes"] > 8 * 12
    assert done["files"] == [str(out), *map(str, tmp_path.glob("*.vocabulary.tsv"))]
    back = Embeddings.load(out, format=format)
    assert back.nearest("red", 1)[0][0] == Embeddings.load(place / "words").nearest("red", 1)[0][0]
    invoke("export", str(place / "words"), "--format", format, "--out", str(out), "--overwrite")


def test_export_of_a_format_that_is_named(place: Path, tmp_path: Path) -> None:
    Embeddings.load(place / "words").save(tmp_path / "words.kv", format="word2vec")
    out = str(tmp_path / "x.npz")
    assert "say --from kv" in invoke("export", str(tmp_path / "words.kv"), "--out", out, code=2).stderr
    assert run("export", str(tmp_path / "words.kv"), "--from", "word2vec", "--out", out)["rows"] == 8


def test_config_file_and_flags(place: Path, tmp_path: Path) -> None:
    text, config = place / "text.txt", tmp_path / "run.toml"
    lines = [f'input = "{text}"', 'model = "cbow"', f'out = "{tmp_path / "a"}"', "dim = 6", "epochs = 1", "threads = 1"]
    config.write_text("\n".join([*lines, "min-count = 1", "subsample = 0", "lowercase = true"]))
    assert run("train", "--config", str(config))["dim"] == 6
    first = (tmp_path / "a" / "vectors.safetensors").read_bytes()
    flags = ["--dim", "6", "--epochs", "1", "--threads", "1", "--min-count", "1"]
    run("train", "cbow", str(text), *flags, "--subsample", "0", "--lowercase", "--out", str(tmp_path / "b"))
    assert (tmp_path / "b" / "vectors.safetensors").read_bytes() == first
    other = run("train", "--config", str(config), "--dim", "5", "--no-lowercase", "--out", str(tmp_path / "c"))
    assert other["dim"] == 5


def test_init_carries_on(place: Path, tmp_path: Path) -> None:
    (tmp_path / "new.txt").write_text("red mauve blue mauve green mauve\n" * 30)
    summary = train("more", tmp_path, "skipgram", "new.txt", "--dim", "12", "--init", str(place / "words"))
    assert summary["rows"] == 9
    near = run("nearest", str(tmp_path / "more"), "cat", "-k", "3")["neighbors"]
    assert {one["key"] for one in near} == {"dog", "cow", "hen"}


def test_data_and_doctor() -> None:
    names = [one["name"] for one in run("data")["sets"]]
    assert "wordeval" in names and run("data", "show", "wordeval")["license"]
    assert invoke("data").stdout.count("\n") > len(names)
    assert run("doctor")["any2vec"] == __version__
    assert "python" in invoke("doctor").stdout


def test_the_doctor_says_what_holds_matrix_products_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    free = run("doctor")
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    held = run("doctor")
    (sentence,) = set(held["warnings"]) - set(free["warnings"])
    assert sentence.startswith("OPENBLAS_CORETYPE is set: ") and not set(free["warnings"]) - set(held["warnings"])
    assert held["environment"]["OPENBLAS_CORETYPE"] == "Haswell" and "OPENBLAS_CORETYPE" not in free["environment"]


@pytest.mark.parametrize("name", ["train.tsv", "train.toml", "test.tsv", "test.toml"])
def test_plant_replaces_nothing_unasked(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    command = ["data", "plant", str(tmp_path), "--examples", "10", "--columns", "2", "--rows", "5"]
    refused = invoke(*command, code=2)
    assert not refused.stdout and refused.stderr == (
        f"Error: {tmp_path / name} exists; choose another folder or pass --overwrite.\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == [name] and (tmp_path / name).read_text() == "mine"
    assert run(*command, "--overwrite")["folder"] == str(tmp_path)
    shown = invoke(*command, "--overwrite").stdout
    assert "best log-loss" in shown and not shown.startswith("{")
    assert (tmp_path / name).read_text() != "mine" and len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize("is_quiet", [True, False], ids=["quiet", "loud"])
def test_the_installed_command(place: Path, tmp_path: Path, is_quiet: bool) -> None:
    """A process of its own: standard output is the JSON alone, standard error plain lines or nothing."""
    command = [str(Path(sys.executable).parent / "any2vec"), "train", "skipgram", "-", "--dim", "8"]
    command += ["--out", str(tmp_path / "out"), "--json"] + ["--quiet"] * is_quiet
    with (place / "text.txt").open("rb") as text:
        done = subprocess.run(command, stdin=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["rows"] == 8 and 0 < summary["train_seconds"] < summary["seconds"]
    assert "\x1b" not in done.stderr and "\r" not in done.stderr
    assert bool(done.stderr) is not is_quiet


@pytest.mark.parametrize(("rank", "expected"), [("0", ["joined", "alone"]), (None, ["alone"])])
def test_a_process_that_torchrun_made_joins_the_others(
    rank: str | None, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[str] = []
    monkeypatch.setattr("any2vec.cluster.launch.join.run_child", lambda _: began.append("joined"))
    monkeypatch.setattr("any2vec.cli.app.run", lambda: began.append("alone"))
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("RANK", rank)
    main()
    assert began == expected

"""Flags and TOML keys come from dataclasses: types, defaults, help, precedence, errors with the nearest match."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
import typer
from typer.testing import CliRunner

from any2vec.checks import did_you_mean
from any2vec.cli.app import app, load
from any2vec.cli.options import field_docs, flags_of, read_config, with_flags
from any2vec.cli.run.flags import model_flags
from any2vec.embeddings import Embeddings
from any2vec.errors import DataError, InputError
from any2vec.train.registry import models_of, tasks
from cli_runs import refused


@dataclass(frozen=True, kw_only=True)
class Base:
    dim: int = 100
    """length of a vector,
    in [1, 4096]"""


@dataclass(frozen=True, kw_only=True)
class Words(Base):
    window: int = 5
    """words to each side"""
    objective: Literal["negative", "hierarchical"] = "negative"
    """how the loss is taken"""
    max_vocab: int | None = None
    """the most frequent words only"""


@dataclass(frozen=True, kw_only=True)
class Nodes(Base):
    dim: int = 128
    p: float = 1.0
    """return parameter"""
    is_directed: bool | None = None
    """edges have a direction"""
    folder: Path | None = None
    """some folder"""
    hidden: list[int] = field(default_factory=list, metadata={"flag": False})


FLAGS = flags_of({"words": Words, "nodes": Nodes}, {"words": "Model", "nodes": "Model"})


def test_flags_know_type_default_and_help() -> None:
    assert list(FLAGS) == ["dim", "window", "objective", "max_vocab", "p", "is_directed", "folder"]
    assert FLAGS["dim"].help == "length of a vector, in [1, 4096]"
    assert FLAGS["dim"].defaults == {"words": 100, "nodes": 128}
    assert FLAGS["max_vocab"].flag == "--max-vocab"
    assert FLAGS["max_vocab"].kind is int and FLAGS["max_vocab"].nullable
    assert FLAGS["objective"].choices == ("negative", "hierarchical")
    assert FLAGS["folder"].kind is Path
    assert field_docs(Words)["dim"] == "length of a vector, in [1, 4096]"


def run(arguments: list[str]) -> Any:
    """Parse `arguments` with a command made of FLAGS; the values that were given."""
    seen: dict[str, Any] = {}

    def command(name: str, **values: Any) -> None:
        """Train."""
        seen.update(name=name, **values)

    single = typer.Typer(add_completion=False)
    single.command()(with_flags(command, FLAGS))
    result = CliRunner().invoke(single, arguments, env={"COLUMNS": "80"})
    return result, seen


def test_only_given_flags_arrive() -> None:
    assert run(["x", "--dim", "7", "--no-is-directed", "--objective", "negative"])[1] == {
        "name": "x",
        "dim": 7,
        "is_directed": False,
        "objective": "negative",
    }


def test_a_flag_and_its_opposite_are_refused(tmp_path: Path) -> None:
    said = refused("train", "skipgram", "x.txt", "--out", str(tmp_path / "o"), "--no-lowercase", "--lowercase")
    assert "--lowercase and --no-lowercase contradict each other" in said
    config = tmp_path / "c.toml"
    for text, expected in (('cache_dir = ""\n', "cache_dir is empty"), ("min-count = 1\nmin_count = 2\n", "twice")):
        config.write_text(text)
        said = refused("train", "skipgram", "x.txt", "--out", str(tmp_path / "o"), "--config", str(config))
        assert expected in said


def test_wrong_flags_end_with_code_2() -> None:
    for arguments in (["x", "--dim", "seven"], ["x", "--objective", "other"], ["x", "--windwo", "3"], []):
        result, seen = run(arguments)
        assert result.exit_code == 2 and not seen and not result.stdout


def test_help_shows_intervals_and_defaults_of_each_model() -> None:
    text = " ".join(run(["--help"])[0].stdout.replace("│", " ").split())
    assert "in [1, 4096]" in text
    assert "[default 100 for words, 128 for nodes]" in text
    assert "negative | hierarchical; how the loss is taken [default negative]" in text
    assert "--objective" in text and "--no-is-directed" in text


def test_config_file(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('dim = 3\nmax-vocab = 9\np = 1\nmodel = "words"\nis_directed = true\nfolder = "a/b"\n')
    values = read_config(path, FLAGS, {"model": str})
    assert values == {"dim": 3, "max_vocab": 9, "p": 1.0, "model": "words", "is_directed": True, "folder": Path("a/b")}
    assert isinstance(values["p"], float)


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("windwo = 3", InputError, "did you mean 'window'?"),
        ("zzz = 3", InputError, "no option 'zzz'; see --help.$"),
        ('dim = "3"', InputError, "dim must be a whole number, got '3'"),
        ("dim = true", InputError, "dim must be a whole number"),
        ("dim = 1.5", InputError, "dim must be a whole number"),
        ("objective = 'x'", InputError, "one of negative, hierarchical"),
        ("model = 3", InputError, "wrong type"),
        ("[train]\ndim = 3", InputError, "no option 'train'"),
        ("dim = ", DataError, "is not TOML"),
        (None, DataError, "Cannot read the config"),
    ],
)
def test_config_errors(tmp_path: Path, text: str | None, error: type[Exception], said: str) -> None:
    path = tmp_path / "run.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(error, match=said.replace("?", r"\?")):
        read_config(path, FLAGS, {"model": str})


def test_a_field_of_two_types_is_a_bug() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Other:
        dim: float = 1.0

    with pytest.raises(TypeError, match="dim is float, elsewhere int"):
        flags_of({"words": Words, "other": Other}, {"words": "Model", "other": "Model"})


HELPS = [
    (command, model)
    for command in ("train", "stream", "estimate", "plan")
    for model in load(command).list_commands(None)
]


def shown(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments, "--help"], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize(("command", "model"), HELPS, ids=map(" ".join, HELPS))
def test_the_help_of_a_model_is_short_and_shows_its_own_flags(command: str, model: str) -> None:
    text = shown(command, model)
    assert len(text.splitlines()) <= 90 and max(map(len, text.splitlines())) <= 80
    trainer = "stream" if command == "stream" else "train"
    flags = {name: model_flags(task.name, name) for name, task in models_of(trainer).items()}
    typed = set(re.findall(r"^  (?:-\w, )?--(?:\[no-\])?([\w-]+)", text, re.MULTILINE))
    own = {flag.flag[2:] for flag in flags[model].values()}
    others = {flag.flag[2:] for theirs in flags.values() for flag in theirs.values()} - own
    assert not typed & others
    assert own <= typed or command in ("estimate", "plan")
    assert "None" not in text and "as of" not in text
    rows = re.findall(r"^  (\S.*?)(?:  +|\n {10,})(\S.*)$", text, re.MULTILINE)
    assert len(rows) == len(re.findall(r"^  \S", text, re.MULTILINE)), "every option has a text"


def test_a_command_that_trains_nothing_lists_what_changes_its_answer_and_takes_the_rest() -> None:
    for command in ("estimate", "plan"):
        text = shown(command, "skipgram")
        assert "--dim" in text and "--min-count" in text and "--resume" not in text
        arguments = [command, "skipgram", "--rows", "1000", "--resume", "--epochs", "1", "--json", "--quiet"]
        assert CliRunner().invoke(app, arguments).exit_code == 0
    assert "--hosts" in shown("plan", "skipgram") and "--hosts" not in shown("estimate", "skipgram")


@pytest.mark.parametrize("command", ["train", "stream", "estimate", "plan"])
def test_the_help_of_a_command_lists_models_by_task(command: str) -> None:
    text = shown(command)
    assert len(text.splitlines()) <= 45 and max(map(len, text.splitlines())) <= 80
    for task in tasks().values():
        listed = [
            model for model in task.models if (command, model) in HELPS and models_of(task.command)[model] is task
        ]
        if task.command == ("stream" if command == "stream" else "train") and listed:
            part = text.partition(f"\n{task.title[:1].upper()}{task.title[1:]}:\n")[2].partition("\n\n")[0]
            assert re.findall(r"^  ([\w-]+)", part, re.MULTILINE) == listed


def test_help_says_the_defaults_of_its_model() -> None:
    rule = "[default spectral for text, blend for nodes]"
    for model, default in (("skipgram", rule), ("dlrm", "[default shadow-easgd]")):
        flags = model_flags(models_of("train")[model].name, model)
        assert flags["sync"].help.endswith(default) and default in " ".join(shown("train", model).split())
    for model, epochs in (("skipgram", 5), ("deepwalk", 1), ("complex", 24)):
        assert f"passes over the data, 1 or more [default {epochs}]" in shown("train", model)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("train in.txt --model skipgram", "The model comes first, without --model: any2vec train skipgram INPUT"),
        ("train in.txt --model=cbow --out out", "The model comes first, without --model: any2vec train cbow INPUT"),
        ("train --model skipgram in.txt", "The model comes first, without --model: any2vec train skipgram INPUT"),
        ("stream in.txt --model char-lstm", "without --model: any2vec stream char-lstm INPUT"),
        ("estimate in.txt --model cbow", "without --model: any2vec estimate cbow INPUT"),
        ("train in.txt --model skipgrm", "there is no model 'skipgrm' here; did you mean 'skipgram'"),
        (
            "train in.txt --out out",
            "The model comes before the input, as in any2vec train skipgram in.txt; it is one of",
        ),
        ("train - --out out", "The model comes before the input, as in any2vec train skipgram -; it is one of"),
        ("train --out out in.txt", "The model comes first, as in any2vec train skipgram INPUT --out"),
        ("train skipgrm in.txt", "There is no model 'skipgrm' here; did you mean 'skipgram'"),
        ("train complex in.txt --servers 1", "complex has no --servers (servers): rows lie on the hosts themselves"),
        ("train fm in.txt --bottom 8", "fm has no --bottom: it is for dlrm; leave it out"),
        (
            "train dlrm in.txt --no-weighted",
            "dlrm has no --no-weighted: it is for deepwalk, node2vec, ga-mlp, graphsage, gcn",
        ),
        ("stream ngram in.txt --epochs 2", "ngram has no --epochs (epochs): a stream has no epochs"),
        ("estimate skipgram in.txt --hosts 2", "any2vec estimate is for one host: leave out --hosts"),
    ],
)
def test_a_command_line_without_its_model_or_with_another_ones_option(
    arguments: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_text("a b c\n" * 50)
    result = CliRunner().invoke(app, arguments.split())
    assert result.exit_code == 2 and result.stdout == "" and result.stderr.count("\n") == 1
    assert result.stderr.startswith("Error: ") and said in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


@pytest.mark.parametrize(
    ("command", "content"),
    [
        ("train", 'model = "cbow"\nmin_count = 1\nepochs = 1'),
        ("stream", 'model = "skipgram"\nmin-count = 2\nmemory = "20MB"'),
    ],
)
def test_a_config_file_says_everything(
    command: str, content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_text("a b c a b\n" * 50)
    (tmp_path / "x.toml").write_text(f'{content}\ninput = "in.txt"\nout = "out"\ndim = 4\nthreads = 1\n')
    result = CliRunner().invoke(app, [command, "--config", "x.toml", "--json", "--quiet"])
    assert result.exit_code == 0, result.output
    found = Embeddings.load(tmp_path / "out")
    assert found.vectors.shape == (3, 4) and json.loads(result.stdout)["out"] == "out"


def test_a_config_file_without_a_model(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text("dim = 4\n")
    result = CliRunner().invoke(app, ["train", "--config", str(path)])
    assert result.exit_code == 2 and f'The config {path} names no model: add model = "skipgram"' in result.stderr
    path.write_text("dual = 'sent'\nmodel = 'complex'\n")
    result = CliRunner().invoke(app, ["train", "--config", str(path)])
    assert result.exit_code == 2 and "complex has no --dual (dual)" in result.stderr
    path.write_text("bottom = '8'\nmodel = 'fm'\n")
    result = CliRunner().invoke(app, ["train", "--config", str(path)])
    assert result.exit_code == 2 and "fm has no --bottom: it is for dlrm; leave it out" in result.stderr


@pytest.mark.parametrize("name", ["", "-"])
def test_no_folder_and_standard_output_are_no_place_for_a_result(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.txt").write_text("a b\n")
    (tmp_path / "run.toml").write_text(f"out = '{name}'\n")
    for rest in (["--out", name], ["--config", str(tmp_path / "run.toml")]):
        said = refused("train", "skipgram", str(tmp_path / "a.txt"), *rest)
        assert "must name a folder" in said and repr(name) in said
    for command in (["walk", "a"], ["split", "a"], ["export", "a"], ["stream", "skipgram", "a"]):
        assert "must name a f" in refused(*command, "--out", name)


def test_did_you_mean() -> None:
    assert did_you_mean("num_negativs", ["num_negatives", "dim"]) == "did you mean 'num_negatives'?"
    assert did_you_mean("zzz", ["num_negatives", "dim"]) == "known are num_negatives, dim."
    assert did_you_mean("zzz", ["dim"], "see --help.") == "see --help."

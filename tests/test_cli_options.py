"""Flags and TOML keys come from dataclasses: types, defaults, help, precedence, errors with the nearest match."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
import typer
from any2vec.cli.run.job import job_flags
from typer.testing import CliRunner

from any2vec.cli.config import read_config
from any2vec.cli.options import field_docs, flags_of, nearest_match, with_flags
from any2vec.errors import DataError, InputError


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

    app = typer.Typer(add_completion=False)
    app.command()(with_flags(command, FLAGS))
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "80"})
    return result, seen


def test_only_given_flags_arrive() -> None:
    assert run(["x", "--dim", "7", "--no-is-directed", "--objective", "negative"])[1] == {
        "name": "x",
        "dim": 7,
        "is_directed": False,
        "objective": "negative",
    }


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
        ("zzz = 3", InputError, "known are"),
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


def test_help_tells_what_can_be_typed_and_of_whom_a_default_is() -> None:
    flags = job_flags()
    assert not [name for name, flag in flags.items() if "None" in flag.help or "as of" in flag.help]
    assert flags["sync"]._help().endswith("[default blend for words and nodes, shadow-easgd for clicks]")


def test_nearest_match() -> None:
    assert nearest_match("num_negativs", ["num_negatives", "dim"]) == "did you mean 'num_negatives'?"

"""The command line in this process, and what it may answer."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

from any2vec.cli.app import app
from any2vec.cli.run.flags import model_flags
from any2vec.train.registry import models_of

ODD = (
    "0", "-1", "1", "2", "7", "0.5", "-0.5", "nan", "inf", "1e999", "1e-320", "9" * 30, "1_0", "0x10", "٣",
    "", " ", "x", "-", "--", "é", "\x1b[31m", "\udcff", "a,b", "1,2,x", "0.1,0.9", ":", "a:1:2", "100:lru", "/", "../x",
    "a.txt", "a b", "[", "(?P<", "%s", "10GB", "-5B", "none", "true",
)  # fmt: skip
_NOT_TRIED = {
    "hosts", "logical_hosts", "ray", "restarts", "link", "host_timeout", "follow", "epochs", "memory", "cache_dir",
    "max_seconds", "patience", "threads", "walks_per_node", "walk_length", "init", "overwrite", "resume",
}  # fmt: skip
"""flags that start processes, or wait as long as they say, or ask for more work than an input may take"""
_FILES = {
    "words": "a.txt",
    "triples": "triples.tsv",
    "clicks": "clicks.csv",
    "recommend": "likes.tsv",
    "stream": "a.txt",
}


class AnswerError(Exception):
    """A command did not answer as it should."""


def call(folder: Path, *arguments: str, is_sound: bool = True) -> None:
    """Run a command in a folder. AnswerError: it ends otherwise than well, or (unless it is sound) by one sentence."""
    with contextlib.chdir(folder):
        found = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200", "ANY2VEC_DEBUG": "0"})
    said = found.stderr.strip()
    if found.exit_code == 0 and "Traceback" not in said:
        return
    is_silent = not found.stdout or (arguments[0] == "nearest" and "is not among" in said)  # others are answered
    is_refused = found.exit_code == 2 and said.startswith("Error: ") and "\n" not in said and is_silent
    if is_sound or not is_refused:
        raise AnswerError(f"any2vec {' '.join(map(repr, arguments))}: {found.exit_code} {said[-2000:]!r}")


def draw_flags(rng: np.random.Generator) -> list[str]:
    """A command with one to three flags, of its model's or of another one's, of any value."""
    command = ("train", "train", "estimate", "stream")[int(rng.integers(4))]
    known = models_of("stream" if command == "stream" else "train")
    models = [(name, task) for name, task in known.items() if task.name in _FILES]
    model, task = models[int(rng.integers(len(models)))]
    flags = {name: flag for name, flag in model_flags(task.name, model).items() if name not in _NOT_TRIED}
    given: list[str] = []
    for _ in range(int(rng.integers(1, 4))):
        name = list(flags)[int(rng.integers(len(flags)))]
        value = ODD[int(rng.integers(len(ODD)))]
        if flags[name].choices and rng.random() < 0.5:
            value = str(flags[name].choices[int(rng.integers(len(flags[name].choices)))])
        given += ["--" + name.replace("_", "-")] + [value] * (flags[name].kind is not bool)
    own: list[Any] = ["--schema", "schema.toml"] if task.name == "clicks" else []
    out = [] if command == "estimate" else ["--out", "out", "--quiet"]
    small = [] if "--dim" in given or "dim" not in flags else ["--dim", "4"]
    return [command, model, _FILES[task.name], *own, *small, *out, *given]

"""The scores of a run that its folder keeps, `evaluation.jsonl`: a line for each test, by which reports name them."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import Any

from any2vec.checks import parse_json
from any2vec.data.io.storage import atomic_file
from any2vec.errors import StorageError

FILE = "evaluation.jsonl"
_OPTIONS = (
    "method", "score", "max_vocab", "k", "unknown", "unseen", "known", "exclude", "fractions", "shuffles", "seed",
)  # fmt: skip
"""what makes two scores of a task on the same data different tests"""
_SPOKEN = ("method", "score", "unknown")
"""those whose values need no name"""


def keep_scores(run: Path, found: Sequence[Mapping[str, Any]]) -> None:
    """Keep scores, ready for JSON, in a run folder; a test's newer score takes the place of the older one.

    Others who keep scores there at the same time wait for each other. Does nothing for other vector files, and where
    the folder may not be written.
    """
    if not (run / "run.json").is_file():
        return
    path = run / FILE
    with suppress(StorageError, OSError), _alone(path):
        kept: dict[tuple[Any, ...], str] = {}
        for line in path.read_text("utf-8", "replace").split("\n"):
            with suppress(ValueError, KeyError):
                kept[_which(parse_json(line))] = line
        for one in found:
            kept.pop(_which(one), None)  # the newest ones last
            kept[_which(one)] = json.dumps(one)
        with atomic_file(path) as temporary:
            temporary.write_text("".join(line + "\n" for line in kept.values()), "utf-8")


def told_apart(scores: Sequence[Mapping[str, Any]]) -> list[str]:
    """What each was measured on: data by as much of their paths, and options where others of the task differ in them.

    Scores of several runs are given together, so that one name is one test.
    """
    paths = [str(one.get("data") or "") for one in scores]
    short = {path: _short(path, {*paths}) for path in paths}
    return [
        " ".join(filter(None, [short[path], *_unlike(one, scores)])) for path, one in zip(paths, scores, strict=True)
    ]


def _which(score: Mapping[str, Any]) -> tuple[Any, ...]:
    """What makes two scores the same test."""
    return score["task"], score["data"], *map(score.get, _OPTIONS)


def _unlike(one: Mapping[str, Any], scores: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The options in which others of the task, on the same data, differ from it."""
    test = [one.get(name) for name in ("task", "name", "data")]
    others = [other for other in scores if [other.get(name) for name in ("task", "name", "data")] == test]
    for name in _OPTIONS:
        value = one.get(name)
        if value is not None and any(other.get(name) != value for other in others):
            yield str(value) if name in _SPOKEN else f"{name} {value}"


def _short(path: str, paths: set[str]) -> str:
    """A path by its name, and by as many folders above as tell it apart; several stand behind each other."""
    pieces = path.split(", ")
    for depth in range(1, max(len(PurePath(piece).parts) for piece in pieces)):
        name = _tail(path, depth)
        if all(_tail(other, depth) != name for other in paths - {path}):
            return name
    return path


def _tail(path: str, depth: int) -> str:
    return ", ".join("/".join(PurePath(piece).parts[-depth:]) for piece in path.split(", "))


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep others out of a file that is replaced; it is made where there is none.

    Raises:
        OSError: it cannot be written.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            with suppress(OSError):  # file systems without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if not path.exists() or not os.path.samestat(os.fstat(descriptor), path.stat()):
                continue  # whoever had it has replaced it: the lock is of a file that is gone
            yield
            return
        finally:
            os.close(descriptor)

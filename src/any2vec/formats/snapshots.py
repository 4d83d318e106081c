"""Vectors that are published while training goes on: `snapshots/000042/` and `latest`, a link to the newest.

A snapshot is a native folder, written under a temporary name and renamed; then the link is replaced by a rename. So
whoever follows the link finds all of a snapshot. The newest two stay: a reader that has begun with one may end.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from any2vec.data.io.storage import fsync_path, storage_errors, temporary_beside
from any2vec.types import State

FOLDER, LATEST = "snapshots", "latest"
KEPT = 2
_NAME = re.compile(r"\d{6,}")
_TRIES = 50
"""snapshots that may be published while one reader opens its own"""

Found = TypeVar("Found")


def publish(out: Path, write: Callable[[Path], None]) -> str:
    """Publish what `write` puts into the folder that it is given; the snapshot's name.

    Raises:
        StorageError: it cannot be written; the snapshot before stands.
    """
    folder = out / FOLDER
    with storage_errors(out):
        folder.mkdir(exist_ok=True)
        before = names(out)
        name = f"{int(before[-1]) + 1 if before else 1:06d}"
        temporary = temporary_beside(folder / name)
        temporary.mkdir()
        try:
            write(temporary)
            fsync_path(temporary)
            temporary.rename(folder / name)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        fsync_path(folder)
        link = temporary_beside(out / LATEST)
        link.symlink_to(Path(FOLDER, name), target_is_directory=True)
        link.replace(out / LATEST)
        fsync_path(out)
        for old in [*before, name][:-KEPT]:
            shutil.rmtree(folder / old, ignore_errors=True)
    return name


def names(out: Path) -> list[str]:
    """Those of the snapshots in a folder, the newest last."""
    with suppress(FileNotFoundError):
        return sorted((path.name for path in (out / FOLDER).iterdir() if _NAME.fullmatch(path.name)), key=int)
    return []


def remove_snapshots(out: Path) -> None:
    """Remove the link and all snapshots."""
    with storage_errors(out):
        (out / LATEST).unlink(missing_ok=True)
        if (out / FOLDER).exists():
            shutil.rmtree(out / FOLDER)


def has_snapshots(folder: Path) -> bool:
    """Whether a folder is one whose vectors are its latest snapshot's."""
    return (folder / LATEST).is_symlink()


def with_latest(folder: Path, read: Callable[[Path], Found]) -> Found:
    """What `read` makes of the latest snapshot; again where newer ones have replaced it before all was read.

    Raises:
        Whatever `read` raises of a snapshot that is still the latest.
    """
    for _ in range(_TRIES):
        latest = (folder / LATEST).readlink()
        try:
            return read(folder / latest)
        except Exception:
            if (folder / LATEST).readlink() == latest:
                raise
    return read(folder / (folder / LATEST).readlink())


Place = dict[str, Any]
Upgrade = Callable[[State, Place], tuple[State, Place]]
_FLAT = ("replica", "value", "square", "mean", "easgd.centre", "bmuf.global", "bmuf.velocity")
"""dense parameters, their slices, and the state of their optimizers: were (1, n)"""


def _run(state: State, place: Place) -> tuple[State, Place]:
    """A run of version 2."""
    found: State = {}
    for name, array in state.items():
        kept, at, host = name.partition("@")
        found |= {f"{new}{at}{host}": one for new, one in _upgraded(kept, array).items()}
    return found, place


def _upgraded(name: str, array: np.ndarray) -> Mapping[str, np.ndarray]:
    """What became of one array; name: without its host."""
    stem, _, end = name.rpartition(".")
    if name == "history":
        return {name: np.ascontiguousarray(array).view(np.float64)}
    if end == "count" or name == "count":
        return {name: array.reshape(()).astype(np.int64)}
    if name == "dense" or name in _FLAT or stem == "replica":
        return {name: array.reshape(-1)}
    if name == "gaia.threshold":
        return {name: array.reshape(()).astype(np.float64)}
    if name == "leader.loss":
        return {name: array.reshape(())}
    if stem.startswith("leader.") and end == "leader":
        return {name: array.reshape(()).astype(np.int64)}
    if stem.startswith("leader.") and end == "flags":
        return {f"{stem}.ids": np.flatnonzero(array[0]), f"{stem}.trained": array[1] > 0}
    if (stem.startswith("elastic.") and end == "alive") or (stem.startswith("leader.") and end == "moved"):
        return {name: array[0] > 0}
    if stem.startswith("ds-sync.") and end == "news":
        return {f"{stem}.weight": array[0], f"{stem}.life": array[1].astype(np.uint8), f"{stem}.moved": array[2] > 0}
    if stem.startswith("gaia.") and end.startswith("slots"):
        return {name: np.flatnonzero(array[0])}
    return {name: array}


def _stream(state: State, place: Place) -> tuple[State, Place]:
    """A stream of version 1."""
    parts, duplicates = place["queued"]
    numbers: State = {name: np.array(place[name], np.int64) for name in ("number", "offset", "words")}
    lines: State = {
        "source": np.array([source for source, _, _ in parts], np.int64),
        "lines": np.array([lines for _, lines, _ in parts], np.int64),
        "ids": np.frombuffer(json.dumps([ids for _, _, ids in parts]).encode(), np.uint8),
        "duplicates": np.array(duplicates, np.int64).reshape(-1, 2),
    }
    more = numbers | {f"lines.{name}": array for name, array in lines.items()}
    return state | {f"batches.{name}": array for name, array in more.items()}, {"positions": place["positions"]}


UPGRADES: Mapping[tuple[str, int | None], Upgrade] = {
    ("any2vec-checkpoint", 2): _run, ("any2vec-stream-checkpoint", 1): _stream,
}  # fmt: skip
"""by format and version: from its arrays and its place to those of the present version

Raises:
    KeyError, TypeError, ValueError, IndexError: they are not those of such a checkpoint.
"""

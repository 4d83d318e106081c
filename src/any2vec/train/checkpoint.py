"""Checkpoints: rows, position and settings of an unfinished run, in one file, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from any2vec._version import __version__
from any2vec.data.io.storage import atomic_file, storage_errors
from any2vec.errors import FormatError, InputError
from any2vec.formats.safetensors_file import check_file, read_safetensors, write_safetensors

FILE = "checkpoint.safetensors"
"""its name in the run folder"""
FORMAT = "any2vec-checkpoint"
VERSION = 2
_NOT_EVERYWHERE = ("data.corpus", "data.parts.", "data.visits_per_epoch")
"""settings that some runs do not know: where the data came from as one reader, or so many, saw it; and how long the
walks are, which hosts that hold parts have not counted yet when they look whether anything is left to do"""


@dataclass(frozen=True)
class Place:
    """Where in the data a run stands."""

    epoch: int
    rounds_done: int
    """rounds of the epoch that are done"""
    rounds: int
    """rounds of an epoch"""
    rest: tuple[tuple[tuple[int, int], ...], ...] = ()
    """by rank: positions [start, stop) that are left of the epoch"""
    is_whole: bool = True
    """the epoch began on these hosts: with as many of them it goes on just as if it had never stopped"""


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stands: its tables by name, and what is left of the epoch at hand. Free of the layout of hosts."""

    state: dict[str, np.ndarray]
    """tables by name; what single hosts remember as NAME@RANK"""
    place: Place
    settings: dict[str, Any]
    """what must be the same for the run to go on: model, data, start vectors, epochs, seed"""
    totals: dict[str, Any]
    """items and seconds so far"""


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write to `path`: a tensor for each table, the rest as JSON in the metadata.

    One file, replaced by one rename: a kill at any moment leaves the old one or the new one.

    Raises:
        StorageError: the disk is full or the folder cannot be written; the previous checkpoint stands.
    """
    about = {
        "format": FORMAT, "version": VERSION, "any2vec": __version__, "place": asdict(checkpoint.place),
        "settings": checkpoint.settings, "totals": checkpoint.totals,
    }  # fmt: skip
    with atomic_file(path) as temporary, temporary.open("wb") as file:
        write_safetensors(file, checkpoint.state, "float32", {"any2vec": json.dumps(about)}, is_checked=True)


def load_checkpoint(path: Path, settings: dict[str, Any]) -> Checkpoint:
    """Open the checkpoint, rows memory-mapped, and hold it against the settings of the run that wants to go on.

    Raises:
        FormatError: it is damaged, or from a newer version.
        InputError: it belongs to a run with other settings; the message names the first that differs.
    """
    state, about = open_sound(path, partial(read_safetensors, mmap=True), "checkpoint", FORMAT, VERSION)
    try:
        place, former = _place(about["place"]), dict(about["settings"])
        totals = {"items": int(about["totals"]["items"]), "seconds": float(about["totals"]["seconds"])}
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path} is damaged: its metadata lack {error}. Start again with --overwrite.") from error
    check_settings(path, former, settings)
    return Checkpoint(state, place, former, totals)


def open_sound(
    path: Path,
    read: Callable[[Path], tuple[dict[str, np.ndarray], dict[str, str]]],
    what: str,
    format: str,
    version: int,
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """(arrays, what is told of them) of a checkpoint whose bytes are those that were written.

    Args:
        read: gives a file's arrays and metadata.
        what: it is, without its article.

    Raises:
        FormatError: it is damaged, or not of this format and version.
    """
    try:
        check_file(path)
        state, metadata = read(path)
        about = json.loads(metadata.get("any2vec", "null"))
    except (OSError, ValueError, FormatError) as error:
        raise FormatError(f"{path} is damaged: {error} Start again with --overwrite.") from error
    if not isinstance(about, dict) or about.get("format") != format or about.get("version") != version:
        raise FormatError(f"{path} is no {what} that this version reads; start again with --overwrite.")
    return state, about


def _place(about: dict[str, Any]) -> Place:
    rest = tuple(tuple((int(start), int(stop)) for start, stop in ranges) for ranges in about["rest"])
    return Place(about["epoch"], about["rounds_done"], about["rounds"], rest, about["is_whole"])


def check_settings(path: Path, former: dict[str, Any], settings: dict[str, Any]) -> None:
    """Raise InputError when `path` is of a run with other settings; the message names the first that differs."""
    before, after = _flat(former), _flat(settings)
    for name in dict.fromkeys([*after, *before]):
        if name.startswith(_NOT_EVERYWHERE) and (name in before) != (name in after):
            continue  # the digest of the data, and the settings beside it, are compared all the same
        if before.get(name) != after.get(name):
            raise InputError(
                f"{path} is of a run with {name} = {before.get(name)!r}, this one has {after.get(name)!r}; "
                "resume with the same settings, or start again with --overwrite."
            )


def remove_checkpoint(path: Path) -> None:
    """Remove the checkpoint of a run that has finished, and what a killed process left of its writing."""
    with storage_errors(path):
        path.unlink(missing_ok=True)
        for rest in path.parent.glob(f".{path.name}.*.tmp"):
            rest.unlink(missing_ok=True)


def _flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in json.loads(json.dumps(settings)).items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat

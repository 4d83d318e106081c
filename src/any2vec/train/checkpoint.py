"""Checkpoints: rows, position and settings of an unfinished run, in one file, written whole or not at all."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from any2vec._version import __version__
from any2vec.data.storage import atomic_file, storage_errors
from any2vec.errors import FormatError, InputError
from any2vec.formats.safetensors_file import read_safetensors, write_safetensors

FILE = "checkpoint.safetensors"
"""its name in the run folder"""
FORMAT = "any2vec-checkpoint"
VERSION = 1


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stands: its tables by name, and (epoch, position) of the next work."""

    state: dict[str, np.ndarray]
    epoch: int
    position: int
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
        "format": FORMAT, "version": VERSION, "any2vec": __version__, "epoch": checkpoint.epoch,
        "position": checkpoint.position, "settings": checkpoint.settings, "totals": checkpoint.totals,
    }  # fmt: skip
    with atomic_file(path) as temporary, temporary.open("wb") as file:
        write_safetensors(file, checkpoint.state, "float32", {"any2vec": json.dumps(about)})


def load_checkpoint(path: Path, settings: dict[str, Any]) -> Checkpoint:
    """Open the checkpoint, rows memory-mapped, and hold it against the settings of the run that wants to go on.

    Raises:
        FormatError: it is damaged, or from a newer version.
        InputError: it belongs to a run with other settings; the message names the first that differs.
    """
    try:
        state, metadata = read_safetensors(path, mmap=True)
        about = json.loads(metadata.get("any2vec", "null"))
    except (OSError, ValueError, FormatError) as error:
        raise FormatError(f"{path} is damaged: {error} Start again with --overwrite.") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT or about.get("version", 0) > VERSION:
        raise FormatError(f"{path} is no checkpoint that this version reads; start again with --overwrite.")
    check_settings(path, about["settings"], settings)
    return Checkpoint(state, about["epoch"], about["position"], about["settings"], about["totals"])


def check_settings(path: Path, former: dict[str, Any], settings: dict[str, Any]) -> None:
    """Raise InputError when `path` is of a run with other settings; the message names the first that differs."""
    before, after = _flat(former), _flat(settings)
    for name in dict.fromkeys([*after, *before]):
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

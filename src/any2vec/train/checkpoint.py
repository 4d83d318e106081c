"""Checkpoints: rows, position and settings of an unfinished run, written whole or not at all."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.data.files import atomic_folder, storage_errors, write_json
from any2vec.errors import FormatError, InputError
from any2vec.formats.safetensors_file import read_safetensors, write_safetensors

FORMAT = "any2vec-checkpoint"
VERSION = 1


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stands: its tables by name, and (epoch, position) of the next work."""

    state: dict[str, np.ndarray]
    epoch: int
    position: int
    settings: dict[str, Any]
    """what must be the same for the run to go on: model, data, epochs, seed"""
    totals: dict[str, Any]
    """items and seconds so far"""


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write into `folder` (replaced whole by rename, so that a kill at any moment leaves the old one or the new one).

    Raises:
        StorageError: the disk is full or the folder cannot be written; the previous checkpoint stands.
    """
    with atomic_folder(folder, overwrite=True) as temporary:
        with (temporary / "state.safetensors").open("wb") as file:
            write_safetensors(file, checkpoint.state, "float32", {})
        meta = {
            "format": FORMAT, "version": VERSION, "epoch": checkpoint.epoch, "position": checkpoint.position,
            "settings": checkpoint.settings, "totals": checkpoint.totals,
        }  # fmt: skip
        write_json(temporary / "meta.json", meta)


def load_checkpoint(folder: Path, settings: dict[str, Any]) -> Checkpoint:
    """Read the checkpoint and hold it against the settings of the run that wants to go on.

    Raises:
        FormatError: it is damaged, or from a newer version.
        InputError: it belongs to a run with other settings; the message names the first that differs.
    """
    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FormatError(f"{folder} is damaged: {error}; start again with --overwrite.") from error
    if meta.get("format") != FORMAT or meta.get("version", 0) > VERSION:
        raise FormatError(f"{folder} is no checkpoint that this version reads; start again with --overwrite.")
    check_settings(folder, meta["settings"], settings)
    state, _ = read_safetensors(folder / "state.safetensors", mmap=False)
    return Checkpoint(state, meta["epoch"], meta["position"], meta["settings"], meta["totals"])


def check_settings(folder: Path, former: dict[str, Any], settings: dict[str, Any]) -> None:
    """Raise InputError when `folder` is of a run with other settings; the message names the first that differs."""
    before = _flat(former)
    for name, value in _flat(settings).items():
        if before.get(name) != value:
            raise InputError(
                f"{folder} is of a run with {name} = {before.get(name)!r}, this one has {value!r}; "
                "resume with the same settings, or start again with --overwrite."
            )


def remove_checkpoint(folder: Path) -> None:
    """Remove the checkpoint of a run that has finished."""
    with storage_errors(folder):
        if folder.exists():
            shutil.rmtree(folder)


def _flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in json.loads(json.dumps(settings)).items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat

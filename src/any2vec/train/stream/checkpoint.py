"""The checkpoint of a stream: vectors, vocabulary, what was seen, and where each source goes on, of one moment."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from any2vec._version import __version__
from any2vec.data.io.storage import atomic_file
from any2vec.errors import FormatError
from any2vec.formats.safetensors_file import read_arrays, write_arrays
from any2vec.train.checkpoint import check_settings, open_sound

FORMAT = "any2vec-stream-checkpoint"
VERSION = 1


@dataclass(frozen=True)
class StreamCheckpoint:
    """What a stream goes on from."""

    state: dict[str, np.ndarray]
    """arrays by name: NAME of the model, batches.NAME of the lines behind it"""
    place: dict[str, Any]
    """where the batches stand (`TokenBatches.state`)"""
    settings: dict[str, Any]
    """what must be the same for the run to go on"""
    totals: dict[str, Any]
    """words, seconds, counters of the sources, and the length of trained.ids so far"""


def save_stream(path: Path, checkpoint: StreamCheckpoint) -> None:
    """Write to `path`, whole or not at all.

    Raises:
        StorageError: the disk is full or the folder cannot be written; the previous checkpoint stands.
    """
    about = {
        "format": FORMAT, "version": VERSION, "any2vec": __version__, "place": checkpoint.place,
        "settings": checkpoint.settings, "totals": checkpoint.totals,
    }  # fmt: skip
    with atomic_file(path) as temporary, temporary.open("wb") as file:
        write_arrays(file, checkpoint.state, {"any2vec": json.dumps(about)}, is_checked=True)


def load_stream(path: Path, settings: dict[str, Any]) -> StreamCheckpoint:
    """Open the checkpoint, arrays memory-mapped, and hold it against the settings of the run that wants to go on.

    Raises:
        FormatError: it is damaged, or from a newer version.
        InputError: it belongs to a run with other settings; the message names the first that differs.
    """
    state, about = open_sound(path, read_arrays, "checkpoint of a stream", FORMAT, VERSION)
    try:
        found = StreamCheckpoint(state, about["place"], dict(about["settings"]), dict(about["totals"]))
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path} is damaged: its metadata lack {error}. Start again with --overwrite.") from error
    check_settings(path, found.settings, settings)
    return found

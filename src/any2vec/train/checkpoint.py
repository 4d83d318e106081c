"""Checkpoints: the state of an unfinished run or stream, its position and settings, in one file, written atomically.

A safetensors file: an array of any dtype and shape for each name, and JSON about it in the metadata, with a checksum.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from any2vec._version import __version__
from any2vec.checks import parse_json
from any2vec.data.io.storage import atomic_file, storage_errors
from any2vec.errors import FormatError, InputError
from any2vec.formats.legacy import UPGRADES, present_names
from any2vec.formats.safetensors_file import check_file, read_arrays, write_arrays
from any2vec.types import State

FILE = "checkpoint.safetensors"
"""its name in the run folder"""
_LOSSES = "lost-*.json"
"""what a lost host has cost: updates of rows since the checkpoint, as trainers that were left have counted them"""
FORMAT = "any2vec-checkpoint"
VERSION = 3
_NOT_EVERYWHERE = ("data.corpus", "data.parts.", "data.visits_per_epoch")
"""settings that some runs do not know: where the data came from as one reader, or so many, saw it; and how long the
walks are, which hosts that hold parts have not counted yet when they look whether anything is left to do"""


_NOTES = "data.notes"
"""sentences on how the data were read, which say nothing that the other settings do not"""


@dataclass(frozen=True)
class Checkpoint:
    """What a run or a stream goes on from. Free of the layout of hosts."""

    state: State
    """arrays by name; what single hosts keep as NAME@RANK, what the batches of a stream keep as batches.NAME"""
    place: dict[str, Any]
    """where it stands: `EpochSchedule.state_dict` of a run; of a stream, the positions of its sources"""
    settings: dict[str, Any]
    """what must be the same for the run to go on: model, data, start vectors, epochs, seed"""
    totals: dict[str, Any]
    """what was counted so far: items or words, seconds, ..."""

    def array(self, name: str, shape: tuple[int, ...], what: str = "rows") -> np.ndarray:
        """An array of the state; `what` it holds, for the message.

        Raises:
            FormatError: there is none of that name and shape: it is of another model, or other data.
        """
        found = self.state.get(name)
        if found is None or found.shape != shape:
            raise FormatError(f"{FILE} does not hold the {what} of this run; start again with --overwrite.")
        return found


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write to `path`: the arrays, the rest as JSON in the metadata.

    One file, replaced by one rename: a kill at any moment leaves the old one or the new one.

    Raises:
        StorageError: the disk is full or the folder cannot be written; the previous checkpoint stands.
    """
    about = {
        "format": FORMAT, "version": VERSION, "any2vec": __version__, "place": checkpoint.place,
        "settings": checkpoint.settings, "totals": checkpoint.totals,
    }  # fmt: skip
    with atomic_file(path) as temporary, temporary.open("wb") as file:
        write_arrays(file, checkpoint.state, {"any2vec": json.dumps(about)}, is_checked=True)


def load_checkpoint(
    path: Path, settings: dict[str, Any], needs: Callable[[Checkpoint], object] = lambda found: None
) -> Checkpoint:
    """Open the checkpoint, arrays memory-mapped, and compare its settings with those of the run that resumes.

    Former versions (2 of runs, 1 of streams) are read, too.

    Args:
        needs: reads what the run needs of place and totals, and lets KeyError, TypeError or ValueError go.

    Raises:
        FormatError: it is damaged, or of a version that is not read.
        InputError: it belongs to a run with other settings; the message names the first that differs.
    """
    try:
        check_file(path)
        state, metadata = read_arrays(path)
        about = parse_json(metadata.get("any2vec", "null"))
    except (OSError, ValueError, FormatError) as error:
        raise FormatError(f"{path} is damaged: {error} Start again with --overwrite.") from error
    kind = (str(about.get("format")), about.get("version")) if isinstance(about, dict) else ("", None)
    upgrade = UPGRADES.get(kind)
    if kind != (FORMAT, VERSION) and upgrade is None:
        raise FormatError(f"{path} is no checkpoint that this version reads; start again with --overwrite.")
    try:
        place = dict(about["place"])
        if upgrade is not None:
            state, place = upgrade(state, place)
        found = Checkpoint(state, place, present_names(about["settings"]), dict(about["totals"]))
        needs(found)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise FormatError(f"{path} is damaged: its metadata lack {error}. Start again with --overwrite.") from error
    check_settings(path, found.settings, settings)
    return found


def run_needs(found: Checkpoint) -> None:
    """What a run that is no stream needs of a checkpoint, for `load_checkpoint`."""
    place = found.place
    int(place["epoch"]), int(place["rounds_done"]), int(place["rounds"]), bool(place["is_whole"])
    [(int(start), int(stop)) for ranges in place["rest"] for start, stop in ranges]
    int(found.totals["items"])
    float(found.totals["seconds"])


def check_settings(path: Path, former: dict[str, Any], settings: dict[str, Any]) -> None:
    """Raise InputError when `path` is of a run with other settings; the message names the first that differs."""
    before, after = _flat(present_names(former)), _flat(settings)
    for name in dict.fromkeys([*after, *before]):
        if name == _NOTES or (name.startswith(_NOT_EVERYWHERE) and (name in before) != (name in after)):
            continue  # the digest of the data, and the settings beside it, are compared all the same
        if before.get(name) != after.get(name):
            is_data = name.startswith("data.")
            why, shown = ": its data are others, or were read otherwise" if is_data else "", name.removeprefix("run.")
            raise InputError(
                f"{path} is of a run with {shown} = {before.get(name)!r}, this one has {after.get(name)!r}{why}; "
                f"resume with the same {'data' if is_data else 'settings'}, or start again with --overwrite."
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


def note_loss(out: Path, rank: int, updates: int) -> None:
    """Leave word in the run folder for whoever goes on: so many updates of this trainer are in no checkpoint.

    It says nothing where the folder cannot be written: the error that ends this host is raised all the same.
    """
    with suppress(OSError):
        out.mkdir(parents=True, exist_ok=True)
        file = out / f"lost-{rank}-{uuid.uuid4().hex[:12]}.json"
        with atomic_file(file) as temporary:
            temporary.write_text(json.dumps({"rank": rank, "updates": updates}), encoding="ascii")


def updates_lost(out: Path) -> int:
    """All that was left word of, since the run began."""
    total = 0
    for file in out.glob(_LOSSES):
        with suppress(OSError, ValueError, KeyError, TypeError):
            total += int(parse_json(file.read_text(encoding="ascii"))["updates"])
    return total


def forget_losses(out: Path) -> None:
    """Remove the words: the run has ended, or begins anew."""
    for file in out.glob(_LOSSES):
        file.unlink(missing_ok=True)

"""The checkpoint of one server: its rows, their state and versions, in one file that is written whole or not at all.

A server that dies goes on from its last checkpoint; what it took since then is lost. How much that is can be said
exactly, in updates (a row changed by a push): the checkpoint knows how many the rows have taken, and trainers know how
many of theirs were acknowledged (`RowClient.acknowledged`). Where the server's host trains, too, its threads race for
the count, which may then miss a few; a host that only serves counts exactly.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from any2vec._version import __version__
from any2vec.data.storage import atomic_file
from any2vec.errors import FormatError, InputError
from any2vec.formats.safetensors_file import read_safetensors, write_safetensors
from any2vec.tables.trained_block import TrainedBlock

FORMAT = "any2vec-server"
VERSION = 1
_ROWS, _VERSIONS = "rows", "versions"


@dataclass(frozen=True, kw_only=True)
class BlockPlace:
    """Whose rows they are: what must be the same for a checkpoint to be taken up."""

    rank: int
    first: int
    """placed number of the block's first row"""
    job: str = ""
    """fingerprint of placement and settings"""


def server_file(folder: Path, rank: int) -> Path:
    return folder / f"server-{rank}.safetensors"


def save_block(folder: Path, block: TrainedBlock, place: BlockPlace) -> int:
    """Write a block; how many updates are in what was written. While it is written, nobody may change the rows.

    That is so within the work of `RowServer.every`, and where all trainers stand still.

    Raises:
        StorageError: the disk is full, or the folder cannot be written; the former checkpoint stands.
    """
    about = _about(block, place) | {"updates": block.updates, "any2vec": __version__}
    # A version has 64 bits: two float32 columns carry them, and nobody computes with those.
    tensors = {_ROWS: block.table, _VERSIONS: block.version_B.view(np.float32).reshape(-1, 2)}
    with atomic_file(server_file(folder, place.rank)) as temporary, temporary.open("wb") as file:
        write_safetensors(file, tensors, "float32", {"any2vec": json.dumps(about)})
    return block.updates


def restore_block(folder: Path, block: TrainedBlock, place: BlockPlace) -> int:
    """Put a checkpoint's rows into a block, in place; how many updates they have taken.

    Raises:
        FormatError: there is none, or it is damaged, or of another version; the block is as it was.
        InputError: it is of another server, placement or optimiser; the sentence names what differs.
    """
    path = server_file(folder, place.rank)
    try:
        tensors, metadata = read_safetensors(path, mmap=True)
        about = json.loads(metadata.get("any2vec", "null"))
    except (OSError, ValueError, FormatError) as error:
        raise FormatError(f"{path} is no checkpoint of a server that can be read: {error}") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT or about.get("version") != VERSION:
        raise FormatError(f"{path} is no checkpoint of a server that this version reads.")
    for name, value in _about(block, place).items():
        if about.get(name) != value:
            raise InputError(
                f"{path} is of a server with {name} = {about.get(name)!r}, this one has {value!r}; go on with the same "
                "settings and as many hosts, or start again."
            )
    empty = np.empty((0, 0), np.float32)
    rows, versions = tensors.get(_ROWS, empty), tensors.get(_VERSIONS, empty)
    if block.num_rows and (rows.shape != block.table.shape or versions.shape != (block.num_rows, 2)):
        raise FormatError(f"{path} is damaged: it holds {rows.shape[0]} rows, of {block.num_rows}.")
    if block.num_rows:
        block.table[:] = rows
        block.version_B[:] = np.ascontiguousarray(versions).view(np.int64).reshape(-1)
    return block.updates


def updates_lost(rank: int, acknowledged: Iterable[Mapping[int, int]], restored: int) -> int:
    """How many updates server `rank` had acknowledged and has not any more.

    Args:
        acknowledged: of every client of every trainer, since the rows began (`RowClient.acknowledged`).
        restored: updates in the checkpoint that it went on from.
    """
    return max(0, sum(counts.get(rank, 0) for counts in acknowledged) - restored)


def _about(block: TrainedBlock, place: BlockPlace) -> dict[str, Any]:
    optimiser = block.optimiser
    return {
        "format": FORMAT, "version": VERSION, "rank": place.rank, "first": place.first, "job": place.job,
        "rows": block.num_rows, "width": optimiser.width, "optimiser": optimiser.kind,
    }  # fmt: skip

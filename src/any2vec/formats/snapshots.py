"""Vectors that are published while training goes on: `snapshots/000042/` and `latest`, a link to the newest.

A snapshot is a native folder, written under a temporary name and renamed; then the link is replaced by a rename. So
whoever follows the link finds all of a snapshot. The newest two stay: a reader that has begun with one may end.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from any2vec.data.io.storage import fsync_path, storage_errors, temporary_beside

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

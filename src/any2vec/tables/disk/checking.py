"""Whether the files of a table larger than memory are as they were written: the table's store, and its triples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from any2vec.data.io.storage import FileCheck, format_of_folder
from any2vec.data.partitions.buckets import BUCKETS_FORMAT, check_buckets
from any2vec.errors import FormatError
from any2vec.tables.disk.partition_store import STORE_FORMAT, check_store

_CHECKS: dict[str, tuple[str, Callable[[Path], Iterator[FileCheck]]]] = {
    STORE_FORMAT: ("part-*", check_store),
    BUCKETS_FORMAT: ("triples.bin", check_buckets),
}
"""format -> (files by which a folder is known whose meta.json is damaged, what looks at it)"""


@dataclass(frozen=True)
class FolderCheck:
    """What a look at one folder has found."""

    folder: Path
    format: str
    files: tuple[FileCheck, ...]

    @property
    def problems(self) -> list[str]:
        """What is wrong, one sentence each."""
        return [file.problem for file in self.files if file.problem]

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "folder": str(self.folder),
            "format": self.format,
            "is_sound": not self.problems,
            "files": [file._asdict() for file in self.files],
        }


def check_folders(folder: Path | str) -> list[FolderCheck]:
    """Look at a store of partitions, at buckets of triples, or at those in a folder, those of several hosts too.

    Memory: the largest partition.

    Raises:
        FormatError: there are none.
        StorageError: another process has a store open.
    """
    folder = Path(folder)
    inner = sorted(path for path in (*folder.glob("*"), *folder.glob("host-*/*")) if path.is_dir())
    found = [(path, name) for path in (folder, *inner) if (name := _format(path))]
    if not found:
        raise FormatError(
            f"{folder} holds no table in partitions and no triples in buckets; give the folder of an unfinished run "
            "with --memory (a finished one has its vectors instead)."
        )
    return [FolderCheck(path, name, tuple(_CHECKS[name][1](path))) for path, name in found]


def _format(path: Path) -> str:
    """Which of the two a folder is; "" if neither."""
    format_name = format_of_folder(path)
    if format_name in _CHECKS:
        return str(format_name)
    known = (name for name, (files, _) in _CHECKS.items() if format_name is None and any(path.glob(files)))
    return next(known, "")

"""Results on disk: written whole or not at all, and never over what is not ours to replace."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from any2vec.checks import parse_json
from any2vec.errors import Any2VecError, FormatError, StorageError

RESULT_FORMAT = "any2vec-embeddings"
"""what a run folder holds, finished or not"""
RUN_FORMATS = ("any2vec-partitions", "any2vec-triple-buckets")
"""of folders within a run folder, while a run trains a table that is larger than memory"""
_META_NAMES = ("meta.json", "run.json")
_STALE_SECONDS = 7 * 86400.0


class FileCheck(NamedTuple):
    """What a look at one file of a store has found."""

    file: str
    num_bytes: int
    problem: str = ""
    """one sentence, or "" where nothing is wrong"""
    is_counted: bool = True
    """False: it was written and never committed, and goes when the store is opened"""


@contextmanager
def storage_errors(path: Path | str) -> Iterator[None]:
    """Turn an `OSError` raised inside into a `StorageError` of one sentence that names `path`."""
    try:
        yield
    except Any2VecError:
        raise
    except OSError as error:
        raise StorageError(_storage_message(path, error)) from error


def _storage_message(path: Path | str, error: OSError) -> str:
    reasons = {
        errno.ENOSPC: "the disk is full; free some space or choose another folder",
        errno.EDQUOT: "the disk quota is used up; free some space or choose another folder",
        errno.EACCES: "permission denied; choose a folder that you may write to",
        errno.EPERM: "permission denied; choose a folder that you may write to",
        errno.EROFS: "the file system is read-only; choose another folder",
        errno.ENOENT: "no folder can be made there; choose another place",
        errno.ENOTDIR: "a part of the path is a file, not a folder; choose another path",
        errno.EEXIST: "a file is in the way; choose another path",
        errno.EISDIR: "it is a folder; choose the path of a file",
        errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
    }
    if error.errno is None and "requested" in str(error):  # numpy's tofile says "N requested and M written", no errno
        return f"Cannot write {path}: {reasons[errno.ENOSPC]}."
    return (
        f"Cannot write {path}: {reasons.get(error.errno or 0, error.strerror or str(error) or type(error).__name__)}."
    )


def temporary_beside(path: Path) -> Path:
    """A hidden name of its own in the folder of `path`: what is left there of a killed process is known by it."""
    return path.parent / f".{path.name[:100]}.{uuid.uuid4().hex[:12]}.tmp"


def fsync_path(path: Path) -> None:
    """Force one file or folder to the disk; file systems that cannot sync a folder are left alone."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(descriptor)


@contextmanager
def atomic_file(path: Path | str, overwrite: bool = True) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on a clean exit it is synced and renamed to `path`, else removed.

    The caller creates the file. Folders above `path` are created, and are removed again if they stay empty.

    Raises:
        StorageError: the disk is full, the place cannot be written, or `path` exists and `overwrite` is False.
    """
    path = Path(os.path.realpath(path))
    temporary = temporary_beside(path)
    with storage_errors(path):
        check_file_free(path, overwrite)
        made = [folder for folder in path.parents if not folder.exists()]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            fsync_path(temporary)
            temporary.replace(path)
            fsync_path(path.parent)
        finally:
            temporary.unlink(missing_ok=True)
            _remove_empty(made)


def _remove_empty(folders: list[Path]) -> None:
    """Remove folders, the innermost first, up to one that holds something."""
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return


def check_file_free(path: Path | str, overwrite: bool) -> None:
    """Raise StorageError unless a file may be written at `path`: a folder is there, or what may not be replaced."""
    path = Path(os.path.realpath(path))
    with storage_errors(path):
        if path.is_dir():
            raise StorageError(f"Cannot write {path}: it is a folder; choose the path of a file.")
        if not overwrite and path.exists():
            raise StorageError(f"{path} exists; choose another path or pass --overwrite (overwrite=True).")


@contextmanager
def atomic_folder(path: Path | str, overwrite: bool, format: str) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; on a clean exit its files are synced and it takes the place of `path`.

    An empty folder at `path` is taken over; `check_folder_free` says which others may be replaced. On any exception
    the temporary folder is removed and `path` is as it was.

    Raises:
        StorageError: `path` is taken, or cannot be written, or the disk is full.
    """
    path = Path(os.path.realpath(path))
    temporary = temporary_beside(path)
    with storage_errors(path):
        check_folder_free(path, overwrite, format)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        try:
            yield temporary
            for name in sorted(temporary.rglob("*")):
                fsync_path(name)
            fsync_path(temporary)
            check_folder_free(path, overwrite, format)  # again: it may have appeared meanwhile
            _put_in_place(temporary, path)
            fsync_path(path.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def check_folder_free(path: Path | str, overwrite: bool, format: str) -> None:
    """Raise `StorageError` when `path` could not become an output folder of `format`: call it before long work.

    A missing or empty folder is free. One with content needs `overwrite`, and must hold the same format: a mistyped
    path must cost nobody a home folder, nor the corpus that a run reads. It, or what it would be made in, may be
    written to.
    """
    path = Path(path)
    with storage_errors(path):
        if not path.is_dir() and (path.exists() or path.is_symlink()):
            raise StorageError(f"{path} is a file, not a folder; choose another path.")
        check_replaceable(path, overwrite, format)
        above = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
        trial = temporary_beside(above / "any2vec")  # permissions alone do not tell: root may write to /proc
        trial.mkdir()
        trial.rmdir()


def check_replaceable(path: Path, overwrite: bool, format: str) -> None:
    """The part of `check_folder_free` that writes nothing: what a folder holds, if it is there."""
    if not path.is_dir() or not any(path.iterdir()):
        return
    if not overwrite:
        raise StorageError(f"{path} exists; choose another folder or pass --overwrite (overwrite=True).")
    if (found := format_of_folder(path)) != format:
        what = f"holds {found}, not {format}" if found else "is not an any2vec folder"
        raise StorageError(f"{path} {what}, so it is not overwritten; choose another folder.")
    if inner := next(
        (
            item.name for item in sorted(path.iterdir())
            if item.is_dir() and not item.match(".*.tmp") and not _is_of_a_run(item)
        ),
        None,
    ):  # fmt: skip
        raise StorageError(f"{path} holds the folder {inner}, so it is not overwritten; move that away first.")


def _is_of_a_run(inner: Path) -> bool:
    """Whether a folder in a run's is a table or triples that it trains on, or what a killed process left of them."""
    if inner.match("host-*"):  # one of several hosts has its own in there
        return all(map(_is_of_a_run, inner.iterdir()))
    return format_of_folder(inner) in RUN_FORMATS or (inner.name.startswith(".") and inner.name.endswith(".tmp"))


def format_of_folder(path: Path) -> str | None:
    """The any2vec format that a folder's meta.json names, or run.json in the folder of an unfinished run."""
    for name in _META_NAMES:
        with suppress(OSError, ValueError):
            meta = parse_json((path / name).read_text(encoding="utf-8"))
            found = meta.get("format") if isinstance(meta, dict) else None
            if isinstance(found, str) and found.startswith("any2vec-"):
                return found
    return None


def read_meta(folder: Path, format: str, version: int, what: str) -> dict[str, Any]:
    """The meta.json of a folder of this format, in a version that is known. what: the folder with its article.

    Raises:
        FormatError: meta.json cannot be read, or is of another format or a newer version.
    """
    try:
        text = (folder / "meta.json").read_text(encoding="utf-8")
        meta = parse_json(text)
        if "\\ud" in text.lower():  # half a surrogate pair, which nobody could write again, fails
            json.dumps(meta, ensure_ascii=False).encode()
    except (OSError, ValueError) as error:
        raise FormatError(f"{folder} is not {what}: its meta.json cannot be read.") from error
    if not isinstance(meta, dict):
        raise FormatError(f"{folder} is not {what}: its meta.json is not an object.")
    if meta.get("format") != format:
        raise FormatError(f"{folder} is not {what}; give a folder written by any2vec.")
    found = meta.get("version")
    if type(found) is not int or not 1 <= found <= version:
        noun = format.removeprefix("any2vec-")
        raise FormatError(f"{folder} has {noun} version {found}; this any2vec reads up to {version}.")
    return meta


def _put_in_place(temporary: Path, path: Path) -> None:
    if not path.exists():
        temporary.rename(path)
        return
    aside = temporary_beside(path)
    path.rename(aside)
    try:
        temporary.rename(path)
    except BaseException:
        aside.rename(path)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def remove_of_run(path: Path) -> None:
    """Remove a folder of an unfinished run, and what killed processes left of it; a cut leaves nothing half there.

    Raises:
        OSError: it cannot be removed.
    """
    for rest in path.parent.glob(f".{path.name}.*.tmp"):
        shutil.rmtree(rest)
    if format_of_folder(path) in RUN_FORMATS:
        gone = path.with_name(f".{path.name}.gone.tmp")
        path.rename(gone)
        shutil.rmtree(gone)


def remove_stale(folder: Path) -> None:
    """Remove temporary files and folders that killed processes left in `folder` more than a week ago."""
    with suppress(OSError):
        for path in folder.glob(".*.tmp"):
            if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON (inside an `atomic_file` or `atomic_folder`)."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")

"""Files in and out: atomic writes, and inputs (plain, gz, zst, xz, standard input) as a stream of byte blocks."""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import queue
import shutil
import stat
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from any2vec.data.unpack import packing_of, unpack
from any2vec.errors import Any2VecError, DataError, StorageError

if TYPE_CHECKING:
    import numpy as np

BLOCK_BYTES = 1 << 20
"""bytes in a block of unpacked input"""
STDIN = "-"
_RAW_BYTES = 1 << 18
_STALE_SECONDS = 7 * 86400.0
RESULT_FORMAT = "any2vec-embeddings"
"""what a run folder holds, finished or not"""
_META_NAMES = ("meta.json", "run.json")
_T = TypeVar("_T")


# ---- writing ----------------------------------------------------------------------------------------------------


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


def _temporary_beside(path: Path) -> Path:
    return path.parent / f".{path.name[:100]}.{uuid.uuid4().hex[:12]}.tmp"


def _fsync(path: Path) -> None:
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

    The caller creates the file. Folders above `path` are created.

    Raises:
        StorageError: the disk is full, the place cannot be written, or `path` exists and `overwrite` is False.
    """
    path = Path(os.path.realpath(path))
    temporary = _temporary_beside(path)
    with storage_errors(path):
        if path.is_dir():
            raise StorageError(f"Cannot write {path}: it is a folder; choose the path of a file.")
        if not overwrite and path.exists():
            raise StorageError(f"{path} exists; choose another path or pass --overwrite (overwrite=True).")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            _fsync(temporary)
            temporary.replace(path)
            _fsync(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path | str, overwrite: bool, format: str) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; on a clean exit its files are synced and it takes the place of `path`.

    An empty folder at `path` is taken over; `check_folder_free` says which others may be replaced. On any exception
    the temporary folder is removed and `path` is as it was.

    Raises:
        StorageError: `path` is taken, or cannot be written, or the disk is full.
    """
    path = Path(os.path.realpath(path))
    temporary = _temporary_beside(path)
    with storage_errors(path):
        check_folder_free(path, overwrite, format)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        try:
            yield temporary
            for name in sorted(temporary.rglob("*")):
                _fsync(name)
            _fsync(temporary)
            check_folder_free(path, overwrite, format)  # again: it may have appeared meanwhile
            _put_in_place(temporary, path)
            _fsync(path.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def check_folder_free(path: Path | str, overwrite: bool, format: str) -> None:
    """Raise `StorageError` when `path` could not become an output folder of `format`: call it before long work.

    A missing or empty folder is free. One with content needs `overwrite`, and must hold the same format: a mistyped
    path must cost nobody a home folder, nor the corpus that a run reads.
    """
    path = Path(path)
    with storage_errors(path):
        if path.is_dir():
            if not any(path.iterdir()):
                return
            if not overwrite:
                raise StorageError(f"{path} exists; choose another folder or pass --overwrite (overwrite=True).")
            if (found := format_of_folder(path)) != format:
                what = f"holds {found}, not {format}" if found else "is not an any2vec folder"
                raise StorageError(f"{path} {what}, so it is not overwritten; choose another folder.")
            if inner := next((item.name for item in sorted(path.iterdir()) if item.is_dir()), None):
                raise StorageError(f"{path} holds the folder {inner}, so it is not overwritten; move that away first.")
        elif path.exists() or path.is_symlink():
            raise StorageError(f"{path} is a file, not a folder; choose another path.")


def format_of_folder(path: Path) -> str | None:
    """The any2vec format that a folder's meta.json names, or run.json in the folder of an unfinished run."""
    for name in _META_NAMES:
        with suppress(OSError, ValueError, RecursionError):
            meta = json.loads((path / name).read_text(encoding="utf-8"))
            found = meta.get("format") if isinstance(meta, dict) else None
            if isinstance(found, str) and found.startswith("any2vec-"):
                return found
    return None


def _put_in_place(temporary: Path, path: Path) -> None:
    if not path.exists():
        temporary.rename(path)
        return
    aside = _temporary_beside(path)
    path.rename(aside)
    try:
        temporary.rename(path)
    except BaseException:
        aside.rename(path)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def remove_stale(folder: Path) -> None:
    """Remove temporary files and folders that killed processes left in `folder` more than a week ago."""
    with suppress(OSError):
        for path in folder.glob(".*.tmp"):
            if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def fingerprint(*arrays: np.ndarray) -> str:
    """BLAKE2b (128 bits, hex) of the bytes of arrays, one after the other."""
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(array.reshape(-1).data)
    return digest.hexdigest()


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON (inside an `atomic_file` or `atomic_folder`)."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


# ---- naming inputs ----------------------------------------------------------------------------------------------


def expand_inputs(source: str | Path | Iterable[str | Path]) -> list[str]:
    """The files that `source` names: a path, a folder (its files at any depth), a glob, `-`, or a list of those.

    Files of a folder or glob come in sorted order, hidden ones left out; a list keeps its order.

    Raises:
        DataError: a name matches no file, or a folder holds none.
    """
    if not isinstance(source, (str, Path)):
        return [name for item in source for name in expand_inputs(item)]
    name = str(source)
    if name == STDIN:
        return [name]
    with _reading(name if len(name) < 200 else name[:80] + "..."):
        return _expand(name)


def _expand(name: str) -> list[str]:
    path = Path(name)
    if path.is_dir():
        files = [item for item in path.rglob("*") if not _is_hidden(item.relative_to(path)) and item.is_file()]
        if not files:
            raise DataError(f"The folder {name} holds no files; give a folder with text files in it.")
        return [str(item) for item in sorted(files)]
    if path.exists() or not glob.has_magic(name):
        if not path.exists():
            raise DataError(f"There is no file {name}; check the path.")
        return [name]
    found = [item for item in sorted(glob.glob(name, recursive=True)) if Path(item).is_file()]  # noqa: PTH207
    if not found:
        raise DataError(f"No file matches {name}; check the pattern.")
    return found


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def is_regular(path: str) -> bool:
    """Whether `path` is a regular file, which can be read twice (unlike a pipe or standard input)."""
    return path != STDIN and stat.S_ISREG(Path(path).stat().st_mode)


def content_hash(path: str | Path) -> str:
    """BLAKE2b (128 bits, hex) of the file's bytes as they lie on the disk.

    Raises:
        DataError: the file cannot be read.
    """
    digest = hashlib.blake2b(digest_size=16)
    for chunk in _raw_chunks(str(path)):
        digest.update(chunk)
    return digest.hexdigest()


# ---- reading ----------------------------------------------------------------------------------------------------


def read_head(path: str, size: int = 16) -> bytes:
    """The first bytes of a regular file, unpacked or not: as they lie on the disk."""
    with _reading(path), Path(path).open("rb") as file:
        return file.read(size)


def read_blocks(
    path: str | Path,
    *,
    block_bytes: int = BLOCK_BYTES,
    on_read: Callable[[bytes], None] | None = None,
    allow_empty: bool = False,
) -> Iterator[bytes]:
    """Yield the unpacked bytes of `path` (`-`: standard input) in blocks of `block_bytes`, the last one shorter.

    gz, zst (window log up to 31) and xz are told by their first bytes, members and frames may follow one another.
    `on_read` gets every chunk of packed bytes (progress, hashing). Memory O(block) + the decompressor's window.

    Raises:
        DataError: the file is missing, unreadable, truncated, damaged, or (unless `allow_empty`) empty.
    """
    name = str(path)
    buffer = bytearray()
    is_empty = True
    for chunk in _unpacked_chunks(name, on_read):
        buffer += chunk
        if len(buffer) >= block_bytes:
            start = 0
            while len(buffer) - start >= block_bytes:
                yield bytes(memoryview(buffer)[start : start + block_bytes])
                start += block_bytes
            is_empty = False
            del buffer[:start]
    if buffer:
        yield bytes(buffer)
    elif is_empty and not allow_empty:
        raise DataError(f"{display(name)} is empty; give a file with content.")


def display(path: str) -> str:
    """The name of an input in messages."""
    return "Standard input" if path == STDIN else path


@contextmanager
def _reading(name: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise DataError(f"There is no file {name}; check the path.") from error
    except IsADirectoryError as error:
        raise DataError(f"{name} is a folder; give a file.") from error
    except PermissionError as error:
        raise DataError(f"Cannot read {name}: permission denied.") from error
    except OSError as error:
        raise DataError(f"Cannot read {display(name)}: {error.strerror or error}.") from error


def _open_raw(name: str) -> BinaryIO:
    if name != STDIN:
        return Path(name).open("rb", buffering=0)
    if sys.stdin is None:
        raise DataError("Standard input is closed; give a file.")
    return sys.stdin.buffer


def _raw_chunks(name: str) -> Iterator[bytes]:
    with _reading(name):
        file = _open_raw(name)
    try:
        while True:
            with _reading(name):
                chunk = file.read(_RAW_BYTES)
            if not chunk:
                return
            yield chunk
    finally:
        if name != STDIN:
            file.close()


def _unpacked_chunks(name: str, on_read: Callable[[bytes], None] | None) -> Iterator[bytes]:
    chunks = _raw_chunks(name)
    if on_read is not None:
        chunks = _tell(chunks, on_read)
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= 6:
            break
    packing = packing_of(name, head)
    first = iter([head] if head else [])
    stream = (chunk for part in (first, chunks) for chunk in part)
    if packing is None:
        return stream
    return unpack(display(name), packing, stream)


def _tell(chunks: Iterator[bytes], on_read: Callable[[bytes], None]) -> Iterator[bytes]:
    for chunk in chunks:
        on_read(chunk)
        yield chunk


def prefetch(items: Iterable[_T], depth: int = 4) -> Iterator[_T]:
    """Yield `items` in order while a thread computes up to `depth` of them ahead; its exceptions come out here."""
    ready: queue.Queue[tuple[bool, Any]] = queue.Queue(maxsize=depth)
    stop = threading.Event()

    def put(entry: tuple[bool, Any]) -> bool:
        while not stop.is_set():
            with suppress(queue.Full):
                ready.put(entry, timeout=0.1)
                return True
        return False

    def work() -> None:
        try:
            for item in items:
                if not put((True, item)):
                    return
            put((False, None))
        except BaseException as error:
            put((False, error))

    thread = threading.Thread(target=work, name="any2vec-reader", daemon=True)
    thread.start()
    try:
        while True:
            is_item, value = ready.get()
            if is_item:
                yield value
            elif value is None:
                return
            else:
                raise value
    finally:
        stop.set()
        thread.join(timeout=1.0)

"""The cache of what data become: folders named by a hash of what they were made of and how, published whole.

Below its root each kind has a folder: corpora/, graphs/, clicks/; index/ in it remembers hashes of large files.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

from any2vec.data.io.files import content_hash
from any2vec.data.io.storage import atomic_file, remove_stale, storage_errors
from any2vec.errors import DataError, FormatError, StorageError
from any2vec.machine import cache_root

T = TypeVar("T")
Progress = Callable[[int, int | None], None]
_INDEX_FROM = 1 << 24
_SETTLED_SECONDS = 2.0


class Cache(Generic[T]):
    """The folders of one kind.

    Args:
        open_folder: opens one of them; FormatError: it is damaged.
        cache_dir: the cache's root, None: that of `machine.cache_root`.
    """

    def __init__(self, kind: str, open_folder: Callable[[Path], T], cache_dir: Path | str | None) -> None:
        self.folder = cache_root(cache_dir) / kind
        self._open = open_folder

    def prepare(self) -> None:
        """Make the folder, rid of what killed processes left.

        Raises:
            StorageError: it cannot be made.
        """
        with storage_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        remove_stale(self.folder)

    def place(self, *parts: Any) -> Path:
        """Where that lies which is made of these parts: what reads it, how, and what was read, as JSON knows them."""
        return self.folder / digest_of(parts)

    def find(self, path: Path) -> T | None:
        """What is at `path`; None, and nothing is left there, when it is missing or damaged."""
        if not path.is_dir():
            return None
        try:
            return self._open(path)
        except FormatError:
            shutil.rmtree(path, ignore_errors=True)
            return None

    def get(self, path: Path, make: Callable[[Path], T], num_bytes: int, progress: Progress | None) -> T:
        """What is at `path`, or is made there now. num_bytes: that making it reads."""
        if (known := self.find(path)) is not None:
            if progress is not None:
                progress(num_bytes, num_bytes)
            return known
        try:
            return make(path)
        except StorageError:
            if (known := self.find(path)) is not None:  # another process was first
                return known
            raise

    def get_stream(self, make: Callable[[Path], Path]) -> T:
        """What can be read only once: `make` writes it first, then says under which path to keep it."""
        unnamed = self.folder / f".stream.{uuid.uuid4().hex[:12]}.tmp"
        try:
            path = make(unnamed)
            if (known := self.find(path)) is not None:
                return known
            with storage_errors(path):
                unnamed.rename(path)
            return self._open(path)
        finally:
            shutil.rmtree(unnamed, ignore_errors=True)

    def hash_file(self, name: str, signature: tuple[int, ...], start: int = 0, stop: int | None = None) -> str:
        """Hash of the bytes [start, stop); of many remembered by inode, size, times once those lie in the past."""
        is_settled = time.time() - max(signature[3:]) / 1e9 > _SETTLED_SECONDS
        if (signature[2] if stop is None else stop) - start < _INDEX_FROM or not is_settled:
            return content_hash(name, start, stop)
        is_whole = (start, stop) == (0, None)
        known = [os.path.realpath(name), *signature, *(() if is_whole else (start, stop))]
        entry = self.folder / "index" / digest_of(known)
        with suppress(OSError, ValueError):
            text = entry.read_text(encoding="ascii")
            if len(bytes.fromhex(text)) == 16:
                return text
        digest = content_hash(name, start, stop)
        if signature_of(name) == signature:
            with suppress(StorageError), atomic_file(entry) as temporary:
                temporary.write_text(digest, encoding="ascii")
        return digest


class Sources:
    """Regular files that something is made of, as they are now. DataError: one cannot be read."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self.signatures = [signature_of(name) for name in names]

    @property
    def num_bytes(self) -> int:
        return sum(signature[2] for signature in self.signatures)

    def hashes(self, cache: Cache[Any]) -> list[str]:
        """Of their contents."""
        return [cache.hash_file(name, signature) for name, signature in zip(self.names, self.signatures, strict=True)]

    def check_unchanged(self) -> None:
        """Raise DataError when they are no longer what they were."""
        if [signature_of(name) for name in self.names] != self.signatures:
            raise DataError(f"{self.names[0]} (or a file beside it) changed while it was read; run again.")


def signature_of(name: str) -> tuple[int, ...]:
    """(device, inode, bytes, times): what changes when the file does. DataError: it cannot be read."""
    try:
        stat = Path(name).stat()
    except OSError as error:
        raise DataError(f"Cannot read {name}: {error.strerror}.") from error
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


def digest_of(parts: Sequence[Any]) -> str:
    """A hash of what JSON knows."""
    return hashlib.blake2b(json.dumps(list(parts)).encode(), digest_size=16).hexdigest()

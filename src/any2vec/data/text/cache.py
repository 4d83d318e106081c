"""The cache of encoded text: corpora by the hash of what they were made of, and hashes that are remembered."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from any2vec.data.io.files import content_hash
from any2vec.data.io.storage import atomic_file
from any2vec.data.text.corpus import FORMAT, VERSION, Corpus
from any2vec.data.text.options import TextOptions
from any2vec.errors import DataError, FormatError, StorageError

READER_VERSION = 1
"""counts up when the same bytes would give another corpus, so that caches are not trusted"""
_INDEX_FROM = 1 << 24
_SETTLED_SECONDS = 2.0


def open_cached(path: Path) -> Corpus | None:
    """The corpus at `path`; None, and nothing is left there, when it is missing or damaged."""
    if not path.is_dir():
        return None
    try:
        return Corpus.open(path)
    except FormatError:
        shutil.rmtree(path, ignore_errors=True)
        return None


def cache_key(options: TextOptions, parts: list[str]) -> str:
    """The name of a corpus: a hash of what reads it, how, and of `parts`, which say what was read."""
    known = json.dumps([FORMAT, VERSION, READER_VERSION, asdict(options), parts])
    return hashlib.blake2b(known.encode(), digest_size=16).hexdigest()


def signature_of(name: str) -> tuple[int, ...]:
    """(device, inode, bytes, times): what changes when the file does. DataError: it cannot be read."""
    try:
        stat = Path(name).stat()
    except OSError as error:
        raise DataError(f"Cannot read {name}: {error.strerror}.") from error
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


def hash_file(folder: Path, name: str, signature: tuple[int, ...], start: int = 0, stop: int | None = None) -> str:
    """Hash of the bytes [start, stop); for many of them remembered by inode, size, times once those lie in the past."""
    now = time.time()
    is_settled = now - max(signature[3:]) / 1e9 > _SETTLED_SECONDS
    if (signature[2] if stop is None else stop) - start < _INDEX_FROM or not is_settled:
        return content_hash(name, start, stop)
    is_whole = (start, stop) == (0, None)
    known = json.dumps([os.path.realpath(name), *signature, *(() if is_whole else (start, stop))])
    entry = folder / "index" / hashlib.blake2b(known.encode(), digest_size=16).hexdigest()
    with suppress(OSError, ValueError):
        text = entry.read_text(encoding="ascii")
        if len(bytes.fromhex(text)) == 16:
            return text
    digest = content_hash(name, start, stop)
    if signature_of(name) == signature:
        with suppress(StorageError), atomic_file(entry) as temporary:
            temporary.write_text(digest, encoding="ascii")
    return digest

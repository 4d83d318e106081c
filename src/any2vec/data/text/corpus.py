"""The token corpus: one versioned, memory-mapped format on disk for text, integer sequences and stored walks.

    meta.json     {"format": "any2vec-corpus", "version": 1, "kind": "text|ids|walks", "num_slots", "num_tokens",
                   "num_sentences", "num_types", ...what the writer adds}
    tokens.npy    int32 (num_slots,): rows of the vocabulary; -1 ends a sentence (and pads walks)
    counts.npy    int64 (num_types,)
    words.npy     uint8: the keys' UTF-8 bytes; offsets.npy int64 (num_types + 1,)

In text and ids the rows are ranked by descending count (ties: first appearance), so `min_count` and `max_vocab` are
only "id >= V: skip" and one shard serves them all.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from any2vec.data.io.files import content_hash
from any2vec.data.io.storage import atomic_file, atomic_folder, format_of_folder, read_meta, write_json
from any2vec.data.options import TextOptions
from any2vec.data.vocab.vocabulary import Keys, Vocabulary, open_array
from any2vec.errors import DataError, FormatError, StorageError

FORMAT = "any2vec-corpus"
VERSION = 1
KINDS = ("text", "ids", "walks")
_REMAP_TOKENS = 1 << 20


class Corpus:
    """An opened corpus; every process that opens it shares the same pages."""

    def __init__(self, path: Path, meta: dict[str, Any], tokens: np.ndarray, vocabulary: Vocabulary) -> None:
        self.path = path
        self.meta = meta
        self.tokens = tokens
        """int32 (num_slots,), memory-mapped, read-only"""
        self.vocabulary = vocabulary

    @property
    def kind(self) -> str:
        """text, ids or walks"""
        return str(self.meta["kind"])

    @property
    def num_tokens(self) -> int:
        """Tokens, ends of sentences not counted (`len(tokens)` counts them)."""
        return int(self.meta["num_tokens"])

    @property
    def num_sentences(self) -> int:
        return int(self.meta["num_sentences"])

    def __repr__(self) -> str:
        return f"Corpus({str(self.path)!r}, {self.kind}, {self.num_tokens:,} tokens, {len(self.vocabulary):,} types)"

    @classmethod
    def open(cls, path: Path | str) -> Corpus:
        """Open a corpus folder, memory-mapped; sizes are checked, token values are not.

        Raises:
            FormatError: the folder is not a corpus, is newer than this version reads, or is damaged.
        """
        path = Path(path)
        meta = read_meta(path, FORMAT, VERSION, "an any2vec corpus")
        tokens, vocabulary = open_array(path, "tokens", np.int32), Vocabulary.open(path)
        sizes = {"num_slots": len(tokens), "num_types": len(vocabulary)}
        for name in ("num_slots", "num_types", "num_tokens", "num_sentences"):
            if type(meta.get(name)) is not int or meta[name] != sizes.get(name, meta[name]):
                raise FormatError(f"{path} is damaged: meta.json gives {name} = {meta.get(name)}; write it again.")
        if meta.get("kind") not in KINDS:
            raise FormatError(f"{path} has corpus kind {meta.get('kind')!r}; known are {', '.join(KINDS)}.")
        return cls(path, meta, tokens, vocabulary)


def is_corpus(path: Path | str) -> bool:
    """Whether `path` is a folder whose meta.json names the corpus format (of any version)."""
    return format_of_folder(Path(path)) == FORMAT


class CorpusWriter:
    """Writes a corpus folder atomically: `append` blocks of tokens, then `finish`; use it in a `with` statement.

    Leaving the `with` block without `finish` removes what was written.
    """

    def __init__(self, folder: Path | str, overwrite: bool = False) -> None:
        self.folder = Path(folder)
        self.overwrite = overwrite
        self.num_slots = self.num_tokens = self.num_sentences = 0
        self._is_open_sentence = False
        self._stack = ExitStack()
        self._temporary: Path | None = None
        self._file: FileIO | None = None
        self._is_finished = False

    def __enter__(self) -> CorpusWriter:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_finished:
            return
        if error is None:
            kind, error = _AbortedError, _AbortedError()
        with suppress(_AbortedError):
            self._stack.__exit__(kind, error, trace)

    def _start(self) -> tuple[Path, FileIO]:
        if self._temporary is None or self._file is None:
            self._temporary = self._stack.enter_context(atomic_folder(self.folder, self.overwrite, FORMAT))
            self._file = self._stack.enter_context(FileIO(self._temporary / "tokens.npy", "w+"))
            self._file.write(_npy_header(0))
        return self._temporary, self._file

    def append(self, tokens: np.ndarray) -> None:
        """Append `tokens`, int32 (any,), ends of sentences (-1) included.

        Raises:
            StorageError: they cannot be written.
        """
        from any2vec.kernels.text.tokens import count_tokens

        _, file = self._start()
        tokens = np.ascontiguousarray(tokens, np.int32)
        if len(tokens) == 0:
            return
        num_tokens, num_sentences = count_tokens(tokens, self._is_open_sentence)
        self._is_open_sentence = bool(tokens[-1] >= 0)
        self._write(file, tokens)
        self.num_slots += len(tokens)
        self.num_tokens += num_tokens
        self.num_sentences += num_sentences

    def _write(self, file: FileIO, tokens: np.ndarray) -> None:
        view = tokens.data.cast("B")
        while len(view):
            view = view[file.write(view) :]

    def remap(self, rank: np.ndarray) -> None:
        """Replace every id by rank[id], int32 (num_types,), block by block in the file."""
        from any2vec.kernels.text.tokens import remap

        _, file = self._start()
        block = np.empty(_REMAP_TOKENS, np.int32)
        start = len(_npy_header(0))
        for first in range(0, self.num_slots, _REMAP_TOKENS):
            part = block[: min(_REMAP_TOKENS, self.num_slots - first)]
            file.seek(start + 4 * first)
            if file.readinto(part.data.cast("B")) != part.nbytes:
                raise StorageError(f"Cannot read back {self.folder}: the file became shorter; check the disk.")
            remap(part, rank)
            file.seek(start + 4 * first)
            self._write(file, part)

    def finish(self, keys: Sequence[str], counts: np.ndarray, meta: dict[str, Any]) -> Corpus:
        """Write vocabulary and meta.json, sync, rename, and open the result.

        keys: strings or `Keys`, row by row; counts: int64 (num_keys,); meta: at least "kind", further JSON values are
        kept.

        Raises:
            StorageError: the folder cannot be written, or appeared meanwhile.
        """
        temporary, file = self._start()
        file.seek(0)
        file.write(_npy_header(self.num_slots))
        vocabulary = Vocabulary.from_keys(Keys.of(keys), counts)
        vocabulary.save(temporary)
        sizes = {
            "num_slots": self.num_slots,
            "num_tokens": self.num_tokens,
            "num_sentences": self.num_sentences,
            "num_types": len(vocabulary),
        }
        write_json(temporary / "meta.json", {"format": FORMAT, "version": VERSION, **meta, **sizes})
        self._is_finished = True
        self._stack.close()
        return Corpus.open(self.folder)


class _AbortedError(Exception):
    pass


def _npy_header(num_slots: int) -> bytes:
    """The .npy header of int32 (num_slots,): 128 bytes whatever the length, so that it can be written first."""
    text = f"{{'descr': '<i4', 'fortran_order': False, 'shape': ({num_slots},), }}"
    return b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + text.ljust(117).encode() + b"\n"


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

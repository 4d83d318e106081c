"""Text of any source becomes a `Corpus`, kept in a cache by content and options and found there the next time.

A line is a sentence; words are what `str.split` gives. One pass: reading and unpacking (in a thread), normalising,
encoding by a compiled kernel; then the ids on disk are renamed by rank. Memory O(different words + blocks).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.data.columns import Column, table_format
from any2vec.data.corpus import FORMAT, VERSION, Corpus, CorpusWriter, is_corpus
from any2vec.data.counting import SAMPLE_TOKENS, CountingWriter, TextCounts
from any2vec.data.files import (
    BLOCK_BYTES,
    STDIN,
    content_hash,
    display,
    expand_inputs,
    is_regular,
    prefetch,
    read_blocks,
    read_head,
)
from any2vec.data.normalise import Normaliser, TextOptions
from any2vec.data.sequences import Sentences, array_blocks, exact_piece, read_arrays
from any2vec.data.storage import atomic_file, remove_stale, storage_errors
from any2vec.errors import DataError, FormatError, StorageError
from any2vec.machine import cache_root

__all__ = ["TextOptions", "count_text", "encode_text"]

READER_VERSION = 1
"""counts up when the same bytes would give another corpus, so that caches are not trusted"""
_INDEX_FROM = 1 << 24
_SETTLED_SECONDS = 2.0
ProgressCall = Callable[[int, int | None], None]


def encode_text(
    source: Any,
    options: TextOptions | None = None,
    *,
    cache_dir: Path | str | None = None,
    progress: ProgressCall | None = None,
) -> Corpus:
    """Encode `source` and open the result; found in the cache when the same content was encoded so before.

    source: a path, folder, glob, `-` (standard input) or a list of those (plain, gz, zst, xz; Parquet, Arrow, Feather;
    .npy, .npz of integers); or an iterable of sentences: strings, lists of words, lists or arrays of ids; or an integer
    array (N,) or (M, N), where -1 ends a sentence. A list of strings is sentences when no string in it names a file and
    one holds white space. The end of a file ends a sentence.
    progress: called with (bytes read, bytes in all or None), bytes as they lie on the disk (packed).
    cache_dir: the cache's root, by default `$ANY2VEC_CACHE` or `~/.cache/any2vec`; corpora lie below `corpora/`.

    Raises:
        DataError: the input is missing, unreadable, empty, damaged, binary, or holds no words.
        StorageError: the cache cannot be written.
    """
    options = options or TextOptions()
    if isinstance(source, Corpus):
        return source
    if isinstance(source, (str, Path)) and is_corpus(source):
        return Corpus.open(source)
    folder = cache_root(cache_dir) / "corpora"
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    remove_stale(folder)
    names = _file_names(source)
    if names is None:
        return _encode_stream(folder, options, _Meter(progress, None), lambda encoding: encoding.add_memory(source))
    if all(is_regular(name) for name in names):
        return _encode_files(folder, options, names, progress)
    return _encode_stream(folder, options, _Meter(progress, None), lambda encoding: encoding.add_files(names))


def count_text(
    source: Any,
    options: TextOptions | None = None,
    *,
    cache_dir: Path | str | None = None,
    progress: ProgressCall | None = None,
) -> TextCounts:
    """What `encode_text` would find in `source`, read in the same way but not written; nor read where the cache has it.

    Arguments and errors are those of `encode_text`. Memory O(different words + blocks).
    """
    options = options or TextOptions()
    if isinstance(source, (str, Path)) and is_corpus(source):
        source = Corpus.open(source)
    names = None if isinstance(source, Corpus) else _file_names(source)
    corpus = source if isinstance(source, Corpus) else None
    folder = cache_root(cache_dir) / "corpora"
    if names and folder.is_dir() and all(is_regular(name) for name in names):
        hashes = [_hash_file(folder, name, _signature(name)) for name in names]
        corpus = _open_cached(folder / _key(options, [*map(_form, names), *hashes]))
    if corpus is not None:
        sample = np.asarray(corpus.tokens[:SAMPLE_TOKENS])
        return TextCounts(vocabulary=corpus.vocabulary, num_slots=len(corpus.tokens), source_bytes=0, sample=sample)
    writer = CountingWriter()
    total = sum(Path(name).stat().st_size for name in names or [] if is_regular(name))
    meter = _Meter(progress, total or None)
    encoding = _Encoding(writer, options, meter)
    if names is None:
        meter.digest = hashlib.blake2b(digest_size=16)
        encoding.add_memory(source)
    else:
        encoding.add_files(names)
    writer.source_bytes = meter.done
    return encoding.finish()


def _file_names(source: Any) -> list[str] | None:
    """The files that `source` names, or None when it is sentences in memory."""
    if isinstance(source, (str, Path)):
        return expand_inputs(source)
    if not isinstance(source, (list, tuple)) or not source or not all(isinstance(item, (str, Path)) for item in source):
        return None
    is_named = any(isinstance(item, Path) or item == STDIN or _exists(item) for item in source)
    if not is_named and any(len(str(item).split()) != 1 for item in source):
        return None
    return expand_inputs(source)


def _exists(name: str) -> bool:
    with suppress(OSError, ValueError):
        return bool(str(name).strip()) and Path(name).exists()
    return False


class _Meter:
    """Counts and hashes what is read; tells the callback, from the thread that encodes."""

    def __init__(self, progress: ProgressCall | None, total: int | None) -> None:
        self.progress = progress
        self.total = total
        self.done = 0
        self.digest: Any = None

    def read(self, chunk: bytes | np.ndarray | memoryview) -> None:
        self.done += len(chunk) if isinstance(chunk, bytes) else chunk.nbytes
        if self.digest is not None:
            self.digest.update(chunk)

    def tell(self) -> None:
        if self.progress is not None:
            self.progress(self.done, self.total)


def _encode_files(folder: Path, options: TextOptions, names: list[str], progress: ProgressCall | None) -> Corpus:
    """Regular files: their hash is known before they are encoded."""
    before = [_signature(name) for name in names]
    total = sum(int(signature[2]) for signature in before)
    hashes = [_hash_file(folder, name, signature) for name, signature in zip(names, before, strict=True)]
    forms = [_form(name) for name in names]
    path = folder / _key(options, [*forms, *hashes])
    if (corpus := _open_cached(path)) is not None:
        if progress is not None:
            progress(total, total)
        return corpus
    meter = _Meter(progress, total)
    try:
        with CorpusWriter(path) as writer:
            encoding = _Encoding(writer, options, meter)
            encoding.add_files(names)
            if [_signature(name) for name in names] != before:
                raise DataError(f"{names[0]} (or a file beside it) changed while it was read; run again.")
            return encoding.finish()
    except StorageError:
        if (corpus := _open_cached(path)) is not None:  # another process was first
            return corpus
        raise


def _encode_stream(folder: Path, options: TextOptions, meter: _Meter, add: Callable[[_Encoding], None]) -> Corpus:
    """Pipes and memory can be read only once: encode first, then see under which hash to keep the result."""
    meter.digest = hashlib.blake2b(digest_size=16)
    unnamed = folder / f".stream.{uuid.uuid4().hex[:12]}.tmp"
    try:
        with CorpusWriter(unnamed) as writer:
            encoding = _Encoding(writer, options, meter)
            add(encoding)
            encoding.finish()
        path = folder / _key(options, [encoding.form, meter.digest.hexdigest()])
        corpus = _open_cached(path)
        if corpus is None:
            with storage_errors(path):
                unnamed.rename(path)
            corpus = Corpus.open(path)
        return corpus
    finally:
        shutil.rmtree(unnamed, ignore_errors=True)


def _open_cached(path: Path) -> Corpus | None:
    if not path.is_dir():
        return None
    try:
        return Corpus.open(path)
    except FormatError:
        shutil.rmtree(path, ignore_errors=True)
        return None


def _key(options: TextOptions, parts: list[str]) -> str:
    known = json.dumps([FORMAT, VERSION, READER_VERSION, asdict(options), parts])
    return hashlib.blake2b(known.encode(), digest_size=16).hexdigest()


def _signature(name: str) -> tuple[int, ...]:
    try:
        stat = Path(name).stat()
    except OSError as error:
        raise DataError(f"Cannot read {name}: {error.strerror}.") from error
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


def _hash_file(folder: Path, name: str, signature: tuple[int, ...]) -> str:
    """The content hash; for large files remembered by inode, size and times once those lie safely in the past."""
    now = time.time()
    is_settled = now - max(signature[3:]) / 1e9 > _SETTLED_SECONDS
    if signature[2] < _INDEX_FROM or not is_settled:
        return content_hash(name)
    known = json.dumps([os.path.realpath(name), *signature])
    entry = folder / "index" / hashlib.blake2b(known.encode(), digest_size=16).hexdigest()
    with suppress(OSError, ValueError):
        text = entry.read_text(encoding="ascii")
        if len(bytes.fromhex(text)) == 16:
            return text
    digest = content_hash(name)
    if _signature(name) == signature:
        with suppress(StorageError), atomic_file(entry) as temporary:
            temporary.write_text(digest, encoding="ascii")
    return digest


def _form(name: str) -> str:
    """table (parquet, arrow), array (.npy, .npz) or text."""
    if name == STDIN or not is_regular(name):
        return "text"
    head = read_head(name)
    if (table := table_format(name, head)) is not None:
        return table
    is_array = Path(name).suffix.lower() in (".npy", ".npz") or head.startswith(b"\x93NUMPY")
    return "array" if is_array else "text"


class _Encoding:
    """One corpus in the making: chooses the encoder by the first input and feeds it."""

    def __init__(self, writer: Any, options: TextOptions, meter: _Meter) -> None:
        self.writer = writer
        self.options = options
        self.meter = meter
        self.form = "text"
        self.bad_bytes = 0
        self._name = "The input"
        self._encoder: Any = None

    def add_files(self, names: list[str]) -> None:
        self._name = display(names[0]) if len(names) == 1 else f"The input ({len(names)} files)"
        done = 0
        for name in names:
            form = _form(name)
            if self.meter.digest is not None:  # a stream among the files: each counts with its form and its bounds
                self.meter.digest.update(f"\0{form}\0{'' if form == 'text' else content_hash(name)}\0".encode())
            if form == "text":
                self._add_text(display(name), self._read(name))
            elif form == "array":
                self._add_ids(name, read_arrays(name))
            else:
                column = Column(name, form, self.options.column)
                self._add(column.kind, name, column.blocks())
            if form != "text":
                done += Path(name).stat().st_size
                self.meter.done = max(self.meter.done, done)
            done = self.meter.done
            self.meter.tell()

    def add_memory(self, source: Any) -> None:
        """Sentences or an array, hashed as they pass."""
        if hasattr(source, "__array__") and np.asarray(source).dtype.kind in "iufb":
            self.form, self._name = "ids", "The array"
            self._add_ids(self._name, self._metered(array_blocks(np.asarray(source), self._name)))
            return
        sentences = Sentences(source)
        self.form, self._name = sentences.kind, sentences.name
        self._add(sentences.kind, sentences.name, self._metered(sentences.blocks()))

    def _metered(self, blocks: Iterable[Any]) -> Iterator[Any]:
        for block in blocks:
            for part in block if isinstance(block, list) else [block]:
                self.meter.read(part)
                if isinstance(block, list):
                    self.meter.digest.update(b"\xff")
            yield block

    def _read(self, name: str) -> Iterator[bytes]:
        blocks = read_blocks(name, on_read=self.meter.read, allow_empty=True)
        is_small = is_regular(name) and Path(name).stat().st_size < BLOCK_BYTES
        return blocks if is_small else prefetch(blocks)

    def _add(self, kind: str, name: str, blocks: Iterator[Any]) -> None:
        if kind == "text":
            self._add_text(name, blocks)
        elif kind == "words":
            self._add_words(name, blocks)
        else:
            self._add_ids(name, blocks)

    def _words(self, name: str, classes: np.ndarray) -> Any:
        from any2vec.data.encoder import WordEncoder

        if self._encoder is None:
            self._encoder = WordEncoder(self.writer, classes)
        if not isinstance(self._encoder, WordEncoder):
            raise DataError(f"{name} holds text but the input before it holds ids; encode them apart.")
        self._encoder.classes = classes
        return self._encoder

    def _add_text(self, name: str, blocks: Iterator[bytes]) -> None:
        from any2vec.data.encoder import text_classes

        encoder = self._words(name, text_classes())
        text = Normaliser(name, self.options)
        with closing(blocks):  # type: ignore[type-var]
            for piece in text.pieces(blocks):
                encoder.feed(piece, name)
                self.meter.tell()
        self.bad_bytes += text.bad_bytes

    def _add_words(self, name: str, blocks: Iterator[list[bytes]]) -> None:
        from any2vec.data.encoder import exact_classes

        encoder = self._words(name, exact_classes())
        for rows in blocks:
            piece, num_bad = exact_piece(rows, self.options.lowercase, self.options.bad_bytes, name)
            encoder.feed(piece, name)
            self.bad_bytes += num_bad
            self.meter.tell()

    def _add_ids(self, name: str, blocks: Iterator[np.ndarray]) -> None:
        from any2vec.data.encoder import IdEncoder

        if self._encoder is None:
            self._encoder = IdEncoder(self.writer)
        if not isinstance(self._encoder, IdEncoder):
            raise DataError(f"{name} holds ids but the input before it holds text; encode them apart.")
        for block in blocks:
            if len(block):
                self._encoder.feed(block, name)
            self.meter.tell()
        self._encoder.end_sentence()

    def finish(self) -> Any:
        if self._encoder is None or self._encoder.num_types == 0:
            what = "is empty" if self.meter.done == 0 else "holds no words"
            raise DataError(f"{self._name} {what}; give text with words in it.")
        kind = "text" if hasattr(self._encoder, "arena") else "ids"
        return self._encoder.finish({"kind": kind, "options": asdict(self.options), "bad_bytes": self.bad_bytes})

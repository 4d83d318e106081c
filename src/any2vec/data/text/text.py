"""Text of any source becomes a `Corpus`, kept in a cache by content and options and found there the next time.

A line is a sentence; words are what `str.split` gives. One pass: reading and unpacking (in a thread), normalising,
encoding by a compiled kernel; then the ids on disk are renamed by rank. Memory O(different words + blocks).
"""

from __future__ import annotations

import hashlib
import shutil
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.data.io.files import STDIN, expand_inputs, is_regular
from any2vec.data.io.storage import remove_stale, storage_errors
from any2vec.data.options import TextOptions
from any2vec.data.text.corpus import Corpus, CorpusWriter, cache_key, hash_file, is_corpus, open_cached, signature_of
from any2vec.data.text.encoder import SAMPLE_TOKENS, CountingWriter, TextCounts
from any2vec.data.text.encoding import Encoding, Meter, ProgressCall, form_of
from any2vec.errors import DataError, StorageError
from any2vec.machine import cache_root

__all__ = ["TextOptions", "count_text", "encode_text"]


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
    folder = corpora_folder(cache_dir)
    names = file_names(source)
    if names is None:
        return _encode_stream(folder, options, Meter(progress, None), lambda encoding: encoding.add_memory(source))
    if all(is_regular(name) for name in names):
        return _encode_files(folder, options, names, progress)
    return _encode_stream(folder, options, Meter(progress, None), lambda encoding: encoding.add_files(names))


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
    names = None if isinstance(source, Corpus) else file_names(source)
    corpus = source if isinstance(source, Corpus) else None
    folder = cache_root(cache_dir) / "corpora"
    if names and folder.is_dir() and all(is_regular(name) for name in names):
        hashes = [hash_file(folder, name, signature_of(name)) for name in names]
        corpus = open_cached(folder / cache_key(options, [*map(form_of, names), *hashes]))
    if corpus is not None:
        sample = np.asarray(corpus.tokens[:SAMPLE_TOKENS])
        return TextCounts(vocabulary=corpus.vocabulary, num_slots=len(corpus.tokens), source_bytes=0, sample=sample)
    writer = CountingWriter()
    total = sum(Path(name).stat().st_size for name in names or [] if is_regular(name))
    meter = Meter(progress, total or None)
    encoding = Encoding(writer, options, meter)
    if names is None:
        meter.digest = hashlib.blake2b(digest_size=16)
        encoding.add_memory(source)
    else:
        encoding.add_files(names)
    writer.source_bytes = meter.done
    return encoding.finish()


def corpora_folder(cache_dir: Path | str | None) -> Path:
    """Where the cache keeps corpora; made, and rid of what killed processes left.

    Raises:
        StorageError: it cannot be made.
    """
    folder = cache_root(cache_dir) / "corpora"
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    remove_stale(folder)
    return folder


def file_names(source: Any) -> list[str] | None:
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


def _encode_files(folder: Path, options: TextOptions, names: list[str], progress: ProgressCall | None) -> Corpus:
    """Regular files: their hash is known before they are encoded."""
    before = [signature_of(name) for name in names]
    total = sum(int(signature[2]) for signature in before)
    hashes = [hash_file(folder, name, signature) for name, signature in zip(names, before, strict=True)]
    forms = [form_of(name) for name in names]
    path = folder / cache_key(options, [*forms, *hashes])
    if (corpus := open_cached(path)) is not None:
        if progress is not None:
            progress(total, total)
        return corpus
    meter = Meter(progress, total)
    try:
        with CorpusWriter(path) as writer:
            encoding = Encoding(writer, options, meter)
            encoding.add_files(names)
            if [signature_of(name) for name in names] != before:
                raise DataError(f"{names[0]} (or a file beside it) changed while it was read; run again.")
            return encoding.finish()
    except StorageError:
        if (corpus := open_cached(path)) is not None:  # another process was first
            return corpus
        raise


def _encode_stream(folder: Path, options: TextOptions, meter: Meter, add: Callable[[Encoding], None]) -> Corpus:
    """Pipes and memory can be read only once: encode first, then see under which hash to keep the result."""
    meter.digest = hashlib.blake2b(digest_size=16)
    unnamed = folder / f".stream.{uuid.uuid4().hex[:12]}.tmp"
    try:
        with CorpusWriter(unnamed) as writer:
            encoding = Encoding(writer, options, meter)
            add(encoding)
            encoding.finish()
        path = folder / cache_key(options, [encoding.form, meter.digest.hexdigest()])
        corpus = open_cached(path)
        if corpus is None:
            with storage_errors(path):
                unnamed.rename(path)
            corpus = Corpus.open(path)
        return corpus
    finally:
        shutil.rmtree(unnamed, ignore_errors=True)

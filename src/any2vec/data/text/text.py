"""Text of any source becomes a `Corpus`, kept in a cache by content and options and found there the next time.

A line is a sentence; words are what `str.split` gives. One pass: reading and unpacking (in a thread), normalizing,
encoding by a compiled kernel; then the ids on disk are renamed by rank. Memory O(different words + blocks).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.data.io.cache import Cache, Sources
from any2vec.data.io.files import STDIN, expand_inputs, is_regular, text_form
from any2vec.data.options import TextOptions
from any2vec.data.text.corpus import FORMAT, VERSION, Corpus, CorpusWriter, is_corpus
from any2vec.data.text.encoder import SAMPLE_TOKENS, CountingWriter, TextCounts
from any2vec.data.text.encoding import Encoding, Meter, ProgressCall

__all__ = ["TextOptions", "count_text", "encode_text"]
READER_VERSION = 1
"""counts up when the same bytes would give another corpus, so that caches are not trusted"""


def encode_text(
    source: Any,
    options: TextOptions | None = None,
    *,
    cache_dir: Path | str | None = None,
    progress: ProgressCall | None = None,
) -> Corpus:
    """Encode `source` and open the result; found in the cache when the same content was encoded so before.

    source: a path, folder, glob, `-` (standard input) or a list of those (plain, gz, zst, xz; Parquet, Arrow, Feather;
    .npy, .npz of integers; by the column that the options name .csv, .tsv, .jsonl); a table in memory (pandas, Polars,
    Arrow, a Dataset of Hugging Face, a dict of columns, a list of dicts); or an iterable of sentences: strings,
    lists of words, lists or arrays of ids; or an integer array (N,) or (M, N), where -1 ends a sentence. A list of
    strings is sentences when no string in it names a file and one holds white space. The end of a file ends a sentence.
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
    cache = corpora(cache_dir)
    cache.prepare()
    names = file_names(source)
    if names is None:
        return _encode_stream(cache, options, Meter(progress, None), lambda encoding: encoding.add_memory(source))
    if all(is_regular(name) for name in names):
        return _encode_files(cache, options, names, progress)
    return _encode_stream(cache, options, Meter(progress, None), lambda encoding: encoding.add_files(names))


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
    cache = corpora(cache_dir)
    if names and cache.folder.is_dir() and all(is_regular(name) for name in names):
        corpus = cache.find(place_of(cache, options, [*map(text_form, names), *Sources(names).hashes(cache)]))
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


def corpora(cache_dir: Path | str | None) -> Cache[Corpus]:
    """The cache of encoded text."""
    return Cache("corpora", Corpus.open, cache_dir)


def place_of(cache: Cache[Corpus], options: TextOptions, parts: list[str]) -> Path:
    """Where a corpus lies; parts say what was read."""
    return cache.place(FORMAT, VERSION, READER_VERSION, asdict(options), parts)


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


def _encode_files(
    cache: Cache[Corpus], options: TextOptions, names: list[str], progress: ProgressCall | None
) -> Corpus:
    """Regular files: their hash is known before they are encoded."""
    sources = Sources(names)

    def make(path: Path) -> Corpus:
        with CorpusWriter(path) as writer:
            encoding = Encoding(writer, options, Meter(progress, sources.num_bytes))
            encoding.add_files(names)
            sources.check_unchanged()
            return encoding.finish()

    path = place_of(cache, options, [*map(text_form, names), *sources.hashes(cache)])
    return cache.get(path, make, sources.num_bytes, progress)


def _encode_stream(cache: Cache[Corpus], options: TextOptions, meter: Meter, add: Callable[[Encoding], None]) -> Corpus:
    """Pipes and memory can be read only once: encode first, then see under which hash to keep the result."""
    meter.digest = hashlib.blake2b(digest_size=16)

    def make(path: Path) -> Path:
        with CorpusWriter(path) as writer:
            encoding = Encoding(writer, options, meter)
            add(encoding)
            encoding.finish()
        return place_of(cache, options, [encoding.form, meter.digest.hexdigest()])

    return cache.get_stream(make)

"""fastText's own binary: words, their counts, the rows of words and of hashed n-grams that vectors are made of.

    int32 magic, version (12); int32 dim, window, epochs, min count, negatives, word n-grams, loss, model, buckets H,
    min n, max n, rate of updates; double sampling threshold
    int32 entries, words V, labels; int64 tokens, pruned buckets (-1: none)
    V times: the word, a NUL, int64 count, int8 kind (0: word)
    int8 quantized; int64 V + H, dim; float32 (V + H, dim): rows of words, then of buckets
    int8 quantized; int64 V, dim; float32 (V, dim): output rows

A word's vector is the mean of its own row and those of its n-grams, that of another word the mean of its n-grams' rows
(Bojanowski et al. 2017). Little-endian, as fastText writes on all machines that we know.

Legend: V words, H buckets, D dim, G rows of n-grams, B words of a block.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.data.io.files import read_blocks
from any2vec.data.vocab.vocabulary import Keys
from any2vec.errors import FormatError, InputError
from any2vec.formats.table import Table
from any2vec.formats.word2vec import FASTTEXT_MAGIC, LONGEST_KEY, GrowingMatrix, TakenBytes, check_keys

LONGEST_GRAM = 100
"""characters of an n-gram at most"""
_VERSION = 12
_END_OF_SENTENCE = "</s>"
"""a word of fastText's own, which has no n-grams"""
_ARGUMENTS, _DICTIONARY, _SHAPE = struct.Struct("<12id"), struct.Struct("<3iqq"), struct.Struct("<2q")
_SOFTMAX_BY_NEGATIVES, _SKIP_GRAM, _SUPERVISED = 2, 2, 3
_BLOCK_WORDS, _BLOCK_ROWS = 1024, 4096


def read(path: Path, mmap: bool) -> Table:
    """A model of skip-gram or CBOW, plain or packed, with what makes vectors of other words. Memory: that of its rows.

    Raises FormatError for a quantized model, a classifier, another version, and what is damaged.
    """
    stream, where = TakenBytes(read_blocks(path, block_bytes=1 << 22), path.name), path.name
    magic, version = stream.take(4), int.from_bytes(stream.take(4), "little")
    if magic != FASTTEXT_MAGIC or version != _VERSION:
        raise FormatError(f"{where} is no model of fastText in version {_VERSION} of its binary.")
    dim, *_, loss, model, buckets, min_n, max_n, _, _ = _ARGUMENTS.unpack(stream.take(_ARGUMENTS.size))
    size, words, labels, _, pruned = _DICTIONARY.unpack(stream.take(_DICTIONARY.size))
    if model == _SUPERVISED or labels > 0:
        raise FormatError(f"{where} is a classifier of fastText; models of skip-gram and CBOW are read.")
    if min(dim, size) < 1 or size != words or min(buckets, min_n, max_n) < 0 or pruned > 0:
        raise FormatError(f"{where}: {size:,} words of {dim:,} numbers with {buckets:,} buckets are no legal sizes.")
    if max_n > LONGEST_GRAM or 0 < max_n < min_n:
        raise FormatError(
            f"{where}: n-grams of {min_n:,} to {max_n:,} characters are not legal; the longest are "
            f"{LONGEST_GRAM}, and no shorter than the shortest (0: there are none)."
        )
    text, counts = [], []
    for _ in range(size):
        text.append(stream.until(b"\0"))
        counts.append(int.from_bytes(stream.take(9)[:8], "little", signed=True))
    has_grams = max_n >= max(min_n, 1) and buckets > 0
    word_VD, gram_HD = _read_rows(stream, where, dim, words, buckets)
    output, _ = _read_rows(stream, where, dim, words, 0)
    offsets = np.zeros(size + 1, np.int64)
    np.cumsum([len(word) for word in text], out=offsets[1:])
    keys = [word.decode(errors="backslashreplace") for word in text]  # Facebook's own files hold broken ones
    meta, encoder = {}, None
    if has_grams:
        options = {"min_n": max(min_n, 1), "max_n": max_n, "buckets": buckets}
        meta["maker"] = {"kind": "ngram", "file": "ngrams.safetensors", **options, "seed": 0, "spread": 0.0}
        encoder = {"buckets": np.arange(buckets), "rows": gram_HD}
        packed = Keys(np.frombuffer(b"".join(text), np.uint8), offsets)
        for first, mean_BD, grams_B in _means_of_grams(packed, encoder, options, dim):
            own = word_VD[first : first + len(mean_BD)]
            has_none = np.array([key == _END_OF_SENTENCE for key in keys[first : first + len(own)]])
            own[~has_none] = (own / (1 + grams_B[:, None]) + mean_BD)[~has_none]
    by_negatives = loss == _SOFTMAX_BY_NEGATIVES
    return Table(keys, word_VD, output if by_negatives else None, np.array(counts, np.int64), meta, encoder)


def _read_rows(stream: TakenBytes, where: str, dim: int, *parts: int) -> list[np.ndarray]:
    """The parts of a matrix, float32 (part, D) each."""
    if stream.take(1) != b"\0":
        raise FormatError(f"{where} is a quantized model of fastText, which is not read; take the .bin that it is of.")
    if _SHAPE.unpack(stream.take(_SHAPE.size)) != (sum(parts), dim):
        raise FormatError(f"{where}: a matrix has not the size that the head of the file says; it is damaged.")
    found = []
    for rows in parts:
        matrix = GrowingMatrix(dim)
        for start in range(0, rows, _BLOCK_ROWS):
            block = min(_BLOCK_ROWS, rows - start)
            matrix.append(np.frombuffer(stream.take(4 * dim * block), "<f4").reshape(block, dim))
        found.append(matrix.finish())
    return found


def _means_of_grams(keys: Keys, encoder: dict[str, np.ndarray], options: dict[str, Any], dim: int) -> Any:
    """(first word, its n-grams' rows added up over 1 + their number, that number) of each block of words."""
    from any2vec.kernels.skipgram.subwords import MOST_GRAMS, Subwords, compose_words

    row_H = np.full(options["buckets"], -1, np.int32)
    row_H[encoder["buckets"]] = np.arange(len(encoder["buckets"]))
    text_B, gram_GD = np.array(keys.arena), np.asarray(encoder["rows"])
    if len(gram_GD) == 0:
        gram_GD = np.zeros((1, dim), np.float32)
    zero_BD, gram_N = np.zeros((_BLOCK_WORDS, dim), np.float32), np.empty(_BLOCK_WORDS * MOST_GRAMS, np.int32)
    for first in range(0, len(keys), _BLOCK_WORDS):
        bounds = keys.offsets[first : first + _BLOCK_WORDS + 1].copy()
        block = len(bounds) - 1
        subwords = Subwords(text_B, bounds[:-1], bounds[1:], row_H, gram_GD, options["min_n"], options["max_n"])
        mean_BD, first_B1 = np.empty((block, dim), np.float32), np.zeros(block + 1, np.int64)
        compose_words(
            subwords, zero_BD, np.arange(block, dtype=np.int32), gram_N, first_B1, mean_BD, np.empty_like(mean_BD)
        )
        grams_B = np.diff(first_B1)
        for place in np.flatnonzero(grams_B == MOST_GRAMS):  # fastText counts those of a long word to the last
            total_D, grams_B[place] = np.zeros(dim), 0
            for bucket_N in _buckets(text_B[bounds[place] : bounds[place + 1]].tobytes(), options):
                row_N = row_H[bucket_N]
                total_D += gram_GD[row_N[row_N >= 0]].sum(axis=0)
                grams_B[place] += len(bucket_N)
            mean_BD[place] = total_D / (1 + grams_B[place])
        yield first, mean_BD, grams_B.astype(np.float32)


def _buckets(word: bytes, options: dict[str, Any]) -> Iterator[list[int]]:
    """The buckets of all n-grams of a word, by where they begin, as `list_buckets` finds the first MOST_GRAMS."""
    marked = b"<" + word + b">"
    starts = [place for place, byte in enumerate(marked) if byte & 0xC0 != 0x80] + [len(marked)]
    for first, start in enumerate(starts[:-1]):
        code, found = 2166136261, []
        for size, (begin, stop) in enumerate(pairwise(starts[first : first + options["max_n"] + 1]), 1):
            for byte in marked[begin:stop]:
                code = ((code ^ (byte if byte < 128 else byte | 0xFFFFFF00)) * 16777619) & 0xFFFFFFFF
            if size >= options["min_n"] and not (size == 1 and (start == 0 or stop == len(marked))):
                found.append(code % options["buckets"])
        yield found


def write(path: Path, table: Table, dtype: str) -> None:
    """Write a model of skip-gram that fastText reads. Buckets that no word of the training has are rows of zeros, so
    that vectors of other words point where ours do. Embeddings without n-grams become a model without them.

    Raises InputError for a key with a blank or a NUL, or of more than LONGEST_KEY bytes.
    """
    has_grams, about = table.encoder is not None, table.meta.get("maker", {})
    buckets, min_n, max_n = (about[name] if has_grams else 0 for name in ("buckets", "min_n", "max_n"))
    rows, dim = table.vectors.shape
    names = list(table.keys)
    check_keys(names, "fasttext", LONGEST_KEY)
    if (ended := next((name for name in names if "\0" in name), None)) is not None:
        raise InputError(f"key {ended!r} holds a NUL, which ends a key in format 'fasttext'; rename the key.")
    counts = [1] * rows if table.counts is None else table.counts.tolist()
    with path.open("wb") as file:
        file.write(FASTTEXT_MAGIC + struct.pack("<i", _VERSION))
        options = (5, 5, 1, 5, 1, _SOFTMAX_BY_NEGATIVES, _SKIP_GRAM)
        file.write(_ARGUMENTS.pack(dim, *options, buckets, min_n, max_n, 100, 1e-4))
        file.write(_DICTIONARY.pack(rows, rows, 0, min(sum(counts), 2**63 - 1), -1))
        entries = zip(names, counts, strict=True)
        file.writelines(key.encode() + b"\0" + struct.pack("<qb", count, 0) for key, count in entries)
        file.write(b"\0" + _SHAPE.pack(rows + buckets, dim))
        _write_words(file, table, names, {"min_n": min_n, "max_n": max_n, "buckets": buckets} if has_grams else None)
        if has_grams:
            assert table.encoder is not None
            _write_grams(file, table.encoder, buckets, dim)
        file.write(b"\0" + _SHAPE.pack(rows, dim))
        for start in range(0, rows, _BLOCK_ROWS):
            block = np.zeros((min(_BLOCK_ROWS, rows - start), dim), "<f4")
            if table.output is not None:
                block[:] = table.output[start : start + _BLOCK_ROWS]
            file.write(block.tobytes())


def _write_words(file: Any, table: Table, names: list[str], options: dict[str, Any] | None) -> None:
    """The words' own rows: what their vectors have beside their n-grams."""
    if options is None:
        for start in range(0, len(names), _BLOCK_ROWS):
            file.write(np.ascontiguousarray(table.vectors[start : start + _BLOCK_ROWS], "<f4").tobytes())
        return
    assert table.encoder is not None
    for first, mean_BD, grams_B in _means_of_grams(Keys.of(names), table.encoder, options, table.vectors.shape[1]):
        vector_BD = np.asarray(table.vectors[first : first + len(mean_BD)], np.float32)
        own_BD = (vector_BD - mean_BD) * (1 + grams_B[:, None])
        for place, name in enumerate(names[first : first + len(own_BD)]):
            if name == _END_OF_SENTENCE:
                own_BD[place] = vector_BD[place]
        file.write(np.ascontiguousarray(own_BD, "<f4").tobytes())


def _write_grams(file: Any, encoder: dict[str, np.ndarray], buckets: int, dim: int) -> None:
    bucket_G, gram_GD = np.asarray(encoder["buckets"]), encoder["rows"]
    for start in range(0, buckets, _BLOCK_ROWS):
        low, high = np.searchsorted(bucket_G, (start, start + _BLOCK_ROWS)).tolist()
        block = np.zeros((min(_BLOCK_ROWS, buckets - start), dim), "<f4")
        block[bucket_G[low:high] - start] = gram_GD[low:high]
        file.write(block.tobytes())

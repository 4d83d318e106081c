"""Sentences in memory, and .npy/.npz arrays of ids, in blocks for the encoder."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.data.io.files import BLOCK_BYTES
from any2vec.data.text.encoder import SENTENCE_END
from any2vec.errors import Any2VecError, DataError

_SURROGATES = re.compile("[\ud800-\udfff]")
_BLOCK_IDS = 1 << 18


class Sentences:
    """An iterable of sentences; `kind` is text (strings), words (lists of strings) or ids, as the first one is."""

    name = "The list of sentences"

    def __init__(self, source: Iterable[Any]) -> None:
        try:
            sentences = iter(source)
        except TypeError as error:
            raise DataError(
                f"Text is a path, a list of paths or an iterable of sentences, got {source!r:.80}."
            ) from error
        skipped: list[Any] = []
        self.kind = "text"
        self._sentences: Iterable[Any] = ()  # stays so when all are empty
        for sentence in sentences:
            skipped.append(sentence)
            kind = _kind(sentence, len(skipped))
            if kind is not None:
                self.kind = kind
                self._sentences = chain(skipped, sentences)
                break

    def blocks(self) -> Iterator[Any]:
        """text: bytes of whole lines; words: lists of sentences, each the words' bytes with NUL between them;
        ids: int64 arrays with -1 after each sentence.

        Raises:
            DataError: a sentence is of another kind, or a word or id is not legal.
        """
        joined = {"text": self._lines, "words": self._words, "ids": self._ids}[self.kind]
        return joined()

    def _wrong(self, number: int, sentence: object) -> DataError:
        expected = {"text": "a string", "words": "a list of strings", "ids": "a list of integers"}[self.kind]
        return DataError(f"Sentence {number} should be {expected} like those before it, got {sentence!r:.80}.")

    def _lines(self) -> Iterator[bytes]:
        lines: list[str] = []
        size = 0
        for number, sentence in enumerate(self._sentences, 1):
            if not isinstance(sentence, str):
                raise self._wrong(number, sentence)
            lines.append(sentence.replace("\n", " ") if "\n" in sentence else sentence)
            size += len(sentence) + 1
            if size >= BLOCK_BYTES:
                yield _encoded("\n".join(lines)) + b"\n"
                lines, size = [], 0
        yield _encoded("\n".join(lines)) + b"\n"

    def _words(self) -> Iterator[list[bytes]]:
        rows: list[bytes] = []
        size = 0
        for number, sentence in enumerate(self._sentences, 1):
            try:
                words = list(sentence) if not isinstance(sentence, str) else None
                joined = "\0".join(words)  # type: ignore[arg-type]
            except TypeError as error:
                raise self._wrong(number, sentence) from error
            if words and joined.count("\0") != len(words) - 1:
                raise DataError(f"Sentence {number} holds a word with a NUL character; words cannot hold one.")
            rows.append(_encoded(joined))
            size += len(joined) + 1
            if size >= BLOCK_BYTES:
                yield rows
                rows, size = [], 0
        yield rows

    def _ids(self) -> Iterator[np.ndarray]:
        parts: list[np.ndarray] = []
        size = 0
        end = np.array([-1], np.int64)
        for number, sentence in enumerate(self._sentences, 1):
            try:
                ids = np.asarray(sentence)
            except (TypeError, ValueError, OverflowError) as error:
                raise self._wrong(number, sentence) from error
            if ids.size == 0:
                continue
            if ids.ndim != 1 or not np.issubdtype(ids.dtype, np.integer):
                raise self._wrong(number, sentence)
            if ids.dtype == np.uint64 and ids.max() > np.iinfo(np.int64).max:
                raise DataError(f"Sentence {number} holds the id {ids.max()}, which overflows; ids go up to 2**63 - 2.")
            parts += (ids.astype(np.int64, copy=False), end)
            size += len(ids) + 1
            if size >= _BLOCK_IDS:
                yield np.concatenate(parts)
                parts, size = [], 0
        if parts:
            yield np.concatenate(parts)


def _kind(sentence: Any, number: int) -> str | None:
    """The kind of one sentence, None when it is empty."""
    if isinstance(sentence, str):
        return "text" if sentence else None
    if isinstance(sentence, np.ndarray) and sentence.dtype.kind in "iu":
        return "ids" if sentence.size else None
    if isinstance(sentence, (bytes, bytearray, dict)) or not isinstance(sentence, Iterable):
        raise DataError(f"Sentence {number} should be a string or a list of words or ids, got {sentence!r:.80}.")
    if not hasattr(sentence, "__len__"):
        raise DataError(f"Sentence {number} should be a list, got {type(sentence).__name__}; make a list of it.")
    for item in sentence:
        return "words" if isinstance(item, str) else "ids"
    return None


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # half a surrogate pair is no character
        return _SURROGATES.sub("\ufffd", text).encode()


def exact_piece(rows: list[bytes], lowercase: bool, bad_bytes: str, name: str) -> tuple[bytes, int]:
    """Sentences (words' bytes with NUL between) as one piece for the encoder's exact classes, and its bad bytes."""
    num_bad = 0
    if not b"".join(rows).isascii():
        texts = []
        for row in rows:
            try:
                texts.append(row.decode())
            except UnicodeDecodeError as error:
                if bad_bytes == "error":
                    raise DataError(
                        f"{name} holds a word that is not UTF-8; choose bad_bytes replace or skip."
                    ) from error
                kept = row.decode(errors="ignore")
                num_bad += len(row) - len(kept.encode())
                texts.append(kept if bad_bytes == "skip" else row.decode(errors="replace"))
        rows = [(text.lower() if lowercase else text).encode() for text in texts]
    elif lowercase:
        rows = [row.lower() for row in rows]
    return SENTENCE_END.join(rows) + SENTENCE_END, num_bad


def array_blocks(array: np.ndarray, name: str) -> Iterator[np.ndarray]:
    """Blocks of ids of an integer array: (N,) is one sequence in which -1 ends a sentence, in (M, N) each row is one.

    Raises:
        DataError: it does not hold integers, or has another shape.
    """
    if array.dtype.kind not in "iu":
        raise DataError(f"{name} holds {array.dtype} values; sequences of ids need integers.")
    if array.ndim not in (1, 2):
        raise DataError(f"{name} has shape {array.shape}; give one sequence (N,) or one a row (M, N).")
    step = _BLOCK_IDS if array.ndim == 1 else max(1, _BLOCK_IDS // max(1, array.shape[1]))
    for first in range(0, len(array), step):
        part = np.asarray(array[first : first + step])
        if part.size and part.dtype == np.uint64 and part.max() > np.iinfo(np.int64).max:
            raise DataError(f"{name} holds the id {part.max()}, which overflows; ids go up to 2**63 - 2.")
        part = part.astype(np.int64)
        if part.ndim == 2:
            part = np.concatenate([part, np.full((len(part), 1), -1, np.int64)], axis=1).reshape(-1)
        yield part
    yield np.array([-1], np.int64)


def read_arrays(name: str) -> Iterator[np.ndarray]:
    """Blocks of the ids in a .npy file (memory-mapped) or in all the arrays of a .npz file (one at a time in memory).

    Raises:
        DataError: the file is damaged, or an array is not of integers.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Path(name).open("rb") as file:
                is_zip = file.read(2) == b"PK"
                if is_zip:
                    file.seek(0)
                    with np.load(file, allow_pickle=False) as arrays:
                        for key in arrays.files:
                            yield from array_blocks(arrays[key], f"{name}, array {key}")
            if not is_zip:
                yield from array_blocks(np.load(name, mmap_mode="r", allow_pickle=False), name)
    except Any2VecError:
        raise
    except Exception as error:  # zipfile, zlib and the header parser each have errors of their own
        reason = str(error).strip().split("\n")[0][:200] or type(error).__name__
        raise DataError(f"{name} cannot be read as a NumPy array: {reason}") from error

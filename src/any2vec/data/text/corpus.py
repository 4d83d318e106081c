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

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from any2vec.data.io.array_file import ArrayFile
from any2vec.data.io.storage import atomic_folder, format_of_folder, read_meta, write_json
from any2vec.data.vocab.user_keys import INTEGERS, key_meta
from any2vec.data.vocab.vocabulary import Keys, Vocabulary, open_array
from any2vec.errors import FormatError, StorageError

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
        """Open the corpus folder `path`, memory-mapped; sizes are checked, token values are not.

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
        options = meta.get("options", {})  # of walks
        if not isinstance(options, dict) or type(options.get("walk_length", 1)) is not int:
            raise FormatError(f"{path} is damaged: meta.json gives options = {options!r}; write it again.")
        if meta.get("kind") not in KINDS:
            raise FormatError(f"{path} has corpus kind {meta.get('kind')!r}; known are {', '.join(KINDS)}.")
        vocabulary.keys.are_integers = meta["kind"] == "ids" or bool(meta.get(INTEGERS))
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
        self._is_finished = False

    def __enter__(self) -> CorpusWriter:
        self._temporary = self._stack.enter_context(atomic_folder(self.folder, self.overwrite, FORMAT))
        self._file = ArrayFile(self._temporary / "tokens.npy", np.int32)
        self._stack.callback(self._file.close)
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

    def append(self, tokens: np.ndarray) -> None:
        """Append `tokens`, int32 (any,), ends of sentences (-1) included.

        Raises:
            StorageError: they cannot be written.
        """
        from any2vec.kernels.text.tokens import count_tokens

        tokens = np.ascontiguousarray(tokens, np.int32)
        if len(tokens) == 0:
            return
        num_tokens, num_sentences = count_tokens(tokens, self._is_open_sentence)
        self._is_open_sentence = bool(tokens[-1] >= 0)
        self._file.append(tokens)
        self.num_slots += len(tokens)
        self.num_tokens += num_tokens
        self.num_sentences += num_sentences

    def remap(self, rank: np.ndarray) -> None:
        """Replace every id by rank[id], int32 (num_types,), block by block in the file."""
        from any2vec.kernels.text.tokens import remap

        block = np.empty(_REMAP_TOKENS, np.int32)
        for first in range(0, self.num_slots, _REMAP_TOKENS):
            part = block[: min(_REMAP_TOKENS, self.num_slots - first)]
            if not self._file.read(first, part):
                raise StorageError(f"Cannot read back {self.folder}: the file became shorter; check the disk.")
            remap(part, rank)
            self._file.replace(first, part)

    def finish(self, keys: Sequence[str], counts: np.ndarray, meta: dict[str, Any]) -> Corpus:
        """Write vocabulary and meta.json, sync, rename, and open the result.

        keys: strings or `Keys`, row by row; counts: int64 (num_keys,); meta: at least "kind", further JSON values are
        kept.

        Raises:
            StorageError: the folder cannot be written, or appeared meanwhile.
        """
        self._file.close()
        vocabulary = Vocabulary.from_keys(Keys.of(keys), counts)
        vocabulary.save(self._temporary)
        sizes = {
            "num_slots": self.num_slots,
            "num_tokens": self.num_tokens,
            "num_sentences": self.num_sentences,
            "num_types": len(vocabulary),
        }
        meta = {"format": FORMAT, "version": VERSION, **meta, **key_meta(keys), **sizes}
        write_json(self._temporary / "meta.json", meta)
        self._is_finished = True
        self._stack.close()
        return Corpus.open(self.folder)


class _AbortedError(Exception):
    pass

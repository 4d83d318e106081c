"""One corpus in the making: files or memory, in whatever form they come, are fed to the encoder that suits them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.data.io.files import (
    BLOCK_BYTES,
    content_hash,
    display,
    is_regular,
    is_table,
    prefetch,
    read_blocks,
    text_form,
)
from any2vec.data.options import check_unset
from any2vec.data.text.normalize import Normalizer, TextOptions
from any2vec.data.text.sequences import Sentences, array_blocks, exact_piece, read_arrays
from any2vec.errors import DataError

ProgressCall = Callable[[int, int | None], None]


class Meter:
    """Counts and hashes what is read; calls the callback, from the thread that encodes."""

    def __init__(self, progress: ProgressCall | None, total: int | None) -> None:
        self.progress = progress
        self.total = total
        self.done = 0
        self.digest: Any = None

    def read(self, chunk: bytes | np.ndarray | memoryview) -> None:
        self.done += len(chunk) if isinstance(chunk, bytes) else chunk.nbytes
        if self.digest is not None:
            self.digest.update(chunk)

    def report(self) -> None:
        if self.progress is not None:
            self.progress(self.done, self.total)


class Encoding:
    """One corpus in the making: chooses the encoder by the first input and feeds it."""

    def __init__(self, writer: Any, options: TextOptions, meter: Meter) -> None:
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
            form = text_form(name)
            if self.meter.digest is not None:  # a stream among the files: each counts with its form and its bounds
                self.meter.digest.update(f"\0{form}\0{'' if form == 'text' else content_hash(name)}\0".encode())
            if form == "text":
                self._refuse_column(display(name), "plain text")
                self._add_text(display(name), self._read(name))
            elif form == "array":
                self._add_ids(name, read_arrays(name))
            else:
                from any2vec.data.text.columns import Column
                from any2vec.data.text.records import RecordColumn

                column = (Column if form in ("parquet", "arrow") else RecordColumn)(name, form, self.options.column)
                self._add(column.kind, name, column.blocks())
            if form != "text":
                done += Path(name).stat().st_size
                self.meter.done = max(self.meter.done, done)
            done = self.meter.done
            self.meter.report()

    def add_memory(self, source: Any) -> None:
        """A table, sentences or an array, hashed as they pass."""
        if is_table(source):
            from any2vec.data.text.columns import Column

            column = Column(source, None, self.options.column)
            self.form, self._name = column.kind, column.name
            self._add(column.kind, column.name, self._metered(column.blocks()))
            return
        self._refuse_column(f"The {type(source).__name__}", "no table")
        source = source.to_pylist() if hasattr(source, "to_pylist") else source  # of pyarrow, whose scalars are no text
        if hasattr(source, "__array__") and np.asarray(source).dtype.kind in "iufb":
            self.form, self._name = "ids", "The array"
            self._add_ids(self._name, self._metered(array_blocks(np.asarray(source), self._name)))
            return
        sentences = Sentences(source)
        self.form, self._name = sentences.kind, sentences.name
        self._add(sentences.kind, sentences.name, self._metered(sentences.blocks()))

    def _refuse_column(self, name: str, what: str) -> None:
        if self.options.column is not None:
            raise DataError(
                f"{name} is {what}, so it has no column {self.options.column!r}: leave column out, or give a table, "
                "Parquet, Arrow, or a file named .csv, .tsv or .jsonl."
            )

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
        from any2vec.data.text.encoder import WordEncoder

        if self._encoder is None:
            self._encoder = WordEncoder(self.writer, classes)
        if not isinstance(self._encoder, WordEncoder):
            raise DataError(f"{name} holds text but the input before it holds ids; encode them apart.")
        self._encoder.classes = classes
        return self._encoder

    def add_span(self, name: str, start: int, stop: int) -> int:
        """Bytes [start, stop) of a text file, whole lines; how many of them are no UTF-8, which is not judged here."""
        self._name = display(name)
        # The line end before them is no word and no sentence, and what follows it is taken for no byte order mark.
        begin = max(0, start - 1)
        blocks = read_blocks(name, on_read=self.meter.read, allow_empty=True, span=(begin, stop))
        where = display(name) if begin == 0 else f"{display(name)}, from byte {begin} on"
        before = self.bad_bytes
        self._add_text(where, blocks if stop - begin < BLOCK_BYTES else prefetch(blocks), is_part=True)
        return self.bad_bytes - before

    @property
    def num_types(self) -> int:
        """Different words so far."""
        return 0 if self._encoder is None else int(self._encoder.num_types)

    def _add_text(self, name: str, blocks: Iterator[bytes], is_part: bool = False) -> None:
        from any2vec.data.text.encoder import text_classes

        encoder = self._words(name, text_classes())
        text = Normalizer(name, self.options, is_part)
        with closing(blocks):  # type: ignore[type-var]
            for piece in text.pieces(blocks):
                encoder.feed(piece, name)
                self.meter.report()
        self.bad_bytes += text.bad_bytes

    def _add_words(self, name: str, blocks: Iterator[list[bytes]]) -> None:
        from any2vec.data.text.encoder import exact_classes

        encoder = self._words(name, exact_classes())
        for rows in blocks:
            piece, num_bad = exact_piece(rows, self.options.lowercase, self.options.bad_bytes, name)
            encoder.feed(piece, name)
            self.bad_bytes += num_bad
            self.meter.report()

    def _add_ids(self, name: str, blocks: Iterator[np.ndarray]) -> None:
        from any2vec.data.text.encoder import IdEncoder

        check_unset(self.options, ("lowercase", "token_pattern"), f"{display(name)} holds integers")
        if self._encoder is None:
            self._encoder = IdEncoder(self.writer)
        if not isinstance(self._encoder, IdEncoder):
            raise DataError(f"{name} holds ids but the input before it holds text; encode them apart.")
        for block in blocks:
            if len(block):
                self._encoder.feed(block, name)
            self.meter.report()
        self._encoder.end_sentence()

    def finish(self, **more: Any) -> Any:
        """What the writer makes of it; more: metadata for its meta.json. DataError: there are no words."""
        if self.num_types == 0:
            what = "is empty" if self.meter.done == 0 else "holds no words"
            raise DataError(f"{self._name} {what}; give text with words in it.")
        kind = "text" if hasattr(self._encoder, "arena") else "ids"
        meta = {"kind": kind, "options": asdict(self.options), "bad_bytes": self.bad_bytes}
        return self._encoder.finish(meta | more)

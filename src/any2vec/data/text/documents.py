"""Documents one by one, empty ones included: lines of text, or values of a column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from any2vec.data.io.files import display, expand_inputs, is_table, read_blocks, text_form, whole_lines
from any2vec.data.options import TextOptions
from any2vec.data.text.columns import Column, decode_text
from any2vec.data.text.records import RecordColumn
from any2vec.errors import DataError, InputError


class Documents:
    """What lies in files, or in a table in memory; read anew with each iteration.

    Yields strings, or lists of words. Raises DataError for what cannot be read.
    """

    def __init__(self, source: Any, options: TextOptions) -> None:
        """source: paths, or a table, or an iterable of strings and of lists of words."""
        self.source, self.options = source, options

    @classmethod
    def of_files(cls, paths: list[str], options: TextOptions) -> Documents:
        """Files, folders and globs, as training reads them."""
        return cls(_Files(expand_inputs(paths), options), options)

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self.source, str):
            raise InputError(f"documents are a list of strings, or of lists of words; got {self.source!r:.80}.")
        if is_table(self.source):
            return Column(self.source, None, self.options.column).values(self.options.bad_bytes)
        return iter(self.source)


class _Files:
    def __init__(self, names: list[str], options: TextOptions) -> None:
        self._names, self._options = names, options

    def __iter__(self) -> Iterator[Any]:
        bad_bytes = self._options.bad_bytes
        for name in self._names:
            form = text_form(name)
            if form == "array":
                raise DataError(f"{display(name)} holds ids; documents are text, or a column of a table.")
            if form != "text":
                kind = Column if form in ("parquet", "arrow") else RecordColumn
                yield from kind(name, form, self._options.column).values(bad_bytes)
                continue
            if self._options.column is not None:
                raise DataError(f"{display(name)} is plain text, so it has no column {self._options.column!r}.")
            line = 1
            for piece in whole_lines(display(name), read_blocks(name)):
                yield from decode_text(piece, bad_bytes, display(name), line).removesuffix("\n").split("\n")
                line += piece.count(b"\n")

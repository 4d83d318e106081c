"""A column of a table as what an encoder of text reads: lines, split words, or sequences of ids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from any2vec.data.io.arrow import TableReader, is_list, is_text, pa, pc
from any2vec.data.text.encoder import WORD_END
from any2vec.errors import DataError

_BATCH_ROWS = 8192


class Column:
    """One column of a file, or (form None) of a table in memory.

    `kind` is text (a value is a sentence), words or ids (a value is a list).
    """

    def __init__(self, source: Any, form: str | None, column: str | None) -> None:
        self._table = TableReader(source, form)
        self.name = self._table.name
        kinds = {field.name: _kind(field.type) for field in self._table.schema}
        self.column = self._choose(column, kinds, {field.name: str(field.type) for field in self._table.schema})
        self.kind = str(kinds[self.column])

    def _choose(self, column: str | None, kinds: dict[str, str | None], types: dict[str, str]) -> str:
        listed = ", ".join(f"{name} ({kind})" for name, kind in types.items()) or "none"
        if column is not None and column not in kinds:
            raise DataError(f"{self.name} has no column {column!r}; its columns are: {listed}.")
        if column is not None and kinds[column] is None:
            raise DataError(
                f"Column {column!r} of {self.name} holds {types[column]}; a string, a list of strings or a list of "
                f"integers is needed; its columns are: {listed}."
            )
        if column is not None:
            return column
        usable = [name for name, kind in kinds.items() if kind is not None]
        if len(usable) != 1:
            said = "--column, TextOptions(column=...)"
            raise DataError(f"{self.name} needs a column to be named ({said}); its columns are: {listed}.")
        return usable[0]

    def values(self, bad_bytes: str) -> Iterator[Any]:
        """Row by row a string, or a list of strings or integers; of a missing one an empty string.

        Raises:
            DataError: the file is damaged, or by `bad_bytes`, as of `TextOptions`.
        """

        def decoded(value: Any) -> Any:
            return decode_text(value, bad_bytes, self.name) if isinstance(value, bytes) else value

        for batch in self._table.batches([self.column], _BATCH_ROWS):
            for value in batch[self.column].to_pylist():
                if isinstance(value, list):
                    yield [decoded(item) for item in value if item is not None]
                else:
                    yield decoded(value or b"")

    def blocks(self) -> Iterator[Any]:
        """text: bytes, lines that each end with a line feed; words: pieces for the exact classes of the encoder, not
        yet checked for bad bytes, as a list of sentences; ids: int64 or uint64 arrays with -1 after each sentence.

        Raises:
            DataError: the file is damaged, or a value is not legal.
        """
        convert = {"text": lines_of, "words": _sentences, "ids": _ids}[self.kind]
        for batch in self._table.batches([self.column], _BATCH_ROWS):
            with self._table.errors():
                block = convert(batch[self.column], self.name)
            yield block


def decode_text(data: bytes, bad_bytes: str, name: str, first_line: int | None = None) -> str:
    """Bytes as text, where what is no UTF-8 is treated as `TextOptions.bad_bytes` says.

    first_line: number of the first line among them, for the message.

    Raises:
        DataError: by "error".
    """
    if bad_bytes != "error":
        return data.decode("utf-8", "ignore" if bad_bytes == "skip" else "replace")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        breaks = data.count(b"\n", 0, error.start)
        line = "" if first_line is None else f", line {first_line + breaks:,}"
        raise DataError(
            f"{name}{line} holds bytes that are not UTF-8 ({error.reason}); convert it to UTF-8, or choose bad_bytes "
            "replace or skip."
        ) from error


def _kind(kind: Any) -> str | None:
    if is_text(kind):
        return "text"
    if not is_list(kind):
        return None
    if is_text(kind.value_type):
        return "words"
    return "ids" if pa.types.is_integer(kind.value_type) else None


def lines_of(values: Any, name: str) -> bytes:
    """Values of a large_binary array, each on a line of its own."""
    rows = [value for value in values.to_pylist() if value]
    joined = b"\n".join(rows)
    if joined.count(b"\n") >= len(rows):  # a value is one sentence, whatever line ends it holds
        joined = b"\n".join([value.replace(b"\n", b" ") for value in rows])
    return joined + b"\n"


def _sentences(values: Any, name: str) -> list[bytes]:
    words = values.flatten()
    if pc.any(pc.match_substring(words, WORD_END.decode())).as_py():
        raise DataError(f"{name} holds a word with a NUL byte; words cannot hold one.")
    if words.null_count:
        rows = [WORD_END.join([word for word in row if word is not None]) for row in values.to_pylist() if row]
    else:
        values = values.cast(pa.list_(pa.binary()))  # binary_join knows no large lists; a slice fits
        rows = [row for row in pc.binary_join(values, WORD_END).to_pylist() if row]
    return rows


def _ids(values: Any, name: str) -> np.ndarray:
    """int64 array of the sequences, with -1 after each.

    Raises:
        DataError: an id is missing, is negative, or overflows int64.
    """
    flat = values.flatten()
    if flat.null_count:
        raise DataError(f"{name} holds a list with a missing id; every id must be an integer.")
    lengths = np.asarray(pc.fill_null(pc.list_value_length(values), 0), np.int64)
    ids = flat.to_numpy(zero_copy_only=False)
    if len(ids) and ids.min() < 0:
        raise DataError(f"{name} holds the id {ids.min()}; ids in lists are 0 or more.")
    if len(ids) and ids.max() >= np.iinfo(np.int64).max:
        raise DataError(f"{name} holds the id {ids.max()}, which overflows; ids go up to 2**63 - 2.")
    out = np.full(len(ids) + len(lengths), -1, np.int64)
    out[np.arange(len(ids)) + np.repeat(np.arange(len(lengths)), lengths)] = ids
    return out

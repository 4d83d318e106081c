"""Parquet, Arrow and Feather files: batches of columns; a column as lines of text, split words, sequences of ids."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.errors import Any2VecError, DataError


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Whatever pyarrow raises on a damaged file becomes a `DataError`."""
    try:
        yield
    except Any2VecError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"There is no file {name}; check the path.") from error
    except Exception as error:
        reason = str(error).strip().split("\n")[0][:200] or type(error).__name__
        raise DataError(f"{name} cannot be read as a table: {reason}") from error


def column_names(name: str, form: str) -> list[str]:
    """The names of all columns; form: parquet or arrow. DataError: the file is damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with _reading(name):
        if form == "parquet":
            with pq.ParquetFile(name) as file:
                return list(file.schema_arrow.names)
        with pa.memory_map(name) as source:
            return list(_open_arrow(source).schema.names)


def read_batches(name: str, form: str, columns: list[str], batch_rows: int) -> Iterator[dict[str, Any]]:
    """Arrays by column, at most `batch_rows` values each; text comes as bytes, and every layout is checked.

    Raises:
        DataError: the file is damaged.
    """
    with _reading(name), closing(_batches(name, form, columns, batch_rows)) as batches:  # type: ignore[type-var]
        for batch in batches:
            whole = {column: _checked(batch.column(batch.schema.get_field_index(column))) for column in columns}
            for start in range(0, batch.num_rows, batch_rows):
                yield {column: values.slice(start, batch_rows) for column, values in whole.items()}


def _open_arrow(source: Any) -> Any:
    import pyarrow as pa

    try:
        return pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        return pa.ipc.open_stream(source)


def _batches(name: str, form: str, columns: list[str], batch_rows: int) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if form == "parquet":
        with pq.ParquetFile(name) as file:
            yield from file.iter_batches(batch_size=batch_rows, columns=columns)
        return
    with pa.memory_map(name) as source:
        reader = _open_arrow(source)
        if hasattr(reader, "num_record_batches"):
            yield from (reader.get_batch(index) for index in range(reader.num_record_batches))
        else:
            yield from reader


def _checked(values: Any) -> Any:
    """Kernels read the buffers as they are, so offsets that point elsewhere must be found here."""
    import pyarrow as pa

    kind = values.type
    if pa.types.is_dictionary(kind):
        values.validate(full=not _is_text(kind.value_type))
        return _checked(values.dictionary_decode())
    if _is_text(kind):  # as bytes: text that is no UTF-8 is a value like any other
        values = values.cast(pa.large_binary())
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        values.validate()
        if _is_text(kind.value_type):
            values = values.cast(pa.large_list(pa.large_binary()))
    values.validate(full=True)
    return values


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    views = [test(kind) for test in (pa.types.is_string_view, pa.types.is_binary_view)]
    return any([pa.types.is_string(kind), pa.types.is_large_string(kind), pa.types.is_binary(kind), *views])


WORD_END = b"\x00"
"""between words that come already split: a NUL is refused in words"""
_BATCH_ROWS = 8192
PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather", ".ipc", ".arrows")


def table_format(name: str, head: bytes) -> str | None:
    """ "parquet" or "arrow" by the file's suffix or first bytes, else None."""
    suffix = Path(name).suffix.lower()
    if suffix in PARQUET or (head.startswith(b"PAR1") and suffix not in (".txt", ".text")):
        return "parquet"
    if suffix in ARROW or head.startswith(b"ARROW1\0\0"):
        return "arrow"
    return None


class Column:
    """One column of a file; `kind` is text (a value is a sentence), words or ids (a value is a list)."""

    def __init__(self, name: str, table: str, column: str | None) -> None:
        self.name = name
        self._table = table
        with _reading(name):
            schema, self.num_rows = self._open()
            kinds = {field.name: _kind(field.type) for field in schema}
        self.column = self._choose(column, kinds, {field.name: str(field.type) for field in schema})
        self.kind = str(kinds[self.column])

    def _open(self) -> tuple[Any, int | None]:
        import pyarrow as pa

        if self._table == "parquet":
            import pyarrow.parquet as pq

            with pq.ParquetFile(self.name) as file:
                return file.schema_arrow, file.metadata.num_rows
        with pa.memory_map(self.name) as source:
            return _open_arrow(source).schema, None

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
            raise DataError(f"{self.name} needs a column to be named (--column); its columns are: {listed}.")
        return usable[0]

    def _batches(self) -> Generator[Any, None, None]:
        """Arrays of at most `_BATCH_ROWS` values, their memory layout checked."""
        import pyarrow as pa

        if self._table == "parquet":
            import pyarrow.parquet as pq

            with pq.ParquetFile(self.name) as file:
                for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=[self.column]):
                    yield from self._slices(batch)
            return
        with pa.memory_map(self.name) as source:
            try:
                reader = pa.ipc.open_file(source)
            except pa.ArrowInvalid:
                source.seek(0)
                for batch in pa.ipc.open_stream(source):
                    yield from self._slices(batch)
                return
            for index in range(reader.num_record_batches):
                yield from self._slices(reader.get_batch(index))

    def _slices(self, batch: Any) -> Iterator[Any]:
        values = batch.column(batch.schema.get_field_index(self.column))
        values = _as_bytes(values)
        values.validate(full=True)
        for start in range(0, len(values), _BATCH_ROWS):
            yield values.slice(start, _BATCH_ROWS)

    def blocks(self) -> Iterator[Any]:
        """text: bytes, lines that each end with a line feed; words: pieces for the exact classes of the encoder, not
        yet checked for bad bytes, as a list of sentences; ids: int64 or uint64 arrays with -1 after each sentence.

        Raises:
            DataError: the file is damaged, or a value is not legal.
        """
        convert = {"text": _lines, "words": _sentences, "ids": _ids}[self.kind]
        with closing(self._batches()) as batches:
            while True:
                with _reading(self.name):
                    batch = next(batches, None)
                    if batch is None:
                        return
                    block = convert(batch, self.name)
                yield block


def _kind(kind: Any) -> str | None:
    import pyarrow as pa

    def is_text(item: Any) -> bool:
        item = item.value_type if pa.types.is_dictionary(item) else item
        return pa.types.is_string(item) or pa.types.is_large_string(item)

    if is_text(kind):
        return "text"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        if is_text(kind.value_type):
            return "words"
        return "ids" if pa.types.is_integer(kind.value_type) else None
    return None


def _as_bytes(values: Any) -> Any:
    """Strings as binary, dictionaries unpacked: so invalid UTF-8 is left for `bad_bytes` to decide."""
    import pyarrow as pa

    kind = values.type
    if pa.types.is_dictionary(kind):
        values.validate(full=True)
        return _as_bytes(values.cast(kind.value_type))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return values.cast(pa.binary() if pa.types.is_string(kind) else pa.large_binary())
    if not pa.types.is_nested(kind):
        return values
    values.validate(full=not (pa.types.is_string(kind.value_type) or pa.types.is_large_string(kind.value_type)))
    if pa.types.is_fixed_size_list(kind):
        values = values.cast(pa.list_(kind.value_type))
        kind = values.type
    item = kind.value_type
    if pa.types.is_integer(item):
        return values
    return values.cast(pa.large_list(pa.large_binary()))


def _lines(values: Any, name: str) -> bytes:
    rows = [value for value in values.to_pylist() if value]
    joined = b"\n".join(rows)
    if joined.count(b"\n") >= len(rows):  # a value is one sentence, whatever line ends it holds
        joined = b"\n".join([value.replace(b"\n", b" ") for value in rows])
    return joined + b"\n"


def _sentences(values: Any, name: str) -> list[bytes]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if values.flatten().null_count:
        rows = [WORD_END.join([word for word in row if word is not None]) for row in values.to_pylist() if row]
    else:
        values = values.cast(pa.list_(pa.binary()))  # binary_join knows no large lists; a slice fits
        rows = [row for row in pc.binary_join(values, WORD_END).to_pylist() if row]
    num_words = int(pc.sum(pc.list_value_length(values)).as_py() or 0)
    if sum(row.count(WORD_END) for row in rows) > num_words:
        raise DataError(f"{name} holds a word with a NUL byte; words cannot hold one.")
    return rows


def _ids(values: Any, name: str) -> np.ndarray:
    import pyarrow.compute as pc

    flat = values.flatten()
    if flat.null_count:
        raise DataError(f"{name} holds a list with a missing id; every id must be an integer.")
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    return with_ends(flat.to_numpy(zero_copy_only=False), np.asarray(lengths, np.int64), name)


def with_ends(ids: np.ndarray, lengths: np.ndarray, name: str) -> np.ndarray:
    """int64 array of the sequences of `lengths` (int64) in `ids`, with -1 after each.

    Raises:
        DataError: an id is negative or overflows int64.
    """
    if len(ids) and ids.min() < 0:
        raise DataError(f"{name} holds the id {ids.min()}; ids in lists are 0 or more.")
    if len(ids) and ids.max() >= np.iinfo(np.int64).max:
        raise DataError(f"{name} holds the id {ids.max()}, which overflows; ids go up to 2**63 - 2.")
    out = np.full(len(ids) + len(lengths), -1, np.int64)
    out[np.arange(len(ids)) + np.repeat(np.arange(len(lengths)), lengths)] = ids
    return out

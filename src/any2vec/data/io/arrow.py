"""The one door to pyarrow: columns of files (Parquet, Arrow, Feather, JSON Lines) and of tables in memory, and text.

Import it where columns are read, not before: pyarrow is heavy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from any2vec.checks import is_missing
from any2vec.data.io.files import display, is_table
from any2vec.data.io.json_lines import check_objects, pieces_of
from any2vec.errors import Any2VecError, DataError

__all__ = [
    "FieldCountError",
    "TableReader",
    "arrow_errors",
    "csv",
    "is_binary",
    "is_list",
    "is_text",
    "pa",
    "packed",
    "parquet",
    "pc",
    "split_lines",
]  # fmt: skip
_ROWS = 1 << 13
"""of a Dataset that are read at a time"""
_Batches = Callable[[list[str], int], Iterator[Any]]


def parquet() -> Any:
    """The module of Parquet files."""
    import pyarrow.parquet

    return pyarrow.parquet


def csv() -> Any:
    """The module of delimited text."""
    import pyarrow.csv

    return pyarrow.csv


@contextmanager
def arrow_errors(
    what: str, error: type[Any2VecError] = DataError, advice: str = "copy or write it again."
) -> Iterator[None]:
    """Whatever pyarrow raises on a damaged file becomes an `error`: `what` cannot be read, why, and what to do."""
    try:
        yield
    except (Any2VecError, FieldCountError):
        raise
    except Exception as found:
        reason = str(found).strip().split("\n")[0][:200].rstrip(".") or type(found).__name__
        raise error(f"{what} ({reason}); {advice}") from found


# ---- kinds of columns ---------------------------------------------------------------------------------------------


def is_binary(kind: Any) -> bool:
    """Bytes, of which nothing says that they are text."""
    return any(test(kind) for test in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view))


def is_text(kind: Any) -> bool:
    """Strings, or dictionaries of them."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def is_list(kind: Any) -> bool:
    """Lists of one kind of values, of any length or a fixed one."""
    return any(test(kind) for test in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list))


def packed(offsets: np.ndarray, arena: np.ndarray, kind: Any = None) -> Any:
    """The texts [offsets[n], offsets[n + 1]) of bytes: a large_string array (or large_binary), no copy."""
    buffers = [
        None,
        *(pa.py_buffer(np.ascontiguousarray(part)) for part in (offsets.astype(np.int64, copy=False), arena)),
    ]
    return pa.Array.from_buffers(kind or pa.large_string(), len(offsets) - 1, buffers)


def check_utf8(text: Any, name: str) -> None:
    """Raise DataError for bytes (or uint8) that are no UTF-8, of which pyarrow would complain line by line."""
    try:
        packed(np.array([0, len(text)]), np.frombuffer(text, np.uint8)).validate(full=True)
    except pa.ArrowInvalid as error:
        raise DataError(f"{display(name)} is no UTF-8 text; convert it, or give another file.") from error


# ---- tables -------------------------------------------------------------------------------------------------------


class TableReader:
    """The columns of a file or of a table in memory, some rows at a time.

    Args:
        source: a file, or a table in memory (see `files.is_table`).
        form: of a file, one of `files.TABLES`.
        error: the class of what is raised where it is damaged, or no table.
    """

    def __init__(self, source: Any, form: str | None, error: type[Any2VecError] = DataError) -> None:
        self.name = display(source)
        """for messages"""
        self._source, self._form, self._error = source, form, error
        self._mixed: dict[str, str] = {}
        """columns of a table in memory whose values make no array, refused where they are read: types of the values"""
        with self.errors():
            if form is None:
                self._source = _reader_of(source, self.name, error, self._mixed)
            elif form == "jsonl":
                self._source = _JsonLines(source, error)
            with self._opened() as (schema, _):
                self.schema, self.names = schema, list(schema.names)

    def errors(self) -> Any:
        """What pyarrow raises inside becomes an error of this table."""
        advice = "copy or write it again." if self._form else "give one whose columns have one type each."
        return arrow_errors(f"{self.name} cannot be read as a table", self._error, advice)

    def batches(self, columns: list[str], num_rows: int) -> Iterator[dict[str, Any]]:
        """Arrays by column, at most `num_rows` values each; text comes as large_binary, and every layout is checked."""
        for column in columns:
            if self.names.count(column) > 1:
                raise self._error(f"{self.name} has two columns named {column!r}; rename one.")
            if column in self._mixed:
                raise self._error(
                    f"{self.name} has a column {column} of {self._mixed[column]}, which cannot be read; make all "
                    "of its values strings (of pandas .astype(str)), or all numbers."
                )
        with self.errors(), self._opened() as (_, read), closing(read(columns, num_rows)) as batches:  # type: ignore[type-var]
            for batch in batches:
                whole = {column: _checked(batch.column(batch.schema.get_field_index(column))) for column in columns}
                for start in range(0, batch.num_rows, num_rows):
                    yield {column: values.slice(start, num_rows) for column, values in whole.items()}

    @contextmanager
    def _opened(self) -> Iterator[tuple[Any, _Batches]]:
        """Its schema, and what reads batches."""
        if self._form is None:
            yield self._source.schema, lambda columns, _: (batch.select(columns) for batch in self._source)
        elif self._form == "jsonl":
            yield self._source.schema, lambda columns, _: self._source.batches(columns)
        elif self._form == "parquet":
            with parquet().ParquetFile(self._source) as file:
                yield file.schema_arrow, lambda columns, num_rows: file.iter_batches(num_rows, columns=columns)
        else:
            with pa.memory_map(str(self._source)) as source:
                try:
                    file = pa.ipc.open_file(source)
                    batches = (file.get_batch(index) for index in range(file.num_record_batches))
                except pa.ArrowInvalid:
                    source.seek(0)
                    file = pa.ipc.open_stream(source)
                    batches = (batch for batch in file)
                yield file.schema, lambda columns, num_rows: batches


def _reader_of(source: Any, name: str, error: type[Any2VecError], mixed: dict[str, str]) -> Any:
    """A RecordBatchReader of a table in memory. mixed: gets the columns whose values make no array, and their
    types; they come without values."""
    if isinstance(source, Mapping):
        if tables := [key for key, value in source.items() if is_table(value)]:
            raise error(f"{name} holds several tables: {', '.join(tables)}; give one of them, data[{tables[0]!r}].")
        columns = {key: _column_or_nulls(key, values, mixed) for key, values in source.items()}
        if len(lengths := {key: len(column) for key, column in columns.items()}) and len({*lengths.values()}) > 1:
            found = ", ".join(f"{key} {length:,}" for key, length in lengths.items())
            raise error(f"{name} has columns of different lengths: {found}; give each row all of them.")
        return pa.table(columns).to_reader()
    if isinstance(source, list):
        names = dict.fromkeys(key for row in source for key in row)
        columns = {key: _column_or_nulls(key, [row.get(key) for row in source], mixed) for key in names}
        return pa.table(columns).to_reader()
    if hasattr(source, "iloc"):
        return _without_index(_reader_of_frame(source, mixed))
    if hasattr(source, "__arrow_c_stream__"):
        return _without_index(pa.RecordBatchReader.from_stream(source))
    if hasattr(source, "__arrow_c_array__"):
        return pa.table(source).to_reader()
    tables = source.with_format("arrow").iter(batch_size=_ROWS)  # which follows a Dataset's shuffling and selection
    first = next(tables, None)
    if first is None:
        raise error(f"{name} is empty; give one with rows.")
    batches = (batch for table in chain([first], tables) for batch in table.to_batches())
    return pa.RecordBatchReader.from_batches(first.schema, batches)


def _without_index(reader: Any) -> Any:
    """The same without the columns that pandas makes of an index without a name: row numbers of a shuffled frame."""
    kept = [name for name in reader.schema.names if not (name.startswith("__index_level_") and name.endswith("__"))]
    if len(kept) == len(reader.schema.names):
        return reader
    schema = pa.schema([reader.schema.field(name) for name in kept])
    return pa.RecordBatchReader.from_batches(schema, (batch.select(kept) for batch in reader))


def _reader_of_frame(frame: Any, mixed: dict[str, str]) -> Any:
    """Of pandas, whose frames make a stream only where all their columns make arrays, and have names of their own."""
    try:
        return pa.RecordBatchReader.from_stream(frame)
    except Exception:  # of a column that may be read by nobody
        index = frame.index
        levels = [] if type(index).__name__ == "RangeIndex" else [one for one in index.names if one is not None]
        columns = [(str(name), frame.iloc[:, at]) for at, name in enumerate(frame.columns)]
        columns += [(str(level), index.get_level_values(level)) for level in levels]
        arrays = [_column_or_nulls(name, values, mixed) for name, values in columns]
        return pa.Table.from_arrays(arrays, [name for name, _ in columns]).to_reader()


def _column_or_nulls(name: str, values: Any, mixed: dict[str, str]) -> Any:
    """As `_column`; nulls for values that make no array, whose types `mixed` gets."""
    try:
        return _column(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        mixed[name] = " and ".join(sorted({type(one).__name__ for one in values if not is_missing(one)}))
        return pa.nulls(len(values), pa.large_string())


def _column(values: Any) -> Any:
    """A pyarrow array of the values of a column: a list, an array (a row of several axes is a list), a tensor."""
    if hasattr(values, "__arrow_c_stream__"):
        return pa.chunked_array(values)
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    if getattr(values, "ndim", 1) == 2:
        return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).ravel()), values.shape[1])
    return pa.array(values, from_pandas=True)


def _checked(values: Any) -> Any:
    """Kernels read the buffers as they are, so offsets that point elsewhere must be found here.

    Text becomes bytes: what is no UTF-8 is a value like any other.
    """
    kind = values.type
    if pa.types.is_dictionary(kind):
        values.validate()
        values = pa.DictionaryArray.from_arrays(values.indices, _checked(values.dictionary)).dictionary_decode()
    elif is_text(kind) or is_binary(kind):
        values = values.cast(pa.large_binary())
    elif is_list(kind):
        item = kind.value_type
        is_plain = (is_text(item) or is_binary(item)) and not pa.types.is_dictionary(item)
        values.validate(full=not is_plain)
        if is_plain or is_text(item):
            values = values.cast(pa.large_list(pa.large_binary()))
        elif pa.types.is_fixed_size_list(kind):
            values = values.cast(pa.large_list(item))
    values.validate(full=True)
    return values


class _JsonLines:
    """A file, plain or packed; `schema` has all its columns, with types that hold for each line. What looks like times
    is text. Memory O(piece).

    Raises:
        DataError: the file is empty or damaged. error: a line is no JSON object, or a column has values of two types.
    """

    def __init__(self, file: str, error: type[Any2VecError]) -> None:
        self._file, self._name, self._error = str(file), display(file), error
        self.schema = pa.schema([])
        for lines, piece in pieces_of(self._file, error):
            check_utf8(piece, self._name)
            check_objects(piece, lines, self._name, error)
            found = self._table(piece, lines, None).schema
            found = pa.schema([(field.name, _without_times(field.type)) for field in found])
            with self._errors(lines):
                self.schema = pa.unify_schemas([self.schema, found], promote_options="permissive")

    def batches(self, columns: list[str]) -> Iterator[Any]:
        """Record batches of these columns; null: a line lacks it."""
        wanted = pa.schema([self.schema.field(column) for column in columns])
        for lines, piece in pieces_of(self._file, self._error):
            yield from self._table(piece, lines, wanted).to_batches()

    def _table(self, piece: bytes, lines: int, schema: Any) -> Any:
        """schema: of the columns that are read; None: all, as they seem to be."""
        import pyarrow.json

        other = "infer" if schema is None else "ignore"
        with self._errors(lines):
            return pyarrow.json.read_json(
                pa.BufferReader(piece),
                pyarrow.json.ReadOptions(use_threads=False, block_size=len(piece) + 1),
                pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=other),
            )

    def _errors(self, lines: int) -> Any:
        what = f"{self._name} cannot be read from line {lines + 1:,} on"
        return arrow_errors(what, self._error, "give each column values of one type.")


def _without_times(kind: Any) -> Any:
    """A type with text in the place of times, which pyarrow makes of strings like 2026-01-31."""
    if is_list(kind):
        return pa.list_(_without_times(kind.value_type))
    return pa.string() if pa.types.is_timestamp(kind) else kind


# ---- delimited text -----------------------------------------------------------------------------------------------


class FieldCountError(Exception):
    """A line has not as many fields as there are columns: `row` of those that are not blank, from 0."""

    def __init__(self, row: int, num_fields: int, text: str) -> None:
        self.row, self.num_fields, self.text = row, num_fields, text

    def line(self, text: bytes) -> int:
        """The line of a text in which that row stands, from 0: of one whose lines end otherwise the row itself."""
        rows = (number for number, line in enumerate(text.split(b"\n")) if line.strip(b"\r"))
        return next(islice(rows, self.row, None), self.row)


def split_lines(
    text: Any, delimiter: str, num_columns: int, chosen: list[int], kind: Any, *, quotes: bool
) -> list[Any]:
    """The chosen columns of delimited text (bytes or uint8), arrays of `kind`, large_string or large_binary.

    quotes: whether fields may stand in double quotes. Blank lines are left out.

    Raises:
        FieldCountError: a line has another number of fields. ArrowInvalid: it cannot be read.
    """
    if not len(text):  # which pyarrow refuses
        return [pa.array([], kind) for _ in chosen]
    wrong: list[Any] = []

    def on_wrong(row: Any) -> str:
        wrong.append(row)
        return "error"

    names = [str(column) for column in range(num_columns)]
    include = [names[column] for column in chosen]
    try:
        table = csv().read_csv(
            pa.BufferReader(pa.py_buffer(text)),
            csv().ReadOptions(use_threads=False, block_size=len(text) + 1, column_names=names),
            csv().ParseOptions(delimiter=delimiter, quote_char='"' if quotes else False, invalid_row_handler=on_wrong),
            csv().ConvertOptions(include_columns=include, column_types=dict.fromkeys(include, kind)),
        )
    except pa.ArrowInvalid as error:
        if wrong and wrong[0].number is not None:
            raise FieldCountError(wrong[0].number - 1, wrong[0].actual_columns, wrong[0].text) from error
        raise
    return [table.column(name).combine_chunks() for name in include]


def read_numbers(path: Path, has_header: bool = False, is_text: bool = False) -> tuple[list[str], np.ndarray]:
    """(names of the columns, float64 (rows, columns); of text strings) of a CSV file, plain or gz.

    Raises:
        DataError: it is missing, or holds something else.
    """
    if not path.is_file():
        raise DataError(f"There is no {path}; it belongs to the graph.")
    with arrow_errors(f"{path} cannot be read", advice="it should hold numbers, as many in each row."):
        table = csv().read_csv(path, csv().ReadOptions(use_threads=False, autogenerate_column_names=not has_header))
        kind = pa.string() if is_text else pa.float64()
        columns = [column.cast(kind).to_numpy(zero_copy_only=False) for column in table.columns]
    if any(column.dtype == object for column in columns) and not is_text:
        raise DataError(f"{path} holds empty fields; it should hold numbers.")
    return list(table.column_names), np.stack(columns, axis=1)


KINDS = ("dense", "categorical", "multi_valued")
"""of columns: floats, lists, and the rest"""


def kind_of(column: Any) -> str:
    """One of KINDS, of an array or a NumPy one."""
    kind = pa.array(column).type if not isinstance(column, pa.ChunkedArray) else column.type
    return "dense" if pa.types.is_floating(kind) else "multi_valued" if is_list(kind) else "categorical"


def columns_of(table: Any, form: str | None = None) -> dict[str, Any]:
    """The columns of a table in memory, or of a file of that form, by name. Raises DataError as `TableReader`."""
    reader = TableReader(table, form)
    batches = list(reader.batches(reader.names, 1 << 16))
    return {name: pa.chunked_array([batch[name] for batch in batches]) for name in (reader.names if batches else ())}

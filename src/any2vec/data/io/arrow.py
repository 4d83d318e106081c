"""Parquet, Arrow and Feather files as batches of columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

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

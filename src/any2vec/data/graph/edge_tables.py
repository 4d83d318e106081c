"""Edges in the columns of Parquet, Arrow and Feather files."""

from __future__ import annotations

from typing import Any

import numpy as np

from any2vec.data.graph.edge_objects import checked_weights
from any2vec.data.graph.graph import Graph, build_graph
from any2vec.data.options import GraphOptions
from any2vec.data.vocab.found_texts import integer_rows, string_rows
from any2vec.errors import Any2VecError, DataError

_WEIGHT = ("weight", "weights", "w")


def read_table(name: str, form: str, options: GraphOptions) -> Graph:
    """The graph of the columns src and dst (else the first two), and weight where there is one of that name.

    Raises:
        DataError: the file is damaged, a column is missing or of the wrong type, or a value is missing.
    """
    try:
        table, ignored = _columns(name, form, options)
        for column in table.values():
            column.validate(full=True)
    except (Any2VecError, MemoryError):
        raise
    except Exception as error:
        reason = str(error).strip().split("\n")[0][:200] or type(error).__name__
        raise DataError(f"{name} cannot be read as a table: {reason}") from error
    for column_name, column in table.items():
        if column.null_count:
            raise DataError(
                f"{name} has {column.null_count:,} empty values in column {column_name}; fill or drop them."
            )
    columns = list(table.values())
    if len(columns[0]) == 0:
        raise DataError(f"{name} holds no edges; give at least one.")
    src, dst, keys = _rows(columns[0], columns[1])
    weights = None
    if len(columns) == 3:
        weights = checked_weights(columns[2].to_numpy(), len(src), name, options)
    return build_graph(src, dst, weights, keys, is_directed=options.directed, name=name, ignored_columns=ignored)


def _columns(name: str, form: str, options: GraphOptions) -> tuple[dict[str, Any], int]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if form == "parquet":
        with pq.ParquetFile(name) as file:
            chosen = _choose(file.schema_arrow, name, options)
            table = file.read(columns=chosen)
            num_columns = len(file.schema_arrow.names)
    else:
        with pa.memory_map(name) as source:
            try:
                table = pa.ipc.open_file(source).read_all()
            except pa.ArrowInvalid:
                source.seek(0)
                table = pa.ipc.open_stream(source).read_all()
        chosen = _choose(table.schema, name, options)
        num_columns = len(table.schema.names)
    return {column: _plain(table.column(column)) for column in chosen}, num_columns - len(chosen)


def _choose(schema: Any, name: str, options: GraphOptions) -> list[str]:
    import pyarrow as pa

    names = list(schema.names)
    if len(names) != len(set(names)):
        raise DataError(f"{name} has two columns of the same name; rename one.")
    if len(names) < 2:
        raise DataError(f"{name} has {len(names)} column; an edge needs two: src and dst.")
    ends = ["src", "dst"] if {"src", "dst"} <= set(names) else names[:2]
    for column in ends:
        kind = schema.field(column).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise DataError(f"{name} has {kind} in column {column}; ids are integers or strings.")
    weight = next((column for column in _WEIGHT if column in names and column not in ends), None)
    if options.weighted and weight is None:
        raise DataError(f"{name} has no column named weight; rename it or pass --no-weighted (weighted=False).")
    if weight is None or options.weighted is False:
        return ends
    kind = schema.field(weight).type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise DataError(f"{name} has {kind} in column {weight}; weights are numbers.")
    return [*ends, weight]


def _plain(column: Any) -> Any:
    import pyarrow as pa

    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _rows(src: Any, dst: Any) -> tuple[np.ndarray, np.ndarray, Any]:
    import pyarrow as pa

    if pa.types.is_integer(src.type) and pa.types.is_integer(dst.type):
        ids = [column.to_numpy() for column in (src, dst)]
        if all(column.dtype != np.uint64 or column.max() < 1 << 63 for column in ids):
            rows, keys = integer_rows(np.concatenate([column.astype(np.int64) for column in ids]))
            return rows[: len(src)], rows[len(src) :], keys
    text = pa.large_string()
    both = pa.chunked_array([*src.cast(text).chunks, *dst.cast(text).chunks], text)
    # First appearance goes along the rows: src 0, dst 0, src 1, dst 1 ...
    order = np.arange(2 * len(src)).reshape(2, -1).T.ravel()
    rows, keys = string_rows([both.combine_chunks().take(pa.array(order))])
    return rows[::2], rows[1::2], keys

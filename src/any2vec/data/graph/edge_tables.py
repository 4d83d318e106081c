"""Edges in the columns of Parquet, Arrow, Feather and JSON Lines, and of tables in memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from any2vec.data.graph.edge_list import edge_notes, ends_and_weight
from any2vec.data.graph.edge_objects import checked_weights
from any2vec.data.graph.given_edges import GivenEdges
from any2vec.data.io.arrow import TableReader, is_text, pa
from any2vec.data.options import LINE_OPTIONS, GraphOptions, check_unset
from any2vec.data.vocab.found_texts import integer_rows, string_rows
from any2vec.errors import DataError

_BATCH_ROWS = 1 << 20
_MOST_GUESSED = 4
"""columns among which the first two are ends without bearing their names: beside both a weight and a time"""


def read_table(source: Any, form: str | None, options: GraphOptions) -> GivenEdges:
    """The edges of the columns that the options name, else src and dst by their usual names (or the first two of
    four at most), and weight where there is one of that name.

    source: a file of that form, or (None) a table in memory.

    Raises:
        DataError: the table is damaged, a column is missing or of the wrong type, or a value is missing.
    """
    table = TableReader(source, form)
    name, chosen = table.name, choose_columns(table.schema, table.name, options)
    batches = list(table.batches(chosen, _BATCH_ROWS))
    if not sum(len(batch[chosen[0]]) for batch in batches):
        raise DataError(f"{name} holds no edges; give at least one.")
    columns = {column: pa.chunked_array([batch[column] for batch in batches]) for column in chosen}
    for column_name, column in columns.items():
        if column.null_count:
            raise DataError(
                f"{name} has {column.null_count:,} empty values in column {column_name}; fill or drop them."
            )
    with table.errors():
        src, dst, keys = _rows(*(columns[column] for column in chosen[:2]))
    weights = None
    if len(chosen) == 3:
        weights = checked_weights(columns[chosen[2]].to_numpy(), len(src), name, options)
    ignored = len(table.names) - len(chosen)
    weight = ends_and_weight(table.names, name, options)[1]
    notes = edge_notes(table.names, [*chosen[:2], *([weight] if weight else [])], weights is not None, options)
    return GivenEdges(src, dst, weights, keys, options.directed, name, ignored, notes=notes)


def choose_columns(schema: Any, name: str, options: GraphOptions) -> list[str]:
    """The columns of sources, targets and, where they are read, weights.

    Raises:
        DataError: there are none, or of the wrong type, or it may be a matrix. InputError: an option is for text.
    """
    check_unset(options, LINE_OPTIONS, f"{name} is a table")
    names = list(schema.names)
    if len(names) < 2:
        raise DataError(f"{name} has {len(names)} column; an edge needs two: src and dst.")
    named, weight = ends_and_weight(names, name, options)
    if not named and len(names) > _MOST_GUESSED:
        raise DataError(
            f"{name} has {len(names):,} columns, without the usual names of both ends; name them, use_columns "
            "(--use-columns src,dst), or give a matrix as a NetworkX graph or a SciPy sparse adjacency."
        )
    ends = named or names[:2]
    if twice := next((one for one in (*ends, weight) if names.count(one) > 1), None):
        raise DataError(f"{name} has two columns named {twice!r}; rename one.")
    for column in ends:
        kind = schema.field(column).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not (pa.types.is_integer(kind) or is_text(kind)):
            advice = (
                " Where pandas made floats of them, ids are missing: leave those rows out, and use .astype(int)."
                if pa.types.is_floating(kind) else ""
            )  # fmt: skip
            raise DataError(f"{name} has {kind} in column {column}; ids are integers or strings.{advice}")
    if options.weighted and not weight:
        raise DataError(f"{name} has no column named weight; rename it or pass --no-weighted (weighted=False).")
    if not weight or options.weighted is False:
        return ends
    kind = schema.field(weight).type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise DataError(f"{name} has {kind} in column {weight}; weights are numbers.")
    return [*ends, weight]


def _rows(src: Any, dst: Any) -> tuple[np.ndarray, np.ndarray, Any]:
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

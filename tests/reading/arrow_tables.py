"""Tables in memory of a library that is none of those we know: they offer the Arrow PyCapsule interface alone."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


class StreamTable:
    """A table that comes as a stream, as those of pandas, Polars and DuckDB do."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


class ArrayTable:
    """A table that comes as one batch."""

    def __init__(self, table: pa.Table) -> None:
        (self._batch,) = table.combine_chunks().to_batches()

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self._batch.__arrow_c_array__(requested_schema)

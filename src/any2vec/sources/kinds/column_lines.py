"""The text column of a table, in memory or a file of columns, as lines for `PythonLines`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from any2vec.data.options import TextOptions
from any2vec.errors import DataError

FORMS = ("csv", "tsv", "parquet", "arrow")
"""of files, as `files.text_form` names them"""


class ColumnLines:
    """A line for each row; it can be begun anew where the table can.

    Args:
        table: a table in memory, or (with one of FORMS) a file.
        text: names the column; else of Parquet, Arrow and tables the only one of text.

    Raises:
        DataError: it has no such column, or several may be meant, or the values are no text.
    """

    def __init__(self, table: Any, text: TextOptions, form: str | None = None) -> None:
        self._table, self._text, self._form = table, text, form
        self._found: Any = self._open()
        if self._found.kind == "ids":
            raise DataError(
                f"Column {self._found.column!r} of {self._found.name} holds whole numbers; a stream learns from text."
            )

    def __iter__(self) -> Iterator[Any]:
        found, self._found = self._found or self._open(), None  # a reader of batches can be read once
        return iter(found.values(self._text.bad_bytes))

    def _open(self) -> Any:
        if self._form in ("csv", "tsv"):
            from any2vec.data.text.records import RecordColumn

            return RecordColumn(self._table, self._form, self._text.column)
        from any2vec.data.text.columns import Column

        return Column(self._table, self._form, self._text.column)

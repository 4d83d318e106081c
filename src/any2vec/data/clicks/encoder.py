"""A schema with what a training file taught it: vocabularies, means and standard deviations. It encodes new rows.

In a folder: schema.json (the schema, means and standard deviations of the dense columns) and, when a column has a
vocabulary, values.parquet (column, value, count; the rows of each column in order, from its row 2 on).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.checks import parse_json
from any2vec.data.clicks.encoding import batch_of, encode_block
from any2vec.data.clicks.reader import BLOCK_BYTES, read_rows
from any2vec.data.clicks.rows import FIRST, MISSING, RARE, ClickBatch, ColumnRows, HashedRows, KnownRows
from any2vec.data.clicks.schema import ClickSchema
from any2vec.data.io.storage import write_json
from any2vec.data.vocab.found_texts import keys_of
from any2vec.data.vocab.vocabulary import Keys, Vocabulary
from any2vec.errors import DataError, FormatError, InputError

FORMAT = "any2vec-clicks-schema"
VERSION = 1
SCHEMA, VALUES = "schema.json", "values.parquet"
_NO_VALUES = {"<missing>": "missing values", "<rare>": "rare values"}
"""what keys say in the place of a value, for the rows in front of a column's values"""


class ClickEncoder:
    """Encodes rows as the training file was encoded; saved with a model."""

    def __init__(
        self,
        schema: ClickSchema,
        vocabularies: Mapping[str, Vocabulary],
        mean_X: np.ndarray | None = None,
        std_X: np.ndarray | None = None,
    ) -> None:
        """vocabularies: by the name of each column whose ids are `vocabulary`; mean_X, std_X: float64 (X,), 0 and 1
        where a dense column is not standardized. InputError: a vocabulary is missing or too many. DataError: two rows
        would have the same key (`keys`)."""
        wanted = [column.name for column in schema.columns if column.ids == "vocabulary"]
        if sorted(wanted) != sorted(vocabularies):
            raise InputError(f"The schema needs vocabularies of the columns {wanted}, got {sorted(vocabularies)}.")
        _check_keys(schema, vocabularies)
        self.schema = schema
        self._spare: list[list[ColumnRows]] = []
        """of those that have been and are not in use"""
        self.vocabularies = dict(vocabularies)
        self.mean_X = np.zeros(len(schema.dense)) if mean_X is None else np.asarray(mean_X, np.float64)
        self.std_X = np.ones(len(schema.dense)) if std_X is None else np.asarray(std_X, np.float64)
        sizes = [
            FIRST + len(vocabularies[column.name]) if column.ids == "vocabulary" else column.hash_rows
            for column in schema.columns
        ]
        self.num_rows_F = np.array(sizes, np.int64)
        """int64 (F,): rows of each column"""
        self.offset_F = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.num_rows_F)])
        """int64 (F + 1,): the first row of each column in the table, and the rows in all"""

    @classmethod
    def of(cls, schema: ClickSchema, vocabularies: Mapping[str, Vocabulary] | None = None) -> ClickEncoder:
        """An encoder of a schema without standardized columns."""
        return cls(schema, vocabularies or {})

    def dense(self, raw_NX: np.ndarray) -> np.ndarray:
        """float32 (N, X), finite: float64 numbers (N, X) of `data.clicks.encoding`, standardized; for NaN 0."""
        largest = np.finfo(np.float32).max
        with np.errstate(over="ignore"):
            whole = np.nan_to_num((raw_NX - self.mean_X) / self.std_X, nan=0.0)
        return np.clip(whole, -largest, largest).astype(np.float32)

    def encode(
        self, data: Any, *, batch_size: int = 4096, needs_label: bool = False, block_bytes: int = BLOCK_BYTES
    ) -> Iterator[ClickBatch]:
        """Batches of at most `batch_size` examples of new files, in order; labels that are not there are NaN.

        data: a path, folder, glob, `-`, a list of those, or a table in memory. Memory O(block +
        vocabularies).

        Raises:
            DataError: the files do not fit the schema, or a value is not legal.
        """
        source = read_rows(data, self.schema, needs_label=needs_label, block_bytes=block_bytes)
        with self._rows() as rows, closing(source) as blocks:  # type: ignore[type-var]
            for block in blocks:
                found = encode_block(block, self.schema, rows, needs_label)
                dense = self.dense(found.dense_NX)
                ends = [np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]) for _, lengths in found.bags]
                for start in range(0, block.num_rows, batch_size):
                    part = slice(start, min(start + batch_size, block.num_rows))
                    bags = [
                        (values[end[part.start] : end[part.stop]], lengths[part])
                        for (values, lengths), end in zip(found.bags, ends, strict=True)
                    ]
                    yield batch_of(found.label_N[part], dense[part], found.single_NF[part], bags, self.offset_F)

    @contextmanager
    def _rows(self) -> Iterator[list[ColumnRows]]:
        """What gives rows to the columns, for one caller at a time: to make it anew takes as long as a vocabulary."""
        try:
            rows = self._spare.pop()
        except IndexError:
            rows = [
                KnownRows(self.vocabularies[column.name])
                if column.ids == "vocabulary"
                else HashedRows(column.hash_rows)
                for column in self.schema.columns
            ]
        try:
            yield rows
        finally:
            self._spare.append(rows)

    def unseen(self, batch: ClickBatch) -> tuple[np.ndarray, np.ndarray]:
        """Of each column, int64 (F,) twice: values of a batch that its vocabulary does not hold (of a hashed column
        none), and all its values."""
        column_M = np.searchsorted(self.offset_F, batch.id_M, "right") - 1
        row_M, num = batch.id_M - self.offset_F[column_M], len(self.num_rows_F)
        has_values = np.array([column.ids == "vocabulary" for column in self.schema.columns])
        is_unseen = (row_M == RARE) & has_values[column_M]
        return np.bincount(column_M[is_unseen], minlength=num), np.bincount(column_M[row_M != MISSING], minlength=num)

    def keys(self) -> Keys:
        """`column=value` of each row of the table, in order; `column#bucket` where values are hashed."""
        from any2vec.data.io.arrow import pa, packed

        found = []
        for column in self.schema.columns:
            found.append(pa.array([f"{column.name}={text}" for text in _NO_VALUES], pa.large_binary()))
            if column.ids == "vocabulary":
                keys = self.vocabularies[column.name].keys
                found.append(_behind(f"{column.name}=", packed(keys.offsets, keys.arena, pa.large_binary())))
            else:
                buckets = pa.array(np.arange(column.hash_rows - FIRST)).cast(pa.large_string())
                found.append(_behind(f"{column.name}#", buckets.cast(pa.large_binary())))
        return keys_of(pa.concat_arrays(found))

    # ---- on disk ----------------------------------------------------------------------------------------------------

    def save(self, folder: Path | str) -> None:
        """Write schema.json and, where a column has a vocabulary, values.parquet (inside an `atomic_folder`)."""
        for name, part in self.parts().items():
            part.write(Path(folder) / name)

    def parts(self) -> dict[str, EncoderFile]:
        """What `save` writes, by file name, for those who write other files beside it."""
        return {name: EncoderFile(self, name) for name in ([SCHEMA, VALUES] if self.vocabularies else [SCHEMA])}

    @classmethod
    def open(cls, folder: Path | str) -> ClickEncoder:
        """Open what `save` wrote.

        Raises:
            FormatError: a file is missing, damaged, too new, or the files do not fit together.
        """
        path = Path(folder) / SCHEMA
        try:
            content = parse_json(path.read_text(encoding="utf-8"))
            if content["format"] != FORMAT:
                raise FormatError(f"{path} is not a schema of clicks; give a folder written by any2vec.")
            if not isinstance(content["version"], int) or content["version"] > VERSION:
                raise FormatError(f"{path} has version {content['version']}; this any2vec reads up to {VERSION}.")
            schema = ClickSchema.from_dict(content["schema"])
            mean_X, std_X = (np.array(content[name], np.float64) for name in ("mean", "std"))
        except FormatError:
            raise
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FormatError(
                f"{path} cannot be read as a schema of clicks ({error}); write the folder again."
            ) from error
        names = [column.name for column in schema.columns if column.ids == "vocabulary"]
        vocabularies = _read_values(Path(folder) / VALUES, names) if names else {}
        if mean_X.shape != (len(schema.dense),) or std_X.shape != mean_X.shape or not (std_X > 0).all():
            raise FormatError(f"{path} is damaged: its means do not fit its dense columns; write the folder again.")
        return cls(schema, vocabularies, mean_X, std_X)


def _check_keys(schema: ClickSchema, vocabularies: Mapping[str, Vocabulary]) -> None:
    """Raise DataError for a value whose key another row has, or could have: before training, which would be lost."""
    from any2vec.data.io.arrow import pa, packed, pc

    for name, vocabulary in vocabularies.items():
        values = packed(vocabulary.keys.offsets, vocabulary.keys.arena, pa.large_binary())
        for text, rows in _NO_VALUES.items():
            if pc.index(values, pa.scalar(text.encode(), pa.large_binary())).as_py() >= 0:
                raise DataError(
                    f"Column {name!r} holds the value {text!r}, which is the name of the row of {rows}; write that "
                    'value otherwise (an empty one is missing), or give the column ids = "hash".'
                )
        for other in (column.name for column in schema.columns if column.name.startswith(f"{name}=")):
            for end in "=#":  # keys of values, and of buckets
                first = other.removeprefix(f"{name}=") + end
                if pc.any(pc.starts_with(values, first.encode())).as_py():
                    raise DataError(
                        f"Column {name!r} holds values that begin with {first!r}, and column {other!r} is named so "
                        "that their keys could be the same; rename that column."
                    )


def _behind(first: str, values: Any) -> Any:
    """Each of a large_binary array, behind the same beginning."""
    from any2vec.data.io.arrow import pa, pc

    return pc.binary_join_element_wise(
        pa.scalar(first.encode(), pa.large_binary()), values, pa.scalar(b"", pa.large_binary())
    )


@dataclass(frozen=True)
class EncoderFile:
    """One of the files of an encoder."""

    encoder: ClickEncoder
    name: str
    """SCHEMA or VALUES"""

    def write(self, path: Path) -> None:
        """Write it to `path`, whatever that is called."""
        encoder = self.encoder
        if self.name == VALUES:
            _write_values(path, encoder.vocabularies)
            return
        content = {"format": FORMAT, "version": VERSION, "schema": encoder.schema.to_dict()}
        learnt = {"mean": encoder.mean_X.tolist(), "std": encoder.std_X.tolist()}
        write_json(path, content | learnt)


def _write_values(path: Path, vocabularies: Mapping[str, Vocabulary]) -> None:
    from any2vec.data.io.arrow import pa, packed, parquet

    keys = {name: vocabulary.keys for name, vocabulary in vocabularies.items()}
    parts = {name: packed(one.offsets, one.arena) for name, one in keys.items()}
    try:
        for values in parts.values():
            values.validate(full=True)
    except pa.ArrowInvalid:  # not UTF-8
        parts = {name: values.cast(pa.large_binary()) for name, values in parts.items()}
    columns = pa.array(list(parts), pa.string())
    indices = np.repeat(np.arange(len(parts), dtype=np.int32), [len(values) for values in parts.values()])
    counts = np.concatenate([np.asarray(vocabulary.counts, np.int64) for vocabulary in vocabularies.values()])
    table = {
        "column": pa.DictionaryArray.from_arrays(pa.array(indices), columns),
        "value": pa.chunked_array(list(parts.values())),
        "count": pa.array(counts),
    }
    parquet().write_table(pa.table(table), path)


def _read_values(path: Path, names: list[str]) -> dict[str, Vocabulary]:
    from any2vec.data.io.arrow import arrow_errors, pa, parquet, pc

    with arrow_errors(f"{path} cannot be read as values of columns", FormatError, "write the folder again."):
        table = parquet().read_table(path, columns=["column", "value", "count"])
        of = table.column("column").cast(pa.string())
        parts = {name: table.filter(pc.equal(of, name)) for name in names}
        if sum(part.num_rows for part in parts.values()) != table.num_rows:
            raise FormatError(f"{path} holds values of columns that the schema does not have; write the folder again.")
        return {name: _vocabulary(part) for name, part in parts.items()}


def _vocabulary(table: Any) -> Vocabulary:
    from any2vec.data.io.arrow import pa

    values = pa.chunked_array(table.column("value").chunks, table.schema.field("value").type)
    values = values.cast(pa.large_binary()).combine_chunks()
    values.validate(full=True)
    if values.null_count or table.column("count").null_count:
        raise ValueError("a value is missing")
    return Vocabulary(keys_of(values), table.column("count").to_numpy().astype(np.int64))

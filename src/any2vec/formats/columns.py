"""Vectors in files of columns (Parquet, Arrow) and of matrices (NumPy)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy

from any2vec.checks import parse_json
from any2vec.data.io.held import kept
from any2vec.data.io.npy import load_npy
from any2vec.data.vocab.user_keys import INTEGERS
from any2vec.errors import FormatError, InputError
from any2vec.formats import safetensors_file
from any2vec.formats.native import tensors_of
from any2vec.formats.table import Table, row_blocks, to_float16
from any2vec.formats.vocabulary import LineKeys, beside, read_vocabulary
from any2vec.formats.word2vec import MOST_COLUMNS, GrowingMatrix

if TYPE_CHECKING:
    from any2vec.data.io.arrow import TableReader, pa


def _typed(keys: Sequence[str], meta: dict[str, Any], are_integers: bool) -> dict[str, Any]:
    """The metadata, which say that keys are integers only of those of int64: names may have taken their place since."""
    meta = {name: value for name, value in meta.items() if name != INTEGERS}
    return meta | {INTEGERS: True} if are_integers and all(map(_is_integer, keys)) else meta


def _kept_meta(text: object) -> dict[str, Any]:
    """The metadata that a file has of ours; others may have written anything there."""
    try:
        meta = parse_json(text) if isinstance(text, str | bytes) else None
    except ValueError:
        return {}
    return meta if isinstance(meta, dict) else {}


def _is_integer(key: str) -> bool:
    try:
        return str(number := int(key)) == key and -(1 << 63) <= number < 1 << 63
    except ValueError:
        return False


def _keys_beside(path: Path) -> tuple[LineKeys, np.ndarray | None] | None:
    for candidate in (beside(path), path.with_name("vocabulary.tsv")):
        if candidate.is_file():
            return read_vocabulary(candidate)
    return None


def read_safetensors(path: Path, mmap: bool) -> Table:
    """A safetensors file with `<stem>.vocabulary.tsv` or `vocabulary.tsv` beside it; rows: "input", or the only one.

    Of the relations of a run (`relations.tsv` beside them): their rows from head to tail, which are the first. Of its
    users (`users.tsv`): their rows.
    """
    tensors, metadata = safetensors_file.read_safetensors(path, mmap)
    own_keys = path.with_suffix(".tsv")  # the vocabulary of a run's folder is that of its entities or items
    part = next((name for name in ("relations", "users") if name in tensors), None) if own_keys.is_file() else None
    found = read_vocabulary(own_keys) if part else _keys_beside(path)
    if found is None:
        raise FormatError(f"{path.name}: its keys are missing: expected {beside(path).name} beside it, a key a line.")
    if part:
        tensors = {part: tensors[part][: len(found[0])] if part == "relations" else tensors[part]}
    if "input" not in tensors and len(tensors) != 1:
        raise FormatError(f"{path.name}: expected a matrix named 'input'; it holds {sorted(tensors) or 'none'}.")
    vectors = tensors["input"] if "input" in tensors else next(iter(tensors.values()))
    meta = _kept_meta(metadata.get("any2vec"))
    output = tensors.get("output") if "input" in tensors else None
    are_integers = meta.get("integer_users" if part == "users" else INTEGERS) is True
    return Table(found[0], vectors, output, found[1], _typed(found[0], meta, are_integers))


def write_safetensors(path: Path, table: Table, dtype: str) -> None:
    """Write tensors "input" and "output"; the keys are written beside by `formats.write`. Memory O(block)."""
    with path.open("wb") as file:
        safetensors_file.write_safetensors(file, tensors_of(table), dtype, {"any2vec": json.dumps(table.meta)})


def _matrix(array: object, where: str) -> np.ndarray:
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.kind not in "fiu":
        raise FormatError(f"{where}: expected a matrix of numbers.")
    with np.errstate(over="ignore"):
        return array.astype(np.float32, copy=False)


def read_npy(path: Path, mmap: bool) -> Table:
    """A matrix in an npy file; keys from `<stem>.vocabulary.tsv` beside it, else the row numbers "0", "1", …"""
    try:
        array = kept(load_npy(path, "r" if mmap else None))
    except (OSError, ValueError):
        raise FormatError(f"{path.name}: not a readable npy file; damaged or cut short.") from None
    vectors = np.asarray(_matrix(array, path.name))
    if (found := _keys_beside(path)) is not None:
        return Table(found[0], vectors, None, found[1])
    return Table([str(row) for row in range(len(vectors))], vectors, meta={INTEGERS: True})


def write_npy(path: Path, table: Table, dtype: str) -> None:
    """Write the vectors alone (no output rows); the keys are written beside by `formats.write`."""
    with path.open("wb") as file:
        np.save(file, to_float16(table.vectors, "vectors") if dtype == "float16" else table.vectors)


_MOST_KEY_BYTES = 1 << 32
"""of an array of strings, each as wide as the longest"""


def read_npz(path: Path, mmap: bool) -> Table:
    """An npz file with "keys" (strings, or integers) and "vectors", perhaps "output" and "counts"."""
    try:
        # opened here, as np.load leaves a file open when it fails within
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            heads = {name: _head(file, name) for name in ("keys", "vectors", "output", "counts") if name in file}
            _check_heads(heads, path.name)
            arrays = {name: file[name] for name in heads}
    except FormatError:
        raise
    except Exception as error:  # a damaged zip, a damaged npy within, pickled objects, a size beyond memory
        raise FormatError(
            f"{path.name}: not a readable npz file ({type(error).__name__}); damaged or cut short."
        ) from None
    keys, counts = arrays["keys"], arrays.get("counts")
    output = _matrix(arrays["output"], path.name) if "output" in arrays else None
    counts = None if counts is None else counts.astype(np.int64)
    names = [str(key) for key in keys.tolist()]
    meta = _typed(names, {}, keys.dtype.kind in "iu")
    return Table(names, _matrix(arrays["vectors"], path.name), output, counts, meta)


def _head(file: Any, name: str) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and type of an array in an npz file, which is not read. ValueError: its bytes are fewer, or it is none."""
    about = file.zip.getinfo(name if name in file.zip.namelist() else f"{name}.npy")
    with file.zip.open(about) as member:
        version = npy.read_magic(member)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read(member)
    if math.prod(shape) * dtype.itemsize > about.file_size:
        raise ValueError(f"{name} is cut short")
    return shape, dtype


def _check_heads(heads: dict[str, tuple[tuple[int, ...], np.dtype]], where: str) -> None:
    """FormatError for arrays that are not ours, before they are unpacked: to a thousand times as many bytes."""
    if "keys" not in heads or "vectors" not in heads:
        raise FormatError(f"{where}: expected arrays 'keys' (strings, one axis) and 'vectors' (a matrix).")
    for name, (shape, dtype) in heads.items():
        axes, kinds = {"keys": (1, "Uiu"), "counts": (1, "iu")}.get(name, (2, "fiu"))
        if len(shape) != axes or dtype.kind not in kinds or shape[0] != heads["keys"][0][0]:
            raise FormatError(
                f"{where}: {name!r} has shape {shape} and type {dtype}; 'keys' are strings or integers of one axis, "
                "'vectors' and 'output' numbers of two, 'counts' whole numbers of one, with equal numbers of rows."
            )
        if axes == 2 and shape[1] > MOST_COLUMNS:
            raise FormatError(f"{where}: {name!r} has {shape[1]:,} columns; at most {MOST_COLUMNS:,} are read.")
        if name == "keys" and shape[0] * dtype.itemsize > _MOST_KEY_BYTES:
            raise FormatError(f"{where}: 'keys' take {shape[0] * dtype.itemsize:,} bytes; shorten the longest.")


def write_npz(path: Path, table: Table, dtype: str) -> None:
    """Write "keys" (integers, or strings in an array as wide as the longest), "vectors", "output" and "counts".

    Raises InputError for a key that ends in NUL, or is so long that all keys in its width take more than 4 GiB.
    """
    keys = list(table.keys)
    if any(key.endswith("\0") for key in keys):
        raise InputError("format 'npz' cannot hold a key that ends in NUL; use 'folder' or 'parquet'.")
    longest = max(map(len, keys))
    if 4 * longest * len(keys) > _MOST_KEY_BYTES:
        raise InputError(
            f"format 'npz' gives each of {len(keys):,} keys the width of the longest, {longest:,} characters, which is "
            f"more than {_MOST_KEY_BYTES:,} bytes together; use 'folder' or 'parquet', or shorten it."
        )
    arrays = {"keys": np.array(keys, dtype=np.int64 if table.meta.get(INTEGERS) else np.str_)}
    for name, matrix in (("vectors", table.vectors), ("output", table.output)):
        if matrix is not None:
            arrays[name] = to_float16(matrix, name) if dtype == "float16" else matrix
    if table.counts is not None:
        arrays["counts"] = table.counts
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


_KEY_NAMES = ("key", "word", "token", "node", "id", "name")
_VECTOR_NAMES = ("vector", "embedding", "vectors", "embeddings", "values")
_ROW_GROUP_BYTES = 32 << 20


def arrow_schema(table: Table, dtype: str) -> pa.Schema:
    """Of a table in columns: key, vector, and output and count where there are."""
    from any2vec.data.io.arrow import pa

    number = pa.float16() if dtype == "float16" else pa.float32()
    key = pa.int64() if table.meta.get(INTEGERS) else pa.string()
    fields = [pa.field("key", key), pa.field("vector", pa.list_(number, table.vectors.shape[1]))]
    if table.output is not None:
        fields.append(pa.field("output", pa.list_(number, table.vectors.shape[1])))
    if table.counts is not None:
        fields.append(pa.field("count", pa.int64()))
    return pa.schema(fields, {"any2vec": json.dumps(table.meta)})


def _batches(table: Table, dtype: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    from any2vec.data.io.arrow import pa

    def column(matrix: np.ndarray, block: slice) -> pa.Array:
        rows = np.ascontiguousarray(matrix[block])
        numbers = to_float16(rows, "vectors") if dtype == "float16" else rows
        return pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), matrix.shape[1])

    keys = iter(table.keys)
    for block in row_blocks(table.vectors, _ROW_GROUP_BYTES):
        names = list(islice(keys, block.stop - block.start))
        arrays = [pa.array(names, pa.string()).cast(schema.field("key").type), column(table.vectors, block)]
        if table.output is not None:
            arrays.append(column(table.output, block))
        if table.counts is not None:
            arrays.append(pa.array(table.counts[block]))
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def write_parquet(path: Path, table: Table, dtype: str) -> None:
    """Write row groups of some 32 MB, uncompressed numbers. Memory O(row group)."""
    from any2vec.data.io.arrow import parquet

    schema = arrow_schema(table, dtype)
    with parquet().ParquetWriter(path, schema, compression="NONE", use_dictionary=False) as writer:
        for batch in _batches(table, dtype, schema):
            writer.write_batch(batch)


def write_arrow(path: Path, table: Table, dtype: str) -> None:
    """Write an Arrow IPC file (also known as Feather 2), uncompressed. Memory O(batch)."""
    from any2vec.data.io.arrow import pa

    schema = arrow_schema(table, dtype)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for batch in _batches(table, dtype, schema):
            writer.write_batch(batch)


def _is_vector(kind: pa.DataType) -> bool:
    from any2vec.data.io.arrow import is_list, pa

    return is_list(kind) and (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type))


def _choose(schema: pa.Schema, where: str) -> tuple[str, str]:
    """The names of the columns of keys and of vectors."""
    from any2vec.data.io.arrow import is_text, pa

    def is_key(kind: pa.DataType) -> bool:
        return is_text(kind) or pa.types.is_integer(kind)

    def pick(names: tuple[str, ...], fits: Any) -> str | None:
        fitting = [field.name for field in schema if fits(field.type) and schema.names.count(field.name) == 1]
        fitting.sort(key=lambda name: name == "count")  # how often a key came is its key only where there is no other
        return next((name for name in names if name in fitting), fitting[0] if fitting else None)

    key, vector = pick(_KEY_NAMES, is_key), pick(_VECTOR_NAMES, _is_vector)
    if key is None or vector is None:
        raise FormatError(f"{where}: expected a column of keys and one of lists of numbers; it has {schema.names}.")
    return key, vector


def _rows(column: pa.Array, dim: int | None, where: str) -> np.ndarray:
    """float32 (B, D) of a column of lists, all of one length."""
    if column.null_count:
        raise FormatError(f"{where}: a vector is missing (null).")
    lengths = np.unique(np.diff(column.offsets.to_numpy()))
    if len(lengths) != 1 or lengths[0] < 1 or (dim is not None and lengths[0] != dim):
        raise FormatError(f"{where}: vectors must all have the same length; found {lengths[:5].tolist()}.")
    with np.errstate(over="ignore"):
        numbers = column.flatten().to_numpy(zero_copy_only=False)
        return numbers.astype(np.float32, copy=False).reshape(-1, int(lengths[0]))


def _collect(table: TableReader, where: str) -> Table:
    from any2vec.data.io.arrow import pa

    schema = table.schema
    key, vector = _choose(schema, where)
    keys: list[str] = []
    matrices: dict[str, GrowingMatrix] = {}
    counts: list[np.ndarray] = []
    has_count = "count" in schema.names and pa.types.is_integer(schema.field("count").type) and key != "count"
    has_output = "output" in schema.names and vector == "vector" and _is_vector(schema.field("output").type)
    for batch in table.batches([key, vector, *["output"] * has_output, *["count"] * has_count], 8192):
        if batch[key].null_count:
            raise FormatError(f"{where}: a key is missing (null).")
        keys += batch[key].cast(pa.large_string()).to_pylist()
        for name in (vector, "output") if has_output else (vector,):
            known = matrices.get(name)
            rows = _rows(batch[name], known.dim if known else None, where)
            matrices.setdefault(name, GrowingMatrix(rows.shape[1])).append(rows)
        if has_count:
            if batch["count"].null_count:
                raise FormatError(f"{where}: a count is missing (null).")
            counts.append(batch["count"].to_numpy(zero_copy_only=False).astype(np.int64))
            if len(counts[-1]) and not 0 <= counts[-1].min() <= counts[-1].max() < 10**18:
                raise FormatError(f"{where}: a count is below 0 or beyond 10^18; rename the column, or mend it.")
    if not matrices:
        raise FormatError(f"{where}: there are no rows in it.")
    output = matrices["output"].finish() if "output" in matrices else None
    rows = matrices[vector].finish()
    meta = _kept_meta((schema.metadata or {}).get(b"any2vec"))
    meta = _typed(keys, meta, pa.types.is_integer(schema.field(key).type))
    return Table(keys, rows, output, np.concatenate(counts) if counts else None, meta)


def read_parquet(path: Path, mmap: bool, form: str = "parquet") -> Table:
    """Keys and vectors of a Parquet file, a batch at a time. FormatError for other columns or damage."""
    from any2vec.data.io.arrow import TableReader, arrow_errors

    with arrow_errors(f"{path.name} cannot be read as a table", FormatError):
        return _collect(TableReader(path, form, FormatError), path.name)


def read_arrow(path: Path, mmap: bool) -> Table:
    """Keys and vectors of an Arrow IPC (Feather 2) file, likewise."""
    return read_parquet(path, mmap, "arrow")

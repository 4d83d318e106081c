"""Formats that are a plain matrix: safetensors and NumPy's npy with the keys in a file beside them, and NumPy's npz."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from any2vec.errors import FormatError, InputError
from any2vec.formats import safetensors_file
from any2vec.formats.native import tensors_of
from any2vec.formats.table import Table, to_float16
from any2vec.formats.vocabulary import LineKeys, beside, read_vocabulary


def _keys_beside(path: Path) -> tuple[LineKeys, np.ndarray | None] | None:
    for candidate in (beside(path), path.with_name("vocabulary.tsv")):
        if candidate.is_file():
            return read_vocabulary(candidate)
    return None


def read_safetensors(path: Path, mmap: bool) -> Table:
    """A safetensors file with `<stem>.vocabulary.tsv` or `vocabulary.tsv` beside it; rows: "input", or the only one."""
    tensors, metadata = safetensors_file.read_safetensors(path, mmap)
    found = _keys_beside(path)
    if found is None:
        raise FormatError(f"{path.name}: its keys are missing: expected {beside(path).name} beside it, a key a line.")
    if "input" not in tensors and len(tensors) != 1:
        raise FormatError(f"{path.name}: expected a matrix named 'input'; it holds {sorted(tensors) or 'none'}.")
    vectors = tensors["input"] if "input" in tensors else next(iter(tensors.values()))
    try:
        meta = json.loads(metadata.get("any2vec", "{}"))
    except (ValueError, TypeError, RecursionError):
        meta = {}
    output = tensors.get("output") if "input" in tensors else None
    return Table(found[0], vectors, output, found[1], meta if isinstance(meta, dict) else {})


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
        array = np.load(path, mmap_mode="r" if mmap else None, allow_pickle=False)
    except Exception as error:  # NumPy raises a dozen kinds for a damaged header
        raise FormatError(
            f"{path.name}: not a readable npy file ({type(error).__name__}); damaged or cut short."
        ) from None
    vectors = np.asarray(_matrix(array, path.name))
    keys, counts = _keys_beside(path) or ([str(row) for row in range(len(vectors))], None)
    return Table(keys, vectors, None, counts)


def write_npy(path: Path, table: Table, dtype: str) -> None:
    """Write the vectors alone (no output rows); the keys are written beside by `formats.write`."""
    with path.open("wb") as file:
        np.save(file, to_float16(table.vectors, path.name) if dtype == "float16" else table.vectors)


def read_npz(path: Path, mmap: bool) -> Table:
    """An npz file with "keys" (strings, or integers) and "vectors", perhaps "output" and "counts"."""
    try:
        # opened here, as np.load leaves a file open when it fails within
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in ("keys", "vectors", "output", "counts") if name in file}
    except Exception as error:  # a damaged zip, a damaged npy within, pickled objects, a size beyond memory
        raise FormatError(
            f"{path.name}: not a readable npz file ({type(error).__name__}); damaged or cut short."
        ) from None
    keys, counts = arrays.get("keys"), arrays.get("counts")
    if keys is None or "vectors" not in arrays or keys.ndim != 1 or keys.dtype.kind not in "Uiu":
        raise FormatError(f"{path.name}: expected arrays 'keys' (strings, one axis) and 'vectors' (a matrix).")
    if counts is not None and counts.dtype.kind not in "iu":
        raise FormatError(f"{path.name}: 'counts' must be whole numbers.")
    output = _matrix(arrays["output"], path.name) if "output" in arrays else None
    counts = None if counts is None else counts.astype(np.int64)
    return Table([str(key) for key in keys.tolist()], _matrix(arrays["vectors"], path.name), output, counts)


def write_npz(path: Path, table: Table, dtype: str) -> None:
    """Write "keys" (a NumPy array of strings, as wide as the longest), "vectors", "output" and "counts"."""
    keys = list(table.keys)
    if any(key.endswith("\0") for key in keys):
        raise InputError("format 'npz' cannot hold a key that ends in NUL; use 'folder' or 'parquet'.")
    arrays = {"keys": np.array(keys, dtype=np.str_)}
    for name, matrix in (("vectors", table.vectors), ("output", table.output)):
        if matrix is not None:
            arrays[name] = to_float16(matrix, name) if dtype == "float16" else matrix
    if table.counts is not None:
        arrays["counts"] = table.counts
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)

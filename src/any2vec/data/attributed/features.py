"""Features of nodes: rows of one width, as they are kept and as they are taken; and where they come from.

Legend: N nodes, D features, K rows taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from any2vec.data.io.npy import load_npy
from any2vec.errors import DataError

_CHUNK_BYTES = 1 << 26


class FeatureRows(NamedTuple):
    """Rows of features in memory, or mapped."""

    row_ND: np.ndarray
    """float32, float16 or int8 (N, D), C order"""
    scale_N: np.ndarray
    """float32 (N,) of int8: a row is scale times its codes; else (0,)"""

    @property
    def columns(self) -> int:
        """D"""
        return int(self.row_ND.shape[1])

    def take(self, ids: np.ndarray) -> np.ndarray:
        """float32 (K, D): the rows of ids, integers (K,) in [0, N)."""
        from any2vec.kernels.rows.take import take_codes, take_floats, take_halves

        rows_KD = np.empty((len(ids), self.row_ND.shape[1]), np.float32)
        if self.row_ND.dtype == np.int8:
            take_codes(self.scale_N, self.row_ND, ids, rows_KD)
        elif self.row_ND.dtype == np.float16:
            take_halves(self.row_ND.view(np.uint16), ids, rows_KD.view(np.uint32), rows_KD)
        else:
            take_floats(self.row_ND, ids, rows_KD)
        return rows_KD


class NodeNumbers(NamedTuple):
    """In place of features: the nodes' numbers, by which a network has a learned row for each."""

    num: int
    """N"""

    @property
    def columns(self) -> int:
        """0"""
        return 0

    def take(self, ids: np.ndarray) -> np.ndarray:
        """int64 (K,): ids."""
        return np.asarray(ids, np.int64)


def open_matrix(source: Any, name: str) -> Any:
    """The matrix that a .npy or .npz file, an array or a SciPy sparse array holds; a .npy file is mapped.

    Raises:
        DataError: it cannot be read, or is no matrix of numbers.
    """
    matrix = _load(Path(source)) if isinstance(source, str | Path) else source
    if not sparse.issparse(matrix):
        matrix = matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix)
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiub" or 0 in matrix.shape:
        raise DataError(f"{name}: features must be a matrix of numbers, got {matrix.dtype} of {matrix.shape}.")
    return sparse.csr_array(matrix) if sparse.issparse(matrix) else matrix


def _load(path: Path) -> Any:
    """The array in a .npy file, the sparse one or the only one in a .npz file. Nothing is unpickled."""
    try:
        if path.suffix == ".npy":
            return load_npy(path, "r")
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:  # a damaged one stays open otherwise
            names = stored.files
            if "format" in names:
                file.seek(0)
                return sparse.load_npz(file)
            if len(names) == 1:
                return stored[names[0]]
            if {"data", "indices", "indptr", "shape"} <= set(names):
                return sparse.csr_array((stored["data"], stored["indices"], stored["indptr"]), stored["shape"])
    except FileNotFoundError:
        raise DataError(f"There are no features {path}; check the name.") from None
    except Exception as error:  # zipfile, zlib, SciPy and the header parser each have errors of their own
        why = "it holds no numbers" if "pickle" in str(error) else str(error).rstrip(".")
        raise DataError(f"{path.name} cannot be read as features: {why}; give a matrix of numbers.") from error
    raise DataError(f"{path.name} holds {len(names)} arrays; features are one matrix.")


def check_finite(values: np.ndarray, name: str) -> None:
    """Raise DataError unless all are numbers."""
    if not np.isfinite(values).all():
        raise DataError(f"{name} holds NaN or an infinite number (in float32); clean the features first.")


def feature_chunks(matrix: Any, kind: str, name: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows as float32, float16 or int8, and the scales of int8 (else (0,)), some 64 MB at a time.

    Raises:
        DataError: a number is not finite, or beyond what float16 holds.
    """
    from any2vec.kernels.rows.quantize import quantize_rows

    step = max(1, _CHUNK_BYTES // (4 * matrix.shape[1]))
    for start in range(0, matrix.shape[0], step):
        block = matrix[start : start + step]
        with np.errstate(over="ignore"):
            rows = np.ascontiguousarray(block.toarray() if sparse.issparse(block) else block, np.float32)
        check_finite(rows, name)
        if kind == "int8":
            codes, scales = np.empty(rows.shape, np.int8), np.empty(len(rows), np.float32)
            quantize_rows(rows, 127, scales, codes)
            yield codes, scales
            continue
        with np.errstate(over="ignore"):
            kept = rows.astype(kind)
        if not np.isfinite(kept).all():
            raise DataError(f"{name} holds {np.abs(rows).max():g}, beyond what float16 holds; keep float32.")
        yield kept, np.empty(0, np.float32)

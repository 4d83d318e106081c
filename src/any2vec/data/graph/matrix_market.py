"""Matrix Market files: the coordinate format of a square real, integer or pattern matrix.

Read here and not by SciPy, whose reader (1.16, fast_matrix_market) crashed the process on damaged files.
"""

from __future__ import annotations

import numpy as np

from any2vec.data.graph.edge_list import EdgeForm, EdgeReader
from any2vec.data.graph.graph import MAX_NODES, Graph, build_graph
from any2vec.data.graph.options import GraphOptions
from any2vec.data.io.files import display
from any2vec.data.vocab.identifiers import integer_keys
from any2vec.errors import DataError

_FIELDS = ("real", "double", "integer", "pattern")
_SYMMETRIES = ("general", "symmetric")
_MAX_NODES_PER_BYTE = 1000
_FREE_NODES = 10_000_000
_BANNER = b"%%MatrixMarket"


def read_matrix_market(text: np.ndarray, name: str, options: GraphOptions) -> Graph:
    """The graph of the bytes (uint8) of a Matrix Market file; the keys are "0", "1", ... (rows are numbered from 1).

    Raises:
        DataError: the banner, the sizes or an entry are not legal.
    """
    shown = display(name)
    has_values, is_symmetric = _banner(text, shown)
    is_comment = np.zeros(256, np.uint8)
    is_comment[ord("%")] = 1
    num_nodes, num_entries, start = _sizes(text, shown, is_comment)
    has_weights = has_values and options.weighted is not False
    reader = EdgeReader(text, shown, EdgeForm(0, is_comment, start, 3 if has_values else 2, has_weights))
    ids = reader.integers()
    if ids is None:
        raise DataError(f"{shown} holds an entry whose row or column is not an integer; the file is damaged.")
    if len(ids) != 2 * num_entries:
        raise DataError(f"{shown} announces {num_entries:,} entries and holds {len(ids) // 2:,}; the file is damaged.")
    if ids.min() < 1 or ids.max() > num_nodes:
        raise DataError(f"{shown} holds an entry outside its {num_nodes:,} rows and columns (numbered from 1).")
    rows = (ids - 1).astype(np.int32)
    src, dst = rows[::2], rows[1::2]
    weights = np.concatenate(reader.weights) if has_weights else None
    if options.weighted and weights is None:
        raise DataError(f"{shown} is a pattern without values; pass --no-weighted (weighted=False).")
    if is_symmetric and options.directed:
        other = src != dst
        weights = None if weights is None else np.concatenate([weights, weights[other]])
        src, dst = np.concatenate([src, dst[other]]), np.concatenate([dst, src[other]])
    keys = integer_keys(np.arange(num_nodes))
    return build_graph(src, dst, weights, keys, is_directed=options.directed, name=shown)


def _banner(text: np.ndarray, name: str) -> tuple[bool, bool]:
    """(has values, is symmetric)"""
    words = text[:200].tobytes().split(b"\n")[0].decode("ascii", "replace").split()
    if not words or words[0] != _BANNER.decode():
        raise DataError(f"{name}, line 1: a Matrix Market file begins with {_BANNER.decode()}.")
    kind = [word.lower() for word in words[1:]]
    if len(kind) != 4 or kind[0] != "matrix" or kind[1] != "coordinate":
        raise DataError(f"{name}, line 1: a 'matrix coordinate' is needed, got {' '.join(kind)!r}; write it as sparse.")
    if kind[2] not in _FIELDS or kind[3] not in _SYMMETRIES:
        raise DataError(
            f"{name}, line 1: values must be {', '.join(_FIELDS)} and the matrix {' or '.join(_SYMMETRIES)}, got "
            f"{' '.join(kind[2:])!r}."
        )
    return kind[2] != "pattern", kind[3] == "symmetric"


def _sizes(text: np.ndarray, name: str, is_comment: np.ndarray) -> tuple[int, int, int]:
    """(nodes, entries, byte behind the line of sizes)"""
    from any2vec.kernels.graph.edges import find_fields, parse_integers

    begins, ends = np.empty((1, 3), np.int64), np.empty((1, 3), np.int64)
    counts, lines, sizes = np.empty(1, np.int64), np.empty(1, np.int64), np.empty(3, np.int64)
    found, start = find_fields(text, 0, 0, is_comment, begins, ends, counts, lines)
    if found == 0 or counts[0] != 3 or parse_integers(text, begins[0], ends[0], sizes) >= 0:
        raise DataError(f"{name} lacks its line of sizes: rows, columns and entries.")
    rows, columns, entries = sizes.tolist()
    if rows != columns or rows < 1:
        raise DataError(f"{name} must be square, got {rows} rows and {columns} columns.")
    if entries < 1:
        raise DataError(f"{name} holds no edges; give at least one.")
    if rows > MAX_NODES or rows > _FREE_NODES + _MAX_NODES_PER_BYTE * len(text):
        raise DataError(f"{name} announces {rows:,} nodes for {len(text):,} bytes; the file looks damaged.")
    return rows, entries, int(start)

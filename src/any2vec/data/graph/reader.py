"""Graphs of any source become a `Graph`: edge lists, tables, Matrix Market, SciPy, NetworkX, PyG, arrays."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from any2vec.data.graph.edge_list import EdgeForm, EdgeReader
from any2vec.data.graph.given_edges import GivenEdges
from any2vec.data.graph.graph import MAX_NODES, Graph
from any2vec.data.io.files import (
    STDIN,
    TABLES,
    content_hash,
    display,
    expand_inputs,
    is_regular,
    is_table,
    table_form,
)
from any2vec.data.notes import is_csv
from any2vec.data.options import LINE_OPTIONS, GraphOptions, ProgressCall, check_unset
from any2vec.data.vocab.found_texts import integer_keys
from any2vec.errors import DataError, InputError, StorageError
from any2vec.types import Stage, as_reading

if TYPE_CHECKING:
    from any2vec.data.graph.graph import Graph

READER_VERSION = 7
"""counts up when the same bytes would give another graph or report, so that caches are not trusted"""


def read_graph(
    source: Any,
    options: GraphOptions | None = None,
    *,
    cache_dir: Path | str | None = None,
    progress: ProgressCall | None = None,
) -> Graph:
    """Read a graph; one that was read from a file before is found in the cache (by content and options).

    source: a file: edge list (plain, gz, zst, xz; `-`: standard input), Parquet, Arrow, Feather or JSON Lines (columns
    src, dst[, weight] or of their usual names, else the first two of four at most; or as named), Matrix Market
    (.mtx); a folder that `Graph.save` wrote; a table in memory (pandas, Polars, Arrow, a Dataset of Hugging Face, a
    dict of columns; columns as of a file); a SciPy sparse matrix; a NetworkX graph; a PyG `Data`; a tuple of arrays
    (src, dst[, weight]); an edge_index (2, num_edges), an array of which may not be (2, 2) or (2, 3); an array
    (num_edges, 2 or 3); pairs.

    Edge lists: spaces around fields, and with tab, comma or semicolon double quotes around them, are dropped, blank and
    comment lines skipped; a header is guessed when the first line's ids (or weight) are no numbers but the following
    are, or when it names two columns in usual words (source and target, say) that none of the next lines bears; every
    line must have as many columns as the first; those after the third are ignored (the report has the header and
    their number). Ids that are all integers within int64 (written plainly) keep ascending order, others are strings in
    order of first appearance. Undirected edges u v and v u are the same; duplicates are merged and their weights added,
    unless every edge is given in both directions with the same weight. Self-loops are kept once. A graph of NetworkX
    that is directed stays so.

    cache_dir: None: the user's cache. progress: called with (bytes read, bytes in all or None). Memory O(bytes of the
    unpacked file + edges).

    Raises:
        DataError: the source is missing, unreadable, empty, damaged, binary, or an edge is not legal: file and line.
        InputError: an option is not legal, or the source is of no known kind.
    """
    from any2vec.data.graph.graph import Graph, is_graph

    options = options or GraphOptions()
    if isinstance(source, Graph):
        return source
    if isinstance(source, (str, Path)):
        if is_graph(source):
            return Graph.open(source)
        return _read_file(str(source), options, cache_dir, progress)
    return _in_memory(source, options).graph()


def read_edges(source: Any, options: GraphOptions | None = None, progress: ProgressCall | None = None) -> GivenEdges:
    """The edges of a source of `read_graph`, with the same nodes, before equal ones are merged.

    Their order is that of the lines, rows, pairs or entries; of a SciPy matrix that of `tocoo`, without zeros; of
    NetworkX that of `edges()`. A symmetric Matrix Market file that is read as directed has the entries first, then
    their reverse.

    Raises:
        DataError: as of `read_graph`. InputError: as of it, or the source is a graph whose edges are merged.
    """
    from any2vec.data.graph.graph import Graph, is_graph

    is_file = isinstance(source, str | Path)
    if isinstance(source, Graph) or (is_file and is_graph(source)):
        raise InputError(
            "A Graph has its equal edges merged, and their order is lost; give the edges that it was read from."
        )
    options = options or GraphOptions()
    return _parse(_one_file(str(source)), options, progress) if is_file else _in_memory(source, options)


def _in_memory(source: Any, options: GraphOptions) -> GivenEdges:
    if is_table(source):
        from any2vec.data.graph.edge_tables import read_table

        return read_table(source, None, options)
    from any2vec.data.graph.edge_objects import read_object

    return read_object(source, options)


def _one_file(name: str) -> str:
    names = expand_inputs(name)
    if len(names) != 1:
        raise InputError(f"{name} names {len(names)} files; a graph is read from one, so join the edge lists first.")
    return names[0]


def _read_file(name: str, options: GraphOptions, cache_dir: Path | str | None, progress: ProgressCall | None) -> Graph:
    from any2vec.data.graph.graph import FORMAT, VERSION, Graph
    from any2vec.data.io.cache import Cache

    name = _one_file(name)
    if name == STDIN or not is_regular(name):
        return _parse(name, options, progress).graph()
    cache = Cache("graphs", Graph.open, cache_dir)
    path = cache.place(FORMAT, VERSION, READER_VERSION, asdict(options), _form(name), is_csv(name), content_hash(name))

    def make(path: Path) -> Graph:
        graph = _parse(name, options, progress).graph()
        with suppress(StorageError):  # a full or read-only cache costs time, not the result
            graph.save(path)
        return graph

    return cache.get(path, make, Path(name).stat().st_size, progress)


def _form(name: str) -> str:
    """parquet, arrow, jsonl, array, mtx or text, by suffix and first bytes."""
    stem = Path(name)
    suffix = (stem.with_suffix("") if stem.suffix.lower() in (".gz", ".zst", ".xz") else stem).suffix.lower()
    return "mtx" if suffix == ".mtx" and is_regular(name) else table_form(name)


def _parse(name: str, options: GraphOptions, progress: ProgressCall | None) -> GivenEdges:
    form = _form(name)
    if form in TABLES:
        from any2vec.data.graph.edge_tables import read_table

        return read_table(name, form, options)
    from any2vec.data.graph.edge_list import read_edge_list, read_text

    text = read_text(name, progress)
    if form == "mtx" or text[:14].tobytes() == b"%%MatrixMarket":
        return read_matrix_market(text, name, options)
    return read_edge_list(text, name, options)


def open_graph(data: Any, options: GraphOptions | None, cache_dir: Path | None, stage: Stage | None) -> Graph:
    """The graph that `data` is or names."""
    from any2vec.data.graph.graph import Graph, is_graph

    opened = data if isinstance(data, Graph) else None
    if isinstance(data, list) and len(data) == 1 and isinstance(data[0], str | Path):
        data = data[0]
    if isinstance(data, list) and all(isinstance(item, str | Path) for item in data):
        raise InputError(f"A graph is read from one file, got {len(data)}; join the edge lists into one file first.")
    if isinstance(data, str | Path) and is_graph(data):
        opened = Graph.open(data)
    if opened is not None:
        if options is not None and options != GraphOptions():
            raise InputError("The options of reading graphs do not apply to one that is read already; leave them out.")
        return opened

    return read_graph(data, options or GraphOptions(), cache_dir=cache_dir, progress=as_reading(stage))


_FIELDS = ("real", "double", "integer", "pattern")
_SYMMETRIES = ("general", "symmetric")
_MAX_NODES_PER_BYTE = 1000
_FREE_NODES = 10_000_000
_BANNER = b"%%MatrixMarket"


def read_matrix_market(text: np.ndarray, name: str, options: GraphOptions) -> GivenEdges:
    """The edges of the bytes (uint8) of a Matrix Market file; the keys are "0", "1", ... (rows are numbered from 1).

    Raises:
        DataError: the banner, the sizes or an entry are not legal. InputError: an option is for edge lists.
    """
    shown = display(name)
    check_unset(options, (*LINE_OPTIONS, "use_columns"), f"{shown} is Matrix Market, which says so itself")
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
        raise DataError(f"{shown} declares {num_entries:,} entries and holds {len(ids) // 2:,}; the file is damaged.")
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
    return GivenEdges(src, dst, weights, keys, options.directed, shown)


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
        raise DataError(f"{name} declares {rows:,} nodes for {len(text):,} bytes; the file looks damaged.")
    return rows, entries, int(start)

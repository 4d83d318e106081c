"""Graphs of any source become a `Graph`: edge lists, tables, Matrix Market, SciPy, NetworkX, PyG, arrays."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from any2vec.data.graph.options import GraphOptions, ProgressCall
from any2vec.errors import FormatError, InputError, StorageError

if TYPE_CHECKING:
    from any2vec.data.graph.graph import Graph

READER_VERSION = 3
"""counts up when the same bytes would give another graph, so that caches are not trusted"""


def read_graph(
    source: Any,
    options: GraphOptions | None = None,
    *,
    cache_dir: Path | str | None = None,
    progress: ProgressCall | None = None,
) -> Graph:
    """Read a graph; one that was read from a file before is found in the cache (by content and options).

    source: a file: edge list (plain, gz, zst, xz; `-`: standard input), Parquet, Arrow or Feather (columns src, dst[,
    weight], else the first two), Matrix Market (.mtx); a folder that `Graph.save` wrote; a SciPy sparse matrix; a
    NetworkX graph; a PyG `Data`; a tuple of arrays (src, dst[, weight]); an array (num_edges, 2 or 3); a list of pairs.

    Edge lists: spaces around fields, and with tab, comma or semicolon double quotes around them, are dropped, blank and
    comment lines skipped; a header is guessed when the first line's ids (or weight) are no numbers but the following
    are, or when it names two columns in usual words (source and target, say) that none of the next lines bears; every
    line must have as many columns as the first; those after the third are ignored (the report has the header and
    their number). Ids that are all integers within int64 (written plainly) keep ascending order, others are strings in
    order of first appearance. Undirected edges u v and v u are the same; duplicates are merged and their weights added,
    unless every edge is given in both directions with the same weight. Self-loops are kept once. A graph of NetworkX
    that is directed stays so.

    progress: called with (bytes read, bytes in all or None). Memory O(bytes of the unpacked file + edges).

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
    from any2vec.data.graph.edge_objects import read_object

    return read_object(source, options)


def _read_file(name: str, options: GraphOptions, cache_dir: Path | str | None, progress: ProgressCall | None) -> Graph:
    from any2vec.data.io.files import STDIN, content_hash, expand_inputs, is_regular
    from any2vec.machine import cache_root

    names = expand_inputs(name)
    if len(names) != 1:
        raise InputError(f"{name} names {len(names)} files; a graph is read from one, so join the edge lists first.")
    name = names[0]
    if name == STDIN or not is_regular(name):
        return _parse(name, options, progress)
    folder = cache_root(cache_dir) / "graphs" / _key(options, _form(name), content_hash(name))
    if (known := _open_cached(folder)) is not None:
        if progress is not None:
            size = Path(name).stat().st_size
            progress(size, size)
        return known
    graph = _parse(name, options, progress)
    with suppress(StorageError):  # a full or read-only cache costs time, not the result
        graph.save(folder)
    return graph


def _key(options: GraphOptions, form: str, content: str) -> str:
    import hashlib
    import json

    from any2vec.data.graph.graph import FORMAT, VERSION

    known = json.dumps([FORMAT, VERSION, READER_VERSION, asdict(options), form, content])
    return hashlib.blake2b(known.encode(), digest_size=16).hexdigest()


def _open_cached(folder: Path) -> Graph | None:
    import shutil

    from any2vec.data.graph.graph import Graph

    if not folder.is_dir():
        return None
    try:
        return Graph.open(folder)
    except FormatError:
        shutil.rmtree(folder, ignore_errors=True)
        return None


def _form(name: str) -> str:
    """parquet, arrow, mtx or text, by suffix and first bytes."""
    from any2vec.data.io.files import STDIN, is_regular, read_head
    from any2vec.data.io.text_columns import table_format

    if name == STDIN or not is_regular(name):
        return "text"
    stem = Path(name)
    suffix = (stem.with_suffix("") if stem.suffix.lower() in (".gz", ".zst", ".xz") else stem).suffix.lower()
    if suffix == ".mtx":
        return "mtx"
    return table_format(name, read_head(name)) or "text"


def _parse(name: str, options: GraphOptions, progress: ProgressCall | None) -> Graph:
    form = _form(name)
    if form in ("parquet", "arrow"):
        from any2vec.data.graph.edge_tables import read_table

        return read_table(name, form, options)
    from any2vec.data.graph.edge_list import read_edge_list, read_text

    text = read_text(name, progress)
    if form == "mtx" or text[:14].tobytes() == b"%%MatrixMarket":
        from any2vec.data.graph.matrix_market import read_matrix_market

        return read_matrix_market(text, name, options)
    return read_edge_list(text, name, options)

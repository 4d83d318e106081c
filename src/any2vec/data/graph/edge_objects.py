"""Graphs in memory: SciPy sparse matrices, NetworkX graphs, PyG `Data`, arrays, lists of pairs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from any2vec.checks import is_missing
from any2vec.data.graph.given_edges import GivenEdges
from any2vec.data.graph.graph import MAX_NODES
from any2vec.data.io.files import is_table
from any2vec.data.options import LINE_OPTIONS, GraphOptions, check_unset
from any2vec.data.vocab.found_texts import integer_keys, integer_rows, string_rows
from any2vec.data.vocab.vocabulary import Keys
from any2vec.errors import DataError, InputError

_MAX_NODES_PER_ENTRY = 1000
_FREE_NODES = 10_000_000


def read_object(source: Any, options: GraphOptions) -> GivenEdges:
    """The edges of an object, recognized by its attributes (no library is imported for the test).

    Raises:
        InputError: it is of no known kind, or an option is for text.
        DataError: an edge or weight is not legal.
    """
    check_unset(options, (*LINE_OPTIONS, "use_columns"), f"the graph is in memory ({type(source).__name__})")
    if hasattr(source, "tocoo") and hasattr(source, "shape"):
        return _from_matrix(source, "The matrix", options)
    if hasattr(type(source), "to_homogeneous"):
        raise InputError(
            "HeteroData has edges of several types, and walks take those of one; give data.to_homogeneous(), or "
            "data[TYPE].edge_index of one type."
        )
    if hasattr(source, "edge_index"):
        return _from_pyg(source, options)
    if hasattr(source, "edges") and hasattr(source, "nodes") and hasattr(source, "is_directed"):
        return _from_networkx(source, options)
    if isinstance(source, tuple) and len(source) in (2, 3) and all(_is_column(part) for part in source):
        return _from_columns(source, "The arrays", options)
    if hasattr(source, "detach"):
        if str(source.layout) != "torch.strided":
            raise InputError(
                "A sparse tensor is no list of edges; give (*matrix.to_sparse_coo().coalesce().indices(), its values) "
                "as a tuple of arrays, or a SciPy sparse matrix."
            )
        is_index, source = source.ndim == 2 and len(source) == 2, _numpy(source)
        if is_index:
            return _from_columns(tuple(source), "The edge_index", options)
    is_index = isinstance(source, np.ndarray) and source.ndim == 2 and len(source) == 2 and source.dtype.kind in "iu"
    if is_index and source.shape[1] not in (2, 3):
        return _from_columns(tuple(source), "The edge_index", options)
    if is_index and not (source.shape[1] == 2 and (source == source.T).all()):
        raise InputError(
            f"An array of 2 x {source.shape[1]} integers may be an edge_index or two edges; give an edge_index as "
            "tuple(array), edges as array.tolist()."
        )
    if isinstance(source, np.ndarray) and source.ndim == 2 and source.shape[1] in (2, 3):
        columns = [source[:, column] for column in range(source.shape[1])]
        if source.dtype.kind == "f":
            columns[:2] = [_whole(column) for column in columns[:2]]
        return _from_columns(tuple(columns), "The array", options)
    source = list(source) if isinstance(source, Iterator) else source
    if isinstance(source, list) and all(isinstance(pair, (tuple, list)) and len(pair) in (2, 3) for pair in source):
        return _from_pairs(source, options)
    if isinstance(source, list) and source and all(map(is_table, source)):
        raise InputError(
            f"A graph is read from one table, got a list of {len(source)}; join them (pandas.concat, polars.concat)."
        )
    raise InputError(
        f"A graph cannot be made of {type(source).__name__}; give a path, a table (a frame, a dict of columns), a "
        "SciPy sparse matrix, a NetworkX graph, a PyG Data, a tuple of arrays (src, dst[, weight]), an edge_index, an "
        "array with two or three columns, or a list of pairs."
    )


def _is_column(value: Any) -> bool:
    return isinstance(value, (np.ndarray, list, range)) or hasattr(value, "__array__")


def _numpy(value: Any) -> np.ndarray:
    for step in ("detach", "cpu"):
        value = getattr(value, step)() if hasattr(value, step) else value
    return np.asarray(value)


def _whole(column: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        whole = column.astype(np.int64)
    if not (whole == column).all():
        raise DataError("The array holds node ids that are not whole numbers; give integers or strings.")
    return whole


def _from_pairs(pairs: list[Any], options: GraphOptions) -> GivenEdges:
    if not pairs:
        raise DataError("The list holds no edges; give at least one.")
    widths = {len(pair) for pair in pairs}
    if len(widths) > 1:
        raise DataError("The list holds edges with and without a weight; give all or none.")
    return _from_columns(tuple(list(column) for column in zip(*pairs, strict=True)), "The list", options)


def _from_columns(columns: tuple[Any, ...], name: str, options: GraphOptions) -> GivenEdges:
    src, dst = (_ids(column, name) for column in columns[:2])
    if src.ndim != 1 or src.shape != dst.shape:
        raise DataError(f"{name} must have as many sources as targets, got shapes {src.shape} and {dst.shape}.")
    if len(src) == 0:
        raise DataError(f"{name} holds no edges; give at least one.")
    weights = checked_weights(columns[2], len(src), name, options) if len(columns) == 3 else None
    if options.weighted and weights is None:
        raise DataError(f"{name} has no weights; give a third column or weighted=False.")
    if src.dtype.kind == dst.dtype.kind == "i":
        rows, keys = integer_rows(np.concatenate([src, dst]).astype(np.int64))
        src_rows, dst_rows = rows[: len(src)], rows[len(src) :]
    else:
        both = np.empty(2 * len(src), object)
        both[::2], both[1::2] = [_spelled(item) for item in src.tolist()], [_spelled(item) for item in dst.tolist()]
        rows, keys = _string_rows(both.tolist(), name)
        src_rows, dst_rows = rows[::2], rows[1::2]
    return GivenEdges(src_rows, dst_rows, weights, keys, options.directed, name)


def _spelled(item: Any) -> str:
    return item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item)


def _string_rows(strings: list[str], name: str) -> tuple[np.ndarray, Any]:
    from any2vec.data.io.arrow import pa

    try:
        return string_rows([pa.array(strings, pa.large_string())])
    except (pa.ArrowException, UnicodeError) as error:
        raise DataError(f"{name} holds an id that cannot be written as UTF-8.") from error


def _ids(column: Any, name: str) -> np.ndarray:
    try:
        values = _numpy(column)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{name} holds ids that make no array: {error}.") from error
    if values.dtype.kind == "u":
        if len(values) and values.max() > np.iinfo(np.int64).max:
            return values.astype(object)
        return values.astype(np.int64)
    if values.dtype.kind == "U" and isinstance(column, list) and not all(isinstance(item, str) for item in column):
        values = np.array([None, *column], object)[1:]
    if values.dtype.kind == "O" and all(isinstance(item, int) and not isinstance(item, bool) for item in values.flat):
        if all(-(1 << 63) <= item < 1 << 63 for item in values.flat):
            return values.astype(np.int64)
        return values
    if values.dtype.kind == "O" and any(is_missing(item) or isinstance(item, float) for item in values.flat):
        raise DataError(f"{name} holds an id that is missing or a fraction; ids are integers or strings.")
    if values.dtype.kind not in "iUSO" and len(values):
        raise DataError(f"{name} holds ids of type {values.dtype}; ids are integers or strings.")
    return values


def checked_weights(values: Any, num_edges: int, name: str, options: GraphOptions) -> np.ndarray | None:
    """float32 (num_edges,), each finite and above 0; None when the options leave weights out.

    Raises:
        DataError: one is not legal; the message has its position (from 0).
    """
    if options.weighted is False:
        return None
    try:
        given = _numpy(values)
        if given.dtype.kind not in "iufbO":
            raise TypeError(f"weights of type {given.dtype}")
        with np.errstate(over="ignore", under="ignore"):
            weights = given.astype(np.float64).astype(np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} holds weights that are not numbers; pass weighted=False to leave them out.") from error
    if weights.shape != (num_edges,):
        raise DataError(f"{name} must have one weight an edge, got shape {weights.shape} for {num_edges} edges.")
    wrong = ~(np.isfinite(weights) & (weights > 0))
    if wrong.any():
        place = int(np.argmax(wrong))
        raise DataError(
            f"{name}, edge {place}: the weight {given[place]} is not a finite number above 0 (in float32); drop the "
            "edge or pass weighted=False."
        )
    return weights


def _from_matrix(matrix: Any, name: str, options: GraphOptions) -> GivenEdges:
    """Stored zeros are no edges; undirected matrices may be symmetric or give each edge once."""
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise DataError(f"{name} must be square, got shape {matrix.shape}.")
    coo = matrix.tocoo()
    num_nodes = int(matrix.shape[0])
    data = np.asarray(coo.data)
    if data.dtype.kind not in "biuf":
        raise DataError(f"{name} holds {data.dtype} values; weights are real numbers.")
    kept = data != 0
    src, dst, data = np.asarray(coo.row)[kept], np.asarray(coo.col)[kept], data[kept]
    _check_nodes(num_nodes, len(src), name)
    weights = None if data.dtype.kind == "b" else checked_weights(data, len(data), name, options)
    if len(src) and not (min(src.min(), dst.min()) >= 0 and max(src.max(), dst.max()) < num_nodes):
        raise DataError(f"{name} holds an entry outside its shape {matrix.shape}.")
    keys = integer_keys(np.arange(num_nodes))
    return GivenEdges(src, dst, weights, keys, options.directed, name)


def _check_nodes(num_nodes: int, num_edges: int, name: str) -> None:
    if num_nodes > MAX_NODES:
        raise DataError(f"{name} has {num_nodes:,} nodes; {MAX_NODES:,} is the most.")
    if num_nodes > _FREE_NODES + _MAX_NODES_PER_ENTRY * num_edges:
        raise DataError(f"{name} has {num_nodes:,} nodes for {num_edges:,} edges; its size looks damaged.")


def _from_networkx(graph: Any, options: GraphOptions) -> GivenEdges:
    name = "The NetworkX graph"
    nodes = list(graph.nodes)
    if count := sum(map(is_missing, nodes)):
        raise DataError(f"{name} has {count:,} empty values among its nodes; fill or drop them.")
    are_integers = all(isinstance(node, (int, np.integer)) and not isinstance(node, bool) for node in nodes)
    if are_integers:
        nodes.sort()
    row = {node: index for index, node in enumerate(nodes)}
    keys = Keys.of([str(node) for node in nodes])
    keys.are_integers = are_integers and all(-(1 << 63) <= node < 1 << 63 for node in nodes[:1] + nodes[-1:])
    if len(set(keys)) < len(keys):
        raise DataError(f"{name} has different nodes with the same name (such as 1 and '1'); rename them.")
    edges = list(graph.edges(data="weight", default=None))
    src = np.fromiter((row[edge[0]] for edge in edges), np.int32, len(edges))
    dst = np.fromiter((row[edge[1]] for edge in edges), np.int32, len(edges))
    weights = None
    given = [edge[2] for edge in edges]
    if options.weighted is not False and any(weight is not None for weight in given):
        weights = checked_weights([1 if weight is None else weight for weight in given], len(edges), name, options)
    elif options.weighted:
        raise DataError(f"{name} has no 'weight' on its edges; set it or pass weighted=False.")
    return GivenEdges(src, dst, weights, keys, options.directed or graph.is_directed(), name)


def _from_pyg(data: Any, options: GraphOptions) -> GivenEdges:
    name = "The PyG data"
    edge_index = _numpy(data.edge_index) if data.edge_index is not None else np.empty((2, 0), np.int64)
    if edge_index.ndim != 2 or edge_index.shape[0] != 2 or edge_index.dtype.kind not in "iu":
        raise DataError(f"{name} needs an integer edge_index of shape (2, num_edges), got {edge_index.shape}.")
    num_nodes = int(getattr(data, "num_nodes", None) or (edge_index.max() + 1 if edge_index.size else 0))
    if edge_index.size and not (edge_index.min() >= 0 and edge_index.max() < num_nodes):
        raise DataError(f"{name} has edges outside its {num_nodes} nodes.")
    _check_nodes(num_nodes, edge_index.shape[1], name)
    given = getattr(data, "edge_weight", None)
    if given is None:
        given = getattr(data, "edge_attr", None)
        given = None if given is None or (given.ndim > 1 and given.shape[1] != 1) else given.reshape(-1)
    if options.weighted and given is None:
        raise DataError(f"{name} has neither edge_weight nor an edge_attr of one column; pass weighted=False.")
    num_edges = edge_index.shape[1]
    weights = None if given is None else checked_weights(_numpy(given).reshape(-1), num_edges, name, options)
    keys = integer_keys(np.arange(num_nodes))
    return GivenEdges(edge_index[0], edge_index[1], weights, keys, options.directed, name)

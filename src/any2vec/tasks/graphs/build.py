"""`write_graph`: edges, features, classes and splits of any source become the folder of an attributed graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from any2vec.checks import check_fields
from any2vec.data.attributed.edge_features import GivenRows
from any2vec.data.attributed.edges import ReadWholeError
from any2vec.data.attributed.entries import EntrySorter
from any2vec.data.attributed.features import open_matrix
from any2vec.data.attributed.graph import FORMAT, AttributedGraph
from any2vec.data.attributed.node_tables import labels_by_node, parts_by_node
from any2vec.data.attributed.writer import GraphWriter
from any2vec.data.graph.graph import Graph
from any2vec.data.graph.reader import read_graph
from any2vec.data.io.files import display, form_of, is_regular
from any2vec.data.io.storage import atomic_folder, check_folder_free
from any2vec.data.options import GraphOptions
from any2vec.data.vocab.found_texts import integer_keys
from any2vec.errors import DataError, InputError
from any2vec.options.named import unknown_option
from any2vec.tasks.graphs.edges import NO_TYPES, EdgeSource, listed_edges, typed_edges
from any2vec.tasks.graphs.nodes import Nodes, node_labels, node_splits
from any2vec.tasks.graphs.pieces import edges_in_pieces
from any2vec.tasks.layers.prepare import OpenFeatures, check_places, open_features
from any2vec.types import Stage, as_reading


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """What stands beside the edges, and how it is kept."""

    features: Any = None
    """.npy or .npz file, vectors by node id, a table (Parquet, Arrow, CSV) with a column node; in Python also an array
    (N, D), a SciPy sparse one, a table in memory, or `Embeddings`"""
    labels: Any = None
    """file of lines `node class`; in Python also int (N,), -1 for none; names (N,), None for none; 0 and 1 (N, C); or a
    dict of node -> class, or a list of classes, or a table; False: of a graph that has its own none are taken"""
    split: Any = None
    """file of lines `node train|val|test`, or .npz with `split` (S, N); in Python also a dict, a table or an
    array, or False, as of labels"""
    split_index: int | None = None
    """of several splits, keep this one, from 0"""
    feature_type: Literal["float32", "float16", "int8"] = "float32"
    """how features are kept: float32, float16, or int8 with a scale a row"""
    out_neighbors: bool = False
    """keep the out-neighbors, too"""
    edge_types: str | None = None
    """where types of edges stand: triples: lines `head relation tail`; last: `src dst relation`; of Parquet and Arrow
    the name of a column. Such edges are directed"""
    edge_features: Any = None
    """.npy or .npz file of a row for each edge, in the order in which edges are given; both directions of an undirected
    one have it, equal edges the mean of theirs. In Python also an array (M, K), a SciPy sparse one, or the name of an
    attribute of NetworkX's edges; False: of a PyG `Data` none are taken"""
    edge_feature_type: Literal["float32", "float16"] = "float32"
    """how features of edges are kept"""

    def __post_init__(self) -> None:
        check_fields(self)


def write_graph(
    source: Any, out: Path | str, options: BuildOptions | None = None, *, graph: GraphOptions | None = None,
    overwrite: bool = False, stage: Stage | None = None, **more: Any,
) -> AttributedGraph:  # fmt: skip
    """Write an attributed graph to the folder `out`, and open it.

    source: edges, as `read_graph` takes them; or a PyG `Data`, whose x, y, edge_weight, edge_type, edge_attr (of two
    dimensions) and masks come along, and whose edges have a direction; or a `HeteroData`, whose types of nodes are laid
    behind each other, and whose edge_attr and edge_weight are left out, with a warning; or a folder of OGB's raw files.
    options: by default those of `BuildOptions`; more: fields of it. graph: how edges are read. overwrite: a graph
    that stands at `out`. stage: called with (what is done, amount done, amount in all). Without features the nodes
    are those of the edges: whole numbers ascending, others in order of first appearance; with features that are a
    matrix, node r is its row r. Equal edges become one, and their weights are added. Tables of features, labels and
    splits go by a column of nodes (node, id, key ...), else by an index of pandas that is not the default one, else
    by place.

    Edges whose ids are whole numbers, of text, Parquet and Arrow files, go through in pieces: memory O(nodes) and some
    500 MB, disk 8 bytes an edge and direction meanwhile, more with weights or features. Others, and undirected ones
    with weights, are read whole. Features of edges change neither nodes nor weights; a `Graph` cannot have them, as its
    equal edges are merged.

    Raises:
        DataError: something cannot be read, or does not go together. InputError: an option is not legal.
        StorageError: `out` is taken, or cannot be written.
    """
    legal = [item.name for item in fields(BuildOptions)]
    for name in more:
        if name not in legal:
            raise unknown_option(write_graph, name, legal)
    options, reading = options or BuildOptions(), graph or GraphOptions()
    check_folder_free(out, overwrite, FORMAT)
    options = replace(options, **more)
    if (laid := _laid(source, reading, options)) is not None:
        edges, own = laid
        options = replace(options, **{name: value for name, value in own.items() if getattr(options, name) is None})
        return _written(edges, Path(out), options, _placed(_opened(options), edges), overwrite)
    found = _opened(options)
    known = None
    if found is not None:
        if found.is_table:
            _check_places(options, found)
        known = Nodes(found.matrix.shape[0], found.keys, features=found.name, are_integers=found.are_integers)
    if options.edge_types is not None:
        edges = typed_edges(source, options.edge_types, reading, known, stage)
        return _written(edges, Path(out), options, found, overwrite)
    has_keys = found is not None and found.keys is not None
    has_rows = is_given(options.edge_features)
    if isinstance(options.edge_features, str) and hasattr(source, "edges") and hasattr(source, "nodes"):
        from any2vec.tasks.graphs.objects import attribute_rows

        options = replace(options, edge_features=attribute_rows(source, options.edge_features))
    if isinstance(source, str | Path) and is_regular(str(source)) and not has_keys and _is_for_pieces(str(source)):

        def in_pieces(folder: Path) -> EdgeSource:
            return edges_in_pieces(str(source), reading, known, has_rows, folder, stage)

        try:
            return _written(in_pieces, Path(out), options, found, overwrite)
        except ReadWholeError:
            pass
    if has_rows:
        return _written(listed_edges(source, reading, known, stage), Path(out), options, found, overwrite)
    return _written(_whole(source, reading, known, stage), Path(out), options, found, overwrite)


def is_given(value: Any) -> bool:
    """Whether there is such a thing beside the edges."""
    return value is not None and value is not False


def _laid(source: Any, reading: GraphOptions, options: BuildOptions) -> tuple[EdgeSource, dict[str, Any]] | None:
    """(edges, and what stands beside them) of a graph that has its own features and classes; None: it is edges."""
    if hasattr(source, "edge_index") and hasattr(source, "to_dict"):
        from any2vec.tasks.graphs.objects import of_pyg

        pieces, num_nodes, own = of_pyg(source, reading.weighted, options.split is None)
        return EdgeSource(Nodes(num_nodes), [pieces], True, "The PyG data"), own
    from any2vec.tasks.graphs.layouts import is_ogb, of_hetero, of_ogb

    is_typed, is_folder = hasattr(source, "node_types") and hasattr(source, "edge_types"), is_ogb(source)
    if (is_typed or is_folder) and reading.weighted:
        raise InputError("Weights of edges of HeteroData and OGB's folders are not read; leave out weighted=True.")
    if is_typed:
        _say_left_out(source, reading, options)
        return of_hetero(source, options.labels is None, options.split is None)
    return of_ogb(Path(source), reading.directed) if is_folder else None


def _say_left_out(data: Any, reading: GraphOptions, options: BuildOptions) -> None:
    """Warn of what edges of a `HeteroData` have that is not read."""
    from any2vec.tasks.graphs.layouts import with_attribute

    for name, what, is_meant, meant in (
        ("edge_attr", "features", options.edge_features is not None, "edge_features=False"),
        ("edge_weight", "weights", reading.weighted is False, "GraphOptions(weighted=False)"),
    ):
        if not is_meant and (left_out := with_attribute(data, name)):
            warnings.warn(
                f"{name} of {', '.join(left_out)} is left out: {what} of edges of HeteroData are not read; {meant} "
                "says that this is meant.",
                stacklevel=4,
            )


def _opened(options: BuildOptions) -> OpenFeatures | None:
    return None if options.features is None else open_features(options.features)


def _check_places(options: BuildOptions, features: OpenFeatures) -> None:
    """As `check_places`, of what stands beside features; masks of a split go by place, too."""
    if is_given(options.labels):
        check_places(features, labels_by_node(options.labels), "The labels")
    if is_given(options.split) and parts_by_node(options.split) is None:
        parts = options.split.values() if isinstance(options.split, Mapping) else [options.split]
        has_masks = any(str(getattr(part, "dtype", "")) == "bool" and not hasattr(part, "iloc") for part in parts)
        check_places(features, [] if has_masks else options.split, "Parts of the split")


def _placed(found: OpenFeatures | None, edges: EdgeSource) -> OpenFeatures | None:
    """Rows in the order of nodes that are numbered: node r is key r. DataError: a node has no key."""
    num = edges.nodes.num
    if found is None or found.keys is None or len(found.keys) != num:  # another number is refused when rows are written
        return found
    place = Nodes(num, found.keys, features=found.name).rows([str(row) for row in range(num)], edges.name)
    is_in_order = (place == np.arange(num)).all()  # then a mapped file stays one
    return found if is_in_order else found._replace(keys=None, matrix=found.matrix[place])


def _edge_rows(options: BuildOptions) -> GivenRows | None:
    given = options.edge_features
    if not is_given(given):
        return None
    name = display(given) if isinstance(given, str | Path) else "The features of edges"
    return GivenRows(open_matrix(given, name), options.edge_feature_type, name)


def _is_for_pieces(name: str) -> bool:
    stem = Path(name).with_suffix("") if Path(name).suffix in (".gz", ".zst", ".xz") else Path(name)
    return form_of(name) != "array" and stem.suffix.lower() != ".mtx"


def _written(
    source: EdgeSource | Callable[[Path], EdgeSource], out: Path, options: BuildOptions, features: OpenFeatures | None,
    overwrite: bool,
) -> AttributedGraph:  # fmt: skip
    """source: edges, or what reads them, given a new folder for what is in between."""
    with atomic_folder(out, overwrite, FORMAT) as folder, ExitStack() as stack:
        between, rows = folder / "between", _edge_rows(options)
        edges = source(between) if callable(source) else source
        if isinstance(edges.pieces, EntrySorter):
            entries = edges.pieces
        else:
            entries = EntrySorter(between, edges.is_directed, rows is not None)
        stack.enter_context(closing(entries))
        nodes, classes = edges.nodes, list[str]()
        writer = stack.enter_context(GraphWriter(folder, nodes.num))
        if is_given(options.labels):
            labels, classes = node_labels(options.labels, nodes)
            writer.put("labels", labels)
        if is_given(options.split):
            writer.put("splits", node_splits(options.split, options.split_index, nodes))
        if features is not None:
            num_rows, name = features.matrix.shape[0], features.name
            if num_rows != nodes.num:
                raise DataError(f"{name} has {num_rows:,} rows for {nodes.num:,} nodes; give one a node.")
            writer.put_features(features.matrix, options.feature_type, name)
        if nodes.keys is not None:
            writer.put_keys(nodes.keys)
        elif nodes.ids is not None:
            writer.put_keys(integer_keys(nodes.ids))
        if not isinstance(edges.pieces, EntrySorter):
            entries.extend(edges.pieces)
        rows_of = nodes.rows_of_known if entries is edges.pieces else None
        if rows_of is not None and nodes.ids is not None:
            rows_of(nodes.ids[:1])  # what makes its table, before threads ask for it
        num_edges = writer.put_edges(entries, options.out_neighbors, edges.name, rows, rows_of)
        writer.finish(
            edges.is_directed, num_edges, classes, edges.relations, edges.node_types, nodes.are_integers
        )  # fmt: skip
    return AttributedGraph.open(out)


def _whole(source: Any, options: GraphOptions, known: Nodes | None, stage: Stage | None) -> EdgeSource:
    graph: Graph = read_graph(source, options, progress=as_reading(stage))
    name = display(source) if isinstance(source, str | Path) else "The graph"
    nodes = known or Nodes.of_keys(graph.keys)
    row_V = np.arange(len(graph)) if known is None else nodes.rows(list(graph.keys), name)
    src = np.repeat(row_V, np.diff(graph.csr.indptr)).astype(np.int32)
    dst = row_V[graph.csr.indices].astype(np.int32)
    weights = graph.csr.weights
    if not graph.is_directed:
        once = src <= dst
        src, dst, weights = src[once], dst[once], weights[once] if len(weights) else weights
    return EdgeSource(nodes, [(src, dst, weights, NO_TYPES)], graph.is_directed, name)

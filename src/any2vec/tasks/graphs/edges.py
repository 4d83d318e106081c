"""Edges on their way into a graph folder, and those of several relations: triples, or a column of types.

Letter: V names of triples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.data.attributed.entries import Edges, EntrySorter
from any2vec.data.graph.edge_list import WORDS_OF_DST, WORDS_OF_SRC
from any2vec.data.graph.reader import read_edges
from any2vec.data.io.files import display, form_of, is_table
from any2vec.data.options import GraphOptions, TripleOptions, usual_columns
from any2vec.data.triples.triples import Triples, read_triples
from any2vec.errors import DataError, InputError
from any2vec.tasks.graphs.nodes import Nodes
from any2vec.types import Stage, as_reading

TRIPLES, LAST = "triples", "last"
NO_TYPES = np.empty(0, np.int32)
_NO_WEIGHTS = np.empty(0, np.float32)


@dataclass(frozen=True)
class EdgeSource:
    """What a source of edges comes to."""

    nodes: Nodes
    pieces: Edges | EntrySorter
    """the latter: edges by their nodes' ids"""
    is_directed: bool
    name: str
    relations: Sequence[str] = ()
    """names of the types of edges"""
    node_types: Mapping[str, int] = field(default_factory=dict)
    """name -> how many; nodes of a type stand together, in this order"""


def typed_edges(
    source: Any, where: str, options: GraphOptions, known: Nodes | None, stage: Stage | None
) -> EdgeSource:  # fmt: skip
    """Directed edges of several relations.

    Args:
        where: relations stand: triples: in the middle; last: behind both ends; else the name of a table's column.
        known: the nodes that there are; None: those of the edges, whole numbers ascending, others in order.

    Raises:
        DataError: as of `read_triples`; an end is no node, or was not known when triples were read.
        InputError: edges are to have weights.
    """
    if options.weighted:
        raise InputError("Edges with types have no weights; leave out --weighted (weighted=True).")
    is_file = isinstance(source, str | Path)
    form = form_of(str(source)) if is_file and not Path(source).is_dir() else None
    is_columns = form in ("parquet", "arrow") or (not is_file and is_table(source))
    if where == LAST and is_columns:
        raise InputError("edge_types last is for text; of a table give the name of the column that holds types.")
    if where not in (TRIPLES, LAST) and not is_columns:
        raise InputError(f"edge_types of text is {TRIPLES} or {LAST}, got {where!r}; a column's name is for tables.")
    columns = options.use_columns
    if where not in (TRIPLES, LAST):
        columns = _columns(source, form, where, columns)
    reading = TripleOptions(
        delimiter=options.delimiter, header=options.header, comment=options.comment, use_columns=columns
    )
    found = read_triples(source, reading, is_relation_last=where == LAST, progress=as_reading(stage))
    found.check_known()
    name = display(str(source)) if is_file else "The graph"
    is_text = is_file and not is_columns and not Path(source).is_dir()
    nodes, row_V = _nodes(found, known, name, is_text)
    pieces = [(row_V[found.head], row_V[found.tail], _NO_WEIGHTS, np.asarray(found.relation, np.int32))]
    return EdgeSource(nodes, pieces, True, name, list(found.relations))


def listed_edges(
    source: Any, options: GraphOptions, known: Nodes | None, stage: Stage | None
) -> EdgeSource:  # fmt: skip
    """Edges in the order in which they are given, each kept; nodes and weights are those of `read_graph`. known: as of
    `typed_edges`.

    Raises:
        DataError, InputError: as of `read_edges`; an end is no node.
    """
    given = read_edges(source, options, as_reading(stage))
    nodes, row_V = known or Nodes.of_keys(given.keys), np.arange(len(given.keys), dtype=np.int32)
    if known is not None:
        row_V = known.rows(list(given.keys), given.name).astype(np.int32)
    pieces = [(row_V[given.src_M], row_V[given.dst_M], given.shares(), NO_TYPES)]
    return EdgeSource(nodes, pieces, given.is_directed, given.name)


def _columns(source: Any, form: str | None, types: str, ends: str | None) -> str:
    """head,relation,tail of a table whose relations stand in a column."""
    from any2vec.data.io.arrow import TableReader

    table = TableReader(source, form)
    chosen = ends.split(",") if ends else usual_columns(table.names, WORDS_OF_SRC, WORDS_OF_DST)
    if not all(chosen):
        chosen = [name for name in table.names if name != types][:2]
    if len(chosen) != 2:
        raise DataError(f"{table.name}: edges with types need two columns of ends besides; give --use-columns src,dst.")
    return f"{chosen[0]},{types},{chosen[1]}"


def _nodes(found: Triples, known: Nodes | None, name: str, is_text: bool) -> tuple[Nodes, np.ndarray]:
    """(the nodes, the row of each of the V names, int32); is_text: whole numbers have no other type."""
    names = list(found.entities)
    if known is not None:
        return known, known.rows(names, name).astype(np.int32)
    ids = _integers(names)
    if ids is None:
        order, row_V = _by_appearance(found)
        return Nodes(len(names), [names[place] for place in order.tolist()]), row_V
    order = np.argsort(ids)
    row_V = np.empty(len(ids), np.int32)
    row_V[order] = np.arange(len(ids))
    return Nodes.of_ids(ids[order], is_text or found.entities.are_integers), row_V


def _by_appearance(found: Triples) -> tuple[np.ndarray, np.ndarray]:
    """(the V names by the first edge that bears them, its head before its tail, int64; the place of each, int32):
    triples may come in pieces, each of which has its heads before its tails."""
    ends, first_V = np.unique(np.stack([found.head, found.tail], axis=1).ravel(), return_index=True)
    order = ends[np.argsort(first_V)].astype(np.int64)
    row_V = np.empty(len(order), np.int32)
    row_V[order] = np.arange(len(order))
    return order, row_V


def _integers(names: list[str]) -> np.ndarray | None:
    """int64; None where a name is not how a whole number is written."""
    try:
        ids = np.array(list(map(int, names)), np.int64)
    except (ValueError, OverflowError):
        return None
    return ids if list(map(str, ids.tolist())) == names else None

"""Tables of nodes: a column of theirs, or an index of pandas, says which node a row is of; else rows are numbered.

Legend: N nodes, D features.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from scipy import sparse

from any2vec.checks import is_missing
from any2vec.data.attributed.graph import SPLITS
from any2vec.data.graph.edge_list import is_number
from any2vec.data.io.files import ARROW, PARQUET, RECORDS, form_of, is_table
from any2vec.data.vocab.user_keys import UserKeys
from any2vec.errors import DataError, FormatError, InputError

NODE_WORDS = {"node", "node_id", "nodeid", "vertex", "id", "key"}
LABEL_WORDS = {"label", "labels", "class", "classes", "group", "groups", "target", "category"}
SPLIT_WORDS = {"split", "part", "set", "subset"}
LABEL_RANKS = {"label"}, LABEL_WORDS, {"y"}
SPLIT_RANKS = {"split"}, SPLIT_WORDS
"""of names of columns: the first rank of which one is there counts"""
_INDEX = "__index_level_0__"
"""column of a file that pandas makes of an index without a name; of text its name is empty"""


class NamedColumns(NamedTuple):
    """Where a first line of text says that nodes stand, and what they have."""

    node: int
    value: int | None
    """None: all others, but for an index"""
    first: int
    """1: an index stands in front; else 0"""
    width: int
    """fields of the line"""

    def of(self, fields: list[str]) -> tuple[str, list[str]]:
        """(node, what it has) of a line; ("", []): it has not as many fields."""
        if len(fields) != self.width if self.value is not None else len(fields) <= self.node:
            return "", []
        if self.value is not None:
            return fields[self.node], [fields[self.value]]
        return fields[self.node], [one for at, one in enumerate(fields) if at >= self.first and at != self.node]


class NodeTable(NamedTuple):
    """Columns, and the nodes of their rows."""

    names: list[str]
    columns: list[Any]
    """of pandas or Arrow"""
    keys: UserKeys | None
    """None: rows are numbered"""
    by: str
    """where the nodes stand, for messages"""


def columns_of_header(fields: list[str], ranks: tuple[set[str], ...], name: str) -> NamedColumns | None:
    """What a first line of text names; None: it names no nodes, by no words and by no index of pandas.

    Raises:
        DataError: two columns may name the nodes, or several may be meant.
    """
    names = [one.lower() for one in fields]
    values, nodes = places_of(names, ranks), places_of(names, (NODE_WORDS,))
    has_index = not names[0] and bool(nodes or values)
    if not (has_index or (nodes and (nodes[0] == 0 or not any(map(is_number, names))))):
        return None
    if len(nodes) > 1:
        _refuse_both(name, [fields[at] for at in nodes])
    node = nodes[0] if nodes else 0
    first = int(has_index and node > 0)
    others = [at for at in range(first, len(fields)) if at != node]
    value = None
    if len(others) == 1:
        value = others[0] if node else None  # lines may have more than the first one
    elif 1 < len(values) < len(others):
        _refuse_several(name, [fields[at] for at in others], min(ranks[0]))
    elif len(values) == 1:
        value = values[0]
    return NamedColumns(node, value, first, len(fields))


def places_of(names: list[str], ranks: tuple[set[str], ...]) -> list[int]:
    """Where columns are called so, in lower case, by the first rank that one has."""
    found = ([at for at, one in enumerate(names) if one.lower() in words] for words in ranks)
    return next((places for places in found if places), [])


def by_position(given: Any) -> Any:
    """A frame or a Series of pandas without its index: for those who say that rows go by their place."""
    return given.reset_index(drop=True) if hasattr(given, "iloc") else given


def is_file_of_columns(path: str | Path) -> bool:
    """Whether a file is a table by its suffix: Parquet, Arrow, CSV or TSV, plain or gz."""
    return _suffix(Path(path)) in (*PARQUET, *ARROW, ".csv", ".tsv")


def node_features(source: Any, name: str) -> tuple[UserKeys | None, np.ndarray] | None:
    """(nodes, None where rows are numbered; their features (N, D)) of a table; None: it is no table.

    Raises:
        DataError: a column is not of numbers, or nodes are missing or there twice.
    """
    table = _table(source, name)
    if table is None:
        if isinstance(source, Mapping) and not sparse.issparse(source):
            raise DataError(f"{name} in a dict are columns by name: give {{'node': nodes, 'x': an array (N, D)}}.")
        return None
    if not table.columns:
        raise DataError(f"{name} has no column of features; give one at least.")
    if table.keys is not None:
        _check_once(table, name)
    parts = zip(table.names, table.columns, strict=True)
    matrix_ND = np.column_stack([_numbers(column, f"{name} has {{}} in column {one!r}") for one, column in parts])
    is_numbered = table.keys is None or list(table.keys) == list(range(len(matrix_ND)))
    return None if is_numbered else table.keys, matrix_ND


def labels_by_node(source: Any) -> Any:
    """A dict of node -> class, or list of classes, of a table whose rows say which nodes they are of; else as it is.

    Raises:
        DataError: nodes are missing, or several columns may be meant.
    """
    pairs = _pairs(source, "labels", LABEL_RANKS)
    if pairs is None:
        return source
    found: dict[str, list[Any]] = {}
    for node, value in pairs:
        found.setdefault(node, []).extend(value if isinstance(value, list) else [value])
    return {node: classes[0] if len(classes) == 1 else classes for node, classes in found.items()}


def parts_by_node(source: Any) -> dict[str, list[str]] | None:
    """Names of nodes by part of the split, of a table whose rows say which nodes they are of, or of a dict of node ->
    part; None: it is none.

    Raises:
        DataError: nodes are missing, or several columns may be meant.
    """
    if isinstance(source, Mapping) and source and all(one is None or isinstance(one, str) for one in source.values()):
        pairs = ((str(node), part) for node, part in source.items())
    elif (pairs := _pairs(source, "split", SPLIT_RANKS)) is None:
        return None
    found: dict[str, list[str]] = {part: [] for part in SPLITS}
    for node, value in pairs:
        if value not in (None, "", -1):
            part = SPLITS[value] if isinstance(value, int) and 0 <= value < len(SPLITS) else str(value)
            found.setdefault(part, []).append(node)
    return found


def by_node_mask(given: Any) -> list[str] | None:
    """Names of the nodes that a mask, a Series of pandas by node, says; None: it is none."""
    if str(getattr(given, "dtype", "")) != "bool" or not hasattr(given, "iloc") or _numbers_rows(given.index):
        return None
    return list(_keys(given.index[given.to_numpy()], "A mask of the split names nodes by its index").names)


def _pairs(source: Any, name: str, ranks: tuple[set[str], ...]) -> Any:
    """Pairs of a node's name and what it has; None: rows are numbered, or it is no table."""
    if isinstance(source, str | Path) or (
        isinstance(source, Mapping) and not _are_columns(source, set().union(*ranks))
    ):
        return None
    table = _table(source, name)
    if table is None or table.keys is None:
        return None
    if table.by == "its index":
        _check_once(table, name)
    named = [0] if len(table.names) == 1 else places_of(table.names, ranks)
    if len(named) != 1:
        _refuse_several(name, table.names, min(ranks[0]))
    return zip(table.keys.names, _values(table.columns[named[0]]), strict=True)


def _refuse_several(name: str, columns: list[str], word: str) -> NoReturn:
    raise DataError(f"{name} has the columns {', '.join(columns)} beside the nodes; name one of them {word}.")


def _refuse_both(name: str, columns: list[str]) -> NoReturn:
    both = " and ".join(columns[:2])
    raise DataError(f"{name} has columns {both}, which may both name the nodes; leave out or rename one.")


def _are_columns(source: Mapping[Any, Any], words: set[str]) -> bool:
    """Whether a dict has two columns, of nodes and of what they have, and is not by node, or by part."""
    names = [str(name).lower() for name in source] if len(source) == 2 else []
    return any(one in NODE_WORDS for one in names) and any(one in words for one in names)


def _table(source: Any, name: str) -> NodeTable | None:
    """The table that the source is, or a file holds; None: it is none."""
    index = None
    if hasattr(source, "iloc"):
        frame = source if hasattr(source, "columns") else source.to_frame("values")
        names, columns = [*map(str, frame.columns)], [frame.iloc[:, at] for at in range(frame.shape[1])]
        index = None if _numbers_rows(source.index) else source.index
    elif is_file_of_columns(source) if isinstance(source, str | Path) else is_table(source):
        given = _columns(source)
        if not NODE_WORDS & {one.lower() for one in given}:  # else the column says it
            index = given.get(_INDEX)
        names = [one for one in given if one != _INDEX]
        columns = [given[one] for one in names]
    else:
        return None
    places = [at for at, one in enumerate(names) if one.lower() in NODE_WORDS]
    if len(places) > 1:
        _refuse_both(name, [names[at] for at in places])
    if not places and index is None:
        return NodeTable(names, columns, None, "")
    by = f"column {names[places[0]]!r}" if places else "its index"
    keys = _keys(columns[places[0]] if places else index, f"{name} names nodes by {by}")
    kept = [at for at in range(len(names)) if at not in places]
    return NodeTable([names[at] for at in kept], [columns[at] for at in kept], keys, by)


def _numbers_rows(index: Any) -> bool:
    """Whether an index of pandas is the one that frames have by default."""
    return type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1


def _columns(source: Any) -> dict[str, Any]:
    """Arrays of Arrow by column, of a file or a table in memory."""
    from any2vec.data.io.arrow import arrow_errors, columns_of, csv

    if not isinstance(source, str | Path):
        return columns_of(source)
    path = Path(source)
    if RECORDS.get(_suffix(path)) not in ("csv", "tsv"):
        return columns_of(str(path), form_of(str(path)))
    with arrow_errors(f"{path} cannot be read as a table"):
        parsed = csv().ParseOptions(delimiter="\t" if _suffix(path) == ".tsv" else ",")
        table = csv().read_csv(path, csv().ReadOptions(use_threads=False), parsed)
    if any(is_number(name) for name in table.column_names):
        raise DataError(f"{path} begins with a line of numbers; name its columns in a first line, like node,a,b.")
    return {name if name or at else _INDEX: column for at, (name, column) in enumerate(columns_of(table).items())}


def _suffix(path: Path) -> str:
    return (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()


def _keys(column: Any, where: str) -> UserKeys:
    try:
        return UserKeys(_values(column))
    except InputError:
        raise DataError(
            f"{where}, which must all be strings or all whole numbers, none missing; of pandas reset_index(drop=True) "
            "leaves an index out, and .astype(int) makes whole numbers."
        ) from None


def _check_once(table: NodeTable, name: str) -> None:
    assert table.keys is not None
    try:
        table.keys.by_name()
    except FormatError:
        advice = ", or leave out the index, reset_index(drop=True)" if table.by == "its index" else ""
        raise DataError(f"{name} has a node twice in {table.by}; give each node one row{advice}.") from None


def _values(column: Any) -> list[Any]:
    """Python's own, missing ones None; floats that are all whole, as pandas makes beside missing ones, are whole."""
    from any2vec.data.io.arrow import is_binary, is_list, pa

    if isinstance(column, pa.ChunkedArray):
        kind = column.type
        if is_binary(kind):
            column = column.cast(pa.large_string())
        elif is_list(kind) and is_binary(kind.value_type):
            column = column.cast(pa.large_list(pa.large_string()))
    values = column.to_pylist() if isinstance(column, pa.ChunkedArray) else column.tolist()
    known = [None if is_missing(one) or one != one else one for one in values]
    numbers = [one for one in known if isinstance(one, float)]
    if not all(one.is_integer() for one in numbers):
        return known
    return [int(one) if isinstance(one, float) else one for one in known]


def _numbers(column: Any, refused: str) -> np.ndarray:
    """(N,) numbers, or (N, K) of a column of lists of one length. refused: a sentence with a place for the kind."""
    from any2vec.data.io.arrow import arrow_errors, is_list, pa, pc

    if not isinstance(column, pa.ChunkedArray):
        values = np.asarray(column)
        if values.dtype.kind in "fiub":
            return values
        with arrow_errors(refused.format("values of several kinds"), advice="give numbers."):
            column = pa.chunked_array([pa.array(values, from_pandas=True)])
    kind, size = column.type, 0
    if is_list(kind):
        sizes = pc.unique(pc.list_value_length(column)).to_pylist()
        if len(sizes) != 1 or not sizes[0]:
            raise DataError(f"{refused.format('lists of different lengths')}; give lists of one length.")
        size, column = sizes[0], pc.list_flatten(column)
        kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        column = column.cast(pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        words = "texts" if "binary" in str(kind) or "string" in str(kind) else str(kind)
        raise DataError(
            f"{refused.format(words)}; features are numbers: leave it out, or, where it names the nodes, call it node."
        )
    values = column.to_numpy()
    return values.reshape(-1, size) if size else values

"""Which row a node has; the classes and the splits of nodes, from files and from memory.

Legend: N nodes, M names or ids, C classes, S splits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.data.attributed.graph import SPLITS
from any2vec.data.attributed.node_tables import by_node_mask, labels_by_node, parts_by_node
from any2vec.errors import DataError, InputError
from any2vec.evaluate.graph.nodes import read_labels
from any2vec.tasks.layers.prepare import is_class, named_labels, read_split

MAX_CLASSES = 1 << 16
"""of labels that are numbers"""
_NUMBERS_A_NODE, _FEW_NUMBERS = 4, 1 << 20
"""ids that are not sparser than this, by a table of 4 bytes a number"""


class Nodes:
    """The nodes of a graph, and how they are named.

    Args:
        num: how many.
        keys: of each row; None: a node's name is its number, or the id in `ids`.
        ids: int64 (N,), ascending.
        features: name of the matrix whose rows are the nodes; empty: there is none.
        are_integers: the nodes' keys, as their user knows them; None: as `keys` say themselves, and numbers are.
    """

    def __init__(
        self, num: int, keys: Sequence[str] | None = None, ids: np.ndarray | None = None, features: str = "",
        are_integers: bool | None = None,
    ) -> None:  # fmt: skip
        self.num, self.keys, self.ids, self.features = num, keys, ids, features
        are_known = keys is None or bool(getattr(keys, "are_integers", False))
        self.are_integers = are_known if are_integers is None else are_integers

    @classmethod
    def of_ids(cls, ids: np.ndarray, are_integers: bool = True) -> Nodes:
        """Nodes by their ids, int64 (N,), ascending."""
        are_rows = int(ids[0]) == 0 and int(ids[-1]) == len(ids) - 1
        return cls(len(ids), ids=None if are_rows else ids, are_integers=are_integers)

    @classmethod
    def of_keys(cls, keys: Sequence[str]) -> Nodes:
        """Nodes of a graph that was read; integers are known by their ids, as where a file of them goes through in
        pieces."""
        if getattr(keys, "are_integers", False):
            return cls.of_ids(np.fromiter(map(int, keys), np.int64, len(keys)))
        return cls(len(keys), keys)

    @property
    def _are(self) -> str:
        if self.keys is None and self.ids is None:
            rows = f", the rows of {self.features}; give it a row a node, or vectors by node id"
            return f"nodes are 0 to {self.num - 1:,}" + (rows if self.features else "")
        return f"the {self.num:,} nodes are those of {self.features or 'the edges'}, by their ids"

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {key: row for row, key in enumerate(self.keys or ())}

    def rows(self, names: Sequence[str], where: str) -> np.ndarray:
        """int64 (M,): rows of nodes by name. DataError: one is not there."""
        if self.keys is not None:
            found = np.fromiter((self._row_of.get(name, -1) for name in names), np.int64, len(names))
            self._check(found, names, where)
            return found
        try:
            ids = np.array([int(name) for name in names], np.int64)
        except (ValueError, OverflowError):
            name = next(name for name in names if not re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*", name))
            raise DataError(f"{where}: node {name!r} is not there; {self._are}.") from None
        return self.rows_of_ids(ids, where).astype(np.int64)

    def rows_of_ids(self, ids: np.ndarray, where: str) -> np.ndarray:
        """int32 (M,): rows of nodes by whole numbers, int64. DataError: one is not there."""
        found = np.where((ids >= 0) & (ids < self.num), ids, -1) if self.ids is None else self._found(self.ids, ids)
        self._check(found, ids, where)
        return found.astype(np.int32, copy=False)

    def rows_of_known(self, ids: np.ndarray) -> np.ndarray:
        """int32 (M,): as `rows_of_ids`, of ids that are all there."""
        if self.ids is None:
            return ids.astype(np.int32, copy=False)
        return self._found(self.ids, ids) if self._row_by_id is None else self._row_by_id[ids - self.ids[0]]

    def _found(self, known_N: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """int (M,): rows of ids, -1 for none."""
        if self._row_by_id is None:  # in order, for each search of many is a miss of the cache at every step
            order, found = np.argsort(ids), np.empty(len(ids), np.int64)
            found[order] = np.minimum(np.searchsorted(known_N, ids[order]), self.num - 1)
            return np.where(known_N[found] == ids, found, -1)
        is_among = (ids >= known_N[0]) & (ids <= known_N[-1])
        return np.where(is_among, self._row_by_id[np.where(is_among, ids - known_N[0], 0)], np.int32(-1))

    @cached_property
    def _row_by_id(self) -> np.ndarray | None:
        """int32: rows of all numbers from the first id to the last, -1 for none; None where that would be too many."""
        assert self.ids is not None
        first, last = int(self.ids[0]), int(self.ids[-1])
        if last - first >= _NUMBERS_A_NODE * self.num + _FEW_NUMBERS:
            return None
        row_by_id = np.full(last - first + 1, -1, np.int32)
        row_by_id[self.ids - first] = np.arange(self.num, dtype=np.int32)
        return row_by_id

    def _check(self, found: np.ndarray, names: Any, where: str) -> None:
        if len(found) and (found < 0).any():
            name = names[int((found < 0).argmax())]
            raise DataError(f"{where}: node {str(name)!r} is not there; {self._are}.")


def node_labels(source: Any, nodes: Nodes) -> tuple[np.ndarray, list[str]]:
    """(int32 (N,), -1 for none, or uint8 (N, C) where a node has several classes; names of the classes).

    source: a file of lines `node class`; a dict of node -> class, or classes; a table of nodes and classes, by a column
    or an index; or an array: whole numbers (N,) from 0, -1 for none; names (N,), None for none; or 0 and 1 (N, C).

    Raises:
        DataError: it cannot be read, or a node is not there.
    """
    if isinstance(source, str | Path):
        return _of_named(*read_labels(Path(source)), nodes, Path(source).name)
    source = labels_by_node(source)
    if isinstance(source, Mapping):
        return _of_named(*_of_mapping(source), nodes, "The labels")
    try:
        found = np.asarray(source)
    except ValueError:
        raise DataError(
            "The labels are lists of different lengths; for several classes a node give a dict of node -> classes."
        ) from None
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.dtype.kind == "f" and np.isin(found[~np.isnan(found)], np.arange(-1, MAX_CLASSES)).all():
        found = np.where(np.isnan(found), -1, found).astype(np.int64)  # as OGB has them
    if found.ndim == 2 and len(found) == nodes.num and np.isin(found, (0, 1)).all():
        return found.astype(np.uint8), [str(name) for name in range(found.shape[1])]
    if found.shape == (nodes.num,) and found.dtype.kind in "OUT":
        label_N, names = named_labels(found)
        return label_N.astype(np.int32), names
    if (
        found.shape != (nodes.num,)
        or found.dtype.kind not in "iu"
        or not -1 <= found.min() <= found.max() < MAX_CLASSES
    ):
        raise DataError(
            f"labels must be whole numbers below {MAX_CLASSES:,} (-1 for none) or names (None for none), one for each "
            f"of {nodes.num:,} nodes, or 0 and 1 a node and class, got {found.dtype} of {found.shape}."
        )
    return found.astype(np.int32), [str(name) for name in range(int(found.max()) + 1)]


def _of_named(
    names: Sequence[str], classes: list[str], truth_MC: np.ndarray, nodes: Nodes, where: str
) -> tuple[np.ndarray, list[str]]:
    """As `node_labels`, of nodes by name and who has which class."""
    rows = nodes.rows(names, where)
    if (truth_MC.sum(axis=1) > 1).any():
        several = np.zeros((nodes.num, len(classes)), np.uint8)
        several[rows] = truth_MC
        return several, classes
    label_N = np.full(nodes.num, -1, np.int32)
    label_N[rows] = np.where(truth_MC.any(axis=1), truth_MC.argmax(axis=1), -1)
    return label_N, classes


def _of_mapping(source: Mapping[Any, Any]) -> tuple[list[str], list[str], np.ndarray]:
    """As `read_labels`, of node -> class, or a list, a set or an array of classes; None for none."""
    given = [list(one) if isinstance(one, list | tuple | Set | np.ndarray) else [one] for one in source.values()]
    class_P = np.empty(sum(map(len, given)), object)
    class_P[:] = [one for several in given for one in several]
    label_P, classes = named_labels(class_P)
    place_P = np.repeat(np.arange(len(given)), [len(several) for several in given])
    truth_MC = np.zeros((len(given), len(classes)), bool)
    truth_MC[place_P[label_P >= 0], label_P[label_P >= 0]] = True
    return [str(node) for node in source], classes, truth_MC


def node_splits(source: Any, index: int | None, nodes: Nodes) -> np.ndarray:
    """int8 (S, N): 0 train, 1 val, 2 test, -1 none.

    source: a file of lines `node train|val|test`; a .npz file with an array `split` of those numbers, or the array,
    (S, N) or (N,), or words (N,), None for none; a table of nodes and parts, by a column or an index; node -> part;
    part -> nodes, or masks (N,). Nodes are whole numbers, their ids (their rows, where they are known by names that
    are no numbers), or names. index: keep that split alone.

    Raises:
        DataError: it cannot be read, a node is not there or in two parts. InputError: there is no such split.
    """
    name = Path(source).name if isinstance(source, str | Path) else "The split"
    split: Any = _load(Path(source)) if name.endswith(".npz") and isinstance(source, str | Path) else source
    named = read_split(split) if isinstance(split, str | Path) else parts_by_node(split)
    if named is not None:
        split = _of_parts({part: nodes.rows(names, name) for part, names in named.items()}, nodes, name)
    elif isinstance(split, Mapping):
        split = _of_parts({part: _chosen(given, nodes, name) for part, given in split.items()}, nodes, name)
    split_SN = np.atleast_2d(_by_place(split, nodes, name))
    is_split = split_SN.ndim == 2 and split_SN.shape[1] == nodes.num and split_SN.dtype != bool
    if not is_split or not np.isin(split_SN, (-1, 0, 1, 2)).all():
        raise DataError(
            f"{name} must hold 0 (train), 1 (val), 2 (test) or -1 for each of {nodes.num:,} nodes, a row for each "
            f"split, got {split_SN.dtype} of {split_SN.shape}."
        )
    if index is not None:
        if not 0 <= index < len(split_SN):
            raise InputError(f"{name} has {len(split_SN)} splits, 0 to {len(split_SN) - 1}; there is no {index}.")
        split_SN = split_SN[index : index + 1]
    return split_SN.astype(np.int8)


def _by_place(split: Any, nodes: Nodes, name: str) -> np.ndarray:
    """The array that it is, numbers in the place of words, one for each node."""
    found = np.asarray(split)
    if found.shape == (nodes.num, 1):
        found = found[:, 0]
    values = found.tolist() if found.shape == (nodes.num,) and found.dtype.kind in "OUT" else []
    if not any(isinstance(one, str) for one in values):
        return found
    number_of = {word: number for number, word in enumerate(SPLITS)}
    given = (number_of.get(one, one) if isinstance(one, str) else one for one in values)
    numbers = [one if is_class(one) else -1 for one in given]
    if unknown := [one for one in numbers if one not in (-1, 0, 1, 2)]:
        raise DataError(f"{name} has a part {unknown[0]!r}; parts are {', '.join(SPLITS)}.")
    return np.array(numbers, np.int8)


def _load(path: Path) -> np.ndarray:
    try:
        # opened here, as np.load leaves a file open when it fails within
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return np.asarray(stored["split"])
    except Exception as error:  # zipfile, zlib and the header parser each have errors of their own
        raise DataError(f"{path.name} cannot be read as splits: it needs an array named split; check it.") from error


def _chosen(given: Any, nodes: Nodes, name: str) -> np.ndarray:
    """Rows of the nodes of a part."""
    if (names := by_node_mask(given)) is not None:
        return nodes.rows(names, name)
    chosen = np.asarray(given)
    if chosen.dtype == bool:
        if chosen.shape != (nodes.num,):
            raise DataError(f"{name} has a mask of {chosen.shape}, not one of {nodes.num:,} nodes.")
        return np.flatnonzero(chosen)
    names = chosen.ravel().tolist()
    if all(isinstance(one, str) for one in names):
        return nodes.rows(names, name)
    if not all(isinstance(one, int) for one in names):
        raise DataError(
            f"{name} must give the nodes of a part as whole numbers, as names, or as a mask of {nodes.num:,} nodes; "
            f"got {chosen.dtype} of {chosen.shape}."
        )
    if nodes.keys is not None and nodes.are_integers:
        return nodes.rows([str(one) for one in names], name)
    return nodes.rows_of_ids(np.array(names, np.int64), name)


def _of_parts(parts: Mapping[str, np.ndarray], nodes: Nodes, name: str) -> np.ndarray:
    """int8 (N,), of rows by part."""
    if unknown := set(parts) - set(SPLITS):
        raise DataError(f"{name} has a part {min(unknown)!r}; parts are {', '.join(SPLITS)}.")
    split_N = np.full(nodes.num, -1, np.int8)
    for part, rows in parts.items():
        if (split_N[rows] >= 0).any() or len(np.unique(rows)) != len(rows):
            raise DataError(f"{name} has a node twice; each belongs to train, val or test.")
        split_N[rows] = SPLITS.index(part)
    return split_N

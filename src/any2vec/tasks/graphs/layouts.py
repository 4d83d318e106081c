"""Graphs of several types of nodes and edges laid behind each other: of PyTorch Geometric's `HeteroData`, and of OGB's
raw files. No library is imported: objects tell by their attributes.

Legend: N nodes in all, K of one type, D features.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from any2vec.data.attributed.graph import SPLITS
from any2vec.data.attributed.tensors import as_numpy
from any2vec.data.io.arrow import read_numbers
from any2vec.errors import DataError
from any2vec.tasks.graphs.edges import NO_TYPES, EdgeSource
from any2vec.tasks.graphs.nodes import Nodes
from any2vec.tasks.layers.prepare import OpenFeatures

_NO_WEIGHTS = np.empty(0, np.float32)
_RAW_SPLITS = dict(zip(SPLITS, ("train", "valid", "test"), strict=True))
"""part -> name of OGB's file"""

_ALL = "the graph"
"""the one type of nodes of a graph without types"""


@dataclass
class _Layout:
    """Parts by type of nodes."""

    name: str
    sizes: dict[str, int]
    """type -> K, in the order in which they are laid"""
    features: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, np.ndarray] = field(default_factory=dict)
    masks: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    """part of the split -> type -> bool (K,)"""
    edges: dict[str, tuple[str, str, np.ndarray]] = field(default_factory=dict)
    """relation -> (type of sources, type of targets, integers (2, edges))"""

    def source(self, has_labels: bool = True, has_split: bool = True) -> tuple[EdgeSource, dict[str, Any]]:
        """(the edges, and features, and labels and split where they are to come along and there are some)."""
        own: dict[str, Any] = {"features": None, "labels": self._labels() if has_labels else None}
        own["split"] = self._split() if has_split else None
        if self.features:
            own["features"] = OpenFeatures(None, StackedFeatures(self.sizes, self.features, self.name), self.name)
        for relation, (src, dst, ends) in self.edges.items():
            self._check(relation, src, dst, ends)
        edges = EdgeSource(
            Nodes(sum(self.sizes.values())), self.pieces(), True, self.name, list(self.edges), self.sizes
        )  # fmt: skip
        return edges, own

    def _starts(self) -> dict[str, int]:
        ends = np.cumsum(list(self.sizes.values()))
        return {kind: int(end) - size for (kind, size), end in zip(self.sizes.items(), ends, strict=True)}

    def pieces(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        starts = self._starts()
        for number, (src, dst, ends) in enumerate(self.edges.values()):
            rows = [(end + starts[kind]).astype(np.int32) for end, kind in zip(ends, (src, dst), strict=True)]
            yield rows[0], rows[1], _NO_WEIGHTS, np.full(len(rows[0]), number, np.int32)

    def _check(self, relation: str, src: str, dst: str, ends: np.ndarray) -> None:
        if ends.ndim != 2 or len(ends) != 2 or ends.dtype.kind not in "iu":
            raise DataError(f"{self.name}: edges of {relation} need whole numbers of shape (2, edges).")
        for row, kind in zip(ends, (src, dst), strict=True):
            if kind not in self.sizes or (len(row) and not 0 <= int(row.min()) <= int(row.max()) < self.sizes[kind]):
                num = self.sizes.get(kind, 0)
                raise DataError(f"{self.name}: edges of {relation} lead outside the {num:,} nodes of {kind}.")

    def _labels(self) -> np.ndarray | None:
        if not self.labels:
            return None
        if len(self.labels) > 1:
            raise DataError(
                f"{self.name} has classes of {', '.join(self.labels)}; a network learns those of one type of nodes: "
                "give labels of your own, one a node."
            )
        ((kind, given),) = self.labels.items()
        given = np.atleast_1d(given[:, 0] if given.ndim == 2 and given.shape[1] == 1 else given)
        if len(given) != self.sizes[kind]:
            raise DataError(f"{self.name} has {len(given):,} classes for {self.sizes[kind]:,} nodes of {kind}.")
        if given.dtype.kind == "f":
            given = np.where(np.isnan(given), -1, given) if given.ndim == 1 else given
            if not (given == np.floor(given)).all():
                raise DataError(f"{self.name} has classes of {kind} that are no whole numbers; number them from 0.")
        start = self._starts()[kind]
        shape = (sum(self.sizes.values()), *given.shape[1:])
        found = np.full(shape, -1 if given.ndim == 1 else 0, np.int64)
        found[start : start + len(given)] = given
        return found

    def _split(self) -> dict[str, np.ndarray] | None:
        found, starts = {}, self._starts()
        for part, masks in self.masks.items():
            found[part] = np.zeros(sum(self.sizes.values()), bool)
            for kind, mask in masks.items():
                if mask.shape != (self.sizes[kind],) or mask.dtype != bool:
                    got = f"{mask.dtype} {mask.shape}"
                    raise DataError(
                        f"{self.name}: {part} masks of {kind} must be bool ({self.sizes[kind]},), got {got}."
                    )
                found[part][starts[kind] : starts[kind] + self.sizes[kind]] = mask
        return found or None


class StackedFeatures:
    """A matrix (N, D) of rows of several types, made when a piece is asked for. Where all types that have features have
    as many, these share the columns; else each type has columns of its own. What is not there is 0.
    """

    ndim = 2

    def __init__(self, sizes: Mapping[str, int], features: Mapping[str, Any], name: str) -> None:
        for kind, rows in features.items():
            if rows.ndim != 2 or rows.dtype.kind not in "fiub" or rows.shape[0] != sizes[kind]:
                raise DataError(f"{name}: features of {kind} must be numbers, a row for each of {sizes[kind]:,} nodes.")
        widths = {kind: rows.shape[1] for kind, rows in features.items()}
        self._is_shared = len(set(widths.values())) == 1
        columns = max(widths.values()) if self._is_shared else sum(widths.values())
        self.shape, self._sizes, self._features = (sum(sizes.values()), columns), sizes, features

    def __getitem__(self, rows: slice) -> np.ndarray:
        start, stop, _ = rows.indices(self.shape[0])
        found = np.zeros((max(0, stop - start), self.shape[1]), np.float32)
        first = column = 0
        for kind, size in self._sizes.items():
            if kind in self._features:
                low, high, width = max(start, first), min(stop, first + size), self._features[kind].shape[1]
                if low < high:
                    part = self._features[kind][low - first : high - first]
                    part = part.toarray() if sparse.issparse(part) else part
                    found[low - start : high - start, column : column + width] = part
                column += 0 if self._is_shared else width
            first += size
        return found


def of_hetero(data: Any, has_labels: bool, has_split: bool) -> tuple[EdgeSource, dict[str, Any]]:
    """Of a `HeteroData`: types of nodes in its order; relations `source__relation__target`; x, and y and masks where
    they are to come along.

    Raises:
        DataError: a type has no number of nodes, edges lead outside, or parts do not fit.
    """
    sizes = {}
    for kind in data.node_types:
        if data[kind].num_nodes is None:
            raise DataError(f"The PyG data does not tell how many nodes of {kind} there are; give them x or num_nodes.")
        sizes[kind] = int(data[kind].num_nodes)
    layout = _Layout("The PyG data", sizes)
    for kind in sizes:
        for name, parts in (("x", layout.features), ("y", layout.labels)):
            if (found := as_numpy(data[kind].get(name))) is not None:
                parts[kind] = found
        for part in SPLITS:
            if (mask := as_numpy(data[kind].get(f"{part}_mask"))) is not None:
                layout.masks.setdefault(part, {})[kind] = mask
    for src, relation, dst in data.edge_types:
        ends = as_numpy(data[src, relation, dst].get("edge_index"))
        if ends is None:
            raise DataError(f"The PyG data has no edge_index of {src}, {relation}, {dst}.")
        layout.edges[f"{src}__{relation}__{dst}"] = (src, dst, ends)
    return layout.source(has_labels, has_split)


def with_attribute(data: Any, name: str) -> list[str]:
    """Relations of a `HeteroData`, as `of_hetero` names them, whose edges have such an attribute."""
    return ["__".join(kind) for kind in data.edge_types if data[kind].get(name) is not None]


def is_ogb(source: Any) -> bool:
    """Whether it names a folder of OGB's raw files of a graph of which nodes are to be told."""
    if not isinstance(source, str | Path):
        return False
    raw = Path(source) / "raw"
    return any((raw / name).is_file() for name in ("edge.csv.gz", "triplet-type-list.csv.gz"))


def of_ogb(folder: Path, is_directed: bool) -> tuple[EdgeSource, dict[str, Any]]:
    """Of a folder with `raw` and `split`, as OGB's archives of node properties hold them; of several splits the first.

    Graphs of one type are directed or not, as asked for; of several types they are.

    Raises:
        DataError: a file is missing, cannot be read, or does not fit.
    """
    raw, name = folder / "raw", folder.name
    splits = sorted(path for path in (folder / "split").glob("*") if path.is_dir())
    if (raw / "edge.csv.gz").is_file():
        num = int(_numbers(raw / "num-node-list.csv.gz").sum())
        layout = _Layout(name, {_ALL: num}, edges={"edge.csv.gz": (_ALL, _ALL, _whole(raw / "edge.csv.gz").T)})
        places = {_ALL: ("", "")}
    else:
        header, sizes = read_numbers(raw / "num-node-dict.csv.gz", has_header=True)
        if len(sizes) != 1 or not (sizes >= 0).all() or not (sizes == np.floor(sizes)).all():
            raise DataError(f"{name}: num-node-dict.csv.gz should hold types of nodes, and how many there are of each.")
        layout = _Layout(name, {kind: int(size) for kind, size in zip(header, sizes[0], strict=True)})
        places = {kind: (f"/{kind}", kind) for kind in layout.sizes}
        triplets = read_numbers(raw / "triplet-type-list.csv.gz", is_text=True)[1]
        if triplets.shape[1] != 3:
            raise DataError(f"{name}: triplet-type-list.csv.gz should hold lines source,relation,target.")
        for src, relation, dst in triplets:
            edges = raw / "relations" / f"{src}___{relation}___{dst}" / "edge.csv.gz"
            layout.edges[f"{src}__{relation}__{dst}"] = (src, dst, _whole(edges).T)
    for kind, (of_raw, of_split) in places.items():
        for what, parts in (("node-feat", layout.features), ("node-label", layout.labels)):
            file = Path(f"{raw}/{what}{of_raw}/{what}.csv.gz") if of_raw else raw / f"{what}.csv.gz"
            if file.is_file():
                parts[kind] = _numbers(file).astype(np.float32 if what == "node-feat" else np.float64)
        for part, file_name in _RAW_SPLITS.items():
            file = splits[0] / of_split / f"{file_name}.csv.gz" if splits else folder
            if file.is_file():
                layout.masks.setdefault(part, {})[kind] = _mask(_whole(file)[:, 0], layout.sizes[kind], file)
    found, own = layout.source()
    if _ALL not in layout.sizes:
        return found, own
    src, dst = next(layout.pieces())[:2]
    return EdgeSource(found.nodes, [(src, dst, _NO_WEIGHTS, NO_TYPES)], is_directed, name), own


def _numbers(file: Path) -> np.ndarray:
    """float64 (rows, columns)."""
    return np.asarray(read_numbers(file)[1], np.float64)


def _whole(file: Path) -> np.ndarray:
    """int64 (rows, columns)."""
    found = _numbers(file)
    if not (found == np.floor(found)).all():
        raise DataError(f"{file.name} holds numbers that are not whole; it should hold places of nodes.")
    return found.astype(np.int64)


def _mask(rows: np.ndarray, num: int, file: Path) -> np.ndarray:
    if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < num:
        raise DataError(f"{file.parent.name}/{file.name} names nodes beyond the {num:,} that there are.")
    found = np.zeros(num, bool)
    found[rows] = True
    return found

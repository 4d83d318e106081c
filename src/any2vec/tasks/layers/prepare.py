"""From a graph, features, classes and a split to what a node classifier trains on.

Legend: N nodes, D features, T training nodes, X columns of the augmented features.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from any2vec.checks import is_missing
from any2vec.data.attributed.features import check_finite, open_matrix
from any2vec.data.attributed.graph import SPLITS
from any2vec.data.attributed.node_tables import (
    SPLIT_RANKS,
    columns_of_header,
    is_file_of_columns,
    labels_by_node,
    node_features,
    parts_by_node,
)
from any2vec.data.graph.augment import Features, augment, multiply, normalized_adjacency
from any2vec.data.graph.reader import open_graph
from any2vec.data.io.files import fingerprint
from any2vec.data.options import NodeOptions
from any2vec.data.vocab.user_keys import UserKeys
from any2vec.embeddings import Embeddings
from any2vec.errors import DataError, FormatError, InputError
from any2vec.evaluate.graph.logistic import PENALTIES, linear_models
from any2vec.evaluate.graph.nodes import in_order, read_labels
from any2vec.evaluate.reading import fields_of, mark_of, quoted, read_lines
from any2vec.models.layers.classifier import NodeClassifier, psi_of, row_sums_to_one
from any2vec.models.layers.ga_mlp import GAMLP
from any2vec.types import Stage

if TYPE_CHECKING:
    from any2vec.data.graph.graph import Graph
    from any2vec.data.options import GraphOptions

_SQUARE = 25.0
"""mean |x|^2 of the training nodes' augmented features after scaling: about that of Cora's as they come"""


@dataclass(frozen=True)
class PreparedNodes:
    """Nodes, ready to be trained on."""

    model: GAMLP
    options: NodeOptions
    keys: UserKeys
    adjacency: sparse.csr_array
    features: Features
    label_N: np.ndarray
    """int64 (N,): the class, -1 where there is none"""
    classes: list[str]
    rows: dict[str, np.ndarray]
    """rows of the nodes of each part of the split: train, val, test"""
    metadata: dict[str, Any]

    @cached_property
    def scaled(self) -> tuple[np.ndarray, float]:
        """(the training nodes' augmented features, float32 (T, X), scaled; the factor).

        Raises:
            DataError: they are all 0.
        """
        features = row_sums_to_one(self.features) if self.model.normalize == "row" else self.features
        x_TX = augment(self.adjacency, features, psi_of(self.model, self.options.psi), self.rows["train"])
        mean = float(np.einsum("ij,ij->i", x_TX, x_TX, dtype=np.float64).mean())
        if mean == 0:
            raise DataError(
                "All features of the training nodes and of their neighbors are 0: there is nothing to learn from."
            )
        if self.model.normalize == "none":
            return x_TX, 1.0
        factor = np.float32((_SQUARE / mean) ** 0.5)
        return x_TX * factor, float(factor)

    def accuracies(self, predicted_N: np.ndarray) -> dict[str, float | None]:
        """Share of the nodes of each part of the split whose class is the predicted one; None without nodes."""
        return {
            f"{name}_accuracy": float((predicted_N[rows] == self.label_N[rows]).mean()) if len(rows) else None
            for name, rows in self.rows.items()
        }


def prepare_nodes(
    model: GAMLP, data: Any, nodes: NodeOptions | None, graph: GraphOptions | None, cache_dir: Path | None,
    stage: Stage | None,
) -> PreparedNodes:  # fmt: skip
    """Read graph, features, classes and split.

    Raises:
        InputError: something is missing.
        DataError: they cannot be read, or do not go together.
    """
    options = nodes or NodeOptions()
    for name in ("features", "labels"):
        if getattr(options, name) is None:
            raise InputError(f"{model.name} learns classes of nodes from features: say where {name} are, --{name}.")
    opened = open_graph(data, graph, cache_dir, stage)
    given, labels = open_features(options.features), labels_by_node(options.labels)
    check_places(given, labels, "The labels")
    keys, features = read_features(given)
    row_of = {name: row for row, name in enumerate(keys.names)}
    adjacency = adjacency_of(opened, row_of)
    label_N, classes = _labels(labels, row_of)
    rows = _split(options.split, row_of, label_N)
    if not len(rows["train"]):
        raise DataError("The training split is empty: no node that has a class is to train; give some nodes `train`.")
    if len(trained := np.unique(label_N[rows["train"]])) == 1:
        raise DataError(
            f"All {len(rows['train']):,} training nodes have the class {classes[trained[0]]!r}; let nodes of two or "
            "more classes train."
        )
    num_features = features.shape[1]
    arrays = [np.ascontiguousarray(features)] if isinstance(features, np.ndarray) else [
        features.data, *(places.astype(np.int64) for places in (features.indptr, features.indices))
    ]  # fmt: skip
    metadata = {
        "kind": "nodes", "num_nodes": len(keys), "num_edges": opened.report.num_edges, "num_features": num_features,
        "num_classes": len(classes), **{f"num_{name}": len(rows[name]) for name in SPLITS},
        "digest": fingerprint(
            np.asarray(adjacency.indptr), np.asarray(adjacency.indices), np.asarray(adjacency.data), *arrays,
            label_N, *(rows[name] for name in SPLITS),
        ),
    }  # fmt: skip
    prepared = PreparedNodes(model, options, keys, adjacency, features, label_N, classes, rows, metadata)
    _ = prepared.scaled  # now, for logical hosts share it
    return prepared


def adjacency_of(graph: Graph, row_of: dict[str, int]) -> sparse.csr_array:
    """The normalized adjacency over rows of features; a node that the graph lacks has no edges.

    Raises:
        DataError: a node of the graph has no features.
    """
    row_V = np.fromiter((row_of.get(key, -1) for key in graph.keys), np.int64, len(graph.keys))
    if (row_V < 0).any():
        missing = int((row_V < 0).sum())
        first = graph.keys[int((row_V < 0).argmax())]
        raise DataError(
            f"{missing:,} of the graph's {len(row_V):,} nodes have no features (first: {first!r}; there are "
            f"{len(row_of):,} rows of features); give every node a row."
        )
    return normalized_adjacency(graph.csr, row_V, len(row_of))


def read_features(source: Any) -> tuple[UserKeys, Features]:
    """(keys, float32 (N, D)): of arrays the rows' numbers, of embeddings their keys.

    Raises:
        DataError: it cannot be read, is no matrix, or holds a NaN or an infinite number.
    """
    keys, matrix, name, are_integers, _ = open_features(source)
    with np.errstate(over="ignore"):
        features = matrix.astype(np.float32)
    check_finite(features.data if sparse.issparse(features) else features, name)
    names = [str(row) for row in range(features.shape[0])] if keys is None else list(keys)
    return UserKeys(names, are_integers=are_integers), features


class OpenFeatures(NamedTuple):
    """Features as they come: a .npy file's are mapped."""

    keys: Sequence[str] | None
    """None: rows are numbered"""
    matrix: Any
    """dense or sparse"""
    name: str
    """for messages"""
    are_integers: bool = True
    """the keys, as their user knows them"""
    is_table: bool = False
    """the keys are of a column or an index, beside which a list of classes may go by rows or by nodes"""


def open_features(source: Any) -> OpenFeatures:
    """Features of nodes, from a file or from memory.

    Raises:
        DataError: it cannot be read, or is no matrix.
    """
    name = str(source) if isinstance(source, str | Path) else "features"
    if isinstance(source, OpenFeatures):
        return source
    if isinstance(source, str | Path) and Path(source).suffix not in (".npy", ".npz"):
        if not Path(source).exists():
            raise DataError(f"There are no features {source}; give a .npy or .npz file, or vectors of any2vec.")
        try:
            source = Embeddings.load(source)
        except FormatError as error:
            if not is_file_of_columns(source):
                raise DataError(
                    "Features are a .npy or .npz file, a table (Parquet, Arrow, CSV), or vectors that any2vec reads. "
                    f"{error}"
                ) from error
    if isinstance(source, Embeddings):
        return OpenFeatures(
            source.keys.names, open_matrix(source.vectors, name), name, are_integers=source.keys.are_integers
        )
    if (found := node_features(source, name)) is not None:
        keys, matrix = found[0], open_matrix(found[1], name)
        if keys is None:
            return OpenFeatures(None, matrix, name)
        return OpenFeatures(keys.names, matrix, name, keys.are_integers, is_table=True)
    return OpenFeatures(None, open_matrix(source, name), name)


def check_places(features: OpenFeatures, given: Any, name: str) -> None:
    """Raise DataError where a list or an array may go by the rows of features or by their nodes, of another order."""
    is_by_place = not isinstance(given, str | Path | Mapping)
    if not (is_by_place and features.is_table and features.are_integers and features.keys is not None):
        return
    ids = [int(key) for key in features.keys]
    if ids != sorted(ids):
        raise DataError(
            f"{name} go by place and the rows of features by node, and not in order: a place may be a row or a node; "
            "give a dict by node, a table with a column node, or a Series whose index are the nodes."
        )


def named_labels(found: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """(class of each node, int64, -1 for none; the classes, as `read_labels` orders them) of names, (N,).

    None, NaN, -1 and "" are none.

    Raises:
        DataError: none has a class.
    """
    is_known = np.array([is_class(one) for one in found.tolist()], bool)
    if not is_known.any():
        raise DataError("The labels name no class of any node; give some nodes one.")
    names, label_P = np.unique(found[is_known].astype(str), return_inverse=True)
    classes = in_order(names.tolist())
    place_of = {name: place for place, name in enumerate(classes)}
    label_N = np.full(len(found), -1, np.int64)
    label_N[is_known] = np.array([place_of[name] for name in names.tolist()])[label_P]
    return label_N, classes


def is_class(name: Any) -> bool:
    """Whether it is a class: not None, NaN, -1 or nothing."""
    return not is_missing(name) and name == name and name not in (-1, "")


def _labels(source: Any, row_of: dict[str, int]) -> tuple[np.ndarray, list[str]]:
    """(class of each node, -1 for none; names of the classes)."""
    label_N = np.full(len(row_of), -1, np.int64)
    if isinstance(source, Mapping):
        rows = _rows([str(node) for node in source], row_of, "The labels")
        given = np.full(len(row_of), None, object)
        given[rows] = list(source.values())
        label_N, classes = _labels(given, row_of)
    elif not isinstance(source, str | Path):
        found = np.asarray(source)
        if found.shape == label_N.shape and found.dtype.kind in "OUT":
            return named_labels(found)
        if found.shape != label_N.shape or found.dtype.kind not in "iu" or (found < -1).any():
            raise DataError(
                f"labels must be whole numbers from 0 (-1 for none) or names (None for none), one for each of "
                f"{len(label_N):,} nodes, got {found.dtype} of {found.shape}."
            )
        names, label = np.unique(found[found >= 0], return_inverse=True)
        label_N[found >= 0] = label
        classes = [str(name) for name in names.tolist()]
    else:
        nodes, classes, truth = read_labels(Path(source))
        several = np.flatnonzero(truth.sum(axis=1) != 1)
        if len(several):
            raise DataError(f"{Path(source).name}: node {nodes[several[0]]!r} has several classes; give each node one.")
        label_N[_rows(nodes, row_of, Path(source).name)] = truth.argmax(axis=1)
    if len(classes) < 2:
        raise DataError(f"There are {len(classes)} classes in the labels; a classifier needs two or more.")
    return label_N, classes


def _split(source: Any, row_of: dict[str, int], label_N: np.ndarray) -> dict[str, np.ndarray]:
    """Rows of each part. Without a split all labeled nodes train."""
    if source is None:
        return {"train": np.flatnonzero(label_N >= 0), "val": np.empty(0, np.int64), "test": np.empty(0, np.int64)}
    named = read_split(source) if isinstance(source, str | Path) else parts_by_node(source)
    if named is not None:
        where = Path(source).name if isinstance(source, str | Path) else "The split"
        rows = {name: _rows(nodes, row_of, where) for name, nodes in named.items()}
    else:
        if unknown := {str(name) for name in source} - set(SPLITS):
            raise DataError(f"The split has a part {min(unknown)!r}; parts are {', '.join(SPLITS)}.")
        rows = {name: np.asarray(source.get(name, ()), np.int64) for name in SPLITS}
        for name, part in rows.items():
            if part.size and not 0 <= int(part.min()) <= int(part.max()) < len(label_N):
                raise DataError(f"The split {name} has rows beyond the {len(label_N):,} nodes.")
    every = np.concatenate(list(rows.values()))
    if len(np.unique(every)) != len(every):
        raise DataError("A node is in the split twice; each belongs to train, val or test.")
    if (label_N[every] < 0).any():
        keys = list(row_of)
        node = keys[int(every[(label_N[every] < 0).argmax()])]
        raise DataError(f"Node {node!r} is in the split and has no class; label it, or leave it out of the split.")
    return rows


def read_split(path: str | Path) -> dict[str, list[str]]:
    """Nodes by part, of a file of lines `node train|val|test`; a first line may name its columns (`node,split`).

    Raises:
        DataError: it cannot be read, or a line is another; file and line.
    """
    parts: dict[str, list[str]] = {name: [] for name in SPLITS}
    is_first, columns = True, None
    for number, line in read_lines(path):
        if line.startswith("#"):
            continue
        fields = fields_of(line, mark_of(line))
        may_name, is_first = is_first and set(SPLITS).isdisjoint(fields), False
        if may_name and (columns := columns_of_header(fields, SPLIT_RANKS, Path(path).name)) is not None:
            continue
        if columns is not None:
            node, values = columns.of(fields)
            fields = [node, *values]
        fields = [field for field in fields if field]
        if len(fields) != 2 or fields[1] not in SPLITS:
            raise DataError(f"{Path(path).name}, line {number:,}: expected `node train|val|test`, got {line!r}.")
        parts[fields[1]].append(fields[0])
    return parts


def _rows(nodes: Sequence[str], row_of: dict[str, int], name: str) -> np.ndarray:
    found = np.fromiter((row_of.get(node, -1) for node in nodes), np.int64, len(nodes))
    if (found < 0).any():
        node = nodes[int((found < 0).argmax())]
        raise DataError(f"{name}: node {node!r} has no features (there are {len(row_of):,} rows of them).")
    return found


def answer_nodes(
    classifier: NodeClassifier, data: Any, features: Any, graph: GraphOptions | None = None
) -> tuple[UserKeys, np.ndarray, np.ndarray]:
    """(keys, vectors float32 (N, width), scores of the classes (N, C)) of a graph's nodes, new ones or old.

    Inductive: the graph need not be that of the training, its features mean the same.

    Raises:
        DataError, InputError: as for training.
    """
    opened = open_graph(data, graph, None, None)
    keys, found = read_features(features)
    return keys, *classifier.answer(adjacency_of(opened, {name: row for row, name in enumerate(keys.names)}), found)


def stored_options(options: NodeOptions, folder: Path) -> NodeOptions:
    """The options, all that is in memory in files of a folder."""
    found: dict[str, Any] = {}
    labels, parts = labels_by_node(options.labels), parts_by_node(options.split)
    is_in_memory = options.features is not None and not isinstance(options.features, str | Path)
    features = open_features(options.features) if is_in_memory else None
    keys = None if features is None else features.keys
    if features is not None:
        check_places(features, labels, "The labels")
        found["features"] = _store_features(features, folder)
    if labels is not None and not isinstance(labels, str | Path):
        found["labels"] = _store_lines(folder / "labels.tsv", list(_label_lines(labels, keys)))
    if parts is None and isinstance(options.split, dict):
        parts = {part: [_name(keys, row) for row in rows] for part, rows in options.split.items()}
    if parts is not None:
        lines = [f"{quoted(name)}\t{part}\n" for part, names in parts.items() for name in names]
        found["split"] = _store_lines(folder / "split.tsv", lines)
    return replace(options, **found)


def _label_lines(labels: Any, keys: Sequence[str] | None) -> Iterator[str]:
    by_node = labels.items() if isinstance(labels, Mapping) else enumerate(np.asarray(labels).tolist())
    for node, label in by_node:
        if is_class(label):
            if len(str(label).split()) != 1:
                raise InputError(f"A class that goes to other processes is one word; got {label!r}.")
            name = str(node) if isinstance(labels, Mapping) else _name(keys, node)
            yield f"{quoted(name)}\t{quoted(str(label))}\n"


def _name(keys: Sequence[str] | None, row: int) -> str:
    return str(row) if keys is None else keys[row]


def _store_features(features: OpenFeatures, folder: Path) -> Path:
    if features.keys is not None:
        Embeddings(UserKeys(features.keys, features.are_integers), features.matrix).save(folder / "features")
        return folder / "features"
    if sparse.issparse(features.matrix):
        sparse.save_npz(folder / "features.npz", sparse.csr_array(features.matrix))
        return folder / "features.npz"
    np.save(folder / "features.npy", features.matrix)
    return folder / "features.npy"


def _store_lines(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(lines), encoding="utf-8")
    return path


def probe_accuracies(prepared: PreparedNodes) -> dict[str, float | None]:
    """Accuracies of each part of the split, of the penalty that is best on the validation nodes (without any: C = 1).

    Among equally good ones the strongest. Memory O(N P C).
    """
    x_TX, scale = prepared.scaled
    model = prepared.model
    w_XPC, b_PC = linear_models(x_TX, prepared.label_N[prepared.rows["train"]], len(prepared.classes))
    features = row_sums_to_one(prepared.features) if model.normalize == "row" else prepared.features
    psi = psi_of(model, prepared.options.psi)
    w_XO = w_XPC.reshape(len(w_XPC), -1) * np.float32(scale)
    score_NPC = multiply(prepared.adjacency, features, psi, w_XO).reshape(-1, *b_PC.shape) + b_PC
    found = [prepared.accuracies(score_NPC[:, place].argmax(axis=1)) for place in range(len(PENALTIES))]
    if not len(prepared.rows["val"]):
        return found[PENALTIES.index(1.0)]
    return max(found, key=lambda accuracies: accuracies["val_accuracy"] or 0.0)

"""The attributed graph: in-neighbors as compressed sparse rows, with features, classes and splits of the nodes beside.

On disk, a folder; every array is a .npy file with a header of 128 bytes, mapped when the folder is opened:
    meta.json        {"format": "any2vec-attributed-graph", "version", "is_directed", "num_edges", "classes",
                     "integer_keys", "relations": names of the edge types, "node_types": [[name, how many], ...],
                     "arrays": {name: {"dtype", "shape", "blake2b"}}}
    indptr, indices  int64 (N + 1,), int32 (E,): row v holds the sources of the edges into v, ascending
    weights          float32 (E,); edge_types int32 (E,); each where there are any
    edge_features    float32 or float16 (E, K), where there are any: then the version is 2, else 1
    out_indptr, out_indices, out_entries: rows of targets, and the place of each entry in `indices`, int64, where kept
    features         float32, float16 or int8 (N, D); scales float32 (N,) of int8
    labels           int32 (N,), -1 for none; or uint8 (N, C), several classes a node
    splits           int8 (S, N): 0 train, 1 val, 2 test, -1 none
    words, offsets   uint8, int64 (N + 1,): the nodes' keys in UTF-8; without these files they are 0, 1, 2 ...
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.data.attributed.adjacency_file import AdjacencyFile
from any2vec.data.attributed.features import FeatureRows
from any2vec.data.attributed.row_file import RowFile
from any2vec.data.io.array_file import map_array
from any2vec.data.io.files import content_hash
from any2vec.data.io.storage import FileCheck, format_of_folder, read_meta
from any2vec.data.vocab.user_keys import INTEGERS
from any2vec.data.vocab.vocabulary import Keys
from any2vec.errors import FormatError, InputError
from any2vec.types import Csr

FORMAT = "any2vec-attributed-graph"
VERSION = 2
SPLITS = ("train", "val", "test")
"""parts, by their number in `splits`"""
MAX_RELATIONS = 1 << 20
"""types of edges that have no names"""
_DTYPES: dict[str, tuple[str, ...]] = {
    "indptr": ("int64",), "indices": ("int32",), "weights": ("float32",), "edge_types": ("int32",),
    "out_indptr": ("int64",), "out_indices": ("int32",), "out_entries": ("int64",),
    "edge_features": ("float32", "float16"), "features": ("float32", "float16", "int8"), "scales": ("float32",),
    "labels": ("int32", "uint8"), "splits": ("int8",), "words": ("uint8",), "offsets": ("int64",),
}  # fmt: skip


class AttributedGraph:
    """A graph folder, mapped; `any2vec.write_graph` makes one.

    `csr` are the in-neighbors, `edge_types` int32 (E,) or (0,), `relations` their names, `edge_features` a
    `FeatureRows` of a row for each entry, or None, `features` one of the nodes or None, `labels` int32 (N,) (-1: none),
    uint8 (N, C), or None, `classes` their names, `splits` int8 (S, N), S = 0 without.
    """

    def __init__(self, folder: Path, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        self.folder = folder
        self.metadata = meta
        self.is_directed: bool = meta["is_directed"]
        self.classes: list[str] = list(meta["classes"])
        self.num_edges: int = meta["num_edges"]
        """distinct edges; an undirected one counts once"""
        floats, none = np.empty(0, np.float32), np.empty(0, np.int32)
        self.csr = Csr(arrays["indptr"], arrays["indices"], arrays.get("weights", floats))
        self.edge_types = arrays.get("edge_types", none)
        self.node_types = {name: int(num) for name, num in meta.get("node_types", ())}
        """name -> how many: nodes of a type stand together, in this order; empty: they are of one"""
        self.features = None
        if "features" in arrays:
            self.features = FeatureRows(arrays["features"], arrays.get("scales", floats))
        self.edge_features = None
        if "edge_features" in arrays:
            self.edge_features = FeatureRows(arrays["edge_features"], floats)
        self.labels = arrays.get("labels")
        self.splits = arrays.get("splits", np.empty((0, len(self)), np.int8))
        self.keys: Sequence[str] = _Numbers(len(self), meta.get(INTEGERS) is not False)
        if "words" in arrays:
            self.keys = Keys(arrays["words"], arrays["offsets"], meta.get(INTEGERS) is True)
        self._arrays = arrays

    def __len__(self) -> int:
        return len(self.csr.indptr) - 1

    def __repr__(self) -> str:
        return f"AttributedGraph({len(self):,} nodes, {self.num_edges:,} edges, {self.num_features:,} features)"

    @cached_property
    def relations(self) -> list[str]:
        """Names of the edge types; empty: there are none. FormatError: they have no names, and are too many."""
        if names := self.metadata.get("relations"):
            return list(names)
        most = int(self.edge_types.max()) if len(self.edge_types) else -1
        if most >= MAX_RELATIONS:
            raise FormatError(f"{self.folder} is damaged (it has edges of type {most:,}); build it again.")
        return [str(number) for number in range(most + 1)]

    @property
    def num_features(self) -> int:
        return 0 if self.features is None else self.features.row_ND.shape[1]

    @property
    def num_edge_features(self) -> int:
        return 0 if self.edge_features is None else self.edge_features.columns

    @property
    def out_csr(self) -> Csr:
        """The out-neighbors.

        Raises:
            InputError: they are not kept.
        """
        if "out_indptr" not in self._arrays:
            raise InputError(f"{self.folder} holds no out-neighbors; build it with --out-neighbors (or in Python).")
        weights = self.csr.weights
        if len(weights):
            weights = weights[self._arrays["out_entries"]]
        return Csr(self._arrays["out_indptr"], self._arrays["out_indices"], weights)

    def rows(self, part: str, split: int = 0) -> np.ndarray:
        """int64 (K,): nodes of train, val or test.

        Raises:
            InputError: there is no such part, or split.
        """
        if part not in SPLITS or not 0 <= split < len(self.splits):
            raise InputError(
                f"{self.folder} has {len(self.splits)} splits of {', '.join(SPLITS)}; got {part!r} of split {split}."
            )
        return np.flatnonzero(self.splits[split] == SPLITS.index(part))

    def open_features(self) -> RowFile:
        """The rows of features as a file, read past the page cache.

        Raises:
            InputError: there are none. StorageError: the file cannot be opened.
        """
        if self.features is None:
            raise InputError(f"{self.folder} holds no features; build it with --features.")
        rows = self.features.row_ND
        return RowFile(self.folder / "features.npy", rows.dtype, *rows.shape)

    def open_adjacency(self) -> AdjacencyFile:
        """The lists of in-neighbors as a file, read past the page cache. StorageError: it cannot be opened."""
        return AdjacencyFile(self.folder / "indices.npy", len(self.csr.indices), len(self))

    def check_edges(self) -> None:
        """Read all edges, once: kernels trust them.

        Raises:
            FormatError: they lead outside the nodes.
        """
        indptr, indices = self.csr.indptr, self.csr.indices
        if (indptr[1:] < indptr[:-1]).any() or (
            len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < len(self)
        ):
            raise FormatError(f"{self.folder} is damaged (edges lead outside its nodes); build it again.")
        self._check_types()

    def _check_types(self) -> None:
        types = self.edge_types
        if len(types) and not 0 <= int(types.min()) <= int(types.max()) < len(self.relations):
            raise FormatError(f"{self.folder} is damaged (edges are of types that it has not); build it again.")

    def check_labels(self) -> None:
        """Read all labels, once: a loss trusts them.

        Raises:
            FormatError: they are of classes that are not there.
        """
        labels = self.labels
        if (
            labels is not None
            and labels.ndim == 1
            and not -1 <= int(labels.min()) <= int(labels.max()) < len(self.classes)
        ):
            raise FormatError(f"{self.folder} is damaged (labels are of classes that it has not); build it again.")

    def check(self) -> list[FileCheck]:
        """Every file, read whole and compared with its checksum."""
        found = []
        for name, known in self.metadata["arrays"].items():
            path = self.folder / f"{name}.npy"
            is_sound = content_hash(path) == known["blake2b"]
            found.append(FileCheck(path.name, path.stat().st_size, "" if is_sound else "its checksum is another"))
        return found

    def describe(self) -> dict[str, Any]:
        """What the folder holds, JSON-ready. FormatError: edges are of types that it has not."""
        csr, arrays = self.csr, self._arrays
        degrees = np.diff(csr.indptr)
        named = {
            name: [int((split == part).sum()) for split in self.splits] for part, name in enumerate(SPLITS)
        }  # fmt: skip
        labeled = 0
        if self.labels is not None:
            labeled = int((self.labels >= 0).sum() if self.labels.ndim == 1 else self.labels.any(axis=1).sum())
        return {
            "nodes": len(self), "edges": self.num_edges, "is_directed": self.is_directed,
            "is_weighted": len(csr.weights) > 0,
            "edge_types": len(self.relations), "relations": self._by_relation(), "node_types": self.node_types,
            "edge_features": self.num_edge_features,
            "has_out_neighbors": "out_indptr" in arrays, "mean_degree": len(csr.indices) / len(self),
            "most_degree": int(degrees.max()), "without_neighbors": int((degrees == 0).sum()),
            "features": self.num_features,
            "feature_type": None if self.features is None else str(self.features.row_ND.dtype),
            "classes": len(self.classes), "is_multi_label": self.labels is not None and self.labels.ndim == 2,
            "labeled": labeled, "splits": len(self.splits), **named,
            "total_bytes": sum(array.nbytes for array in arrays.values()), "folder": str(self.folder),
        }  # fmt: skip

    def _by_relation(self) -> dict[str, int]:
        """Entries of the adjacency by name of their type."""
        if not len(self.edge_types):
            return {}
        self._check_types()
        counts = np.bincount(self.edge_types, minlength=len(self.relations))
        return dict(zip(self.relations, counts.tolist(), strict=True))

    @classmethod
    def open(cls, folder: Path | str) -> AttributedGraph:
        """Open a folder that `any2vec graph build` wrote; sizes are checked, checksums are not (see `check`).

        Raises:
            FormatError: the folder is none, is newer than this version reads, or is damaged.
        """
        folder = Path(folder)
        meta = read_meta(folder, FORMAT, VERSION, "an attributed graph of any2vec")
        try:
            arrays = {name: _mapped(folder, name, known) for name, known in meta["arrays"].items()}
            if type(meta["num_edges"]) is not int or type(meta["is_directed"]) is not bool:
                raise TypeError("meta.json gives num_edges or is_directed of another type")
            if not all(isinstance(name, str) for name in meta["classes"]):
                raise TypeError("meta.json gives classes that are no names")
            if not all(isinstance(name, str) for name in meta.get("relations", ())):
                raise TypeError("meta.json gives relations that are no names")
            graph = cls(folder, meta, arrays)
        except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:
            reason = str(error).split("\n")[0]
            if isinstance(error, KeyError | FileNotFoundError):
                missing = error.args[0] if isinstance(error, KeyError) else Path(error.filename).name
                reason = f"{missing} is missing"
            raise FormatError(f"{folder} is damaged ({reason}); build it again.") from error
        if not graph._is_whole():
            raise FormatError(f"{folder} is damaged (its files do not fit together); build it again.")
        return graph

    def _is_whole(self) -> bool:
        num_nodes, csr, arrays = len(self), self.csr, self._arrays
        features = self.features
        return (
            num_nodes > 0
            and csr.indptr[0] == 0
            and csr.indptr[-1] == len(csr.indices)
            and len(csr.weights) in (0, len(csr.indices))
            and len(self.edge_types) in (0, len(csr.indices))
            and (self.edge_features is None or len(self.edge_features.row_ND) == len(csr.indices))
            and (not self.node_types or sum(self.node_types.values()) == num_nodes)
            and (features is None or len(features.row_ND) == num_nodes)
            and (features is None or len(features.scale_N) == num_nodes * (features.row_ND.dtype == np.int8))
            and (self.labels is None or self.labels.shape in ((num_nodes,), (num_nodes, len(self.classes))))
            and self.splits.shape[1] == num_nodes
            and ("words" not in arrays or len(arrays["offsets"]) == num_nodes + 1)
        )


class _Numbers(Sequence[str]):
    """Keys of nodes that are numbered, none of which is kept."""

    def __init__(self, num: int, are_integers: bool) -> None:
        self._rows, self.are_integers = range(num), are_integers

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row: Any) -> Any:
        return [str(one) for one in self._rows[row]] if isinstance(row, slice) else str(self._rows[row])


def version_of(arrays: Container[str]) -> int:
    """Of a folder of these arrays: the first one whose readers know them all."""
    return VERSION if "edge_features" in arrays else 1


def is_attributed(path: Any) -> bool:
    """Whether it names a folder of this format (of any version)."""
    return isinstance(path, str | Path) and format_of_folder(Path(path)) == FORMAT


def _mapped(folder: Path, name: str, known: dict[str, Any]) -> np.ndarray:
    dtype, shape = known["dtype"], tuple(known["shape"])
    if dtype not in _DTYPES[name] or not all(isinstance(size, int) and size >= 0 for size in shape):
        raise ValueError(f"{name} cannot be {dtype} of {shape}")
    if not isinstance(known["blake2b"], str):
        raise TypeError(f"meta.json gives a checksum of {name} that is none")
    return map_array(folder / f"{name}.npy", np.dtype(dtype).type, shape, "c")

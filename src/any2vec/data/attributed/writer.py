"""Writes the folder of an attributed graph: arrays as they come, then what is known of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.data.attributed.edge_features import EntryRows, GivenRows
from any2vec.data.attributed.entries import EntrySorter, RowsOf, transposed
from any2vec.data.attributed.features import feature_chunks
from any2vec.data.attributed.graph import FORMAT, version_of
from any2vec.data.io.array_file import ArrayFile, map_array
from any2vec.data.io.files import content_hash
from any2vec.data.io.storage import write_json
from any2vec.data.vocab.user_keys import INTEGERS
from any2vec.data.vocab.vocabulary import Keys
from any2vec.errors import DataError


class GraphWriter(ExitStack):
    """Arrays in a folder that is being made (inside an `atomic_folder`); files are closed at its end."""

    def __init__(self, folder: Path, num_nodes: int) -> None:
        super().__init__()
        self.folder, self.num_nodes = folder, num_nodes
        self.arrays: dict[str, dict[str, Any]] = {}

    def put(self, name: str, array: np.ndarray) -> None:
        """One array, whole."""
        self._close(name, self._open(name, array.dtype.type, array.shape[1:]), [array])

    def put_features(self, matrix: Any, kind: str, name: str) -> None:
        """Features, some rows at a time. As `feature_chunks`."""
        rows = self._open("features", np.dtype(kind).type, (matrix.shape[1],))
        scales = self._open("scales", np.float32, ()) if kind == "int8" else None
        for kept, scale in feature_chunks(matrix, kind, name):
            rows.append(kept)
            if scales is not None:
                scales.append(scale)
        self._close("features", rows)
        if scales is not None:
            self._close("scales", scales)

    def put_keys(self, keys: Sequence[str]) -> None:
        """The nodes' keys."""
        packed = Keys.of(keys)
        self.put("words", packed.arena)
        self.put("offsets", packed.offsets)

    def put_edges(
        self, edges: EntrySorter, out_neighbors: bool, name: str, features: GivenRows | None = None,
        rows_of: RowsOf | None = None,
    ) -> int:  # fmt: skip
        """The adjacency, and what is in between removed. How many edges there are, an undirected one counts once.

        features: of the edges, in their order; of equal ones the mean is kept. rows_of: as of `EntrySorter.sorted`.

        Raises:
            DataError: there are none, or weights of equal ones add up to infinity; there are not as many rows of
                features, or these hold what is no number.
        """
        if not edges.num_edges:
            raise DataError(f"{name} holds no edges; give at least one.")
        if features is not None and features.matrix.shape[0] != edges.num_edges:
            raise DataError(
                f"{features.name} has {features.matrix.shape[0]:,} rows for {edges.num_edges:,} edges; give one an "
                "edge, in the order of the edges."
            )
        count_N, loops = np.zeros(self.num_nodes, np.int64), 0
        files = {"indices": self._open("indices", np.int32, ())}
        rows_file = None
        if features is not None:
            rows_file = self._open("edge_features", np.dtype(features.kind).type, (features.matrix.shape[1],))
        for part in edges.sorted(rows_of):
            if features is not None and rows_file is not None:
                made = EntryRows(features.matrix, part.numbers, part.first)
                for kept, _ in feature_chunks(made, features.kind, features.name):
                    rows_file.append(kept)
            arrays = {"indices": part.columns, "weights": part.weights, "edge_types": part.types}
            for array, values in arrays.items():
                if len(values) and array not in files:
                    files[array] = self._open(array, values.dtype.type, ())
                if len(values):
                    files[array].append(values)
            if not np.isfinite(part.weights).all():
                raise DataError(f"{name} holds equal edges whose weights add up beyond float32; scale them down.")
            count_N[part.rows] = part.counts
            loops += 0 if edges.is_directed else int((np.repeat(part.rows, part.counts) == part.columns).sum())
        for array, file in files.items():
            self._close(array, file)
        if rows_file is not None:
            self._close("edge_features", rows_file)
        edges.close()
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(count_N)])
        self.put("indptr", indptr)
        total = int(indptr[-1])
        if out_neighbors:
            self._put_out(indptr, map_array(self.folder / "indices.npy", np.int32, (total,)))
        return total if edges.is_directed else (total - loops) // 2 + loops

    def _put_out(self, indptr: np.ndarray, indices: np.ndarray) -> None:
        count_N = np.zeros(self.num_nodes, np.int64)
        targets, entries = self._open("out_indices", np.int32, ()), self._open("out_entries", np.int64, ())
        for sources, rows, places in transposed(indptr, indices):
            np.add.at(count_N, sources, 1)
            targets.append(rows)
            entries.append(places)
        self._close("out_indices", targets)
        self._close("out_entries", entries)
        self.put("out_indptr", np.concatenate([np.zeros(1, np.int64), np.cumsum(count_N)]))

    def finish(
        self, is_directed: bool, num_edges: int, classes: Sequence[str], relations: Sequence[str] = (),
        node_types: Mapping[str, int] | None = None, are_integers: bool = True,
    ) -> None:  # fmt: skip
        """Write meta.json, with a checksum of each file; are_integers: the nodes' keys, as their user knows them."""
        for name, known in self.arrays.items():
            known["blake2b"] = content_hash(self.folder / f"{name}.npy")
        meta: dict[str, Any] = {"format": FORMAT, "version": version_of(self.arrays), INTEGERS: are_integers}
        meta |= {"is_directed": is_directed, "num_edges": num_edges}
        meta |= {"relations": list(relations)} if relations else {}
        meta |= {"node_types": [[name, num] for name, num in node_types.items()]} if node_types else {}
        write_json(self.folder / "meta.json", meta | {"classes": list(classes), "arrays": self.arrays})

    def _open(self, name: str, dtype: type, row: tuple[int, ...]) -> ArrayFile:
        file = ArrayFile(self.folder / f"{name}.npy", dtype, row)
        self.callback(file.file.close)
        return file

    def _close(self, name: str, file: ArrayFile, arrays: Sequence[np.ndarray] = ()) -> None:
        for array in arrays:
            file.append(array)
        file.close()
        self.arrays[name] = {"dtype": str(np.dtype(file.dtype)), "shape": [file.length, *file.row]}

"""The graph: compressed sparse rows with the users' ids beside them, and what was found while reading.

On disk, a folder:
    meta.json    {"format": "any2vec-graph", "version": 1, "is_directed", "integer_keys", "report": {...}}
    indptr.npy   int64 (num_nodes + 1,); indices.npy int32; weights.npy float32, (0,) when unweighted
    words.npy    uint8: the ids' UTF-8 bytes; offsets.npy int64 (num_nodes + 1,)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.data.io.storage import atomic_folder, format_of_folder, read_meta, write_json
from any2vec.data.vocab.user_keys import INTEGERS
from any2vec.data.vocab.vocabulary import Keys, open_array
from any2vec.errors import DataError, FormatError
from any2vec.types import Csr

FORMAT = "any2vec-graph"
VERSION = 1
MAX_NODES = (1 << 31) - 1
_ARRAYS = {"indptr": np.int64, "indices": np.int32, "weights": np.float32, "words": np.uint8, "offsets": np.int64}


@dataclass(frozen=True, kw_only=True)
class GraphReport:
    """What was found while reading a graph."""

    num_nodes: int
    num_edges: int
    """distinct edges; an undirected one counts once, self-loops are counted"""
    duplicates: int
    """edges given more than once (undirected: also as v u after u v), merged"""
    self_loops: int
    """kept, once each"""
    isolated: int
    """nodes without any edge"""
    is_weighted: bool
    ignored_columns: int = 0
    """columns of the edge list that were not read"""
    header: str = ""
    """the first line of the edge list, where it was taken as a header"""
    notes: list[str] = field(default_factory=list)
    """sentences for the user on how it was read"""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Graph:
    """Row r of `csr` is the node `keys[r]`. Integer ids are in ascending order, others in order of first appearance."""

    def __init__(self, csr: Csr, keys: Sequence[str], is_directed: bool, report: GraphReport) -> None:
        self.csr = csr
        self.keys = keys
        self.is_directed = is_directed
        self.report = report

    def __repr__(self) -> str:
        kind = "directed" if self.is_directed else "undirected"
        return f"Graph({kind}, {self.report.num_nodes:,} nodes, {self.report.num_edges:,} edges)"

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {key: row for row, key in enumerate(self.keys)}

    def row(self, key: str | int) -> int | None:
        """The row of the node `key`, or None; the first call builds an index, O(num_nodes)."""
        return self._rows.get(str(key))

    def save(self, folder: Path | str, overwrite: bool = False) -> None:
        """Write the graph to `folder`, atomically; overwrite: where a graph stands.

        Raises:
            StorageError: the folder is taken or cannot be written.
        """
        keys = Keys.of(self.keys)
        arrays = [*self.csr, keys.arena, keys.offsets]
        with atomic_folder(folder, overwrite, FORMAT) as temporary:
            for (name, kind), array in zip(_ARRAYS.items(), arrays, strict=True):
                np.save(temporary / f"{name}.npy", np.ascontiguousarray(array, kind))
            meta = {"format": FORMAT, "version": VERSION, "is_directed": self.is_directed, INTEGERS: keys.are_integers}
            write_json(temporary / "meta.json", meta | {"report": self.report.as_dict()})

    @classmethod
    def open(cls, folder: Path | str) -> Graph:
        """Open a graph folder, memory-mapped; sizes are checked, the entries are not.

        Raises:
            FormatError: the folder is not a graph, is newer than this version reads, or is damaged.
        """
        folder = Path(folder)
        meta = read_meta(folder, FORMAT, VERSION, "an any2vec graph")
        damaged = FormatError(f"{folder} is damaged; write it again.")
        arrays = {name: open_array(folder, name, kind, mode="c") for name, kind in _ARRAYS.items()}
        indptr, indices, offsets = arrays["indptr"], arrays["indices"], arrays["offsets"]
        try:
            names = {one.name for one in fields(GraphReport)}
            report = GraphReport(**{name: value for name, value in meta["report"].items() if name in names})
        except (KeyError, TypeError, AttributeError):
            raise damaged from None
        is_whole = (
            len(indptr) == len(offsets) == report.num_nodes + 1
            and indptr[0] == offsets[0] == 0
            and indptr[-1] == len(indices)
            and offsets[-1] == len(arrays["words"])
            and len(arrays["weights"]) in (0, len(indices))
            and isinstance(meta.get("is_directed"), bool)
        )
        if not is_whole:
            raise damaged
        csr, keys = Csr(indptr, indices, arrays["weights"]), Keys(arrays["words"], offsets)
        keys.are_integers = bool(meta[INTEGERS]) if INTEGERS in meta else _were_integers(keys)
        return cls(csr, keys, meta["is_directed"], report)


def _were_integers(keys: Keys) -> bool:
    """Whether a folder that does not say it holds integer ids: those stand in ascending order, plainly written."""
    try:
        ids = [int(key) for key in keys] if len(keys) and keys[0].lstrip("-").isdecimal() else []
    except ValueError:
        return False
    return bool(ids) and sorted(ids) == ids and all(map(str.__eq__, map(str, ids), keys))


def is_graph(path: Path | str) -> bool:
    """Whether `path` is a folder whose meta.json names the graph format (of any version)."""
    return format_of_folder(Path(path)) == FORMAT


def build_graph(
    src_E: np.ndarray,
    dst_E: np.ndarray,
    weights_E: np.ndarray | None,
    keys: Sequence[str],
    *,
    is_directed: bool,
    name: str,
    ignored_columns: int = 0,
    header: str = "",
    notes: Sequence[str] = (),
) -> Graph:
    """The graph of the edges src -> dst, int32 (E,) rows of `keys`; weights float32 (E,), finite and > 0, or None.

    Undirected edges are stored in both directions. Duplicates are merged: weights are added (in float64), except that
    a list which gives every undirected edge in both directions with equal weights is taken as just that. Linear time;
    memory 4 bytes an entry twice over.

    Raises:
        DataError: there are no edges.
    """
    if len(src_E) == 0:
        raise DataError(f"{name} holds no edges; give at least one.")
    weights = np.empty(0, np.float32) if weights_E is None else np.ascontiguousarray(weights_E, np.float32)
    src_E, dst_E = np.ascontiguousarray(src_E, np.int32), np.ascontiguousarray(dst_E, np.int32)
    num_nodes = len(keys)
    csr = None
    if not is_directed and len(weights):
        csr, loops = _compress(src_E, dst_E, weights, num_nodes, True)
        if not _is_mirrored(csr):
            csr = None
    if csr is None:
        csr, loops = _compress(src_E, dst_E, weights, num_nodes, is_directed)
    if len(csr.weights) and not np.isfinite(csr.weights).all():
        raise DataError(f"{name} holds duplicate edges whose weights add up beyond float32; scale the weights down.")
    if len(csr.weights) and (csr.weights == 1).all():
        csr = csr._replace(weights=np.empty(0, np.float32))
    num_edges = len(csr.indices) if is_directed else (len(csr.indices) - loops) // 2 + loops
    has_edge = np.diff(csr.indptr) > 0
    if is_directed:
        has_edge[csr.indices] = True
    report = GraphReport(
        num_nodes=num_nodes,
        num_edges=num_edges,
        duplicates=len(src_E) - num_edges,
        self_loops=loops,
        isolated=int(num_nodes - has_edge.sum()),
        is_weighted=len(csr.weights) > 0,
        ignored_columns=ignored_columns,
        header=header,
        notes=list(notes),
    )
    return Graph(csr, keys, is_directed, report)


def are_mirrored(src_E: np.ndarray, dst_E: np.ndarray, weights_E: np.ndarray, num_nodes: int) -> bool:
    """Whether a list gives every undirected edge in both directions, with equal weights; as `build_graph` takes it."""
    src_E, dst_E = np.ascontiguousarray(src_E, np.int32), np.ascontiguousarray(dst_E, np.int32)
    return _is_mirrored(_compress(src_E, dst_E, np.ascontiguousarray(weights_E, np.float32), num_nodes, True)[0])


def _compress(
    src_E: np.ndarray, dst_E: np.ndarray, weights_E: np.ndarray, num_nodes: int, is_directed: bool
) -> tuple[Csr, int]:
    """(rows ascending without duplicates, number of self-loops)."""
    from any2vec.kernels.graph import csr

    indptr, indptr_in = np.zeros(num_nodes + 1, np.int64), np.zeros(num_nodes + 1, np.int64)
    csr.count_ends(src_E, dst_E, is_directed, indptr, indptr_in)
    np.cumsum(indptr, out=indptr)
    np.cumsum(indptr_in, out=indptr_in)
    total = int(indptr[-1])
    heads, heads_weights = np.empty(total, np.int32), np.empty(total if len(weights_E) else 0, np.float32)
    csr.scatter(src_E, dst_E, weights_E, is_directed, indptr_in, heads, heads_weights)
    indices, weights = np.empty_like(heads), np.empty_like(heads_weights)
    csr.gather(indptr_in, heads, heads_weights, indptr, indices, weights)
    filled, loops = csr.merge_duplicates(indptr, indices, weights)
    if filled < total:
        indices, weights = indices[:filled].copy(), weights[:filled].copy()
    return Csr(indptr, indices, weights), int(loops)


def _is_mirrored(csr: Csr) -> bool:
    """Whether every edge has its reverse, with the same weight."""
    from any2vec.kernels.graph.csr import gather, transpose_pattern

    indptr, indices = transpose_pattern(csr.indptr, csr.indices)
    if not (np.array_equal(indptr, csr.indptr) and np.array_equal(indices, csr.indices)):
        return False
    weights = np.empty_like(csr.weights)
    gather(csr.indptr, csr.indices, csr.weights, csr.indptr, indices, weights)
    return bool(np.array_equal(weights, csr.weights))

"""Partitioners: node -> part, and what a partition costs. Pure and deterministic."""

from __future__ import annotations

import importlib.util
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from any2vec.checks import check_choice, check_whole
from any2vec.errors import InputError
from any2vec.plan.choices import MAX_PARTS, PARTITIONS
from any2vec.plan.sharding.sharding import contiguous_bounds
from any2vec.types import Csr

METIS_SEED = 1


@dataclass(frozen=True, kw_only=True)
class PartitionReport:
    """What a partition costs."""

    parts: int
    edge_cut: int
    """edges whose ends lie in two parts; an undirected one counts once"""
    cut_share: float
    """of all edges, 0..1"""
    balance: float
    """stored edges of the fullest part over those of the mean one, >= 1; 0 without edges"""
    nodes: tuple[int, ...]
    """of each part"""
    edges: tuple[int, ...]
    """of each part: entries of its rows (an undirected edge is an entry at either end)"""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def partition(csr: Csr, parts: int, method: str = "contiguous") -> np.ndarray:
    """The part of each node, int32 (N,), in [0, parts); a part may be empty where there are few nodes.

    contiguous: blocks of equal numbers of nodes in their order. hash: SplitMix64 of the node's number. metis: few edges
    between parts, stored edges balanced (Karypis and Kumar 1998, by the library METIS with a fixed seed; O(E) memory).

    Raises:
        InputError: an argument is not legal, or METIS is not installed.
    """
    check_whole("parts", parts, 1, MAX_PARTS)
    check_choice("partition", method, PARTITIONS)
    num_nodes = len(csr.indptr) - 1
    if method == "contiguous":
        return np.repeat(np.arange(parts, dtype=np.int32), np.diff(contiguous_bounds(num_nodes, parts)))
    return hashed_parts(num_nodes, parts) if method == "hash" else metis_partition(csr, parts)


def hashed_parts(num_nodes: int, parts: int) -> np.ndarray:
    """The part of each node by SplitMix64 of its number, int32 (N,)."""
    from any2vec.kernels.graph.partitioning import hash_parts

    part_N = np.empty(num_nodes, np.int32)
    hash_parts(parts, part_N)
    return part_N


def has_metis() -> bool:
    """Whether METIS is installed."""
    return importlib.util.find_spec("pymetis") is not None


def metis_partition(csr: Csr, parts: int) -> np.ndarray:
    """METIS's partition, int32 (N,): a directed graph is cut as if its edges had their reverse.

    Raises:
        InputError: METIS is not installed, or the graph is too large for its 32 bits, or has fewer nodes than parts.
    """
    num_nodes = len(csr.indptr) - 1
    if parts > num_nodes:
        raise InputError(f"METIS cannot cut {num_nodes} nodes into {parts} parts; give at most as many parts as nodes.")
    if parts == 1:
        return np.zeros(num_nodes, np.int32)
    check_metis()
    import pymetis

    from any2vec.kernels.graph.partitioning import plain_symmetric

    indptr, indices = plain_symmetric(csr.indptr, csr.indices)
    if len(indices) > np.iinfo(np.int32).max:
        raise InputError(
            f"METIS counts edges with 32 bits, and this graph has {len(indices):,} entries; choose another partition, "
            "partitioner or order of nodes than metis."
        )
    # One word a node and one an entry is what a part holds: the rows, not the nodes, are to be even.
    held = np.diff(csr.indptr).astype(np.int32) + 1
    options = pymetis.Options(seed=METIS_SEED)
    found = pymetis.part_graph(
        parts, pymetis.CSRAdjacency(indptr.astype(np.int32), indices), vweights=held, options=options
    )
    return np.asarray(found.vertex_part, np.int32)


def check_metis() -> None:
    """Raise InputError unless METIS is installed."""
    try:
        import pymetis  # noqa: F401
    except ImportError:
        raise InputError(
            "metis needs the package pymetis, which is not installed; in a clone: "
            "pip install -e '.[partition]', or choose another."
        ) from None


def report_partition(csr: Csr, part_N: np.ndarray, parts: int, *, is_directed: bool) -> PartitionReport:
    """Count what lies where. part_N: int32 (N,), in [0, parts). O(E) time, O(parts) memory."""
    from any2vec.kernels.graph.partitioning import count_parts

    nodes, entries = np.zeros(parts, np.int64), np.zeros(parts, np.int64)
    cut, loops = count_parts(csr.indptr, csr.indices, part_N, nodes, entries)
    stored = len(csr.indices)
    edges = stored if is_directed else (stored - loops) // 2 + loops
    edge_cut = cut if is_directed else cut // 2
    return PartitionReport(
        parts=parts,
        edge_cut=int(edge_cut),
        cut_share=edge_cut / edges if edges else 0.0,
        balance=float(entries.max() * parts / stored) if stored else 0.0,
        nodes=tuple(nodes.tolist()),
        edges=tuple(entries.tolist()),
    )

"""What the fullest host holds of an input that no host holds whole: a part of a graph, or of a text."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from any2vec.plan.cost.estimate import EDGE_READ_BYTES, RunShape
from any2vec.plan.sharding.graph import hashed_parts
from any2vec.plan.sharding.sharding import contiguous_bounds

TEXT = "text"
METIS_EDGE_BYTES = 45
METIS_NODE_BYTES = 240
"""that METIS takes while it cuts, measured with 0.1 to 0.2 M nodes and 0.6 to 3.9 M stored edges"""
METIS_BALANCE = 1.03
"""stored edges of METIS's fullest part over those of the mean one, at most, as it is asked by default"""


@dataclass(frozen=True, kw_only=True)
class HostPart:
    """The part of the host that holds most."""

    cut: str
    """contiguous, hash or metis: of a graph; text"""
    nodes: int = 0
    edges: int = 0
    """entries of its nodes' rows; 0 where only a shape is planned, which has no edges"""
    tokens: int = 0
    """of a text, ends of sentences included"""
    memory: dict[str, int] = field(default_factory=dict)
    """bytes of what a graph's part takes, by what it is; a text's tokens are mapped from a file"""
    reading_bytes: int = 0
    """that the first host of each machine needs for a while, before it trains, to read a graph whole, unless it is in
    the cache, and rank 0 for METIS to cut it; 0 for text, which nobody reads whole"""


def part_of_text(shape: RunShape, hosts: int) -> HostPart:
    """The part of a text: its bytes are cut evenly."""
    return HostPart(cut=TEXT, tokens=-(-shape.tokens // hosts))


def part_of_graph(
    shape: RunShape, indptr: np.ndarray | None, hosts: int, cut: str, *, round_slots: int, walkers_bytes: int
) -> HostPart:
    """The part of a graph. METIS is not asked: its parts are taken to be as uneven as it may make them.

    indptr: int64 (N + 1,), None where only a shape is planned; round_slots: of the walks that a host has made ahead of
    a round; walkers_bytes: of the walkers under way at a host. O(N) memory.
    """
    if indptr is None or cut == "metis":
        nodes_P = np.array([-(-shape.rows // hosts)])
        entries_P = np.array([-(-int(METIS_BALANCE * shape.edges) // hosts)])
    else:
        nodes_P, entries_P = _counted(indptr, hosts, cut)
    bytes_P = _part_bytes(shape, nodes_P, entries_P, hosts, cut)
    fullest = int(bytes_P.argmax())
    reading = shape.edges * EDGE_READ_BYTES + shape.key_bytes
    if cut == "metis":
        reading = max(reading, shape.edges * METIS_EDGE_BYTES + shape.rows * METIS_NODE_BYTES)
    memory = {"part of the graph": int(bytes_P[fullest]), "walks of a round": 4 * round_slots, "walkers": walkers_bytes}
    return HostPart(
        cut=cut, nodes=int(nodes_P[fullest]), edges=int(entries_P[fullest]), memory=memory, reading_bytes=reading
    )


def _counted(indptr: np.ndarray, hosts: int, cut: str) -> tuple[np.ndarray, np.ndarray]:
    """(nodes, entries of their rows) of each part, int64 (hosts,)."""
    if cut == "contiguous":
        bounds = contiguous_bounds(len(indptr) - 1, hosts)
        return np.diff(bounds), np.diff(indptr[bounds])
    part_N = hashed_parts(len(indptr) - 1, hosts)
    entries = np.bincount(part_N, weights=np.diff(indptr), minlength=hosts)  # float64: exact up to 2**53
    return np.bincount(part_N, minlength=hosts), entries.astype(np.int64)


def _part_bytes(shape: RunShape, nodes_P: np.ndarray, entries_P: np.ndarray, hosts: int, cut: str) -> np.ndarray:
    """Of the arrays of `sampling.parts.GraphPart`: rows, alias tables where weighted, and who owns which node."""
    map_bytes = 8 * (hosts + 1) if cut == "contiguous" else 16 * (shape.rows // 64 + 1)
    if cut == "metis":
        map_bytes += 2 * shape.rows
    per_entry, per_node = (16, 20) if shape.has_weights else (4, 12)
    return np.asarray(per_entry * entries_P + per_node * nodes_P + 8 + map_bytes, np.int64)

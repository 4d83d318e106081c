"""What a training run will need: memory, time and disk, from its sizes and the machine's rates. Pure arithmetic.

Memory is closed form; its few constants were measured on Linux with Python 3.11 and numba 0.68, kernels compiled before
(compiling them takes 50 to 90 MB more, once). Checked against runs by the row `estimate` of the benchmark: memory
within 15 %, time within 30 %.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from any2vec.errors import InputError
from any2vec.plan.cost.size import with_former
from any2vec.plan.sharding.graph import hashed_parts
from any2vec.plan.sharding.sharding import contiguous_bounds

BASE_BYTES = 80_000_000
"""anonymous memory of interpreter, NumPy, numba and the kernels, before the first array"""
LIBRARY_BYTES = 100_000_000
"""resident pages of mapped program code: NumPy, LLVM, Arrow"""
THREAD_BYTES = 2_000_000
"""stack, blocks of rows and tokens of one training thread"""
READ_BYTES = 14_000_000
"""blocks of text on their way from the file to the encoder"""
TYPE_BYTES = 96
"""of one different word while text is encoded: hash table, offset, count, order, with the room of doubling"""
ROW_BYTES = 40
"""of one row beside its vectors: count, alias table, probability of being kept, while they are made"""
EDGE_READ_BYTES = 48
"""of one stored edge while a graph is built: both ends, the order of sorting, the result"""
EDGE_BYTES = 4
"""of one stored edge in CSR; with weights 12: the weight and its alias"""
TOKEN_BYTES = 4
GRAPH_START_SECONDS = 1.8
"""imports, and loading the compiled kernels, where walks are made: nearly twice as many as for text"""
_FLOAT_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class RunShape:
    """The sizes of a run that its memory, time and disk follow from."""

    rows: int
    """keys with a vector"""
    dim: int
    items: int
    """in-vocabulary items (words; nodes on walks) of one epoch"""
    epochs: int
    threads: int = 1
    tokens: int = 0
    """int32 tokens of the encoded text, ends of sentences included; 0 for graphs"""
    types: int = 0
    """different words before min_count; 0 for graphs"""
    key_bytes: int = 0
    """UTF-8 bytes of all keys"""
    source_bytes: int = 0
    """bytes to read and encode; 0 when they are encoded already"""
    edges: int = 0
    """stored edges, both directions of an undirected one"""
    has_weights: bool = False
    is_graph: bool = False
    has_output: bool = True
    """whether the output rows are part of the result"""

    def __post_init__(self) -> None:
        for name in ("rows", "dim", "items", "epochs", "threads"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be 1 or more to estimate a run, got {getattr(self, name)}.")


@dataclass(frozen=True, kw_only=True)
class Rates:
    """What this machine does in a second."""

    items_per_s: float
    """training, all threads together"""
    read_bytes_per_s: float
    """reading and encoding input"""
    write_bytes_per_s: float = 500e6
    walk_items_per_s: float = 0.0
    """walking alone, all threads together; 0 where nothing is walked"""
    start_seconds: float = 1.0
    """imports, and loading the compiled kernels"""


@dataclass(frozen=True, kw_only=True)
class RunEstimate:
    """Peak memory, wall time and disk of a run, each with its parts (bytes; seconds)."""

    memory_bytes: int
    """peak of resident memory, what `train --json` calls peak_rss_bytes: anonymous memory and mapped pages"""
    anonymous_bytes: int
    """the part of it that cannot be given back: what the machine must have free"""
    seconds: float
    """the whole command"""
    disk_bytes: int
    """at the end: result and cache; `disk_peak_bytes` adds the checkpoints that are gone by then"""
    disk_peak_bytes: int
    memory: dict[str, int]
    time: dict[str, float]
    disk: dict[str, int]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def estimate_run(shape: RunShape, rates: Rates, held: int | None = None) -> RunEstimate:
    """The estimate of one run. Reading is over when training begins: memory is the larger of the two, not the sum.

    held: bytes of the rows that are in memory while they are trained; None: all.
    """
    vectors = 2 * shape.rows * shape.dim * _FLOAT_BYTES
    held = vectors if held is None else held
    reading = _reading_bytes(shape)
    tables = shape.rows * ROW_BYTES + _csr_bytes(shape)
    threads = shape.threads * THREAD_BYTES
    left = READ_BYTES if shape.source_bytes else 0  # the allocator keeps the blocks
    training = held + tables + threads + left
    anonymous = BASE_BYTES + max(reading, training)
    mapped = TOKEN_BYTES * shape.tokens + shape.key_bytes + 16 * shape.types
    memory = {"interpreter": BASE_BYTES + LIBRARY_BYTES, "vectors": held, "tables": tables + threads + left}
    if reading > training:
        memory = {"interpreter": BASE_BYTES + LIBRARY_BYTES, "reading the input": reading}
    memory["mapped input"] = mapped
    result = vectors // (1 if shape.has_output else 2) + shape.key_bytes + 8 * shape.rows
    cache = mapped + _csr_bytes(shape) if shape.source_bytes else 0
    disk = with_former({"result": result, "encoded input": cache, "checkpoint": vectors})
    time = {
        "start": rates.start_seconds,
        "read": shape.source_bytes / rates.read_bytes_per_s,
        "count visits": shape.items / rates.walk_items_per_s if rates.walk_items_per_s else 0.0,
        "train": shape.items * shape.epochs / rates.items_per_s,
        "write": result / rates.write_bytes_per_s,
    }
    return RunEstimate(
        memory_bytes=anonymous + LIBRARY_BYTES + mapped,
        anonymous_bytes=anonymous,
        seconds=sum(time.values()),
        disk_bytes=result + cache,
        disk_peak_bytes=sum(disk.values()),
        memory=memory,
        time=time,
        disk=disk,
    )


def _reading_bytes(shape: RunShape) -> int:
    if shape.is_graph:
        return shape.edges * EDGE_READ_BYTES + shape.key_bytes
    if not shape.source_bytes:
        return 0
    return READ_BYTES + shape.types * TYPE_BYTES + 2 * shape.key_bytes


def _csr_bytes(shape: RunShape) -> int:
    if not shape.edges:
        return 0
    return 8 * (shape.rows + 1) + shape.edges * EDGE_BYTES * (3 if shape.has_weights else 1)


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

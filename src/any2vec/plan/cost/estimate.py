"""What a training run will need: memory, time and disk, from its sizes and the machine's rates. Pure arithmetic.

Memory is closed form; its few constants were measured on Linux with Python 3.11 and numba 0.68, kernels compiled before
(compiling them takes 50 to 90 MB more, once). Checked against runs by the row `estimate` of the benchmark: memory
within 15 %, time within 30 %.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from any2vec.errors import InputError

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
    """at the end: result and cache; `disk_peak_bytes` adds the checkpoint that is gone by then"""
    disk_peak_bytes: int
    memory: dict[str, int]
    time: dict[str, float]
    disk: dict[str, int]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def estimate_run(shape: RunShape, rates: Rates) -> RunEstimate:
    """The estimate of one run. Reading is over when training begins: memory is the larger of the two, not the sum."""
    vectors = 2 * shape.rows * shape.dim * _FLOAT_BYTES
    reading = _reading_bytes(shape)
    tables = shape.rows * ROW_BYTES + _csr_bytes(shape)
    threads = shape.threads * THREAD_BYTES
    left = READ_BYTES if shape.source_bytes else 0  # the allocator keeps the blocks
    training = vectors + tables + threads + left
    anonymous = BASE_BYTES + max(reading, training)
    mapped = TOKEN_BYTES * shape.tokens + shape.key_bytes + 16 * shape.types
    memory = {"interpreter": BASE_BYTES + LIBRARY_BYTES, "vectors": vectors, "tables": tables + threads + left}
    if reading > training:
        memory = {"interpreter": BASE_BYTES + LIBRARY_BYTES, "reading the input": reading}
    memory["mapped input"] = mapped
    result = vectors // (1 if shape.has_output else 2) + shape.key_bytes + 8 * shape.rows
    cache = mapped + _csr_bytes(shape) if shape.source_bytes else 0
    disk = {"result": result, "encoded input": cache, "checkpoint": vectors}
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
        disk_peak_bytes=result + cache + vectors,
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

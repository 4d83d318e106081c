"""Sampled neighborhoods: seeds, neighbors that they sample, neighbors that those sample, with small numbers for all.

Pure: a node's sample depends on (seed, epoch, node, hop), and on the batch's number where the key is `batch`; not on
who else is in the batch, on threads or the clock. So it can be drawn ahead, or again, anywhere.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from any2vec.checks import MAX_SEED, Whole, check_fields
from any2vec.data.attributed.row_file import Reads
from any2vec.errors import InputError
from any2vec.types import Csr

MAX_FANOUT = 65_536
NONE = Reads()
_MOST = (1 << 31) - 1


@dataclass(frozen=True, kw_only=True)
class NeighborOptions:
    """How neighbors are sampled. Full neighborhoods are fan-outs of -1."""

    fanouts: tuple[int, ...] = (15, 10)
    """neighbors that a node samples, by hop from the seeds, 1..65,536; -1 takes all"""
    law: Literal["uniform", "labor", "weighted"] = "uniform"
    """uniform; weighted: by the weight of the edge; labor: nodes share draws, so that fewer different ones are found
    (Balin and Çatalyürek 2023), which costs hubs a look at each neighbor"""
    replace: bool = False
    """with replacement"""
    key: Literal["epoch", "batch"] = "epoch"
    """for how long a node keeps its sample"""
    seed: Annotated[int, Whole(0, MAX_SEED)] = 1
    """seed of every draw"""

    def __post_init__(self) -> None:
        fanouts: Any = self.fanouts
        if not isinstance(fanouts, Sequence) or not fanouts or not all(map(is_fanout, fanouts)):
            raise InputError(
                f"fanouts (num_neighbors) must be whole numbers from 1 to {MAX_FANOUT:,} (or -1: all neighbors), one a "
                f"hop, got {self.fanouts!r}."
            )
        object.__setattr__(self, "fanouts", tuple(int(fanout) for fanout in fanouts))
        check_fields(self)
        if self.law == "labor" and self.replace:
            raise InputError("labor samples without replacement; leave replace out.")


def is_fanout(fanout: Any, least: int = 1) -> bool:
    """Whether it says how many neighbors are sampled: -1, all of them, or from `least` to 65,536."""
    is_whole = isinstance(fanout, Integral) and not isinstance(fanout, bool)
    return is_whole and (fanout == -1 or least <= int(fanout) <= MAX_FANOUT)


def hop_key(options: NeighborOptions, epoch: int, batch: int, hop: int, relation: int = 0) -> np.uint64:
    """Key of a hop's draws along the edges of a type, by its number."""
    from any2vec.kernels.common.rng import PURPOSE_NEIGHBOR, stream_key

    key = int(stream_key(options.seed, PURPOSE_NEIGHBOR, epoch))
    number = batch + 1 if options.key == "batch" else 0
    return stream_key(key, relation << 16 | hop, number)


def edge_index_of(stop_D1: np.ndarray, neighbor_S: np.ndarray) -> np.ndarray:
    """int64 (2, S): (neighbor, node that has sampled it); those of node number d are [stop[d], stop[d + 1])."""
    from any2vec.kernels.graph.neighbors import write_edge_index

    found = np.empty((2, len(neighbor_S)), np.int64)
    write_edge_index(stop_D1, neighbor_S, found)
    return found


class Neighborhood(NamedTuple):
    """What a batch has sampled. Letters: M nodes found, D of them have sampled, S edges, H hops."""

    node_M: np.ndarray
    """int32: the seeds, then the nodes of each hop in order of discovery; a node's number is its place here"""
    stop_D1: np.ndarray
    """int64: the edges of node number d are [stop[d], stop[d + 1])"""
    neighbor_S: np.ndarray
    """int32: numbers of the sampled neighbors"""
    edge_S: np.ndarray
    """int64: places of the sampled edges in the adjacency; (0,) where not asked for"""
    nodes_by_hop: tuple[int, ...]
    """H + 1: seeds, then nodes that each hop has found"""
    edges_by_hop: tuple[int, ...]
    """H"""
    reads: Reads = NONE
    """what it took, where lists of neighbors are on disk"""

    def edge_index(self) -> np.ndarray:
        """int64 (2, S): (neighbor, node that has sampled it), by hop."""
        return edge_index_of(self.stop_D1, self.neighbor_S)


@dataclass
class Scratch:
    """What a thread keeps from batch to batch: 4 bytes a node of the graph."""

    seen: np.ndarray
    base: int = 1
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    def room(self, name: str, size: int, dtype: type, kept: int = 0) -> np.ndarray:
        """An array of `size` or more; its first `kept` places as they were."""
        known = self.arrays.get(name)
        if known is None or len(known) < size:
            larger: np.ndarray = np.empty(max(size, 1024) * 3 // 2, dtype)
            if kept and known is not None:
                larger[:kept] = known[:kept]
            self.arrays[name] = known = larger
        return known


class ThreadScratch:
    """Each thread's own."""

    def __init__(self, num_nodes: int) -> None:
        self._num_nodes, self._own = num_nodes, threading.local()

    def of_thread(self) -> Scratch:
        """With room for the numbers of another batch."""
        found: Scratch | None = getattr(self._own, "scratch", None)
        if found is None:
            found = self._own.scratch = Scratch(np.zeros(self._num_nodes, np.int32))
        if found.base > _MOST - self._num_nodes:
            found.seen.fill(0)
            found.base = 1
        return found


class SampledRows:
    """Rows of neighbors, and what the kernels draw from them by.

    csr: whose rows are sampled; with weights, by the law `weighted`, alias tables of 8 bytes an entry are made.
    """

    def __init__(self, csr: Csr, law: str) -> None:
        from any2vec.kernels.common.alias import build_row_alias
        from any2vec.kernels.graph import neighbors

        is_weighted = law == "weighted"
        self.csr = csr
        self.law: int = getattr(neighbors, law.upper())
        none = (np.empty(0, np.uint32), np.empty(0, np.int32))
        self.alias = build_row_alias(csr.indptr, csr.weights) if is_weighted else none
        self.weights = csr.weights if is_weighted else np.empty(0, np.float32)


Entries = tuple[np.ndarray, np.ndarray, np.ndarray, bool, np.ndarray, Reads]
"""(entries, int32; where those of each node of a frontier start, and how many they are, int64; whether they are drawn
with replacement; where their places go; what reading them came to)"""


class NeighborSampler:
    """Samples of a graph's neighbors; any number of threads may call it at once.

    Args:
        csr: whose rows are sampled: of in-neighbors, where messages go along the edges. Weights only for the law
            `weighted`; they are > 0.

    Memory: 4 bytes a node and thread; weighted: 8 bytes an entry, too.

    Raises:
        InputError: the law is `weighted` and the graph has no weights.
    """

    def __init__(self, csr: Csr, options: NeighborOptions) -> None:
        if options.law == "weighted" and len(csr.weights) == 0:
            raise InputError("The graph has no weights, so it cannot be sampled by them; take the law uniform.")
        self.csr, self.options = csr, options
        self.num_nodes = len(csr.indptr) - 1
        self._rows = SampledRows(csr, options.law)
        self._scratch = ThreadScratch(self.num_nodes)

    def sample(self, seeds: np.ndarray, epoch: int = 0, batch: int = 0, with_edges: bool = False) -> Neighborhood:
        """The neighborhood of seeds, integers (B,), all different.

        epoch, batch: 0 or more; the batch counts only where the key is `batch`. O(nodes and edges sampled).

        Raises:
            InputError: a seed is no node, or comes twice.
        """
        from any2vec.kernels.graph import neighbors

        seed_B, rows = self._checked(seeds), self._rows
        scratch = self._scratch.of_thread()
        found = scratch.room("found", len(seed_B) + 1, np.int32)
        num, hops, sampled, reads = len(seed_B), [len(seed_B)], 0, NONE
        stop = scratch.room("stop", num + 1, np.int64)
        stop[0] = first = 0
        edges: list[int] = []
        try:
            if not neighbors.number_seeds(seed_B, scratch.base, scratch.seen, found):
                raise InputError("A node comes twice among the seeds of a batch; give each once.")
            for hop, fanout in enumerate(self.options.fanouts):
                size = num - first
                starts, degrees = scratch.room("starts", size, np.int64), scratch.room("degrees", size, np.int64)
                stop = scratch.room("stop", num + 1, np.int64, first + 1)
                counted = (starts[:size], degrees[:size], stop[first : num + 1])
                total, widest = neighbors.count_samples(
                    self.csr.indptr, found[first:num], fanout, self.options.replace, *counted
                )
                found = scratch.room("found", min(num + total, self.num_nodes) + 1, np.int32, num)
                local = scratch.room("local", sampled + total, np.int32, sampled)
                edge = scratch.room("edge", sampled + total, np.int64, sampled) if with_edges else np.empty(0, np.int64)
                place = scratch.room("place", max(widest, neighbors.CHUNK), np.int64)
                repeats, key = self.options.replace and fanout >= 0, hop_key(self.options, epoch, batch, hop)
                node_F, first = found[first:num], num
                id_E, start_F, degree_F, repeats, wanted, read = self._entries(node_F, *counted, repeats, key, edge)
                num = neighbors.sample_hop(
                    id_E, *rows.alias, rows.weights, node_F, start_F, degree_F, counted[2], rows.law, repeats, key,
                    scratch.base, scratch.seen, found, num, place, local, wanted,
                )  # fmt: skip
                sampled += total
                reads = reads if read is NONE else reads.plus(*read)
                hops.append(num - first)
                edges.append(total)
        finally:
            scratch.base += num
        taken = scratch.arrays["edge"][:sampled].copy() if with_edges else np.empty(0, np.int64)
        arrays = found[:num].copy(), stop[: first + 1].copy(), scratch.arrays["local"][:sampled].copy(), taken
        return Neighborhood(*arrays, tuple(hops), tuple(edges), reads)

    def _entries(
        self, node_F: np.ndarray, start_F: np.ndarray, degree_F: np.ndarray, stop_F1: np.ndarray, repeats: bool,
        key: np.uint64, edge: np.ndarray,
    ) -> Entries:  # fmt: skip
        """What a frontier samples from, as `sample_hop` takes it; its samples will be at [stop[i], stop[i + 1])."""
        return self.csr.indices, start_F, degree_F, repeats, edge, NONE

    def _checked(self, seeds: np.ndarray) -> np.ndarray:
        seed_B = np.asarray(seeds)
        if seed_B.ndim != 1 or seed_B.dtype.kind not in "iu" or not len(seed_B):
            raise InputError(f"Seeds are one or more whole numbers in a row, got {seed_B.dtype} {seed_B.shape}.")
        if not 0 <= int(seed_B.min()) <= int(seed_B.max()) < self.num_nodes:
            wrong = seed_B[(seed_B < 0) | (seed_B >= self.num_nodes)][0]
            raise InputError(f"Seed {wrong} is no node; nodes are 0 to {self.num_nodes - 1:,}.")
        return np.ascontiguousarray(seed_B, np.int32)

"""What is made of distributed walks: counts of visits, and a stored corpus, the same as one host makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from any2vec.cluster.message import Part
from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import Transport
from any2vec.plan.sharding.graph import PartitionReport, report_partition
from any2vec.plan.sharding.nodes import NodeSharding
from any2vec.sampling.distributed_walks import PHASE, DistributedWalker
from any2vec.sampling.parts import split_graph
from any2vec.sampling.walks import WalkOptions

if TYPE_CHECKING:
    from any2vec.data.graph.graph import Graph
    from any2vec.data.text.corpus import Corpus

_BLOCK_SLOTS = 1 << 22
"""slots of the walks that one collective call makes, all hosts together"""


@dataclass(frozen=True, kw_only=True)
class WalkCorpus:
    """What walks over hosts cost."""

    hosts: int
    partition: PartitionReport
    messages: int
    """between all hosts"""
    bytes_by_kind: dict[str, int]
    """between all hosts, heads of messages included"""
    steps: int
    """nodes on all walks"""
    supersteps: int
    crossings: int
    edges_asked: int
    rows_asked: int
    largest_part_bytes: int

    @property
    def bytes_per_step(self) -> float:
        return sum(self.bytes_by_kind.values()) / max(1, self.steps)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        own = (
            "messages",
            "bytes_by_kind",
            "supersteps",
            "crossings",
            "edges_asked",
            "rows_asked",
            "largest_part_bytes",
        )
        return {
            "edge_cut": self.partition.edge_cut,
            "balance": self.partition.balance,
            **{name: getattr(self, name) for name in own},
            "bytes_per_step": self.bytes_per_step,
        }

    def metrics(self, method: str) -> list[tuple[str, str]]:
        """As people read it: (name, words)."""
        cut = f"{self.partition.cut_share:.0%} of the edges cut, balance {self.partition.balance:.2f}"
        return [
            ("hosts", f"{self.hosts} logical, {method}: {cut}"),
            ("largest part", f"{self.largest_part_bytes:,} bytes"),
            ("between hosts", f"{self.messages:,} messages, {self.bytes_per_step:.1f} bytes a step"),
        ]


def count_visits_together(walker: DistributedWalker, epoch: int = 0) -> np.ndarray:
    """How often the walks of `epoch` visit each node, int64 (num_nodes,), at every host: a collective call.

    Each host counts an equal share of the walks; the sum goes from rank to rank, each adds its counts, and the last
    shares it: whole numbers, so it is what `sampling.walks.count_visits` finds. Memory 8 bytes a node, as much again
    for what another host says, and 16 MB of walks over all hosts.
    """
    from any2vec.kernels.graph.walk import count_rows

    transport = walker.transport
    counts = np.zeros(walker.num_nodes, np.int64)
    for first, stop in blocks_of(walker):
        count_rows(walker.sample(*share_of(first, stop, transport.rank, transport.hosts), epoch), counts)
    last = transport.hosts - 1
    if transport.rank > 0:
        counts += transport.recv(transport.rank - 1, PHASE).parts[0].array
    if transport.rank < last:
        transport.send(transport.rank + 1, [Part("dense", counts)], PHASE)
    total = transport.share([Part("dense", counts)], PHASE, root=last)[0].array
    counts[:] = total  # what was sent may be changed: whoever got it had added to it before the total came
    return counts


def blocks_of(walker: DistributedWalker) -> list[tuple[int, int]]:
    """[start, stop) of the walks of each collective call, the same at all hosts."""
    step = max(walker.transport.hosts, _BLOCK_SLOTS // walker.stride)
    return [(start, min(walker.num_walks, start + step)) for start in range(0, walker.num_walks, step)]


def share_of(first: int, stop: int, rank: int, hosts: int) -> tuple[int, int]:
    """What host `rank` takes of [first, stop): contiguous, sizes differ by one at most."""
    return first + (stop - first) * rank // hosts, first + (stop - first) * (rank + 1) // hosts


def write_distributed_walks(
    graph: Graph,
    options: WalkOptions,
    seed: int,
    out: Path | str,
    *,
    hosts: int,
    method: str = "contiguous",
    overwrite: bool = False,
    progress: Callable[[int, int | None], None] | None = None,
) -> tuple[Corpus, WalkCorpus]:
    """As `sampling.walks.write_walks`, by `hosts` logical hosts that hold a part each: the very same tokens.

    Rank 0 writes, so it asks for all walks; the others help. method: see `plan.sharding.graph.partition`.

    Raises:
        InputError: the graph cannot be cut like that.
        StorageError: as `write_walks`.
    """
    from any2vec.data.io.storage import check_folder_free
    from any2vec.data.text.corpus import FORMAT, CorpusWriter
    from any2vec.kernels.graph.walk import count_rows

    check_folder_free(out, overwrite, FORMAT)
    sharding = NodeSharding.make(graph.csr, hosts, method)
    part_N = sharding.owner(np.arange(sharding.num_rows))
    report = report_partition(graph.csr, part_N, hosts, is_directed=graph.is_directed)
    parts = split_graph(graph, sharding)
    counts = np.zeros(sharding.num_rows, np.int64)
    with CorpusWriter(out, overwrite) as writer:

        def work(transport: Transport) -> DistributedWalker:
            walker = DistributedWalker(parts[transport.rank], transport, options, seed)
            for start, stop in blocks_of(walker):
                tokens = walker.sample(start, stop if transport.rank == 0 else start, 0)
                if transport.rank == 0:
                    writer.append(tokens)
                    count_rows(tokens, counts)
                    if progress is not None:
                        progress(stop, walker.num_walks)
            return walker

        walkers = run_logical(hosts, work)
        meta = {"kind": "walks", "options": asdict(options), "seed": seed, "is_directed": graph.is_directed}
        corpus = writer.finish(graph.keys, counts, meta)
    return corpus, summary(walkers, report, corpus.num_tokens)


def summary(walkers: list[DistributedWalker], report: PartitionReport, steps: int) -> WalkCorpus:
    """What the walkers of all logical hosts sent, and what they hold. steps: nodes on all walks."""
    counters = [walker.transport.counters for walker in walkers]
    kinds = [counter.bytes_by_kind() for counter in counters]
    return WalkCorpus(
        hosts=len(walkers),
        partition=report,
        messages=sum(sum(counter.messages_sent.values()) for counter in counters),
        bytes_by_kind={kind: sum(found[kind] for found in kinds) for kind in kinds[0]},
        steps=steps,
        supersteps=walkers[0].stats.supersteps,
        crossings=sum(walker.stats.crossings for walker in walkers),
        edges_asked=sum(walker.stats.edges_asked for walker in walkers),
        rows_asked=sum(walker.stats.rows_asked for walker in walkers),
        largest_part_bytes=max(walker.part.nbytes for walker in walkers),
    )

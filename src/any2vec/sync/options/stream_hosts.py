"""How a run over a stream is spread over hosts, and how its trainers agree. Light: no numba, no NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args, get_type_hints

from any2vec.checks import check_choice, check_whole
from any2vec.errors import InputError
from any2vec.plan.choices import MOST_PLANNED
from any2vec.sync.options.run_hosts import RunHosts


@dataclass(frozen=True, kw_only=True)
class StreamHosts(RunHosts):
    """Trainers of a stream, and the servers of its rows. One process more, rank 0, reads, keeps the vocabulary, deals
    batches out, and writes checkpoints and snapshots.
    """

    servers: int = 0
    """processes (or logical hosts) beside the trainers that hold the rows, 0 or more; 0: trainers hold them"""
    sync: Literal["sync", "async", "bounded", "dense"] = "async"
    """how trainers agree: sync (rounds of a batch each, in step; a round waits for every source), async (nobody waits),
    bounded (nobody is more than --staleness-bound batches ahead), or dense (as sync, and every trainer's whole table
    goes round with each batch: the baseline of 2018)"""
    staleness_bound: int | None = None
    """of sync bounded: batches that a trainer may be ahead of the slowest, 0 or more; by default 4"""
    credits: int = 2
    """batches that a trainer holds, the one that it trains among them, 1..64"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("servers", self.servers, 0, MOST_PLANNED)
        check_choice("sync", self.sync, get_args(get_type_hints(StreamHosts)["sync"]))
        check_whole("credits", self.credits, 1, 64)
        if self.staleness_bound is not None:
            check_whole("staleness_bound", self.staleness_bound, 0, 1_000_000)
            if self.sync != "bounded":
                raise InputError(f"staleness_bound is for sync bounded; leave it out with sync {self.sync}.")
        if self.servers and self.sync == "dense":
            raise InputError("With sync dense every trainer has all rows and servers have none; leave servers out.")

    @property
    def in_rounds(self) -> bool:
        """Whether every trainer gets a batch at a time, and sources are read in step."""
        return self.sync in ("sync", "dense")

    @property
    def bound(self) -> int | None:
        """Of the row servers: batches that a trainer may be ahead; None: any number."""
        bounded = 4 if self.staleness_bound is None else self.staleness_bound
        return {"sync": 0, "dense": 0, "async": None}.get(self.sync, bounded)

    @property
    def num_ranks(self) -> int | None:
        trainers = self.hosts or self.logical_hosts
        return None if trainers is None else 1 + trainers + self.servers

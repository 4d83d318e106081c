"""The agreement of a stream's trainers. Light: no numba, no NumPy."""

from __future__ import annotations

from dataclasses import dataclass

from any2vec.checks import check_choice
from any2vec.errors import InputError
from any2vec.sync.options.agreement import AgreementOptions
from any2vec.sync.options.rules import RULES, plain_rules

STREAM_SYNCS = ("sync", "async", "bounded", "dense")


@dataclass(frozen=True, kw_only=True)
class StreamAgreement(AgreementOptions):
    """Trainers of a stream, and the servers of its rows. One process more, rank 0, reads, keeps the vocabulary, deals
    batches out, and writes checkpoints and snapshots.
    """

    trainers: int | None = None
    """None where torchrun says it"""
    servers: int = 0
    sync: str = "async"
    """sync (rounds of a batch each, in step; a round waits for every source), a merge rule (as sync, but changes are
    merged by it, not added up), async (nobody waits), bounded (nobody is more than `staleness_bound` batches ahead), or
    dense (as sync, and every trainer's whole table goes round with each
    batch: the baseline of 2018)"""
    staleness_bound: int | None = None
    """of sync bounded: batches that a trainer may be ahead of the slowest; None: 4"""
    credits: int = 2
    """batches that a trainer holds, the one that it trains among them"""

    def __post_init__(self) -> None:
        if str(self.sync).startswith("bounded:"):
            raise InputError(f"Of a stream, sync bounded has its bound in --staleness-bound N, got sync {self.sync!r}.")
        if self.sync not in (*STREAM_SYNCS, *RULES.names()):
            check_choice("sync", self.sync, (*STREAM_SYNCS, *plain_rules()))
        if self.staleness_bound is not None and self.sync != "bounded":
            raise InputError(f"staleness_bound is for sync bounded; leave it out with sync {self.sync}.")
        if self.servers and self.sync == "dense":
            raise InputError("With sync dense every trainer has all rows and servers have none; leave servers out.")

    @property
    def in_rounds(self) -> bool:
        """Whether every trainer gets a batch at a time, and sources are read in step."""
        return self.sync == "dense" or self.rule is not None

    @property
    def rule(self) -> str | None:
        """The merge rule of rounds, where servers merge what trainers made of rows; None: there are none."""
        if self.sync in STREAM_SYNCS:
            return "sum" if self.sync == "sync" else None
        return self.sync

    @property
    def bound(self) -> int | None:
        """Of the row servers: batches that a trainer may be ahead; None: any number."""
        if self.in_rounds:
            return 0
        return None if self.sync == "async" else 4 if self.staleness_bound is None else self.staleness_bound

    @property
    def num_ranks(self) -> int | None:
        return None if self.trainers is None else 1 + self.trainers + self.servers

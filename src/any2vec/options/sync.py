"""How hosts agree, whatever they train: the options as users say them. Light: no numba, no NumPy.

What a name of `sync` means is a task's business (any2vec.sync.options): it has an agreement of its own made of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from any2vec.checks import check_choice, check_number, check_whole
from any2vec.errors import InputError
from any2vec.plan.choices import BITS, SCHEMES

DUALS = ("sent", "computed")


@dataclass(frozen=True, kw_only=True)
class SyncOptions:
    """The agreement of the hosts.

    scheme, for sync adasum, adasum-symmetric, blend, mean, spectral and sum, with the same result each: rep-base sends
    all rows, rep-opt changed rows, pull-base rows of the words of a round, pull-opt these by label. 16 and 8 bits are
    rounded with error feedback. overlap: what hosts learn reaches the others one round later. cache het:BOUND is stale
    by at most so many updates, age:BATCHES by so many batches, and its policy says which rows stay (static: those that
    occur most in the data). Cache bagpipe:BATCHES is exact, with a look ahead: rows go step by step on all trainers,
    with sync bsp everything does. dual sent is as published, computed takes fewer bytes for the same result.
    """

    sync: str | None = None
    """how hosts synchronize; None: the task's own way"""
    scheme: Literal["rep-base", "rep-opt", "pull-base", "pull-opt"] | None = None
    """rows that hosts send in a round; by default pull-opt, for 2 hosts rep-opt"""
    rounds_per_epoch: int | None = None
    """rounds per epoch, 1..1,000,000; None: 1.5 per host, for clicks 8"""
    bits: int = 32
    """bits of a number that is sent: 32, 16 or 8"""
    overlap: bool = False
    """synchronize during the next round; for scheme pull-opt"""
    cache: str = "none"
    """none, het|age:BOUND[:static|lru|lfu|lfu-promoted|tinylfu|fifo|belady|ttl] or bagpipe:BATCHES"""
    cache_rows: float = 0.1
    """share of rows in a het cache, in (0, 1]"""
    dual: Literal["sent", "computed"] = "sent"
    """how hosts get the dual variable u"""
    credits: int = 2
    """batches that a trainer holds, 1..64"""
    staleness_bound: int | None = None
    """batches by which rows may be stale, 0 or more"""

    def __post_init__(self) -> None:
        if self.sync is not None and not isinstance(self.sync, str):
            raise InputError(f"sync must be the name of an agreement, got {self.sync!r}.")
        if self.scheme is not None:
            check_choice("scheme", self.scheme, SCHEMES)
        if self.rounds_per_epoch is not None:
            check_whole("rounds_per_epoch", self.rounds_per_epoch, 1, 1_000_000)
        if self.bits not in BITS:
            raise InputError(f"bits must be 32, 16 or 8, got {self.bits!r}.")
        check_number("cache_rows", self.cache_rows, 0, 1, open_low=True)
        check_choice("dual", self.dual, DUALS)
        check_whole("credits", self.credits, 1, 64)
        if self.staleness_bound is not None:
            check_whole("staleness_bound", self.staleness_bound, 0, 1_000_000)

"""How hosts agree, whatever they train: the options as users say them. Light: no numba, no NumPy.

What a name of `sync` means is a task's business (any2vec.sync.options): it has an agreement of its own made of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from any2vec.checks import Number, Whole, check_fields
from any2vec.errors import InputError
from any2vec.plan.choices import BITS


@dataclass(frozen=True, kw_only=True)
class SyncOptions:
    """How the hosts synchronize.

    scheme, for sync adasum, adasum-symmetric, blend, mean, spectral and sum; all give the same result: rep-base sends
    all rows, rep-opt changed rows, pull-base rows of the words of a round, pull-opt these by label; hosts that pull
    rows of words or nodes hold only these and their share in memory. 16 and 8 bits are rounded with error feedback.
    overlap: changes reach the other hosts one round later. cache het:BOUND is stale by at most BOUND updates
    (het-occurrences: counted by occurrence of a row in its batch; het-young: by fewer while a row has had few),
    age:BATCHES by at most that many batches; the policy decides which rows stay (tinylfu: those read most so far;
    static: those that occur most in the data). cache bagpipe:BATCHES looks ahead and is exact: rows are synchronous on
    all trainers, and with sync bsp everything is. dual sent is as published, computed sends fewer bytes for the same
    result.
    """

    sync: str | None = None
    """how hosts synchronize; None: the task's own way"""
    scheme: Literal["rep-base", "rep-opt", "pull-base", "pull-opt"] | None = None
    """rows sent in a round; default pull-opt, for 2 hosts rep-opt"""
    rounds_per_epoch: Annotated[int | None, Whole(1, 1_000_000)] = None
    """rounds per epoch, 1..1,000,000; None: 1.5 per host, for clicks 8"""
    bits: int = 32
    """bits of each number sent: 32, 16 or 8"""
    overlap: bool = False
    """synchronize during the next round; for scheme pull-opt"""
    cache: str = "none"
    """none, het|het-occurrences|het-young|age:BOUND[:tinylfu|static|lru|lfu|lfu-promoted|fifo|belady|ttl] or
    bagpipe:BATCHES"""
    cache_rows: Annotated[float, Number(0, 1, open_low=True)] = 0.1
    """share of rows in the cache, in (0, 1]"""
    dual: Literal["sent", "computed"] = "sent"
    """how hosts get the dual variable u"""
    credits: Annotated[int, Whole(1, 64)] = 2
    """batches that a trainer holds, 1..64"""
    staleness_bound: Annotated[int | None, Whole(0, 1_000_000)] = None
    """batches by which rows may be stale, 0 or more"""

    def __post_init__(self) -> None:
        if self.sync is not None and not isinstance(self.sync, str):
            raise InputError(f"sync must be the name of an agreement, got {self.sync!r}.")
        check_fields(self)
        if self.bits not in BITS:
            raise InputError(f"bits must be 32, 16 or 8, got {self.bits!r}.")

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
    """The agreement of the hosts."""

    sync: str | None = None
    """how hosts agree; by default the task's own way"""
    scheme: Literal["rep-base", "rep-opt", "pull-base", "pull-opt"] | None = None
    """what travels with adasum, adasum-symmetric, blend, mean and sum: all rows, changed rows, words of the round, or
    rows of the round by label; same result each. By default the last, for two hosts rep-opt"""
    rounds_per_epoch: int | None = None
    """agreements in an epoch, 1..1,000,000; by default 3 for every 2 hosts, for clicks 8"""
    bits: int = 32
    """bits of a number that travels: 32 (exact), 16 or 8 (rounded, with error feedback)"""
    overlap: bool = False
    """agree behind the next round's work: what hosts learn reaches the others one round later; for scheme pull-opt"""
    cache: str = "none"
    """rows that trainers keep close: none; het:BOUND[:POLICY] (stale by so many updates at most; static, lru, lfu,
    lfu-promoted or tinylfu say which rows stay: static those that occur most in the data); bagpipe:BATCHES (exact, with
    a look ahead: rows go step by step on all trainers; with sync bsp everything does)"""
    cache_rows: float = 0.1
    """of cache het: share of all rows that a trainer's cache holds, in (0, 1]"""
    dual: Literal["sent", "computed"] = "sent"
    """between hosts the dual u is sent, as published, or computed on both sides: fewer bytes, the same result"""
    credits: int = 2
    """batches that a trainer holds, the one that it trains among them, 1..64"""
    staleness_bound: int | None = None
    """batches by which rows may be stale"""

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

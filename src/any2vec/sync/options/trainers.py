"""The agreement of click models: trainers and servers, dense layers, rows. Light: no numba, no NumPy."""

from __future__ import annotations

from dataclasses import dataclass

from any2vec.errors import InputError
from any2vec.sync.options.agreement import AgreementOptions
from any2vec.sync.options.names import SERVED_SYNCS, ClickSync, MOfN, needed_of, parse_click_sync
from any2vec.sync.options.row_cache import Cache, parse_cache


@dataclass(frozen=True, kw_only=True)
class TrainerAgreement(AgreementOptions):
    """What hosts and their agreement amount to for models of clicks; checked when it is made."""

    servers: int = 0
    """hosts beside the trainers that hold the rows"""
    sync_servers: int = 0
    """hosts beside the trainers that hold the common copy of the dense layers"""
    sync: str = "shadow-easgd"
    """how dense layers agree: name of the agreement, see `names`"""
    cache: str = "none"
    """rows that trainers keep close, see `parse_cache`"""
    cache_rows: float = 0.1
    """of cache het or age: share of all rows that a trainer's cache holds"""
    rounds_per_epoch: int = 8
    """how often in an epoch trainers meet for records, checkpoints and stops"""

    def __post_init__(self) -> None:
        agreement, cache = self.agreement, self.row_cache  # both are looked at, whatever the other is
        if agreement.name == "m-of-n" and cache.kind != "none":
            raise InputError(
                f"sync {self.sync} drops gradients that come too late, and a cache {self.cache} has its rows changed "
                "by then; use cache none."
            )
        if self.sync_servers and not agreement.is_served:
            raise InputError(f"sync_servers is for sync {', '.join(SERVED_SYNCS)}; leave it out with sync {self.sync}.")
        if self.cache_rows != TrainerAgreement.cache_rows and cache.kind != "het":
            raise InputError(f"cache_rows is for cache het or age; leave it out with cache {self.cache}.")

    def check_trainers(self, trainers: int | None) -> None:
        """Raise InputError when a step waits for more gradients than there are trainers."""
        if isinstance(self.agreement, MOfN) and trainers:
            needed_of(self.agreement, trainers)

    @property
    def agreement(self) -> ClickSync:
        """What `sync` stands for."""
        return parse_click_sync(self.sync)

    @property
    def row_cache(self) -> Cache:
        """What `cache` stands for."""
        return parse_cache(self.cache)

    @property
    def sums_gradients(self) -> bool:
        """Whether a step takes the mean of all trainers' gradients."""
        return self.agreement.name in ("bsp", "m-of-n")

    @property
    def sums_rows(self) -> bool:
        """Whether rows step by the mean of all trainers' gradients, all together."""
        return self.sums_gradients or self.row_cache.kind == "bagpipe"

    @property
    def is_in_step(self) -> bool:
        """Whether a trainer has one worker alone, for its steps are sent to others one by one."""
        return self.agreement.name in ("bsp", "m-of-n", "bounded", "ds-sync") or self.row_cache.kind == "bagpipe"

    def rounds(self, hosts: int) -> int:
        """Rounds per epoch."""
        return self.rounds_per_epoch

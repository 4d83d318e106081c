"""How a run of a model of clicks is spread over trainers and servers, and how they agree. Light: no numba, no NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args, get_type_hints

from any2vec.checks import check_number, check_whole
from any2vec.errors import InputError
from any2vec.plan.choices import MOST_PLANNED
from any2vec.sync.options.replica_names import SERVED_SYNCS, ClickSync, MOfN, needed_of, parse_click_sync
from any2vec.sync.options.run_hosts import RunHosts

MOST_AHEAD = 100_000


@dataclass(frozen=True)
class Cache:
    """What `cache` stands for."""

    kind: Literal["none", "het", "bagpipe"]
    number: int = 0
    """het: the bound, in updates; bagpipe: batches that the oracle looks ahead"""
    policy: Literal["static", "lru", "lfu", "lfu-promoted", "tinylfu"] = "static"
    """het: which rows stay"""


def parse_cache(text: str) -> Cache:
    """The cache that a name such as "het:100" or "het:100:lru" stands for.

    Raises:
        InputError: it is none.
    """
    name, *values = text.split(":") if isinstance(text, str) else [""]
    policies = get_args(get_type_hints(Cache)["policy"])
    has_number = bool(values) and values[0].isdecimal()
    if (name, values) == ("none", []):
        return Cache("none")
    if name == "het" and has_number and (len(values) == 1 or values[1:] in ([policy] for policy in policies)):
        check_whole("bound of het", int(values[0]), 0, 2**31)
        return Cache("het", int(values[0]), values[1] if values[1:] else "static")  # type: ignore[arg-type]
    if name == "bagpipe" and has_number and len(values) == 1:
        check_whole("look-ahead of bagpipe", int(values[0]), 1, MOST_AHEAD)
        return Cache("bagpipe", int(values[0]))
    raise InputError(
        "cache must be none, het:BOUND[:static|lru|lfu|lfu-promoted|tinylfu] or bagpipe:BATCHES, like het:100 or "
        f"bagpipe:200, got {text!r}."
    )


@dataclass(frozen=True, kw_only=True)
class TrainerOptions(RunHosts):
    """Trainers and servers of a run of a model of clicks."""

    servers: int = 0
    """processes (or logical hosts) beside the trainers that hold the rows, 0 or more; 0: trainers hold them"""
    sync_servers: int = 0
    """the same for the common copy of the dense layers (of sync shadow-easgd, fr-easgd, bounded, async and m-of-n), 0
    or more; 0: those of the rows hold it, or the trainers"""
    sync: str = "shadow-easgd"
    """how dense layers agree: behind the training shadow-easgd, shadow-ma, shadow-bmuf; every K batches fr-easgd:K,
    fr-ma:K, fr-bmuf:K; at every batch bsp, m-of-n:M, bounded:S, async; or none"""
    cache: str = "none"
    """rows that trainers keep close: none; het:BOUND[:POLICY] (stale by so many updates at most; static, lru, lfu,
    lfu-promoted or tinylfu say which rows stay: static those that occur most in the data); bagpipe:BATCHES (exact, with
    a look ahead: rows go step by step on all trainers; with sync bsp everything does)"""
    cache_rows: float = 0.1
    """of cache het: share of all rows that a trainer's cache holds, in (0, 1]"""
    rounds_per_epoch: int = 8
    """how often in an epoch trainers meet for records, checkpoints and stops, 1..1,000,000"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("servers", self.servers, 0, MOST_PLANNED)
        check_whole("sync_servers", self.sync_servers, 0, MOST_PLANNED)
        check_whole("rounds_per_epoch", self.rounds_per_epoch, 1, 1_000_000)
        check_number("cache_rows", self.cache_rows, 0, 1, open_low=True)
        agreement, cache = self.agreement, self.row_cache  # both are looked at, whatever the other is
        if agreement.name == "m-of-n" and cache.kind != "none":
            raise InputError(
                f"sync {self.sync} drops gradients that come too late, and a cache {self.cache} has its rows changed "
                "by then; use cache none."
            )
        if self.sync_servers and not agreement.is_served:
            raise InputError(f"sync_servers is for sync {', '.join(SERVED_SYNCS)}; leave it out with sync {self.sync}.")
        if self.cache_rows != TrainerOptions.cache_rows and cache.kind != "het":
            raise InputError(f"cache_rows is for cache het; leave it out with cache {self.cache}.")

    def check_alone(self) -> None:
        """As `RunHosts`; InputError, too, when a step waits for more gradients than there are trainers."""
        super().check_alone()
        agreement, trainers = self.agreement, self.hosts or self.logical_hosts
        if isinstance(agreement, MOfN) and trainers:
            needed_of(agreement, trainers)

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
        """Whether a trainer has one worker alone, for its steps are told to others one by one."""
        return self.agreement.name in ("bsp", "m-of-n", "bounded") or self.row_cache.kind == "bagpipe"

    @property
    def num_ranks(self) -> int | None:
        trainers = self.hosts or self.logical_hosts
        return None if trainers is None else trainers + self.servers + self.sync_servers

    def rounds(self, hosts: int) -> int:
        """Meetings of an epoch."""
        return self.rounds_per_epoch

"""Caches of rows that other hosts own: their names, and the agreement of hosts that train through them. Light."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from any2vec.checks import check_whole
from any2vec.errors import InputError
from any2vec.options.sync import SyncOptions
from any2vec.tables.registry import FRESHNESS, RESIDENCIES

MOST_AHEAD = 100_000
POLICY = "tinylfu"
"""which rows stay unless told otherwise: it learns from what is read (docs/log.md)"""
CACHES = f"{'|'.join(FRESHNESS.names())}:BOUND[:POLICY], POLICY one of {' '.join(RESIDENCIES.names())}"
"""caches of models that step their rows themselves, for help"""


@dataclass(frozen=True)
class Cache:
    """What `cache` stands for."""

    kind: Literal["none", "het", "bagpipe"]
    number: int = 0
    """het: the bound, in updates or in batches; bagpipe: batches that the oracle looks ahead"""
    freshness: str = "het"
    """het: of a registered kind, when a cached row is too old"""
    policy: str = POLICY
    """het: which rows stay"""


def parse_cache(text: str) -> Cache:
    """The cache that a name such as "het:100" or "het:100:lru" stands for.

    Raises:
        InputError: it is none.
    """
    name, *values = text.split(":") if isinstance(text, str) else [""]
    policies = RESIDENCIES.names()
    has_number = bool(values) and values[0].isdecimal()
    if (name, values) == ("none", []):
        return Cache("none")
    is_known = name in FRESHNESS.names() and len(values) <= 2 and set(values[1:]) <= set(policies)
    if is_known and has_number:
        check_whole(f"bound of {name}", int(values[0]), 0, 2**31)
        return Cache("het", int(values[0]), name, values[1] if values[1:] else POLICY)
    if name == "bagpipe" and has_number and len(values) == 1:
        check_whole("look-ahead of bagpipe", int(values[0]), 1, MOST_AHEAD)
        return Cache("bagpipe", int(values[0]))
    others = ", ".join(f"{freshness}:BOUND" for freshness in FRESHNESS.names() if freshness != "het")
    raise InputError(
        f"cache must be none, het:BOUND[:{'|'.join(policies)}], {others}, with the same policies behind it, or "
        f"bagpipe:BATCHES, like het:100 or bagpipe:200, got {text!r}."
    )


def check_no_cache_rows(sync: SyncOptions) -> None:
    """Raise InputError for a size of no cache."""
    if sync.cache_rows != SyncOptions.cache_rows and parse_cache(sync.cache).kind != "het":
        raise InputError(f"cache_rows is for cache het or age; leave it out with cache {sync.cache}.")


@dataclass(frozen=True, kw_only=True)
class CachedRows:
    """Hosts that own a block of each table and train through a cache: owners add up what all of them change."""

    cache: str
    """see `parse_cache`"""
    cache_rows: float = SyncOptions.cache_rows
    """share of all rows that a host's cache holds"""
    rounds_per_epoch: int = 8
    """how often in an epoch hosts meet for records, checkpoints and stops; of words, how often they take up rows"""

    @classmethod
    def of(cls, sync: SyncOptions, rounds_per_epoch: int = rounds_per_epoch) -> CachedRows:
        """rounds_per_epoch: where the options do not say it.

        Raises:
            InputError: options do not go together.
        """
        for option in ("sync", "scheme", "bits", "overlap"):
            if getattr(sync, option) != getattr(SyncOptions, option):
                raise InputError(
                    f"{option} is for hosts that hold all rows and merge them; with cache {sync.cache} the owners of "
                    "rows add up their changes, so leave one of the two out."
                )
        cache = parse_cache(sync.cache)
        if cache.kind == "het" and FRESHNESS.named(cache.freshness).counts_occurrences:
            raise InputError(
                f"cache {sync.cache} counts how often a row stands in a batch, and this model reads each row "
                "once; take cache het:BOUND."
            )
        if cache.kind != "het":
            raise InputError(
                f"cache {sync.cache} needs the gradients of each step, and this model steps its rows itself; take "
                "cache het:BOUND."
            )
        rounds = rounds_per_epoch if sync.rounds_per_epoch is None else sync.rounds_per_epoch
        return cls(cache=sync.cache, cache_rows=sync.cache_rows, rounds_per_epoch=rounds)

    @property
    def row_cache(self) -> Cache:
        """What `cache` stands for."""
        return parse_cache(self.cache)

    def rounds(self, hosts: int) -> int:
        return self.rounds_per_epoch

    def metrics(self, hosts: int) -> dict[str, str | int | None]:
        """What a summary says of it."""
        return {"cache": self.cache}

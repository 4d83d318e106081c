"""Policies of caches by name; packages add theirs by entry points."""

from __future__ import annotations

from typing import TYPE_CHECKING

from any2vec.registry import Registry

if TYPE_CHECKING:
    from any2vec.tables.freshness import Freshness
    from any2vec.tables.residency.policies import ResidencyPolicy

RESIDENCIES: Registry[ResidencyPolicy] = Registry(
    "cache policy",
    "any2vec.residencies",
    {
        "static": "any2vec.tables.residency.policies:Static",
        "lru": "any2vec.tables.residency.policies:LeastRecentlyUsed",
        "lfu": "any2vec.tables.residency.policies:LeastFrequentlyUsed",
        "lfu-promoted": "any2vec.tables.residency.policies:Promoted",
        "tinylfu": "any2vec.tables.residency.policies:TinyLfu",
        "fifo": "any2vec.tables.residency.policies:FirstInFirstOut",
        "belady": "any2vec.tables.residency.policies:Belady",
        "ttl": "any2vec.tables.residency.policies:TimeToLive",
    },
    base="any2vec.tables.residency.policies:ResidencyPolicy",
)
"""as `--cache` spells them"""
FRESHNESS: Registry[Freshness] = Registry(
    "freshness",
    "any2vec.freshness",
    {
        "het": "any2vec.tables.freshness:Versions",
        "het-occurrences": "any2vec.tables.freshness:OccurrenceVersions",
        "het-young": "any2vec.tables.freshness:YoungVersions",
        "age": "any2vec.tables.freshness:Age",
    },
    base="any2vec.tables.freshness:Freshness",
)
"""as the first word of `--cache` spells them. A cache whose rows are exact within a window of batches (bagpipe) is no
policy of this kind: there the plan of the batches to come decides what is read, and nothing is ever stale"""

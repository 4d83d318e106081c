"""The residency policies by name, as `--cache` spells them. Light: no NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from any2vec.registry import Registry

if TYPE_CHECKING:
    from any2vec.tables.residency.policy import ResidencyPolicy

_ROOM = "any2vec.tables.residency"
RESIDENCIES: Registry[ResidencyPolicy] = Registry(
    "cache policy",
    "any2vec.residencies",
    {
        "static": f"{_ROOM}.static:Static",
        "lru": f"{_ROOM}.lru:LeastRecentlyUsed",
        "lfu": f"{_ROOM}.lfu:LeastFrequentlyUsed",
        "lfu-promoted": f"{_ROOM}.lfu_promoted:Promoted",
        "tinylfu": f"{_ROOM}.tinylfu:TinyLfu",
        "fifo": f"{_ROOM}.fifo:FirstInFirstOut",
        "belady": f"{_ROOM}.belady:Belady",
        "ttl": f"{_ROOM}.ttl:TimeToLive",
    },
)

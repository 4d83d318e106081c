"""Options of graph networks that no other task has. Light: flags are made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from any2vec.checks import check_fields


@dataclass(frozen=True, kw_only=True)
class CacheOptions:
    """Which rows of features stand in memory, where not all fit into the budget."""

    residency: Literal["degree", "lru", "lfu", "tinylfu", "fifo"] = "degree"
    """rows in memory with --memory: of nodes that are neighbors of most others (degree), or of those read before"""

    def __post_init__(self) -> None:
        check_fields(self)

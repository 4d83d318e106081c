"""Options of graph networks that no other task has. Light: flags are made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from any2vec.checks import Whole, check_fields
from any2vec.errors import InputError


@dataclass(frozen=True, kw_only=True)
class CacheOptions:
    """Which rows of features stand in memory, where not all fit into the budget."""

    residency: Literal[
        "degree",
        "reverse-pagerank",
        "weighted-reverse-pagerank",
        "presampled",
        "lru",
        "lfu",
        "tinylfu",
        "fifo",
        "belady",
    ] = "degree"
    """rows in memory with --memory: for good, of nodes that most others have as neighbors (degree), that walks reach
    (reverse-pagerank), from the training nodes (weighted-), or that a sampled epoch reads most (presampled); those read
    before (lru, lfu, tinylfu, fifo); or those that batches to come read soonest (belady)"""
    superbatch: Annotated[int | None, Whole(1, 100_000)] = None
    """batches that belady looks ahead; by default as many as read four times the rows that stand in memory"""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.superbatch is not None and self.residency != "belady":
            raise InputError(
                f"superbatch is of residency belady, and does nothing with {self.residency}; leave it out."
            )

    @property
    def num_ahead(self) -> int | None:
        """Batches whose nodes are known before they are read; None: to be chosen by the memory."""
        return self.superbatch if self.residency == "belady" else 0

"""Options of graph networks that no other task has. Light: flags are made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from any2vec.checks import Whole, check_fields
from any2vec.errors import InputError
from any2vec.units import MOST_BYTES, quantity


@dataclass(frozen=True, kw_only=True)
class CacheOptions:
    """Which rows of features, and lists of neighbors, stand in memory, where not all fit into the budget."""

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
    adjacency: Literal["memory", "disk"] = "memory"
    """where lists of neighbors lie: disk, of sampling neighbors: in the graph's folder, of which batches read the pages
    that hold what they sample; those of the highest out-degree over in-degree stand in memory (Ginex)"""
    neighbor_cache: str | None = None
    """bytes of lists that stand in memory with adjacency disk, like 500MB; by default a quarter of what is free"""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.neighbor_cache is not None:
            object.__setattr__(self, "neighbor_cache", str(self.neighbor_cache))
            quantity("neighbor_cache", str(self.neighbor_cache), 0, MOST_BYTES, "B")
            if self.adjacency != "disk":
                raise InputError("neighbor_cache is of adjacency disk, and does nothing with memory; leave it out.")
        if self.superbatch is not None and self.residency != "belady":
            raise InputError(
                f"superbatch is of residency belady, and does nothing with {self.residency}; leave it out."
            )

    @property
    def num_ahead(self) -> int | None:
        """Batches whose nodes are known before they are read; None: to be chosen by the memory."""
        return self.superbatch if self.residency == "belady" else 0

    @property
    def list_bytes(self) -> int | None:
        """Of lists of neighbors in memory; None: to be chosen by the memory."""
        cache = self.neighbor_cache
        return None if cache is None else quantity("neighbor_cache", cache, 0, MOST_BYTES, "B")

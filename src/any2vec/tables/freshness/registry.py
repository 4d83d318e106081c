"""The freshness policies by name, as the first word of `--cache` spells them. Light: no NumPy.

A cache whose rows are exact within a window of batches (bagpipe) is no policy of this kind: there the plan of the
batches to come decides what is read, and nothing is ever stale.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from any2vec.registry import Registry

if TYPE_CHECKING:
    from any2vec.tables.freshness.policy import Freshness

_ROOM = "any2vec.tables.freshness"
FRESHNESS: Registry[Freshness] = Registry(
    "freshness", "any2vec.freshness", {"het": f"{_ROOM}.versions:Versions", "age": f"{_ROOM}.age:Age"}
)

"""Policies by name: ours by a table of places in the code, others by an entry point or a call. Light: no NumPy."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Generic, TypeVar

from any2vec.checks import check_choice
from any2vec.errors import InputError

if TYPE_CHECKING:
    from any2vec.tables.freshness import Freshness
    from any2vec.tables.residency.policies import ResidencyPolicy

T = TypeVar("T")


class Registry(Generic[T]):
    """Name -> class.

    Args:
        noun: what the classes are, in messages.
        group: of the entry points by which packages add their own.
        places: name -> "module:Class" of ours.
    """

    def __init__(self, noun: str, group: str, places: dict[str, str]) -> None:
        self.noun, self.group = noun, group
        self._places: dict[str, str | type[T]] = dict(places)
        self._has_looked = False

    def register(self, name: str, policy: type[T] | str) -> None:
        """Add a class, or the "module:Class" where it stands.

        Raises:
            InputError: the name is taken.
        """
        if name in self._places:
            raise InputError(f"A {self.noun} {name!r} is registered already; choose another name.")
        self._places[name] = policy

    def unregister(self, name: str) -> None:
        del self._places[name]

    def names(self) -> tuple[str, ...]:
        if not self._has_looked:
            self._has_looked = True
            for point in entry_points(group=self.group):
                self.register(point.name, point.value)
        return tuple(self._places)

    def named(self, name: str) -> type[T]:
        """Raises InputError where there is none of that name."""
        check_choice(self.noun, name, self.names())
        place = self._places[name]
        if isinstance(place, str):
            module, _, attribute = place.partition(":")
            place = self._places[name] = getattr(import_module(module), attribute)
        return place


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
)
"""as `--cache` spells them"""
FRESHNESS: Registry[Freshness] = Registry(
    "freshness",
    "any2vec.freshness",
    {"het": "any2vec.tables.freshness:Versions", "age": "any2vec.tables.freshness:Age"},
)
"""as the first word of `--cache` spells them. A cache whose rows are exact within a window of batches (bagpipe) is no
policy of this kind: there the plan of the batches to come decides what is read, and nothing is ever stale"""

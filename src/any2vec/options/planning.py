"""What a plan or an estimate goes by without data, and of which machines. Light: flags are made of it."""

from __future__ import annotations

from dataclasses import dataclass

from any2vec.units import quantity

MOST_ROWS, MOST_ITEMS, MOST_PER_S = 10**12, 10**16, 10**18


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Data that nobody has yet."""

    rows: str | None = None
    """number of vectors, like 399k or 5G"""

    @property
    def num_rows(self) -> int:
        """Raises InputError: it is no legal number."""
        return quantity("--rows", self.rows or "", 2, MOST_ROWS)


@dataclass(frozen=True, kw_only=True)
class ItemShape(Shape):
    """Rows and items."""

    items: str | None = None
    """words, steps, triples or examples per epoch, like 1G"""

    def num_items(self, per_row: int) -> int:
        """Of an epoch; per_row: where nobody says it."""
        return per_row * self.num_rows if self.items is None else quantity("--items", self.items, 1, MOST_ITEMS)


@dataclass(frozen=True, kw_only=True)
class TokenShape(Shape):
    """Tokens, or steps of walks."""

    tokens: str | None = None
    """words (steps) per epoch; by default 100 per row"""
    zipf: float = 1.0
    """exponent of Zipf's law"""

    @property
    def num_tokens(self) -> int:
        return 100 * self.num_rows if self.tokens is None else quantity("--tokens", self.tokens, 1, MOST_ITEMS)


@dataclass(frozen=True, kw_only=True)
class ColumnShape(Shape):
    """Columns of categories and of numbers."""

    zipf: float = 1.0
    """exponent of Zipf's law"""
    columns: int = 26
    """columns of categories"""
    numbers: int = 13
    """columns of numbers"""


@dataclass(frozen=True, kw_only=True)
class Machines:
    """How fast a machine is."""

    items_per_s: str | None = None
    """items/s of one thread; by default measured here"""

    @property
    def pace(self) -> float | None:
        """Of one thread; None: to be measured."""
        return None if self.items_per_s is None else float(quantity("--items-per-s", self.items_per_s, 1, 10**15))


@dataclass(frozen=True, kw_only=True)
class HostMachines(Machines):
    """Hosts of several threads."""

    efficiency: float = 0.92
    """of a thread beside others, 0 to 1"""
    memory_bandwidth: str | None = None
    """bytes/s of a host, like 200GB/s; by default no limit"""
    agree_threads: int | None = None
    """threads of a host that synchronize; by default all"""

    @property
    def bandwidth(self) -> float:
        """Bytes/s; 0: no limit."""
        text = self.memory_bandwidth
        return 0.0 if text is None else float(quantity("--memory-bandwidth", text, 1, MOST_PER_S, "B/s"))

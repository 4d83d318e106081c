"""How much memory a table may take, and how it comes and goes where it is larger. Light: flags are made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from any2vec.checks import check_choice, plain_fields
from any2vec.errors import InputError
from any2vec.plan.order.bucket_orders import ORDERS
from any2vec.units import MOST_BYTES, quantity


@dataclass(frozen=True, kw_only=True)
class StorageOptions:
    """Where rows are kept: in memory, or on disk if a table is larger than a limit.

    memory limits the bytes of the whole process; a table that does not fit is trained from disk, a few of its
    partitions at a time. order None: comet for triples, beta for words and nodes.
    """

    memory: str | None = None
    """memory budget, like 2GB; beyond it rows lie on disk"""
    order: (
        Literal["beta", "comet", "hilbert", "hilbert-symmetric", "inside-out", "affinity", "row-major", "random"] | None
    ) = None
    """order of the partitions with --memory"""

    def __post_init__(self) -> None:
        plain_fields(self)
        if self.memory is None:
            if self.order is not None:
                raise InputError("order is for tables larger than memory; give a memory budget, like --memory 2GB.")
            return
        if isinstance(self.memory, int) and not isinstance(self.memory, bool):
            object.__setattr__(self, "memory", str(self.memory))
        quantity("memory", str(self.memory), 1, MOST_BYTES, "B")
        if self.order is not None:
            check_choice("order", self.order, ORDERS)

    @property
    def memory_bytes(self) -> int:
        """The budget; 0: there is none."""
        return 0 if self.memory is None else quantity("memory", str(self.memory), 1, MOST_BYTES, "B")

    def order_of(self, model: Any) -> str:
        """What a model's run has."""
        return self.order or str(model.default_order)

    def metrics_of_whole(self) -> dict[str, int]:
        """What the summary says of a table that fits into the budget, if there is one."""
        return {} if self.memory is None else {"partitions": 1, "capacity": 1, "loads": 0}

    def settings(self, model: Any) -> dict[str, str]:
        """What must be the same for a model's run to go on, if there is a budget at all."""
        return {} if self.memory is None else {"memory": self.memory, "order": self.order_of(model)}

"""What the options of every model have in common. Light: no numba, no NumPy."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from numbers import Integral, Real
from typing import Any, ClassVar

from any2vec.checks import check_fields


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The options of training a model, checked at the door."""

    name: ClassVar[str] = ""
    """on the command line; "" for the abstract ones"""

    def __post_init__(self) -> None:
        for item in fields(self):  # NumPy's numbers become Python's: options are written as JSON
            value = getattr(self, item.name)
            if isinstance(value, Real) and not isinstance(value, int | float):
                object.__setattr__(self, item.name, int(value) if isinstance(value, Integral) else float(value))
        check_fields(self)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"model": self.name} | asdict(self)

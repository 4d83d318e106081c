"""What the options of every model have in common. Light: no numba, no NumPy."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from any2vec.checks import check_fields


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The options of training a model, checked at the door."""

    name: ClassVar[str] = ""
    """on the command line; "" for the abstract ones"""

    def __post_init__(self) -> None:
        check_fields(self)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"model": self.name} | asdict(self)

"""How logs of clicks are read. Light: flags are made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from any2vec.data.clicks.schema import ClickSchema


@dataclass(frozen=True, kw_only=True)
class ClickReading:
    """Columns of a log of clicks; in Python the schema is also a `ClickSchema`."""

    schema: str | None = None
    """meaning of the columns: criteo, avazu, or a TOML file"""

    def resolved(self) -> ClickSchema | None:
        """The schema that is given, named, or stored in a TOML file.

        Raises:
            InputError, DataError: there is none.
        """
        from any2vec.data.clicks.schema import ClickSchema

        return None if self.schema is None else ClickSchema.of(self.schema)

    def to_dict(self) -> dict[str, Any]:
        """JSON's form, the schema in full: other machines need not have its file."""
        schema = self.resolved()
        return {"schema": None if schema is None else schema.to_dict()}

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> ClickReading:
        """What `to_dict` made."""
        from any2vec.data.clicks.schema import ClickSchema

        schema: Any = found["schema"]
        return cls(schema=None if schema is None else ClickSchema.from_dict(schema))  # type: ignore[arg-type]

"""What the agreements of all tasks are made of: the options that bear the names of their fields. Light."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

from any2vec.options.hosts import HostOptions
from any2vec.options.sync import SyncOptions


@dataclass(frozen=True, kw_only=True)
class AgreementOptions:
    """What hosts and their agreement amount to for a task; checked when it is made."""

    @classmethod
    def of(cls, hosts: HostOptions, sync: SyncOptions, **more: Any) -> Self:
        """An option that is None has the field's own default.

        Raises:
            InputError: options do not go together.
        """
        names = [field.name for field in fields(cls)]
        said = {name: getattr(options, name) for options in (hosts, sync) for name in names if hasattr(options, name)}
        return cls(**{name: value for name, value in said.items() if value is not None}, **more)

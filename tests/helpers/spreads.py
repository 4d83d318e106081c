"""Options of hosts, of their agreement and of storage from one flat list, as the command line has them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import any2vec

KINDS = {"hosts": any2vec.HostOptions, "sync": any2vec.SyncOptions, "storage": any2vec.StorageOptions}


def spread(**options: Any) -> dict[str, Any]:
    """Arguments of `fit` and `stream`: `spread(logical_hosts=2, bits=8, memory="2GB")`; names of neither stay."""
    found: dict[str, Any] = {}
    for kind, options_class in KINDS.items():
        names = {item.name for item in fields(options_class)}
        own = {name: options.pop(name) for name in list(options) if name in names}
        if own:
            found[kind] = options_class(**own)
    return found | options


def agreed(kind: Any, **options: Any) -> Any:
    """What a task's agreement makes of options: `agreed(RoundAgreement, logical_hosts=2, sync="mean")`."""
    found = spread(**options)
    return kind.of(found.get("hosts", any2vec.HostOptions()), found.get("sync", any2vec.SyncOptions()))

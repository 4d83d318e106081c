"""Options of hosts and of their agreement from one JSON object, for the scripts beside this one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any


def spread_of(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """The arguments `hosts` and `sync` of `fit`; None: one host alone."""
    from any2vec.options.hosts import HostOptions
    from any2vec.options.sync import SyncOptions

    if options is None:
        return {}
    of_hosts = {item.name for item in fields(HostOptions)}
    hosts = HostOptions(**{name: value for name, value in options.items() if name in of_hosts})
    return {"hosts": hosts, "sync": SyncOptions(**{name: options[name] for name in options.keys() - of_hosts})}

"""Over which hosts a run is spread, whatever it trains. Light: no numba, no NumPy."""

from __future__ import annotations

from dataclasses import dataclass, fields

from any2vec.checks import check_number, check_whole
from any2vec.cluster.link import parse_link
from any2vec.errors import InputError
from any2vec.plan.choices import MOST_PLANNED

MOST_LOGICAL = 256


@dataclass(frozen=True, kw_only=True)
class RunHosts:
    """Hosts of a run, and the links between them (abstract)."""

    hosts: int | None = None
    """processes that train together on this machine, 1 or more; under torchrun its own number counts"""
    logical_hosts: int | None = None
    """hosts as threads of one process, 1..256: the same result as from so many processes"""
    link: str | None = None
    """links between the hosts, like 100Mbit,1ms: train emulates them, messages take as long as they would there;
    plan models them"""
    host_timeout: float = 30.0
    """seconds without a sign of life after which a host is given up, more than 0"""
    ray: str | None = None
    """run the hosts on a Ray cluster: HOST:PORT of its head, auto for the one that runs here, local for one of its
    own; every node must see the data and --out"""
    restarts: int = 0
    """how often the hosts are started again from the last checkpoint when one is lost, 0..1000; needs --out"""

    def __post_init__(self) -> None:
        if self.hosts is not None:
            check_whole("hosts", self.hosts, 1, MOST_PLANNED)
        if self.logical_hosts is not None:
            check_whole("logical_hosts", self.logical_hosts, 1, MOST_LOGICAL)
        check_whole("restarts", self.restarts, 0, 1000)
        if self.link is not None:
            parse_link(self.link)
        check_number("host_timeout", self.host_timeout, 0, 1e6, open_low=True)
        if self.ray is not None and self.hosts is None:
            raise InputError("Say how many hosts Ray should run: hosts, besides ray.")
        if self.hosts is not None and self.logical_hosts is not None:
            raise InputError("hosts are processes and logical_hosts are threads of one process; choose one of the two.")

    @property
    def is_spread(self) -> bool:
        """Whether hosts were asked for: one host, too, then goes through the agreement."""
        return self.hosts is not None or self.logical_hosts is not None

    @property
    def holds_parts(self) -> bool:
        """Whether each host takes its own part of the data, and no host all of them."""
        return False

    @property
    def num_ranks(self) -> int | None:
        """Processes, or threads, of the run: hosts that train, and others; None where torchrun says it, or for one."""
        return self.hosts or self.logical_hosts

    def check_alone(self) -> None:
        """Raise InputError when an option speaks of several hosts and nobody said how many: it would do nothing."""
        if self.hosts is None and self.restarts:
            raise InputError("--restarts starts processes again; say how many there are, --hosts N, or leave it out.")
        if self.is_spread:
            return
        for item in fields(self):
            value, flag = getattr(self, item.name), "--" + item.name.replace("_", "-")
            if value != item.default:
                raise InputError(
                    f"{flag} ({item.name} = {value!r}) is for several hosts; say how many, --hosts N or "
                    "--logical-hosts N, or leave it out."
                )


@dataclass(frozen=True, kw_only=True)
class TableHosts(RunHosts):
    """Hosts that train one table together, each with some of its partitions; a plan says who has which when."""

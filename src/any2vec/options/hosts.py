"""Over which hosts a run is spread, whatever it trains. Light: no numba, no NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from any2vec.checks import check_choice, check_number, check_whole
from any2vec.cluster.link import parse_link
from any2vec.errors import InputError
from any2vec.plan.choices import MOST_PLANNED, PARTITIONS

MOST_LOGICAL = 256
READS = ("whole", "parts")


@dataclass(frozen=True, kw_only=True)
class HostOptions:
    """Hosts of a run, what each of them does and holds, and the links between them."""

    hosts: int | None = None
    """processes that train together on this machine, 1 or more; under torchrun its own number counts"""
    logical_hosts: int | None = None
    """hosts as threads of one process, 1..256: the same result as from so many processes"""
    servers: int = 0
    """processes (or logical hosts) beside the trainers that hold the rows, 0 or more; 0: trainers hold them"""
    sync_servers: int = 0
    """the same for the common copy of the dense layers (of sync shadow-easgd, fr-easgd, bounded, async and m-of-n), 0
    or more; 0: those of the rows hold it, or the trainers"""
    read: Literal["whole", "parts"] = "whole"
    """how hosts read text: whole, once on each machine; or parts: each host reads its own part of the text and keeps
    only that, and the vocabulary is counted together; their chunks differ a little, in bytes instead of words"""
    partition: Literal["contiguous", "hash", "metis"] | None = None
    """for graphs: cut the graph into parts, one a host, and let walkers travel: contiguous (equally many nodes), hash
    or metis (few edges cut); by default every host holds the whole graph. The same walks, the same result"""
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
        check_whole("servers", self.servers, 0, MOST_PLANNED)
        check_whole("sync_servers", self.sync_servers, 0, MOST_PLANNED)
        check_whole("restarts", self.restarts, 0, 1000)
        if self.link is not None:
            parse_link(self.link)
        check_number("host_timeout", self.host_timeout, 0, 1e6, open_low=True)
        check_choice("read", self.read, READS)
        if self.partition is not None:
            check_choice("partition", self.partition, PARTITIONS)
            if self.read == "parts":
                raise InputError("partition is for graphs and read parts for text; choose one of the two.")
        if self.ray is not None and self.hosts is None:
            raise InputError("Say how many hosts Ray should run: hosts, besides ray.")
        if self.hosts is not None and self.logical_hosts is not None:
            raise InputError("hosts are processes and logical_hosts are threads of one process; choose one of the two.")

    @property
    def is_spread(self) -> bool:
        """Whether hosts were asked for: one host, too, then goes through the agreement."""
        return self.hosts is not None or self.logical_hosts is not None

    @property
    def trainers(self) -> int | None:
        """Hosts that train; None where torchrun says it, or for one."""
        return self.hosts or self.logical_hosts

    @property
    def num_ranks(self) -> int | None:
        """Processes, or threads, of the run: hosts that train, and servers; None as `trainers`."""
        trainers = self.trainers
        return None if trainers is None else trainers + self.servers + self.sync_servers

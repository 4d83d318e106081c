"""Over which hosts a run is spread, whatever it trains. Light: no numba, no NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from any2vec.checks import Number, Whole, check_fields
from any2vec.cluster.link import LinkModel, parse_link
from any2vec.errors import InputError
from any2vec.plan.choices import MOST_PLANNED

MOST_LOGICAL = 256


@dataclass(frozen=True, kw_only=True)
class HostOptions:
    """Hosts of a run, what each of them does and holds, and the links between them.

    Logical hosts give the same result as that many processes; torchrun sets its own number. read parts: each host
    reads only its own part of the text, and hosts count the vocabulary together; parts are divided by bytes, not words.
    partition contiguous gives all parts the same number of nodes, hash and metis cut few edges; walks move
    from part to part, with the same result. sync_servers are for sync shadow-easgd, fr-easgd, bounded,
    async and m-of-n. link: train emulates it (messages take as long as on that link), plan models it. ray
    auto: the cluster that runs here; every node must see the data and the run folder. restarts need a run folder.
    """

    hosts: Annotated[int | None, Whole(1, MOST_PLANNED)] = None
    """processes that train together, 1 or more"""
    logical_hosts: Annotated[int | None, Whole(1, MOST_LOGICAL)] = None
    """hosts as threads of one process, 1..256"""
    servers: Annotated[int, Whole(0, MOST_PLANNED)] = 0
    """processes that hold rows; 0: trainers do"""
    sync_servers: Annotated[int, Whole(0, MOST_PLANNED)] = 0
    """processes that hold the dense layers; 0: servers or trainers do"""
    read: Literal["whole", "parts"] = "whole"
    """text is read on each machine, or in parts by hosts"""
    partition: Literal["contiguous", "hash", "metis"] | None = None
    """one part of the graph per host; by default each host has all of it"""
    link: str | None = None
    """emulate links between hosts, like 100Mbit,1ms"""
    host_timeout: Annotated[float, Number(0, 1e6, open_low=True)] = 30.0
    """seconds until a silent host is lost, > 0"""
    ray: str | None = None
    """Ray cluster to run on: HOST:PORT, auto or local"""
    restarts: Annotated[int, Whole(0, 1000)] = 0
    """restarts after a host is lost, 0..1000"""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.link is not None:
            parse_link(self.link)
        if self.partition is not None and self.read == "parts":
            raise InputError("partition is for graphs and read parts for text; choose one of the two.")
        if self.ray is not None and self.hosts is None:
            raise InputError("Say how many hosts Ray should run: hosts, besides ray.")
        if self.hosts is not None and self.logical_hosts is not None:
            raise InputError("hosts are processes and logical_hosts are threads of one process; choose one of the two.")

    @property
    def is_distributed(self) -> bool:
        """Whether hosts were asked for: one host, too, then goes through the agreement."""
        return self.hosts is not None or self.logical_hosts is not None

    @property
    def link_model(self) -> LinkModel | None:
        """What `link` stands for; None: links are as they are."""
        return None if self.link is None else parse_link(self.link)

    @property
    def trainers(self) -> int | None:
        """Hosts that train; None where torchrun says it, or for one."""
        return self.hosts or self.logical_hosts

    @property
    def num_ranks(self) -> int | None:
        """Processes, or threads, of the run: hosts that train, and servers; None as `trainers`."""
        trainers = self.trainers
        return None if trainers is None else trainers + self.servers + self.sync_servers

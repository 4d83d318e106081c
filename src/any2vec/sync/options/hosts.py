"""How a run is spread over hosts, and how they agree. Light: no numba, no NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from any2vec.checks import check_choice, check_whole
from any2vec.errors import InputError
from any2vec.plan.choices import BITS, PARTITIONS, SCHEMES
from any2vec.sync.options.names import MERGES, Gaia, Server, ServerMean, Sync, parse_sync
from any2vec.sync.options.run_hosts import RunHosts

READS = ("whole", "parts")


@dataclass(frozen=True, kw_only=True)
class HostOptions(RunHosts):
    """Hosts of a run, and their agreement."""

    sync: str = "blend"
    """how hosts agree: blend (adasum for frequent rows, sum for rare ones), adasum, adasum-symmetric, mean, sum,
    ds-sync[:random|butterfly|topology][:SIZE], leader, elastic, gaia[:THRESHOLD], server:async, server:bounded:ROUNDS,
    server-mean or frequent"""
    scheme: Literal["rep-base", "rep-opt", "pull-base", "pull-opt"] | None = None
    """what travels with adasum, adasum-symmetric, blend, mean and sum: all rows, changed rows, words of the round, or
    rows of the round by label; same result each. By default the last, for two hosts rep-opt"""
    rounds_per_epoch: int | None = None
    """agreements in an epoch, 1..1,000,000; by default 3 for every 2 hosts"""
    bits: int = 32
    """bits of a number that travels: 32 (exact), 16 or 8 (rounded, with error feedback)"""
    overlap: bool = False
    """agree behind the next round's work: what hosts learn reaches the others one round later; for scheme pull-opt"""
    read: Literal["whole", "parts"] = "whole"
    """how hosts read text: whole, once on each machine; or parts: each host reads its own part of the text and keeps
    only that, and the vocabulary is counted together; their chunks differ a little, in bytes instead of words"""
    partition: Literal["contiguous", "hash", "metis"] | None = None
    """for graphs: cut the graph into parts, one a host, and let walkers travel: contiguous (equally many nodes), hash
    or metis (few edges cut); by default every host holds the whole graph. The same walks, the same result"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounds_per_epoch is not None:
            check_whole("rounds_per_epoch", self.rounds_per_epoch, 1, 1_000_000)
        agreement = parse_sync(self.sync)
        if self.scheme is not None:
            check_choice("scheme", self.scheme, SCHEMES)
            if not agreement.has_scheme:
                raise InputError(f"scheme is for {', '.join(MERGES)}; leave it out with sync {self.sync}.")
        check_choice("read", self.read, READS)
        if self.partition is not None:
            check_choice("partition", self.partition, PARTITIONS)
            if self.overlap or isinstance(agreement, Gaia | Server | ServerMean):
                raise InputError(
                    f"partition does not go with {'overlap' if self.overlap else 'sync ' + self.sync}, in which hosts "
                    "do not wait for each other: all of them walk together before each round; leave one of the two out."
                )
            if self.read == "parts":
                raise InputError("partition is for graphs and read parts for text; choose one of the two.")
        if self.bits not in BITS:
            raise InputError(f"bits must be 32, 16 or 8, got {self.bits!r}.")
        if self.overlap and not (self.agreement.has_scheme and self.scheme in (None, "pull-opt")):
            raise InputError(f"overlap is for scheme pull-opt; leave it out with {self.scheme or self.sync}.")
        if self.bits not in agreement.bits:
            raise InputError(
                f"bits must be 32 with sync {self.sync}, got {self.bits}: its hosts tell each other rows, not changes, "
                "and nothing would make good what rounding leaves out."
            )

    @property
    def agreement(self) -> Sync:
        """What `sync` stands for."""
        return parse_sync(self.sync)

    def form(self, hosts: int) -> str | None:
        """The scheme that counts; None for an agreement that has none.

        Two hosts have so few and long rounds that each reads nearly every row in each: what an inspection pass would
        leave out is less than the pass costs.
        """
        if not self.agreement.has_scheme:
            return None
        return self.scheme or ("rep-opt" if hosts == 2 and not self.overlap else "pull-opt")

    @property
    def holds_parts(self) -> bool:
        """Whether each host takes its own part of the data, and no host all of them."""
        return self.read == "parts" or self.partition is not None

    def rounds(self, hosts: int) -> int:
        """Rounds of an epoch: GraphAny2Vec's 1, 3, 6, 12, 24, 48 for 1, 2, 4, 8, 16, 32 hosts (IPDPS 2021, 5.1)."""
        return self.rounds_per_epoch or (1 if hosts == 1 else 3 * hosts // 2)

"""The agreement of models of sequences: hosts agree between rounds. Light: no numba, no NumPy."""

from __future__ import annotations

from dataclasses import dataclass

from any2vec.errors import InputError
from any2vec.sync.options.agreement import AgreementOptions
from any2vec.sync.options.names import (
    MERGES,
    QUARTERS,
    Gaia,
    Leader,
    Server,
    ServerMean,
    Sync,
    parse_click_sync,
    parse_sync,
)


@dataclass(frozen=True, kw_only=True)
class RoundAgreement(AgreementOptions):
    """What hosts and their agreement amount to for models of sequences; checked when it is made."""

    sync: str = "blend"
    """name of the agreement, see `names`"""
    scheme: str | None = None
    """what travels; None: what suits the number of hosts"""
    rounds_per_epoch: int | None = None
    bits: int = 32
    overlap: bool = False
    read: str = "whole"
    partition: str | None = None
    has_replicas: bool = False
    """whether tables may agree as replicas do: behind the training, or every so many steps"""

    def __post_init__(self) -> None:
        agreement = self.agreement
        if self.scheme is not None and not agreement.has_scheme:
            raise InputError(f"scheme is for {', '.join(MERGES)}; leave it out with sync {self.sync}.")
        if self.partition is not None and (self.overlap or isinstance(agreement, Gaia | Server | ServerMean)):
            raise InputError(
                f"partition does not go with {'overlap' if self.overlap else 'sync ' + self.sync}, in which hosts "
                "do not wait for each other: all of them walk together before each round; leave one of the two out."
            )
        if self.overlap and not (agreement.has_scheme and self.scheme in (None, "pull-opt")):
            raise InputError(f"overlap is for scheme pull-opt; leave it out with {self.scheme or self.sync}.")
        if self.bits not in agreement.bits:
            raise InputError(
                f"bits must be 32 with sync {self.sync}, got {self.bits}: its hosts exchange rows, not changes, "
                "and nothing would make good what rounding leaves out."
            )

    @property
    def agreement(self) -> Sync:
        """What `sync` stands for."""
        is_replica = self.has_replicas and self.sync.startswith(("shadow-", "fr-"))
        return parse_click_sync(self.sync, "replicas") if is_replica else parse_sync(self.sync)

    def form(self, hosts: int) -> str | None:
        """The scheme that counts; None for an agreement that has none.

        Two hosts have so few and long rounds that each reads nearly every row in each: what an inspection pass would
        leave out is less than the pass costs.
        """
        if not self.agreement.has_scheme:
            return None
        return self.scheme or ("rep-opt" if hosts == 2 and not self.overlap else "pull-opt")

    def is_pulled(self, hosts: int) -> bool:
        """Whether hosts ask for the rows of each round, and need no others."""
        return str(self.form(hosts)).startswith("pull")

    @property
    def parts(self) -> tuple[int, bool]:
        """Equal parts of a round, and whether the agreement hears of each step besides."""
        how = self.agreement
        if not isinstance(how, Leader):
            return 1, False
        return (QUARTERS, False) if how.pulls == "quarter" else (1, True)

    def metrics(self, hosts: int) -> dict[str, str | int | None]:
        """What a summary says of it."""
        return {"sync": self.sync, "scheme": self.form(hosts), "bits": self.bits}

    def rounds(self, hosts: int) -> int:
        """Rounds of an epoch: GraphAny2Vec's 1, 3, 6, 12, 24, 48 for 1, 2, 4, 8, 16, 32 hosts (IPDPS 2021, 5.1)."""
        return self.rounds_per_epoch or (1 if hosts == 1 else 3 * hosts // 2)

"""Who trains, who holds rows, and who holds the common copy of the dense layers, by rank."""

from __future__ import annotations

from dataclasses import dataclass

from any2vec.errors import InputError


@dataclass(frozen=True)
class Roles:
    """Trainers have the ranks 0..trainers - 1, then come the servers of rows, then those of dense layers."""

    trainers: int
    servers: int = 0
    sync_servers: int = 0

    @classmethod
    def of(cls, ranks: int, servers: int, sync_servers: int) -> Roles:
        """The roles of so many ranks.

        Raises:
            InputError: nobody is left to train.
        """
        trainers = ranks - servers - sync_servers
        if trainers < 1:
            raise InputError(
                f"Of {ranks} processes {servers} are servers and {sync_servers} sync servers, so none is left to "
                "train; start more, or fewer servers."
            )
        return cls(trainers, servers, sync_servers)

    @property
    def ranks(self) -> int:
        return self.trainers + self.servers + self.sync_servers

    @property
    def row_owners(self) -> range:
        """Ranks that hold rows."""
        return range(self.trainers, self.trainers + self.servers) if self.servers else range(self.trainers)

    @property
    def dense_owners(self) -> range:
        """Ranks that hold slices of the common copy of the dense layers."""
        return range(self.trainers + self.servers, self.ranks) if self.sync_servers else self.row_owners

    def is_trainer(self, rank: int) -> bool:
        return rank < self.trainers


@dataclass(frozen=True)
class StreamRoles:
    """Of a stream: rank 0 keeps the vocabulary and deals, then come the trainers, then the servers of rows."""

    trainers: int
    servers: int = 0

    def __post_init__(self) -> None:
        if self.trainers < 1:
            raise InputError(
                f"A stream over {self.ranks} processes with {self.servers} servers leaves none to train; rank 0 deals, "
                "so start 2 more than there are servers, or more."
            )

    @classmethod
    def of(cls, ranks: int, servers: int) -> StreamRoles:
        """The roles of so many ranks.

        Raises:
            InputError: nobody is left to train.
        """
        return cls(ranks - 1 - servers, servers)

    @property
    def ranks(self) -> int:
        return 1 + self.trainers + self.servers

    @property
    def training(self) -> range:
        """Ranks that train."""
        return range(1, 1 + self.trainers)

    @property
    def row_owners(self) -> range:
        """Ranks that hold rows: the servers; where there are none, the trainers."""
        return range(1 + self.trainers, self.ranks) if self.servers else self.training

"""Clocks of the trainers of a row server: who may read when, and how stale what it reads is.

Stale synchronous parallel: Ho et al. 2013, "More effective distributed ML via a stale synchronous parallel parameter
server", section 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from any2vec.errors import InputError


class Clocks:
    """A trainer's clock is the number of rounds whose pushes have all arrived at this server. Not thread-safe.

    Args:
        trainers: their ranks.
        bound: at clock c a trainer reads only where the slowest has clock c - bound or more; None: at any time.
        in_step: pushes of a round take effect together, when every trainer has sent its own (bound 0 only).
    """

    def __init__(self, trainers: Iterable[int], bound: int | None, in_step: bool) -> None:
        self.bound = bound
        self._in_step = in_step
        self._done = dict.fromkeys(trainers, 0)
        self._gone: set[int] = set()
        self._seen: dict[int, int] = {}
        """trainer -> rounds of others in effect when it first read in its round"""
        self.staleness: Counter[int] = Counter()
        """reads by how many rounds the slowest trainer was behind the reader: never more than the bound"""
        self.overtaken: Counter[int] = Counter()
        """rounds by how many rounds of others took effect between a trainer's read and its push"""

    @property
    def slowest(self) -> int:
        """The least clock of those that still train; of all, where none does."""
        return min((clock for rank, clock in self._done.items() if rank not in self._gone), default=self._last)

    @property
    def slowest_rank(self) -> int:
        """Whom the others wait for."""
        return min((rank for rank in self._done if rank not in self._gone), key=self._done.__getitem__)

    def may_read(self, clock: int) -> bool:
        return self.bound is None or self.slowest >= clock - self.bound

    def read(self, trainer: int, clock: int) -> None:
        """Note that a trainer reads now, for its round `clock`."""
        self.staleness[max(0, clock - self.slowest)] += 1
        self._seen.setdefault(trainer, self._in_effect(trainer))

    def tick(self, trainer: int, clock: int) -> None:
        """All pushes of a trainer's round `clock` have come.

        Raises:
            InputError: that is not the round that it is in.
        """
        if self._done.get(trainer) != clock:
            raise InputError(f"Rank {trainer} ended round {clock}, where round {self._done.get(trainer)} was to end.")
        if trainer in self._seen:
            self.overtaken[self._in_effect(trainer) - self._seen.pop(trainer)] += 1
        self._done[trainer] = clock + 1

    def leave(self, trainer: int) -> None:
        """A trainer has ended: nobody waits for it any more."""
        self._gone.add(trainer)

    @property
    def _last(self) -> int:
        return max(self._done.values(), default=0)

    def _in_effect(self, trainer: int) -> int:
        """Rounds of others whose pushes are in the rows."""
        slowest = self.slowest
        return sum(slowest if self._in_step else clock for rank, clock in self._done.items() if rank != trainer)

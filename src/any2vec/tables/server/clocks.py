"""Clocks of the trainers of a row server: who may read when, and how stale what it reads is.

Stale synchronous parallel: Ho et al. 2013, "More effective distributed ML via a stale synchronous parallel parameter
server", section 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from any2vec.errors import InputError

REST = -2
"""ticked in place of a round: the trainer stands still until all do, and holds nobody up meanwhile"""
END = -3
"""ticked in place of a round: the trainer has no round left; it may still read, and holds nobody up"""


class Clocks:
    """A trainer's clock is the number of rounds whose pushes have all arrived at this server. Not thread-safe.

    When all trainers rest that have not ended (a checkpoint is taken), all go on from the clock of the one that came
    furthest: they may have had different numbers of rounds.

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
        self._resting: set[int] = set()
        self._seen: dict[int, int] = {}
        """trainer -> rounds of others in effect when it first read in its round"""
        self.staleness: Counter[int] = Counter()
        """reads by how many rounds the slowest trainer was behind the reader: never more than the bound"""
        self.overtaken: Counter[int] = Counter()
        """rounds by how many rounds of others took effect between a trainer's read and its push"""

    @property
    def slowest(self) -> int:
        """The least clock of those that still train; of all, where none does."""
        return min((self._done[rank] for rank in self._awaited), default=self._last)

    @property
    def slowest_rank(self) -> int:
        """Whom the others wait for."""
        return min(self._awaited, key=self._done.__getitem__)

    def of(self, trainer: int) -> int:
        """A trainer's clock."""
        return self._done[trainer]

    def may_read(self, clock: int) -> bool:
        return self.bound is None or self.slowest >= clock - self.bound

    def read(self, trainer: int, clock: int) -> None:
        """Note that a trainer reads now, for its round `clock`."""
        self.staleness[max(0, clock - self.slowest)] += 1
        self._seen.setdefault(trainer, self._in_effect(trainer))

    def tick(self, trainer: int, clock: int) -> None:
        """All pushes of a trainer's round `clock` have come; or REST, or END.

        Raises:
            InputError: that is not the round that it is in.
        """
        if clock == END:
            self.leave(trainer)
            return
        if clock == REST:
            self._resting.add(trainer)
            self._rise()
            return
        if self._done.get(trainer) != clock:
            raise InputError(f"Rank {trainer} ended round {clock}, where round {self._done.get(trainer)} was to end.")
        if trainer in self._seen:
            self.overtaken[self._in_effect(trainer) - self._seen.pop(trainer)] += 1
        self._done[trainer] = clock + 1

    def leave(self, trainer: int) -> None:
        """A trainer has ended: nobody waits for it any more."""
        self._gone.add(trainer)
        self._rise()

    def _rise(self) -> None:
        """Where nobody trains, all who rest go on."""
        if not self._awaited:
            self._done.update(dict.fromkeys(self._resting - self._gone, self._last))
            self._resting.clear()

    @property
    def _awaited(self) -> list[int]:
        """Trainers that may yet end a round."""
        return [rank for rank in self._done if rank not in self._gone and rank not in self._resting]

    @property
    def _last(self) -> int:
        return max(self._done.values(), default=0)

    def _in_effect(self, trainer: int) -> int:
        """Rounds of others whose pushes are in the rows."""
        slowest = self.slowest
        return sum(slowest if self._in_step else clock for rank, clock in self._done.items() if rank != trainer)

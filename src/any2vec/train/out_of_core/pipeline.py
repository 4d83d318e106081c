"""Batches on several threads, with a bound on how stale the rows are that a batch is computed from.

A batch is stale by n if n other batches have changed the rows between its own reading of them and its own change. A
batch is let in only if no batch that is under way can become stale by the bound or more, whatever the threads do: a
bound of 1 trains one batch after another; Marius (Mohoney et al., OSDI 2021) counts the batches under way alone, so
that a slow one there may be overtaken by any number.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from any2vec.background import Background
from any2vec.checks import MAX_THREADS, check_whole
from any2vec.errors import HostError

MOST_BOUND = 1 << 20
PATIENCE = 1800.0
"""seconds without a batch done after which waiting ends"""


@dataclass(frozen=True)
class Stage:
    """What is done to a batch by some threads; its result goes to the next stage."""

    call: Callable[[Any], Any]
    threads: int = 1


def bound_of(staleness_bound: int | None, threads: int) -> int:
    """Batches that rows may be stale by: what is asked for, or what keeps so many threads at work."""
    return staleness_bound or (1 if threads == 1 else 2 * threads)


class Pipeline(Background):
    """Batches through stages: the first reads rows, the last changes them; one stage may do both. A context.

    Args:
        bound: batches, 1 and up: no batch is stale by so many.

    Raises:
        InputError: the bound or a number of threads is not legal.
    """

    def __init__(self, stages: Sequence[Stage], bound: int = 1, patience: float = PATIENCE) -> None:
        check_whole("staleness_bound", bound, 1, MOST_BOUND)
        for stage in stages:
            check_whole("threads", stage.threads, 1, MAX_THREADS)
        works = [
            (f"stage-{place}-{thread}", partial(self._work, place, stage.call))
            for place, stage in enumerate(stages)
            for thread in range(stage.threads)
        ]
        super().__init__(works, patience)
        self.staleness: Counter[int] = Counter()
        """stale by -> batches"""
        self._bound = bound
        self._waiting: list[deque[tuple[int, Any]]] = [deque() for _ in stages]
        """batches before each stage, with their numbers"""
        self._let_in: dict[int, int] = {}
        """batches under way: number -> how many were done when it was let in"""
        self._read_at: dict[int, int] = {}
        """... when it began to read"""
        self._given = self._done = 0
        self._results: list[tuple[int, Any]] = []

    def put(self, batch: Any) -> None:
        """Give a batch; the threads let it in when it may come.

        Raises:
            whatever a stage has raised.
        """
        self.check()
        with self._condition:
            self._waiting[0].append((self._given, batch))
            self._given += 1
            self._condition.notify_all()  # one alone may be of a later stage, which has nothing to do

    def flush(self) -> list[Any]:
        """Wait until no batch is under way; the results of the last stage since the last time, in order of the batches.

        Raises:
            whatever a stage has raised; HostError: no batch was done for too long.
        """
        with self._condition:
            self._await(self._is_idle, self._stalled)
            found = [result for _, result in sorted(self._results, key=lambda one: one[0])]
            self._results.clear()
        return found

    def _is_idle(self) -> bool:
        return not (self._let_in or self._waiting[0])

    def _may_come(self) -> bool:
        """By then each batch under way has seen so many others done, and all that are let in may yet pass it."""
        return not self._let_in or self._done - min(self._let_in.values()) + len(self._let_in) < self._bound

    def _stalled(self) -> HostError:
        return HostError(f"No batch was done for {self._patience:g} s, with {len(self._let_in)} under way.")

    def _work(self, place: int, call: Callable[[Any], Any]) -> None:
        """A thread of a stage."""
        taken = self._take(place)
        while taken is not None:
            number, batch = taken
            result = call(batch)
            with self._condition:
                if place + 1 < len(self._waiting):
                    self._waiting[place + 1].append((number, result))
                else:
                    self._end(number, result)
                self._condition.notify_all()
                taken = self._take(place)

    def _take(self, place: int) -> tuple[int, Any] | None:
        """The next batch for a stage, and its number; None where the thread is to end."""
        with self._condition:
            if not self._awaits_work(lambda: bool(self._waiting[place]) and (place > 0 or self._may_come())):
                return None
            number, batch = self._waiting[place].popleft()
            if place == 0:
                self._let_in[number] = self._read_at[number] = self._done
            return number, batch

    def _end(self, number: int, result: Any) -> None:
        del self._let_in[number]
        self.staleness[self._done - self._read_at.pop(number)] += 1
        self._done += 1
        self._results.append((number, result))
        self._moves += 1
        if self._is_idle():
            self._of_owner.notify_all()

"""Threads that work behind the one that owns them, and how they wait for each other and end."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self


class Background:
    """What `PartitionBuffer`, `Pipeline` and others that read, write or compute behind their owner are made of.

    A context: the threads begin and end with it. The first error of a thread ends them all, and is raised where the
    owner waits next. What they share changes with `_condition` held, which is then notified; it may be taken twice.
    The owner waits for news of its own: each thread that is woken for nothing takes the interpreter from those at work.

    Args:
        works: (a thread's name, what it does until `_awaits_work` is False).
        patience: seconds without progress after which waiting ends.
    """

    def __init__(self, works: Sequence[tuple[str, Callable[[], None]]], patience: float) -> None:
        self._patience = patience
        lock = threading.RLock()
        self._condition, self._of_owner = threading.Condition(lock), threading.Condition(lock)
        self._error: BaseException | None = None
        self._is_over = False
        self._moves = 0
        """of what the owner waits for: while this grows, something is alive"""
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,), name=name, daemon=True) for name, work in works
        ]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(error)

    def start(self) -> None:
        """Begin, for whoever is no context: `close` then ends it."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ask the threads to end, and whoever waits for them; what they have not begun stays undone."""
        with self._condition:
            self._is_over = True
            self._condition.notify_all()
            self._of_owner.notify_all()

    def close(self, error: BaseException | None = None, *, patience: float | None = None) -> None:
        """Stop, and wait until the threads have ended, for so many seconds each at most; None: the usual patience."""
        self.stop()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(self._patience if patience is None else patience)

    def check(self) -> None:
        """Raise what has ended a thread, if any."""
        if self._error is not None:
            raise self._error

    def _await(self, is_so: Callable[[], bool], stalled: Callable[[], Exception]) -> None:
        """For the owner, or threads of others: wait as long as something moves.

        Raises:
            what has ended a thread; what `stalled` makes, where nothing has moved for too long, or will any more.
        """
        with self._condition:
            while not is_so() and self._error is None:
                moves = self._moved()
                self._of_owner.wait_for(lambda: is_so() or self._error or self._is_over, self._patience)
                if not is_so() and self._error is None and (self._is_over or self._moved() == moves):
                    raise stalled()
        self.check()

    def _moved(self) -> int:
        """While this grows, something is alive."""
        return self._moves

    def _awaits_work(self, is_there: Callable[[], bool]) -> bool:
        """For a thread: wait until there is work; False where it is to end."""
        with self._condition:
            self._condition.wait_for(lambda: is_there() or self._is_over or self._error)
            return not (self._is_over or self._error)

    def _progress(self) -> None:
        """Something has moved: whoever waits looks, and waits on."""
        with self._condition:
            self._moves += 1
            self._condition.notify_all()
            self._of_owner.notify_all()

    def _guarded(self, work: Callable[[], None]) -> None:
        """A thread's own function."""
        try:
            work()
        except BaseException as error:
            with self._condition:
                self._error = self._error or error
                self._condition.notify_all()
                self._of_owner.notify_all()


@dataclass
class Spent:
    """Seconds of a stage."""

    at_work: float = 0.0
    for_input: float = 0.0
    """waited for what comes in"""
    for_room: float = 0.0
    """waited until what it has made was taken"""


class Stage(NamedTuple):
    """A step of an assembly line."""

    name: str
    run: Callable[[Iterator[Any]], Iterator[Any]]
    """what comes in -> what goes out, in order; it may hold things back. It keeps no item that it has given on"""


def chained(source: Iterator[Any], stages: Sequence[Stage], spent: Mapping[str, Spent]) -> Iterator[Any]:
    """What the last stage makes of a source, in the caller's thread; seconds at work are added up by stage."""
    for stage in stages:
        source = _Counted(stage, source, spent[stage.name])
    return source


class _Counted:
    """What a stage makes; the seconds that it waits for what comes in are no work of its."""

    def __init__(self, stage: Stage, coming: Iterator[Any], spent: Spent) -> None:
        self._coming, self._spent = coming, spent
        self._before = 0.0
        self._made = stage.run(iter(_Timed(self, coming)))

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        began, self._before = time.perf_counter(), 0.0
        try:
            return next(self._made)
        finally:
            self._spent.at_work += time.perf_counter() - began - self._before

    def came(self, seconds: float) -> None:
        """So long an item has taken to come in."""
        self._before += seconds


class _Timed:
    """What comes into a stage."""

    def __init__(self, stage: _Counted, coming: Iterator[Any]) -> None:
        self._stage, self._coming = stage, coming

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        began = time.perf_counter()
        try:
            return next(self._coming)
        finally:
            self._stage.came(time.perf_counter() - began)


class _OverError(Exception):
    """The owner has ended the stages."""


_END = object()
"""behind the last item of a queue"""


class StageThreads(Background):
    """Stages on threads, which bounded queues join; the owner takes what the last one makes, in order.

    Args:
        source: what the first stage takes.
        threads: the stages of each thread.
        rooms: by thread: items that are made or wait behind it, at most.
        spent: by name of the stage: seconds are added.
        stalled: the error where nothing moves for `patience` seconds.
    """

    def __init__(
        self, source: Iterable[Any], threads: Sequence[Sequence[Stage]], rooms: Sequence[int],
        spent: Mapping[str, Spent], patience: float, stalled: Callable[[], Exception],
    ) -> None:  # fmt: skip
        names = [f"any2vec-{stages[0].name}" for stages in threads]
        super().__init__([(name, partial(self._work, place)) for place, name in enumerate(names)], patience)
        self._source, self._stages, self._rooms, self._spent = source, threads, rooms, spent
        self._stalled = stalled
        self._queues: list[deque[Any]] = [deque() for _ in threads]
        self._made = self._allowed = 0

    def allow(self, number: int) -> None:
        """The last stage may make so many items, from the first one on."""
        with self._condition:
            self._allowed = max(self._allowed, number)
            self._condition.notify_all()

    def take(self, waits: Spent) -> Any:
        """The next item, one of those that are allowed, and there are. waits: who waits for it.

        Raises:
            what has ended a thread; what `stalled` makes.
        """
        began, queue = time.perf_counter(), self._queues[-1]
        self._await(lambda: bool(queue), self._stalled)
        waits.for_input += time.perf_counter() - began
        with self._condition:
            self._condition.notify_all()
            return queue.popleft()

    def _work(self, place: int) -> None:
        stages, queue = self._stages[place], self._queues[place]
        coming = iter(self._source) if place == 0 else self._coming(place)
        made = chained(coming, stages, self._spent)
        try:
            while self._may_make(place):
                item = next(made, _END)
                is_last = item is _END
                with self._condition:
                    queue.append(item)
                    self._made += place == len(self._queues) - 1
                    self._progress()
                del item  # it is the taker's
                if is_last:
                    return
        except _OverError:
            pass

    def _coming(self, place: int) -> Iterator[Any]:
        """What the thread before has made."""
        queue, spent = self._queues[place - 1], self._spent[self._stages[place][0].name]
        while True:
            began = time.perf_counter()
            if not self._awaits_work(lambda: bool(queue)):
                raise _OverError
            spent.for_input += time.perf_counter() - began
            with self._condition:
                if queue[0] is _END:
                    return
                self._condition.notify_all()
                coming = [queue.popleft()]
            yield coming.pop()

    def _may_make(self, place: int) -> bool:
        """Wait until there is room for one more item; False where the stages are over."""
        queue, room = self._queues[place], self._rooms[place]
        is_last = place == len(self._queues) - 1
        if is_last and not self._awaits_work(lambda: self._made < self._allowed):
            return False
        began = time.perf_counter()
        may = self._awaits_work(lambda: len(queue) < room)
        self._spent[self._stages[place][-1].name].for_room += time.perf_counter() - began
        return may

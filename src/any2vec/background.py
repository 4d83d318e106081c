"""Threads that work behind the one that owns them, and how they wait for each other and end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self


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

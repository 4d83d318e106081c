"""The threads with which a host agrees: as many as train between two rounds, and asleep while those train."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

from any2vec.plan.sharding.sharding import contiguous_bounds

Item = TypeVar("Item")
Result = TypeVar("Result")


class ThreadPool:
    """Does independent pieces of work side by side; what comes out does not depend on the number of threads."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="agree") if threads > 1 else None

    def each(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """work(item) for every item; the results in the items' order."""
        if self._pool is None:
            return [work(item) for item in items]
        return list(self._pool.map(work, items))

    def parts(self, size: int) -> list[tuple[int, int]]:
        """[start, stop) of nearly equal parts of range(size), one a thread; empty ones are left out."""
        cuts = contiguous_bounds(size, self.threads)
        return [(start, stop) for start, stop in pairwise(cuts) if start < stop]

"""Work that threads do ahead of those who ask for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def made_ahead(
    work: Callable[[Item], Result], items: Iterable[Item], threads: int, name: str
) -> Generator[Result, None, None]:
    """What `work` makes of each item, in their order; two a thread at most are under way, or wait.

    name: of the threads.

    Raises:
        What work raises, at the place of its item; what items raise, before the results that are under way.
    """
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix=f"any2vec-{name}") as pool:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) == 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

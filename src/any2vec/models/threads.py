"""The threads with which a host trains: each takes the next piece of a work when it is ready for one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from any2vec.types import Stats

Piece = TypeVar("Piece")


class TrainingThreads:
    """Hogwild (Recht et al. 2011) beyond one thread; with one, pieces are trained in order, in the caller's thread."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def train(self, pieces: Iterable[Piece], step: Callable[[int, Piece], Stats]) -> Stats:
        """Call step(number of the thread, piece) for each piece; the sum, with the CPU seconds that it took."""
        left = iter(pieces)

        def take(number: int) -> Stats:
            stats, before = Stats(0, 0.0, 0), time.thread_time()
            while True:
                with self._lock:
                    piece = next(left, None)
                if piece is None:
                    return stats + Stats(0, 0.0, 0, time.thread_time() - before)
                stats += step(number, piece)

        if self._pool is None:
            return take(0)
        return sum(self._pool.map(take, range(self.threads)), Stats(0, 0.0, 0))

    def close(self) -> None:
        """End them."""
        if self._pool is not None:
            self._pool.shutdown()

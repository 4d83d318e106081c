"""What the scripts of this folder share: it imports nothing that one of the environments lacks."""

from __future__ import annotations

import time
from collections.abc import Callable


def seconds_of(work: Callable[[], object], rounds: int) -> list[float]:
    """Of each round behind the first."""
    seconds = []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return seconds[1:]

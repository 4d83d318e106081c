"""What the scripts of this folder share."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

LEAST_SECONDS = 0.01
"""A timing repeats its work until it takes so long: one of a tenth of a millisecond is mostly the clock's noise"""


def milliseconds_in_turn(works: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Of a call of each work, by name, in turn, `rounds` times; behind one that is not counted."""
    longest = max(_milliseconds(work, 1) for _ in range(2) for work in works.values())
    repeats = max(1, round(1000 * LEAST_SECONDS / longest))
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            found[name].append(_milliseconds(work, repeats))
    return found


def _milliseconds(work: Callable[[], object], repeats: int) -> float:
    started = time.perf_counter()
    for _ in range(repeats):
        work()
    return 1000 * (time.perf_counter() - started) / repeats

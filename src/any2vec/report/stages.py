"""Where the time of a run went that has stages: seconds at work and waiting, and how fast bytes moved.

Beside these stand what a core of this machine multiplies and copies, so that one sees what a stage could do.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from html import escape
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from any2vec.report.tables import records_table
from any2vec.units import number, size

_SIZE, _COPIED, _TIMES = 1024, 1 << 26, 3
"""rows of a matrix product; bytes that are copied; times of each, the fastest of which counts"""
_FLOAT = 4


class StageSeconds(NamedTuple):
    """Of one stage."""

    name: str
    at_work: float
    for_input: float
    for_room: float

    @property
    def total(self) -> float:
        return self.at_work + self.for_input + self.for_room


def stages_of(summary: dict[str, Any]) -> list[StageSeconds]:
    """Those that a run's summary has, which took any time."""
    spent, waits = summary.get("seconds_by_stage"), summary.get("waits_by_stage")
    if not isinstance(spent, dict):
        return []
    found = []
    for name, seconds in spent.items():
        own = waits.get(name) if isinstance(waits, dict) else None
        own = own if isinstance(own, dict) else {}
        found.append(
            StageSeconds(
                str(name).replace("_", " "), *map(_seconds, (seconds, own.get("for_input"), own.get("for_room")))
            )
        )
    return [one for one in found if one.total > 0]


def _seconds(value: Any) -> float:
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
    return float(value) if known else 0.0


def stages_section(stages: list[StageSeconds], summary: dict[str, Any]) -> str:
    """A table, and a line about bytes a second; HTML."""
    records = [
        {
            "stage": one.name, "seconds at work": one.at_work, "waiting for input": one.for_input,
            "waiting for room": one.for_room, "share of waiting": f"{(one.total - one.at_work) / one.total:.0%}",
        }
        for one in stages
    ]  # fmt: skip
    known = [f"{name} {size(int(rate))}/s" for name, rate in _rates(stages, summary).items()]
    multiplied, copied = machine_rates()
    beside = (
        f"a core of this machine, now: {number(multiplied)} multiply-adds/s in float32, {size(int(copied))}/s copied"
    )
    line = "; ".join([*known, beside])
    return f'{records_table(records)}<p class="caption">{escape(line[:1].upper() + line[1:])}.</p>'


def _rates(stages: list[StageSeconds], summary: dict[str, Any]) -> dict[str, float]:
    """Bytes of features that stages have moved in a second of work."""
    work = {one.name: one.at_work for one in stages if one.at_work > 0}
    data = summary.get("data")
    columns = _seconds(data.get("num_features")) if isinstance(data, dict) else 0.0
    moved = {
        "read": _seconds(summary.get("bytes_read")),
        "gather": _FLOAT * columns * _seconds(summary.get("rows_read")),
    }
    return {name: moved[name] / work[name] for name in moved if moved[name] and name in work}


def machine_rates() -> tuple[float, float]:
    """(multiply-adds a second of a float32 matrix product, bytes a second that are copied, read and written counted
    once), by one thread."""
    one = np.ones((_SIZE, _SIZE), np.float32)
    product, source, target = np.empty_like(one), np.ones(_COPIED, np.uint8), np.empty(_COPIED, np.uint8)
    with threadpool_limits(limits=1):
        return _SIZE**3 / _fastest(lambda: np.matmul(one, one, out=product)), _COPIED / _fastest(
            lambda: np.copyto(target, source)
        )


def _fastest(call: Callable[[], object]) -> float:
    """Seconds."""
    found = []
    for _ in range(_TIMES):
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
    return max(min(found), 1e-9)

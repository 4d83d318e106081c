"""Plain twin of `plan.lookahead.window` and `plan.lookahead.exact`: it sees the whole stream, and asks what each step
is to do with each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Stream = Sequence[Sequence[Sequence[int]]]
"""step -> trainer -> its distinct rows"""


class Expected(NamedTuple):
    """One step."""

    fetched: dict[int, set[int]]
    """row -> the trainers that fetch it"""
    alone: dict[int, int]
    """row -> the trainer that alone has it, and steps it by its own gradient"""
    summed: dict[int, set[int]]
    """row -> the trainers that step it by the sum of gradients; all others that have it forget it"""
    moves: dict[int, set[int]]
    """row -> the trainers that it moves to"""
    now: set[int]
    later: set[int]
    """rows that are summed or move"""
    leaving: set[int]
    """used for the last time within the window"""


def users(stream: Stream, step: int, row: int) -> list[int]:
    return [trainer for trainer, rows in enumerate(stream[step]) if row in rows]


def next_use(stream: Stream, step: int, row: int, look_ahead: int) -> int | None:
    """The next step within the window that uses a row."""
    for later in range(step + 1, min(step + look_ahead, len(stream) - 1) + 1):
        if users(stream, later, row):
            return later
    return None


def expected(stream: Stream, step: int, look_ahead: int) -> Expected:
    """Without a limit of the cache. Rows that several use last go to the trainer of their number modulo N."""
    found, everyone = Expected({}, {}, {}, {}, set(), set(), set()), set(range(len(stream[step])))
    for row in {row for rows in stream[step] for row in rows}:
        who = users(stream, step, row)
        # It is held if an earlier step of the last L used it.
        if not any(users(stream, before, row) for before in range(max(0, step - look_ahead), step)):
            found.fetched[row] = set(who) if len(who) == 1 else everyone
        coming = next_use(stream, step, row, look_ahead)
        if coming is None:
            found.leaving.add(row)
            heirs = set(who) if len(who) == 1 else {row % len(everyone)}
        else:
            heirs = set(users(stream, coming, row))
            heirs = heirs if len(heirs) == 1 else everyone
        if len(who) == 1:
            found.alone[row] = who[0]
        if len(who) > 1:
            found.summed[row] = heirs
        elif heirs != set(who):
            found.moves[row] = heirs - set(who)
        else:
            continue
        (found.now if coming == step + 1 else found.later).add(row)
    return found

"""Plain twin of `any2vec.plan.lookahead` and `any2vec.plan.cacher`: it sees the whole stream, and asks what each step
is to do with each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Stream = Sequence[Sequence[Sequence[int]]]
"""step -> trainer -> its distinct rows"""


class Expected(NamedTuple):
    """One step."""

    fetched: set[int]
    """by some trainer"""
    now: set[int]
    later: set[int]
    never: dict[int, int]
    """row -> the trainer that alone has it"""
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
    """Without a limit of the cache."""
    found = Expected(set(), set(), set(), {}, set())
    for row in {row for rows in stream[step] for row in rows}:
        # It is held if an earlier step of the last L used it.
        if not any(users(stream, before, row) for before in range(max(0, step - look_ahead), step)):
            found.fetched.add(row)
        coming, who = next_use(stream, step, row, look_ahead), users(stream, step, row)
        if coming is None:
            found.leaving.add(row)
        if coming == step + 1:
            found.now.add(row)
        elif coming is None and len(who) == 1:
            found.never[row] = who[0]
        else:
            found.later.add(row)
    return found

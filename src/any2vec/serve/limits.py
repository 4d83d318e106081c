"""What one request may ask for, and how long it may take."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated

from any2vec.checks import Number, Whole, check_fields
from any2vec.errors import Any2VecError, InputError


class TooLateError(Any2VecError):
    """A request has taken longer than it may."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Of each request.

    Raises:
        InputError: one is outside its interval.
    """

    max_request_bytes: Annotated[int, Whole(1, 1 << 30)] = 1 << 20
    """largest body of a request, in bytes, 1..1,073,741,824"""
    max_items: Annotated[int, Whole(1, 1_000_000)] = 1000
    """most keys, vectors, rows, triples or queries of a request, 1..1,000,000"""
    max_k: Annotated[int, Whole(1, 1_000_000)] = 1000
    """most answers to a query, 1..1,000,000"""
    max_answers: Annotated[int, Whole(1, 1_000_000_000)] = 100_000
    """most answers of a request in all, queries times k, 1..1,000,000,000"""
    max_seconds: Annotated[float, Number(0, 3600, open_low=True)] = 10.0
    """seconds from the head of a request to its answer, and for which a client may take nothing of it, in (0, 3600]"""

    def __post_init__(self) -> None:
        check_fields(self)

    def check_items(self, what: str, items: int) -> None:
        """InputError: a request holds more than it may."""
        if items > self.max_items:
            raise InputError(f"A request has {self.max_items:,} {what} at most, got {items:,}; ask in parts.")

    def check_k(self, k: int, queries: int = 1) -> None:
        """InputError: a request asks for more answers than it may, to a query or in all."""
        if k > self.max_k:
            raise InputError(f"k must be a whole number from 1 to {self.max_k:,}, got {k:,}.")
        self.check_answers(queries * k, f"{queries:,} queries with k {k:,}")

    def check_answers(self, answers: int, asked: str) -> None:
        """InputError: a request asks for more numbers or answers than it may in all."""
        if answers > self.max_answers:
            raise InputError(f"A request has {self.max_answers:,} answers at most, got {asked}; ask in parts.")


@dataclass(frozen=True)
class Deadline:
    """When a request must be answered, by the monotonic clock."""

    end: float
    seconds: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        return cls(time.monotonic() + seconds, seconds)

    @property
    def left(self) -> float:
        return max(0.0, self.end - time.monotonic())

    def check(self) -> None:
        """Between pieces of work.

        Raises:
            TooLateError: the time is over.
        """
        if time.monotonic() > self.end:
            raise TooLateError(f"The answer takes longer than {self.seconds:g} s; ask for less at once.")

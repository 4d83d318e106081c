"""Checks of options at the door: one sentence that says what was expected and what came. Light: no NumPy."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from any2vec.errors import InputError

MAX_SEED = 2**63 - 1
MAX_THREADS = 1024


def check_whole(name: str, value: Any, low: int, high: int) -> None:
    """Raise InputError unless value is a whole number (NumPy's too) in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not low <= int(value) <= high:
        raise InputError(f"{name} must be a whole number from {low} to {high:,}, got {value!r}.")


def check_number(name: str, value: Any, low: float, high: float, *, open_low: bool = False) -> None:
    """Raise InputError unless value is a finite number in [low, high], or in (low, high] with open_low."""
    legal = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if not legal or not low <= value <= high or (open_low and value == low):
        raise InputError(f"{name} must be a number in {'(' if open_low else '['}{low:g}, {high:g}], got {value!r}.")


def check_run(epochs: Any, threads: Any, seed: Any, checkpoint_seconds: Any) -> None:
    """Raise InputError unless these are legal arguments of `fit`; None for epochs is the model's default."""
    check_whole("epochs", 1 if epochs is None else epochs, 1, 1_000_000)
    check_whole("threads", threads, 0, MAX_THREADS)
    check_whole("seed", seed, 0, MAX_SEED)
    check_number("checkpoint_seconds", checkpoint_seconds, 0, 1e9, open_low=True)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise InputError unless value is one of choices."""
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(choices)}, got {value!r}.")

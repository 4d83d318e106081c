"""Checks at the door, of options and of JSON and TOML: a sentence on what was expected and what came. No NumPy."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import cache
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from any2vec.errors import InputError

MAX_SEED = 2**63 - 1
MAX_THREADS = 1024
MOST_LEVELS = 100
"""of lists and objects in each other"""


def check_whole(name: str, value: Any, low: int, high: int) -> None:
    """Raise InputError unless value is a whole number (NumPy's too) in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not low <= int(value) <= high:
        raise InputError(f"{name} must be a whole number from {low} to {high:,}, got {value!r}.")


def check_number(name: str, value: Any, low: float, high: float, *, open_low: bool = False) -> None:
    """Raise InputError unless value is a finite number in [low, high], or in (low, high] with open_low."""
    legal = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if not legal or not low <= value <= high or (open_low and value == low):
        raise InputError(f"{name} must be a number in {'(' if open_low else '['}{low:g}, {high:g}], got {value!r}.")


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise InputError unless value is one of choices."""
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(choices)}, got {value!r}.")


def nearest_names(name: str, known: Iterable[str], count: int = 1) -> list[str]:
    """At most `count` of the known names that are spelled nearly like `name`, the nearest first."""
    import difflib

    return difflib.get_close_matches(name, list(known), n=count)


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """The end of a sentence: `did you mean 'x'?`, else `otherwise`, by default the list of the known names."""
    listed = list(known)
    near = nearest_names(name, listed)
    return f"did you mean {near[0]!r}?" if near else otherwise or f"known are {', '.join(listed)}."


class Whole(NamedTuple):
    """What `check_whole` asks of a field, beside its type: `dim: Annotated[int, Whole(1, 4096)] = 100`."""

    low: int
    high: int


class Number(NamedTuple):
    """The same of `check_number`."""

    low: float
    high: float
    open_low: bool = False


def plain_number(value: Any) -> Any:
    """A number or bool of NumPy as Python's, which JSON and kernels take; all else as it is."""
    if type(value) in (int, float, bool):
        return value
    if isinstance(value, Real):
        return int(value) if isinstance(value, Integral) else float(value)
    return bool(value) if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_") else value


def plain_fields(options: Any) -> None:
    """Make the numbers in the fields of a dataclass, a frozen one too, those of Python."""
    for item in fields(options):
        object.__setattr__(options, item.name, plain_number(getattr(options, item.name)))


def check_fields(options: Any, whose: str = "") -> None:
    """Raise InputError for a field of a dataclass that is outside its interval, or none of its `Literal` choices.

    NumPy's numbers become Python's. A subclass that gives a field another default keeps the interval. None is
    legal where it is the default.

    whose: stands behind the field's name in the message.
    """
    kind: Any = type(options)
    plain_fields(options)
    for name, constraint, default in _constraints(kind):
        value = getattr(options, name)
        if value is None and default is None:
            continue
        if isinstance(constraint, Whole):
            check_whole(f"{name}{whose}", value, *constraint)
        elif isinstance(constraint, Number):
            check_number(f"{name}{whose}", value, constraint.low, constraint.high, open_low=constraint.open_low)
        else:
            check_choice(f"{name}{whose}", value, constraint)


@cache
def _constraints(kind: type) -> list[tuple[str, Any, Any]]:
    """(name, what is asked of it, default) of each field of a dataclass of which something is asked."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        for name, hint in get_type_hints(base, include_extras=True).items():
            for part in (hint, *get_args(hint)):
                if isinstance(part, Whole | Number):
                    found[name] = part
                elif get_origin(part) is Literal:
                    found[name] = get_args(part)
    return [(item.name, found[item.name], item.default) for item in fields(kind) if item.name in found]


def is_unicode(text: str) -> bool:
    """Whether it can be written as UTF-8: no half of a surrogate pair stands in it, as for a bad byte of a command."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def parse_json(text: str | bytes) -> Any:
    """What JSON says. ValueError: it is none, or nested too deep."""
    return _shallow(json.loads, text if isinstance(text, str) else text.decode("utf-8-sig"))


def parse_toml(text: str) -> dict[str, Any]:
    """What TOML says. ValueError: it is none, or nested too deep."""
    found: dict[str, Any] = _shallow(tomllib.loads, text)
    return found


def _shallow(parse: Callable[[str], Any], text: str) -> Any:
    too_deep = ValueError(f"more than {MOST_LEVELS} lists and objects stand in each other")
    try:
        found = parse(text)
    except RecursionError:
        raise too_deep from None
    if sum(map(text.count, "[{.")) < MOST_LEVELS:
        return found
    level = [found]
    for _ in range(MOST_LEVELS + 1):
        level = [one for one in level if isinstance(one, dict | list)]
        if not level:
            return found
        level = [item for one in level for item in (one.values() if isinstance(one, dict) else one)]
    raise too_deep


def is_missing(value: Any) -> bool:
    """Whether it stands where a value is missing: None, NaN, or what pandas has for it."""
    if isinstance(value, Real) and not isinstance(value, Integral):
        return math.isnan(value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")

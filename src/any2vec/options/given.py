"""What a call is given for its options: the options themselves or a dict of them, a path, a function. All else is
refused in a sentence that says what is taken."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from any2vec.checks import did_you_mean
from any2vec.errors import InputError
from any2vec.options.named import names_here
from any2vec.registry import loaded


def given_options(argument: str, given: Any, kind: type) -> Any:
    """The options that an argument stands for: one of `kind`, a class of options, or a dict of its fields.

    Raises:
        InputError: it is neither, a field of the dict is unknown, or a value is not legal.
    """
    if isinstance(given, kind):
        return given
    known = [item.name for item in fields(kind)]
    if not isinstance(given, Mapping):
        raise InputError(
            f"{argument} takes {kind.__name__}(...) or a dict of its options, got {given!r:.80}; such as "
            f"{argument}={kind.__name__}({known[0]}=...)."
        )
    for name in given:
        if name not in known:
            raise InputError(
                f"{argument}: {kind.__name__} has no option {name!r}; {did_you_mean(names_here(str(name))[-1], known)}"
            )
    return kind(**given)


def given_readings(places: Mapping[str, str], given: Mapping[str, Any], more: Any) -> dict[str, Any]:
    """Options of reading by their kind, without those that are None; a dict becomes the options of its kind.

    places: kind -> "module:class" of the options of a task; of other kinds they stay as they are. more: like given.

    Raises:
        InputError: more is no dict, or options are neither those of their kind nor a dict of them.
    """
    if more is not None and not isinstance(more, Mapping):
        raise InputError(f"reading takes a dict of options by their kind ({', '.join(places)}), got {more!r:.80}.")
    found = {kind: options for kind, options in {**given, **(more or {})}.items() if options is not None}
    for kind in found:
        if kind in places and hasattr(cls := loaded(places[kind]), "__dataclass_fields__"):
            found[kind] = given_options(kind, found[kind], cls)
    return found


def given_path(argument: str, given: Any) -> Path | None:
    """The path that an argument stands for; None stays. InputError: it is none."""
    if given is None:
        return None
    if not isinstance(given, str | os.PathLike) or not isinstance(os.fspath(given), str) or given == "":
        raise InputError(f"{argument} takes the path of a folder, got {given!r:.80}.")
    return Path(given)


def check_called(**functions: Any) -> None:
    """Raise InputError for an argument that is neither None nor can be called."""
    for argument, given in functions.items():
        if given is not None and not callable(given):
            raise InputError(f"{argument} takes a function, got {given!r:.80}; such as {argument}=print.")

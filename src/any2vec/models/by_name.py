"""A model from what a file says of it. Light: the model's own module is imported where it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any

from any2vec.errors import FormatError


def model_of(options: Mapping[str, Any], known: Mapping[str, str], what: str) -> Any:
    """The model whose `as_dict` this is.

    Args:
        known: name, and that of its module -> its class; what: they learn from, which names their folder.

    Raises:
        FormatError: it is none that this version knows.
        InputError: an option is not legal.
    """
    options = dict(options)
    name = options.pop("model", None)
    if name not in known:
        raise FormatError(f"There is no model of {what} called {name!r}; known are {', '.join(known)}.")
    kind = getattr(import_module(f"any2vec.models.{what}.{name}"), known[name])
    odd = options.keys() - {item.name for item in fields(kind)}
    if odd:
        raise FormatError(f"{name} has no option {min(odd)!r}; it is of another version of any2vec.")
    return kind(**options)

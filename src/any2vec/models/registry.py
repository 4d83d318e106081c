"""Models by name. Light: a model's own module is imported where it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from any2vec.errors import FormatError, InputError
from any2vec.formats.legacy import present_names
from any2vec.registry import Registry

GROUP = "any2vec.models"
"""entry points of other packages' models: group GROUP.TASK, name that of the model, value "module:class" """


def known_models(task: str, own: Mapping[str, str]) -> Registry[Any]:
    """The configs of a task's models, its own (name -> "module:class") and those of other packages."""
    return _registry(task, tuple(own.items()))


@cache
def _registry(task: str, own: tuple[tuple[str, str], ...]) -> Registry[Any]:
    return Registry("model", f"{GROUP}.{task}", dict(own))


def model_class(known: Registry[Any], name: str) -> Any:
    """The class of a model's config.

    Raises:
        InputError: there is none of that name, it cannot be loaded, or it calls itself otherwise.
    """
    kind = known.named(name)
    if getattr(kind, "name", None) != name:
        where, own = known.places()[name], getattr(kind, "name", None)
        raise InputError(f"The model {name} of {where} calls itself {own!r}; fix the package.")
    return kind


def model_of(options: Mapping[str, Any], known: Registry[Any], what: str) -> Any:
    """The model whose `as_dict` this is; what: the models of `known` learn from.

    Raises:
        FormatError: it is none that this version, or an installed package, knows.
        InputError: an option is not legal.
    """
    values = present_names(options)
    name = values.pop("model", None)
    if name not in known.names():
        raise FormatError(f"There is no model of {what} called {name!r}; known are {', '.join(known.names())}.")
    kind = model_class(known, name)
    odd = values.keys() - {item.name for item in fields(kind)}
    if odd:
        raise FormatError(f"{name} has no option {min(odd)!r}; it is of another version of any2vec.")
    return kind(**values)

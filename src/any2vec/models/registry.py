"""Models by name. Light: a model's own module is imported where it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from any2vec.errors import FormatError, InputError
from any2vec.formats.former import present_names

GROUP = "any2vec.models"
"""entry points of other packages' models: group GROUP.TASK, name that of the model, value "module:class" """


@cache
def loaded(where: str) -> Any:
    """What stands at "module:name"."""
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


@cache
def _of_others(task: str) -> list[tuple[str, str]]:
    return [(point.name, point.value) for point in entry_points(group=f"{GROUP}.{task}")]


def known_models(task: str, own: Mapping[str, str]) -> dict[str, str]:
    """Name of each model of a task, its own and those of other packages -> "module:class" of its config.

    Raises:
        InputError: two have the same name.
    """
    known = dict(own)
    for name, where in _of_others(task):
        if known.setdefault(name, where) != where:
            raise InputError(f"There are two models {name!r}, {known[name]} and {where}; uninstall the other package.")
    return known


def model_class(name: str, where: str) -> Any:
    """The class of a model's config, at "module:class".

    Raises:
        InputError: it cannot be loaded, or has another name: of another package.
    """
    try:
        kind = loaded(where)
    except Exception as error:
        raise InputError(
            f"The model {name} cannot be loaded from {where}: {type(error).__name__}: {error}; mend its package or "
            "uninstall it."
        ) from error
    if getattr(kind, "name", None) != name:
        raise InputError(f"The model {name} of {where} calls itself {getattr(kind, 'name', None)!r}; mend its package.")
    return kind


def model_of(options: Mapping[str, Any], known: Mapping[str, str], what: str) -> Any:
    """The model whose `as_dict` this is.

    Args:
        known: name -> "module:class" of its config; what: they learn from.

    Raises:
        FormatError: it is none that this version, or an installed package, knows.
        InputError: an option is not legal.
    """
    values = present_names(options)
    name = values.pop("model", None)
    if name not in known:
        raise FormatError(f"There is no model of {what} called {name!r}; known are {', '.join(known)}.")
    kind = model_class(name, known[name])
    odd = values.keys() - {item.name for item in fields(kind)}
    if odd:
        raise FormatError(f"{name} has no option {min(odd)!r}; it is of another version of any2vec.")
    return kind(**values)

"""Modules by their places in the code, "package:Class": imported, given in Python, and made. Light: no PyTorch."""

from __future__ import annotations

import copy
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from any2vec.checks import parse_json
from any2vec.errors import InputError

_EXAMPLE = "models:SAGE, or torch_geometric.nn:GraphSAGE"
_OURS = ("in_channels", "out_channels")
_UNNAMED = re.compile(r"<\w+>")
"""of a place within functions: <locals>, <lambda>, <listcomp>, and what else Python calls so"""


class GivenPlace(str):
    """The place of what was given in Python, and the thing itself: things of one name are different places.

    Equal where the same thing was given; to a run's folder it is its text alone.
    """

    given: Any
    factory: Callable[..., Any]

    def __new__(cls, place: str, given: Any, factory: Callable[..., Any]) -> GivenPlace:
        found = super().__new__(cls, place)
        found.given, found.factory = given, factory
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GivenPlace) and self.given is other.given

    def __ne__(self, other: object) -> bool:
        return not self == other  # str has its own, of the texts

    def __hash__(self) -> int:
        return id(self.given)

    def __deepcopy__(self, memo: object) -> GivenPlace:
        return self  # what a copy of a config names is the same thing

    def __reduce__(self) -> tuple[Any, ...]:
        return place_of, (self.given,)


def place_of(given: Any) -> str:
    """The place of a class, a function that makes modules, or a module, with the thing itself; a text stays as it is.

    Raises:
        InputError: it is none of these.
    """
    if isinstance(given, str):
        return given
    is_module = hasattr(given, "state_dict") and not isinstance(given, type)
    if not callable(given):
        raise InputError(f"module must be a class, a function that makes a module, or {_EXAMPLE}; got {given!r}.")
    kind = type(given) if is_module else given
    place = f"{kind.__module__}:{getattr(kind, '__qualname__', type(kind).__qualname__)}"
    return GivenPlace(place, given, (lambda **_: copy.deepcopy(given)) if is_module else given)


def check_place(place: str) -> None:
    """Raise InputError unless it is written "package:Class"; nothing is imported."""
    package, colon, name = place.partition(":")
    parts = [*package.split("."), *_UNNAMED.sub("made", name).split(".")]
    if not colon or not all(part.isidentifier() for part in parts):
        raise InputError(f"module must be written package:Class, like {_EXAMPLE}; got {place!r}.")


def arguments_text(given: str | Mapping[str, Any] | None) -> str | None:
    """Arguments as JSON with sorted names; None: there are none.

    Raises:
        InputError: they are no JSON object, or those that are given from the data.
    """
    if given is None or given == "":
        return None
    try:
        found = parse_json(given) if isinstance(given, str) else dict(given)
        text = json.dumps(found, sort_keys=True)
    except (ValueError, TypeError) as error:
        raise InputError(
            f'module_args must be a JSON object, like {{"hidden_channels": 64, "num_layers": 2}}; got {given!r}. In '
            "Python a function that makes the module can take anything."
        ) from error
    if not isinstance(found, dict) or not all(isinstance(name, str) and name.isidentifier() for name in found):
        raise InputError(f'module_args must be a JSON object of names, like {{"hidden_channels": 64}}; got {text}.')
    if taken := [name for name in _OURS if name in found]:
        raise InputError(f"module_args must not have {taken[0]}: it comes from the data; leave it out.")
    return text if found else None


def arguments(text: str | None) -> dict[str, Any]:
    """What `arguments_text` has written."""
    return dict(json.loads(text)) if text else {}


def factory_at(place: str) -> Callable[..., Any]:
    """What makes a module: what was given in Python, or imported, from installed packages, or else the current folder.

    Raises:
        InputError: there is nothing of that name, or importing it fails.
    """
    if isinstance(place, GivenPlace):
        return place.factory
    check_place(place)
    package, _, name = place.partition(":")
    try:
        with _current_folder():
            found: Any = import_module(package)
    except ModuleNotFoundError as error:
        if package.endswith(".py"):
            raise InputError(f"--module names a file without its .py: {package[:-3]}:{name}, got {place}.") from error
        raise InputError(
            f"There is no {error.name} among installed packages or in the current folder; --module names a file or a "
            f"package, and a class in it, like {_EXAMPLE}."
        ) from error
    except Exception as error:
        raise InputError(f"{package} cannot be imported: {type(error).__name__}: {_line(error)}") from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise InputError(f"{package} has no {name}; --module names a class or function in it, like {_EXAMPLE}.")
        found = getattr(found, part)
    if not callable(found):
        raise InputError(f"{place} is no class and no function that makes a module, but {type(found).__name__}.")
    return found


def make(place: str, text: str | None, in_channels: int, out_channels: int) -> Any:
    """A module, made as Class(in_channels=..., out_channels=..., **arguments).

    Raises:
        InputError: as of `factory_at`, or it does not take these arguments.
    """
    factory, more = factory_at(place), arguments(text)
    try:
        return factory(in_channels=in_channels, out_channels=out_channels, **more)
    except Exception as error:
        said = "".join(f", {name}={value!r}" for name, value in more.items())
        raise InputError(
            f"{place} cannot be made as {place.rpartition(':')[2]}(in_channels={in_channels}, "
            f"out_channels={out_channels}{said}): {type(error).__name__}: {_line(error)}; --module-args gives it more."
        ) from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300].rstrip(".")


@contextmanager
def _current_folder() -> Iterator[None]:
    """Files of the current folder can be imported meanwhile, behind packages: none stands in for one of these, so that
    naming a package runs no code of the folder that a run came in."""
    folder = str(Path.cwd())
    sys.path.append(folder)
    try:
        yield
    finally:
        if folder in sys.path:
            del sys.path[len(sys.path) - 1 - sys.path[::-1].index(folder)]

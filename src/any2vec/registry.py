"""Classes by name: ours by their places in the code, those of other packages by entry points. Light: no NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from any2vec.checks import check_choice
from any2vec.errors import InputError

T = TypeVar("T")


@cache
def loaded(where: str) -> Any:
    """What stands at "module:name"."""
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


class Registry(Generic[T]):
    """Name -> class, which is imported where it is asked for.

    Args:
        noun: what the classes are, in messages.
        group: of the entry points by which packages add their own, "NAME = module:Class".
        places: name -> "module:Class" of those that do not come by an entry point.
        base: "module:Class" that each must be a subclass of; "": any class will do.
    """

    def __init__(self, noun: str, group: str, places: Mapping[str, str] | None = None, base: str = "") -> None:
        self.noun, self.group = noun, group
        self._base = base
        self._own: dict[str, str | type[T]] = dict(places or {})
        self._packages: dict[str, str] | None = None
        """name -> distribution of those that come by an entry point; None: nobody has looked"""
        self._twice: dict[str, str] = {}
        """name -> where another class of that name stands"""

    def register(self, name: str, kind: type[T] | str) -> None:
        """Add a class, or the "module:Class" where it stands.

        Raises:
            InputError: the name is taken.
        """
        if name in self.places():
            raise InputError(f"A {self.noun} {name!r} is registered already; choose another name.")
        self._own[name] = kind

    def unregister(self, name: str) -> None:
        del self._own[name]

    def places(self) -> Mapping[str, str | type[T]]:
        """Name -> class, or where it stands."""
        if self._packages is None:
            self._packages = {}
            for point in sorted(entry_points(group=self.group), key=lambda one: one.name):
                if self._own.setdefault(point.name, point.value) != point.value:
                    self._twice[point.name] = point.value
                self._packages[point.name] = point.dist.name if point.dist else "?"
        return self._own

    def names(self) -> tuple[str, ...]:
        """Of all; none is imported."""
        return tuple(self.places())

    def named(self, name: str) -> type[T]:
        """The class of that name.

        Raises:
            InputError: there is none, or two, it cannot be imported, or is no subclass of what it should be.
        """
        check_choice(self.noun, name, self.names())
        place = self._own[name]
        if name in self._twice:
            raise InputError(
                f"There are two {self.noun}s {name!r}, {place} and {self._twice[name]}; uninstall the other package."
            )
        with self._blamed(name):
            found: type[T] = loaded(place) if isinstance(place, str) else place
        if self._base and not (isinstance(found, type) and issubclass(found, loaded(self._base))):
            raise InputError(f"{self._subject(name)} is no subclass of {self._base.replace(':', '.')}; {_CURE}")
        return found

    def made(self, name: str) -> T:
        """An instance of that class, without arguments. Raises as `named`."""
        kind = self.named(name)
        with self._blamed(name):
            return kind()

    @contextmanager
    def _blamed(self, name: str) -> Iterator[None]:
        """Whatever fails within it is a fault of the package that the class comes from."""
        try:
            yield
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise InputError(
                f"{self._subject(name)} cannot be loaded from {self._own[name]}: {what}; {_CURE}"
            ) from error

    def _subject(self, name: str) -> str:
        return f"The {self.noun} {name} of the package {(self._packages or {}).get(name, 'any2vec')}"


_CURE = "fix the package or uninstall it."

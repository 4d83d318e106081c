"""Merge rules by name: they register by the entry points of a group, ours through the same door as others'. Light."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from any2vec.errors import InputError

if TYPE_CHECKING:
    from any2vec.sync.rules.merge_rule import MergeRule

GROUP = "any2vec.rules"


def rule_names() -> tuple[str, ...]:
    """Of all registered rules; none is loaded."""
    return tuple(_points())


@cache
def rule_class(name: str, *, is_curved: bool = False) -> type[MergeRule]:
    """The class of a rule. is_curved: whether it may ask for curvature.

    Raises:
        InputError: there is none of that name, it does not load, is no merge rule, or asks for what nobody knows.
    """
    from any2vec.sync.base.curvature import Curved
    from any2vec.sync.rules.merge_rule import MergeRule

    point = _points().get(name)
    if point is None:
        raise InputError(f"There is no merge rule {name!r}; known are {', '.join(rule_names())}.")
    package = point.dist.name if point.dist else "?"
    try:
        found = point.load()
    except Exception as error:
        raise InputError(
            f"The merge rule {name} of the package {package} cannot be loaded: {type(error).__name__}: {error}; mend "
            "the package or uninstall it."
        ) from error
    if not (isinstance(found, type) and issubclass(found, MergeRule)):
        raise InputError(
            f"The merge rule {name} of the package {package} is no subclass of any2vec.sync.rules.merge_rule.MergeRule;"
            " mend the package or uninstall it."
        )
    if issubclass(found, Curved) and not is_curved:
        raise InputError(
            f"The merge rule {name} goes by the curvature that rows share, which is known between rounds of words and "
            "nodes with negative sampling alone; choose another one, such as blend."
        )
    return found


@cache
def _points() -> dict[str, EntryPoint]:
    return dict(sorted((point.name, point) for point in entry_points(group=GROUP)))

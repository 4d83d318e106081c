"""Merge rules by name: they register by the entry points of a group, ours through the same door as others'. Light."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from any2vec.errors import InputError
from any2vec.registry import Registry

if TYPE_CHECKING:
    from any2vec.sync.rules.merge_rule import MergeRule

RULES: Registry[MergeRule] = Registry("merge rule", "any2vec.rules", base="any2vec.sync.rules.merge_rule:MergeRule")


def is_curved(name: str) -> bool:
    """Whether a merge rule asks for the curvature of a round."""
    from any2vec.sync.base.curvature import Curved

    return issubclass(RULES.named(name), Curved)


def plain_rules() -> tuple[str, ...]:
    """Names of the rules that go by no curvature and so serve any rows; those that do not load are none. It loads all
    others: for messages.
    """
    found = []
    for name in RULES.names():
        with suppress(InputError):
            if not is_curved(name):
                found.append(name)
    return tuple(found)


def rule_class(name: str, *, has_curvature: bool = False) -> type[MergeRule]:
    """The class of a rule. has_curvature: whether it may ask for it.

    Raises:
        InputError: there is none of that name, it does not load, is no merge rule, or asks for what nobody knows.
    """
    if is_curved(name) and not has_curvature:
        raise InputError(
            f"The merge rule {name} goes by the curvature that rows share, which is known between rounds of words and "
            "nodes with negative sampling alone; choose another one, such as blend."
        )
    return RULES.named(name)

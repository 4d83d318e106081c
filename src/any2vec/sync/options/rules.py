"""Merge rules by name: they register by the entry points of a group, ours through the same door as others'. Light."""

from __future__ import annotations

from typing import TYPE_CHECKING

from any2vec.errors import InputError
from any2vec.registry import Registry

if TYPE_CHECKING:
    from any2vec.sync.rules.merge_rule import MergeRule

RULES: Registry[MergeRule] = Registry("merge rule", "any2vec.rules", base="any2vec.sync.rules.merge_rule:MergeRule")


def rule_class(name: str, *, is_curved: bool = False) -> type[MergeRule]:
    """The class of a rule. is_curved: whether it may ask for curvature.

    Raises:
        InputError: there is none of that name, it does not load, is no merge rule, or asks for what nobody knows.
    """
    from any2vec.sync.base.curvature import Curved

    found = RULES.named(name)
    if issubclass(found, Curved) and not is_curved:
        raise InputError(
            f"The merge rule {name} goes by the curvature that rows share, which is known between rounds of words and "
            "nodes with negative sampling alone; choose another one, such as blend."
        )
    return found

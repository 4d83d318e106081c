"""Merge rules by name: they register by the entry points of a group, ours through the same door as others'. Light."""

from __future__ import annotations

from typing import TYPE_CHECKING

from any2vec.registry import Registry

if TYPE_CHECKING:
    from any2vec.sync.rules.merge_rule import MergeRule

RULES: Registry[MergeRule] = Registry("merge rule", "any2vec.rules", base="any2vec.sync.rules.merge_rule:MergeRule")

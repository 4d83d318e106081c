"""METIS as a case of a test: it is skipped where pymetis is missing, and the other ways to cut a graph are not."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from any2vec.plan.choices import PARTITIONS

needs_metis = pytest.mark.skipif(
    importlib.util.find_spec("pymetis") is None,
    reason="the partition metis needs pymetis (the extra any2vec[partition])",
)


def with_metis(*values: Any) -> Any:
    """A case of `parametrize` that needs METIS."""
    return pytest.param(*values, marks=needs_metis)


CUTS = [with_metis(name) if name == "metis" else name for name in PARTITIONS]
"""all ways to cut a graph, as cases"""

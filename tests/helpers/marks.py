"""Marks that several files of tests bear."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import pytest

from any2vec.plan.choices import PARTITIONS

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="stores of partitions need Linux")
uint64_wraps = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
"""without the compiler, wrapping uint64 arithmetic makes NumPy warn; it is meant to wrap"""
needs_metis = pytest.mark.skipif(
    importlib.util.find_spec("pymetis") is None,
    reason="the partition metis needs pymetis (the extra any2vec[partition])",
)


def with_metis(*values: Any) -> Any:
    """A case of `parametrize` that needs METIS."""
    return pytest.param(*values, marks=needs_metis)


CUTS = [with_metis(name) if name == "metis" else name for name in PARTITIONS]
"""all ways to cut a graph, as cases"""

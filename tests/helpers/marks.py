"""Marks that several files of tests bear."""

from __future__ import annotations

import sys

import pytest

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="stores of partitions need Linux")
uint64_wraps = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
"""without the compiler, wrapping uint64 arithmetic makes NumPy warn; it is meant to wrap"""

"""Fixtures of the tests of benchmarks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from benchmarks.bench import Bench


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One for all rows of a file: what they share is made once."""
    yield Bench.for_start(tmp_path_factory.mktemp("rows") / "bench")

"""Every golden run gives the bits and the bytes that it gave: those of the golden file, or of the commit before.

ANY2VEC_GOLDEN_AGAINST names a commit to compare with instead, carried out beside.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from golden.record import Judge, judging
from golden.runs import RUNS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    with judging(os.environ.get("ANY2VEC_GOLDEN_AGAINST")) as found:
        yield found


@pytest.mark.parametrize("name", list(RUNS))
def test_a_run_gives_what_it_gave(name: str, judge: Judge) -> None:
    verdict = judge.verdict(name)
    if verdict.word in ("skipped", "new", "anew"):
        pytest.skip(f"{name}: {verdict.lines[0]}")
    assert not verdict.is_bad, "\n".join([f"{name} {verdict.word}:", *verdict.lines])

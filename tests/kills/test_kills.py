"""Runs that are stopped go on and end as if nothing had been; and what is lost is seen."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kills.cases import CASES, Case, make_inputs
from kills.run import MEANS, LostError, alone, check_end, drawn, interrupt, try_one, workplace

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="signals and mounts of Linux")]
WORDS = CASES[0]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    make_inputs(folder)
    return folder


@pytest.fixture(scope="module")
def known(inputs: Path) -> tuple[float, int, frozenset[str]]:
    return alone(WORDS, inputs)


@pytest.mark.parametrize("means", ["kill", "stop"])
@pytest.mark.parametrize("share", [0.6, 0.8])
def test_a_run_that_is_stopped_ends_with_the_same_bits(
    inputs: Path, known: tuple[float, int, frozenset[str]], means: str, share: float
) -> None:
    seconds, size, wanted = known
    assert try_one(WORDS, inputs, means, share, seconds, size, wanted)


def test_what_is_lost_is_seen(inputs: Path, known: tuple[float, int, frozenset[str]]) -> None:
    seconds, size, wanted = known
    with pytest.raises(LostError, match="another result"):
        try_one(WORDS, inputs, "kill", 0.7, seconds, size, frozenset({"another"}))
    fails = replace(WORDS, arguments=(*WORDS.arguments, "--window", "0"))
    with pytest.raises(LostError, match="ended with 2: Error: window"):
        try_one(fails, inputs, "stop", 1.0, seconds, size, wanted)
    with workplace(inputs, False) as work:
        interrupt(WORDS, work, "stop", 60.0)
        (work / "out" / ".meta.json.1.tmp").touch()
        with pytest.raises(LostError, match=r"left behind: out/\.meta\.json"):
            check_end(WORDS, work, wanted)


def test_a_number_is_the_same_kill() -> None:
    turns = [drawn(number, 1, CASES) for number in range(len(CASES) * len(MEANS))]
    assert turns == [drawn(number, 1, CASES) for number in range(len(turns))]
    pairs: set[tuple[Case, str]] = {(case, means) for case, means, _ in turns}
    assert len(pairs) == len(turns) and all(0 <= share <= 1.05 for _, _, share in turns)

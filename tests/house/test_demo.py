"""The demo, as the README's first command runs it: named neighbors appear, on two seeds; what is not its own stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from any2vec import SkipGram, fit
from any2vec.cli.demo import MODULES, PARTS, WORDS
from any2vec.errors import Interrupted
from cli_runs import refused


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_named_neighbors_appear(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed == 2:  # one pair of reports is enough
        monkeypatch.setattr("any2vec.cli.demo.write_report", lambda run, **_: run / "report.html")
    words, modules = (train(tmp_path / "demo", seed=seed, threads=1) for train in PARTS.values())
    assert {"true", "left", "global"} <= set(words.found), words.neighbors
    assert len(words.found) >= len(WORDS) - 1, words.neighbors
    assert {"bz2", "decimal"} <= set(modules.found) and len(modules.found) >= len(MODULES) - 2, modules.neighbors
    assert (tmp_path / "demo" / "words.txt").is_file()
    for part in (words, modules) if seed == 1 else ():
        assert part.page.is_file() and part.page.with_name("report-map.png").stat().st_size > 20_000


@pytest.mark.parametrize("place", ["words.txt", "imports.txt", "words/notes.txt", "modules/notes.txt"])
def test_what_is_no_demos_stays(tmp_path: Path, place: str) -> None:
    """runs/words is where the README has its first run: `any2vec demo --out runs` must not take it."""
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_text("mine\n")
    said = refused("demo", "--out", str(tmp_path), "--quiet")
    assert place.partition("/")[0] in said and "choose another folder" in said
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / place]
    assert (tmp_path / place).read_text() == "mine\n"


def test_a_run_of_ones_own_stays(tmp_path: Path) -> None:
    fit(SkipGram(dim=4, min_count=1), ["a b c"] * 20, epochs=1, out=tmp_path / "words")
    made = (tmp_path / "words" / "vectors.safetensors").read_bytes()
    assert "choose another folder" in refused("demo", "--out", str(tmp_path), "--quiet")
    assert (tmp_path / "words" / "vectors.safetensors").read_bytes() == made


def test_a_demo_takes_the_place_of_an_earlier_one_that_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = []

    def interrupted(*_: Any, out: Path, **__: Any) -> None:
        trained.append(out.name)
        raise Interrupted("Stopped.")

    monkeypatch.setattr("any2vec.fit", interrupted)
    for _ in range(2):
        for train in PARTS.values():
            with pytest.raises(Interrupted):
                train(tmp_path / "demo")
    assert trained == 2 * ["words", "modules"]

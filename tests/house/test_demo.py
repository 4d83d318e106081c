"""The demo, as the README's first command runs it: named neighbors appear, on more than one seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from any2vec.cli.demo import MODULES, PARTS, WORDS


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

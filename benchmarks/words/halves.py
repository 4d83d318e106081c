"""The word sets cut by a fixed rule: one half to choose settings with, the other one to judge them.

Of the questions of a set the even ones tune and the odd ones judge, counted from 0; what begins a section of the
analogies (": ...") is in both.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.words.text import SIMILARITY

TUNE, JUDGE = "tune", "judge"
HALVES = (TUNE, JUDGE)
SETS = (*SIMILARITY.values(), "questions-words.txt")


def half_of(lines: list[str], half: str) -> list[str]:
    """Those lines of a word set that tune, or those that judge."""
    chosen, number = [], 0
    for line in lines:
        if line.startswith(":"):
            chosen.append(line)
        elif line.strip():
            if HALVES[number % 2] == half:
                chosen.append(line)
            number += 1
    return chosen


def cut_sets(source: Path, target: Path) -> None:
    """Write both halves of every word set into folders of their names below `target`."""
    for half in HALVES:
        (target / half).mkdir(parents=True, exist_ok=True)
        for name in SETS:
            lines = (source / name).read_text(encoding="utf-8").splitlines()
            (target / half / name).write_text("\n".join(half_of(lines, half)) + "\n", encoding="utf-8")


def halves(bench: Bench) -> Path:
    """The folder of the sets' halves."""
    target = bench.scratch("halves")

    def cut() -> Path:
        cut_sets(bench.data("wordeval"), target)
        return target

    return Path(bench.once("halves", cut))

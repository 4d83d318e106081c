"""The word sets cut by a fixed rule: one half to choose settings with, the other to judge them.

Even lines tune, odd lines judge, from the first on; what begins a section of the analogies (": ...") is in both.
"""

from __future__ import annotations

from pathlib import Path

TUNE, JUDGE = "tune", "judge"
SETS = ("EN-MEN-TR-3k.txt", "EN-WS-353-ALL.txt", "EN-SIMLEX-999.txt", "EN-MTurk-771.txt", "questions-words.txt")


def half_of(text: str, half: str) -> str:
    """The lines of a word set that tune, or that judge."""
    chosen, number = [], 0
    for line in text.splitlines():
        if line.startswith(":"):
            chosen.append(line)
        elif line.strip():
            if (number % 2 == 0) == (half == TUNE):
                chosen.append(line)
            number += 1
    return "\n".join(chosen) + "\n"


def cut_sets(source: Path, target: Path) -> None:
    """Write both halves of every word set into folders of their names below `target`."""
    for half in (TUNE, JUDGE):
        folder = target / half
        folder.mkdir(parents=True, exist_ok=True)
        for name in SETS:
            (folder / name).write_text(half_of((source / name).read_text(encoding="utf-8"), half), encoding="utf-8")

"""Notes on how tables and texts were read, where it could have been otherwise: sentences for the user of a run."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

_MOST_LEFT = 8
"""columns that a note names"""
_CSV = re.compile(r"\.csv(\.\w+)?$", re.IGNORECASE)
_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")


def columns_notes(
    names: Sequence[str], chosen: Sequence[str], words: Mapping[str, Collection[str]], use_columns: str | None
) -> list[str]:
    """Sentences on which columns were taken by their place, where they have names, and which were not read.

    Args:
        names: of all columns; numbers where they have none.
        chosen: those that are read, for what `words` has, in its order.
        words: usual names, in small letters, by what they are names of.
    """
    way = f"--use-columns {','.join(words).upper()} or use_columns= names others"
    are_named = not all(map(str.isdecimal, names))
    taken, left = list(zip(chosen, words, strict=False)), [name or "''" for name in names if name not in chosen]
    notes = []
    if are_named and not use_columns and any(name.lower() not in words[what] for name, what in taken):
        notes.append(f"columns taken by their place ({way}): {', '.join(f'{name} as {what}' for name, what in taken)}")
    if left:
        more = f" and {len(left) - _MOST_LEFT:,} more" if len(left) > _MOST_LEFT else ""
        said = ", ".join(left[:_MOST_LEFT]) + more if are_named else f"{len(left):,}"
        notes.append(f"columns that were not read ({way}): {said}")
    return notes


def is_csv(name: str) -> bool:
    """Whether a file is named .csv, packed or not."""
    return bool(_CSV.search(name))


def first_line_notes(rows: list[list[str]], name: str) -> list[str]:
    """That the first line of a file named .csv was read as data, where it may as well name the columns.

    rows: fields of the first lines, of columns that are read. Nothing is said where one of the first line has no
    letter, comes again, or has digits as all below it have.
    """
    first, others = rows[0], rows[1:]
    if not others or not is_csv(name) or not all(map(_LETTER.search, first)):
        return []
    comes_again = not {field for row in others for field in row}.isdisjoint(first)
    if comes_again or any(all(map(_DIGIT.search, column)) for column in zip(*rows, strict=False)):
        return []
    way = "--header or header=True takes it as names of columns"
    return [f"first line read as data, of which nothing comes again below it ({way}): {','.join(first)[:80]}"]

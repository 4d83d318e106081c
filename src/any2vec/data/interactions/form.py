"""Which columns of a text or a table are users, items and weights: by names, by places, by the first lines."""

from __future__ import annotations

import csv
from collections.abc import Collection
from contextlib import suppress
from typing import NamedTuple

from any2vec.data.graph.edge_list import guess_delimiter, is_number
from any2vec.data.interactions.options import InteractionOptions
from any2vec.data.notes import columns_notes, first_line_notes
from any2vec.data.options import DELIMITERS, chosen_columns, usual_columns
from any2vec.errors import DataError

Words = tuple[Collection[str], Collection[str], Collection[str]]
"""usual names of columns of users, of items and of weights, in small letters"""
_MOST_GUESSED = 4
"""columns among which a user or an item is taken by its place: beside both a weight and a time"""


class Form(NamedTuple):
    """How the lines of a text are read."""

    mark: str
    names: tuple[str, ...] = ()
    """of its columns; of a header, or 1, 2, 3 ..."""
    has_header: bool = False
    chosen: tuple[int, ...] = (0, 1)
    by_place: bool = False
    """nobody has named the columns"""
    notes: tuple[str, ...] = ()
    """on how they are read, for the user"""


def form_of_text(
    said: list[bytes], where: str, options: InteractionOptions, words: Words, former: Form | None = None,
    pairs_only: bool = False,
) -> Form:  # fmt: skip
    """The form of a text, from its first lines.

    words: by which columns are known.
    former: of the texts before it, with a header; one without has its columns where there are as many.
    pairs_only: nobody asks for weights; what may be a header is none.

    Raises:
        DataError: it has one column, not those that are asked for, or a first line that may be a header.
    """
    given = options.delimiter
    mark = _mark(said, options.lists) if given is None else DELIMITERS.get(given, given)
    if options.lists:
        return Form(mark)
    rows = [_fields(line, mark) for line in said]
    fields = rows[0]
    if len(fields) < 2:
        by = "tab, comma, semicolon or space" if given is None else f"{given}, as asked"
        raise DataError(
            f"{where} has one column in its first line ({_text(said[0])[:60]!r}); an interaction has a user and an "
            f"item, split by {by}."
        )
    asked = (options.use_columns.split(",") if options.use_columns else [])[: 2 if pairs_only else 3]
    has_header = options.header
    if has_header is None:
        has_header = _are_names(asked, fields) or _is_header(
            rows, where, words, pairs_only or bool(asked) or bool(former)
        )
    if not has_header and former is not None and len(former.names) == len(fields):
        return former._replace(mark=mark, has_header=False)
    are_places = all(map(str.isdecimal, asked)) and not {*asked} <= {*fields}
    names = fields if has_header and not (asked and are_places) else _places(len(fields))
    chosen = columns_by_name(names, where, words, ",".join(asked) or None)
    by_place = not has_header and not asked
    if by_place and len(fields) == 3 and _are_weights([row[2] for row in rows if len(row) == 3]):
        chosen = names
    chosen = chosen[:2] if pairs_only else chosen
    notes = interaction_notes(names, chosen, words, options.use_columns)
    if not has_header and options.header is None:
        places = [names.index(one) for one in chosen[:2]]
        notes += tuple(first_line_notes([[row[at] for at in places] for row in rows if len(row) == len(fields)], where))
    return Form(mark, tuple(names), has_header, tuple(map(names.index, chosen)), by_place, notes)


def columns_by_name(names: list[str], where: str, words: Words, use_columns: str | None) -> list[str]:
    """The columns of users, items and, where one bears such a name, weights; of users and items the first that are
    left where none bears a usual name.

    Raises:
        DataError: it has too few columns, not those that are asked for, or so many that it may be a matrix.
    """
    if chosen := chosen_columns(use_columns, names, where):
        return chosen
    user, item, weight = usual_columns(names, *words)
    left = [name for name in names if name not in (user, item, weight)]
    found = [side or (left.pop(0) if left else "") for side in (user, item)]
    if not all(found):
        beside = f" beside {weight}" if weight else ""
        noun = "column" if len(names) == 1 else "columns"
        raise DataError(f"{where} has {len(names)} {noun}; an interaction needs two{beside}: user and item.")
    if len(names) > _MOST_GUESSED and not (user and item):
        lacking = " and ".join(side for side, name in (("user", user), ("item", item)) if not name)
        raise DataError(
            f"{where} has {len(names):,} columns and none with a usual name of {lacking}; name both, use_columns "
            "(--use-columns user,item), give a matrix of users by items as a SciPy sparse one, and say lists (--lists) "
            "of lines with a user and all its items."
        )
    return [*found, *([weight] if weight else [])]


def interaction_notes(
    names: list[str], chosen: list[str], words: Words, use_columns: str | None
) -> tuple[str, ...]:  # fmt: skip
    """As `columns_notes`, of users, items and, if any, weights."""
    usual = dict(zip(("user", "item", "weight"), words, strict=True))
    return tuple(columns_notes(names, chosen, usual, use_columns))


def _places(count: int) -> list[str]:
    """How columns without names are called."""
    return [str(place) for place in range(1, count + 1)]


def _mark(said: list[bytes], lists: bool) -> str:
    """As of edges; but lines without the mark that most have do not make spaces of it: they are named as they are read,
    unless spaces give each line as many columns, or any number of them is right."""
    mark = guess_delimiter(said)
    counts = {len(line.split()) for line in said}
    if mark == " " and (counts == {1} or (len(counts) > 1 and not lists)):
        most = (
            one for one in (b"\t", b",", b";") if one in said[0] and 2 * sum(one in line for line in said) > len(said)
        )
        return next(most, mark.encode()).decode()
    return mark


def _fields(line: bytes, mark: str) -> list[str]:
    text = _text(line)
    if mark == " ":
        return text.split()
    if mark in ",;":  # which stand in fields with quotes, too
        with suppress(csv.Error):  # of a field that has no end
            return [field.strip() for field in next(csv.reader([text], delimiter=mark), [])]
    return [field.strip() for field in text.split(mark)]


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").strip("\r")


def _are_names(asked: list[str], fields: list[str]) -> bool:
    """Whether a line has all columns that are asked for by name, which a header has; numbers are places."""
    return {*asked} <= {*fields} and any(not name.isdecimal() for name in asked)


def _is_header(rows: list[list[str]], where: str, words: Words, is_certain: bool) -> bool:
    """Whether the first of the first lines names columns: by usual names, or by words over numbers.

    is_certain: what may be a header as well as a user and an item is none.

    Raises:
        DataError: it may be both: it has the usual name of one side, or a word over the numbers of one.
    """
    first, following = rows[0], rows[1:]
    named, (users, items, _) = {field.lower() for field in first}, words
    if named.intersection(users) and named.intersection(items):
        return True
    are_numbers = [
        bool(following) and all(len(row) > at and is_number(row[at]) for row in following) for at in range(len(first))
    ]
    if any(map(is_number, first)):
        return False
    if all(are_numbers[:2]) or any(are_numbers[2:]):
        return True
    comes_again = any(field in first for row in following for field in row)  # then it is a user or an item
    is_odd = any(len(name) > 1 for name in named.intersection([*users, *items]))  # u and i may be users and items
    if not is_certain and not comes_again and (is_odd or (any(are_numbers) and len(following) >= 3)):
        raise DataError(
            f"{where} begins with {', '.join(first)[:60]!r}, which may be names of columns or a user and an item; "
            "say which: header (--header) or no header (--no-header)."
        )
    return False


def _are_weights(fields: list[str]) -> bool:
    """Whether the third of three columns without names is one of weights: numbers, and no times."""
    return all(map(is_number, fields)) and not are_times(min(map(float, fields)))


def are_times(smallest: float) -> bool:
    """Whether numbers from here on are seconds since 1970, of March 1973 or later."""
    return smallest >= 1e8

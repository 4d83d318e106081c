"""Interactions from files, tables in memory, matrices and lists: pieces of users, items and weights as columns.

Letters: M interactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from any2vec.data.graph.edge_list import first_lines, guess_delimiter, text_blocks
from any2vec.data.interactions.options import InteractionOptions
from any2vec.data.io.files import display, expand_inputs, form_of, is_table, whole_lines, without_comments
from any2vec.data.options import DELIMITERS, ProgressCall, chosen_columns, columns_there, usual_columns
from any2vec.data.vocab.user_keys import text_of
from any2vec.errors import DataError, InputError

USERS = {"user", "user_id", "userid", "uid", "u", "customer", "customer_id", "visitor", "visitorid", "session"}
ITEMS = {"item", "item_id", "itemid", "iid", "i", "product", "product_id", "movie", "movie_id", "movieid", "article",
         "article_id", "track", "artist", "book", "isbn", "business_id", "asin", "parent_asin"}  # fmt: skip
WEIGHTS = {"weight", "count", "counts", "plays", "quantity", "confidence"}
"""names of columns, in small letters"""
_PIECE = 1 << 24
"""bytes of text that are read at a time"""
_TABLE_ROWS = 1 << 20
_COMMENT = "#"
_SHOWN = 60


class Columns(NamedTuple):
    """A piece of interactions: Arrow arrays of large strings of one length, without nulls or empty strings."""

    users: Any
    items: Any
    weight_M: np.ndarray | None = None
    """float32, finite and above 0; None: 1 each"""
    are_integers: tuple[bool, bool] = (False, False)
    """whether users, and items, were integers in the source"""
    ignored_columns: int = 0
    comments: int = 0
    """lines of comments, left out"""


def columns_of(
    source: Any, options: InteractionOptions, progress: ProgressCall | None, is_of_training: bool = False
) -> Iterator[Columns]:
    """The interactions of any source but a matrix, piece by piece. Arguments and errors as of `read_interactions`."""
    is_files = isinstance(source, list) and bool(source) and all(isinstance(one, str | Path) for one in source)
    if isinstance(source, str | Path) or is_files:
        for name in expand_inputs(source):
            form = form_of(name)
            if form in ("parquet", "arrow"):
                yield from _of_table(name, form, options, is_of_training)
            elif form == "array":
                raise InputError(f"{name} is an array; interactions in arrays are given in Python.")
            else:
                yield from _of_text(name, options, progress)
    elif is_table(source):
        yield from _of_table(source, None, options, is_of_training)
    else:
        yield _of_rows(source)


# ---- text ---------------------------------------------------------------------------------------------------------


def _of_text(name: str, options: InteractionOptions, progress: ProgressCall | None) -> Iterator[Columns]:
    lines = comments = rows = 0
    form, marks = None, _COMMENT if options.comment is None else options.comment
    for whole in whole_lines(display(name), text_blocks(name, progress, _PIECE)):
        text, left_out = without_comments(whole, marks)
        comments, is_first = comments + left_out, form is None
        if form is None and (said := first_lines(np.frombuffer(text, np.uint8), "")):
            form = _form(said, name, options)
        if form is not None:
            if options.lists:
                found = _of_lists(text, name, form.mark)
            else:
                found = _of_lines(text, name, form, lines, is_first, options)
            yield found._replace(comments=comments)
            comments, rows = 0, rows + len(found.users)
        lines += text.count(b"\n")
    if not rows:
        beside = " but a header" if form is not None and form.has_header else ""
        raise DataError(f"{display(name)} holds no interactions{beside}; give at least one.")


class _Form(NamedTuple):
    """How the lines of a text are read."""

    mark: str
    num_columns: int = 2
    has_header: bool = False
    chosen: tuple[int, ...] = (0, 1)


def _form(said: list[bytes], name: str, options: InteractionOptions) -> _Form:
    mark = _mark(said) if options.delimiter is None else DELIMITERS.get(options.delimiter, options.delimiter)
    if options.lists:
        return _Form(mark)
    rows = [[field.strip().strip('"') for field in _split(line, mark)] for line in said]
    where, fields = display(name), rows[0]
    if len(fields) < 2:
        asked = "tab, comma, semicolon or space" if options.delimiter is None else f"{options.delimiter}, as asked"
        raise DataError(
            f"{where} has one column in its first line ({_text(said[0])[:_SHOWN]!r}); an interaction has a user and an "
            f"item, split by {asked}."
        )
    has_header = options.header
    if has_header is None:
        has_header = _are_names(options.use_columns, fields) or _is_header(rows, where)
    by_place = not has_header or all(map(str.isdecimal, (options.use_columns or "user").split(",")))
    names = _places(len(fields)) if by_place else fields
    return _Form(mark, len(fields), has_header, tuple(map(names.index, _chosen(names, where, options.use_columns))))


def _mark(said: list[bytes]) -> str:
    """As of edges; but lines without the mark that most have do not make spaces of it: they are named as they are read,
    unless spaces give each line as many columns."""
    mark = guess_delimiter(said)
    counts = {len(line.split()) for line in said}
    if mark == " " and (len(counts) > 1 or counts == {1}):
        most = (one for one in "\t,;" if one.encode() in said[0] and 2 * _count(one.encode(), said) > len(said))
        return next(most, mark)
    return mark


def _count(mark: bytes, lines: list[bytes]) -> int:
    return sum(mark in line for line in lines)


def _split(line: bytes, mark: str) -> list[str]:
    return _text(line).split() if mark == " " else _text(line).split(mark)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").strip("\r")


def _is_header(rows: list[list[str]], where: str) -> bool:
    """Whether the first of the first lines names columns: by usual names, or by words over numbers.

    Raises:
        DataError: it has the usual name of one side, which may be a header as well as an item.
    """
    first, following = rows[0], rows[1:]
    named = {field.lower() for field in first}
    if USERS & named and ITEMS & named:
        return True
    are_words = bool(following) and not any(map(_is_number, first))
    if are_words and any(all(_is_number(row[at]) for row in following if at < len(row)) for at in range(len(first))):
        return True
    comes_again = any(field in first for row in following for field in row)  # then it is a user or an item
    if not comes_again and any(len(name) > 1 for name in named & (USERS | ITEMS)):  # u and i may be users and items
        raise DataError(
            f"{where} begins with {', '.join(first)[:_SHOWN]!r}, which may be names of columns or a user and an item; "
            "say which: header (--header) or no header (--no-header)."
        )
    return False


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _places(count: int) -> list[str]:
    """How columns without names are called."""
    return [str(place) for place in range(1, count + 1)]


def _are_names(use_columns: str | None, fields: list[str]) -> bool:
    """Whether a line has all columns that are asked for by name, which a header has; numbers are places."""
    asked = use_columns.split(",") if use_columns else []
    return {*asked} <= {*fields} and any(not name.isdecimal() for name in asked)


def _chosen(names: list[str], where: str, use_columns: str | None) -> list[str]:
    """The columns of users, items and, where there is one, weights: by name, or of columns without names by place."""
    if chosen := chosen_columns(use_columns, names, where):
        return chosen
    if len(names) < 2:
        raise DataError(f"{where} has {len(names)} column; an interaction needs two: user and item.")
    if len(names) == 3 and all(name.isdecimal() for name in names):
        return names
    user, item, weight = usual_columns(names, USERS, ITEMS, WEIGHTS)
    return [*([user, item] if user and item else names[:2]), *([weight] if weight else [])]


def _of_lines(text: bytes, name: str, form: _Form, lines: int, is_first: bool, options: InteractionOptions) -> Columns:
    from any2vec.data.io.arrow import FieldCountError, arrow_errors, check_utf8, pa, pc, split_lines

    check_utf8(text, name)
    where = display(name)
    if form.mark == " ":
        text = b"\n".join(b" ".join(line.split()) for line in text.split(b"\n"))
    try:
        with arrow_errors(f"{where} cannot be read from line {lines + 1:,} on"):
            columns = split_lines(
                text, form.mark, form.num_columns, list(form.chosen), pa.large_string(), quotes=form.mark in ",;"
            )  # fmt: skip
    except FieldCountError as wrong:
        raise DataError(
            f"{where}: line {lines + wrong.line(text) + 1} has {wrong.num_fields} columns, not {form.num_columns}: "
            f"{wrong.text[:_SHOWN]!r}."
        ) from wrong
    if form.has_header and is_first:
        columns = [column.slice(1) for column in columns]
    _check_full(columns, where)
    weights = None
    if len(columns) > 2:
        with arrow_errors(f"{where} has weights that are no numbers", advice="choose other columns, use_columns."):
            weights = checked_weights(pc.cast(columns[2], pa.float64()).to_numpy(), where)
        _check_no_times(weights, where, options)
    return Columns(columns[0], columns[1], weights, ignored_columns=form.num_columns - len(form.chosen))


def _of_lists(text: bytes, name: str, mark: str) -> Columns:
    from any2vec.data.io.arrow import arrow_errors, check_utf8, pa, pc

    check_utf8(text, name)
    with arrow_errors(f"{display(name)} cannot be read as text"):
        lines = pc.utf8_trim_whitespace(pa.array([text.decode()], pa.large_string()))
        lines = pc.split_pattern(lines, "\n").flatten()
        lines = pc.utf8_trim_whitespace(lines)
        lines = lines.filter(pc.not_equal(lines, ""))
        fields = pc.utf8_split_whitespace(lines) if mark == " " else pc.split_pattern(lines, mark)
        counts = pc.list_value_length(fields).to_numpy() - 1
        users = pc.list_element(fields, 0).cast(pa.large_string()) if len(fields) else lines
        starts = np.concatenate([[0], np.cumsum(counts + 1)[:-1]]).astype(np.int64)
        is_item = np.ones(int((counts + 1).sum()), bool)
        is_item[starts[: len(counts)]] = False
        items = fields.flatten().filter(pa.array(is_item)).cast(pa.large_string())
        return Columns(users.take(pa.array(np.repeat(np.arange(len(counts)), counts))), items)


# ---- tables, rows -------------------------------------------------------------------------------------------------


def _of_table(source: Any, form: str | None, options: InteractionOptions, is_of_training: bool) -> Iterator[Columns]:
    from any2vec.data.io.arrow import TableReader, pa

    if options.lists and not is_of_training:
        raise InputError("lists are lines of text; a table has a row for each user and item: leave it out.")
    table = TableReader(source, form)
    asked = columns_there(options.use_columns, table.names) if is_of_training else options.use_columns
    chosen = _chosen(table.names, table.name, asked)
    for batch in table.batches(chosen, _TABLE_ROWS):
        for column, values in batch.items():
            if values.null_count:
                raise DataError(f"{table.name} has empty values in column {column}; fill or drop them.")
        kinds = [batch[column].type for column in chosen]
        for column, kind in zip(chosen[:2], kinds, strict=False):
            if not (pa.types.is_integer(kind) or pa.types.is_large_binary(kind)):
                raise DataError(f"{table.name} has {kind} in column {column}; users and items are strings or integers.")
        with table.errors():
            users, items = (batch[column].cast(pa.large_string()) for column in chosen[:2])
        _check_full([users, items], table.name)
        weights = None
        if len(chosen) > 2:
            with table.errors():
                weights = checked_weights(batch[chosen[2]].cast(pa.float64()).to_numpy(), table.name)
            _check_no_times(weights, table.name, options)
        integers = pa.types.is_integer(kinds[0]), pa.types.is_integer(kinds[1])
        yield Columns(users, items, weights, integers, len(table.names) - len(chosen))


def _of_rows(source: Any) -> Columns:
    """Rows (user, item[, weight]), an array or tensor (M, 2 or 3), or a tuple of arrays of one axis."""
    from any2vec.data.io.arrow import pa

    if isinstance(source, tuple) and all(getattr(part, "ndim", 0) == 1 for part in source):
        columns = [part.tolist() for part in source]
    else:
        try:
            rows = [tuple(row) for row in (source.tolist() if hasattr(source, "tolist") else source)]
            columns = [list(column) for column in zip(*rows, strict=True)]
        except (TypeError, ValueError):
            raise InputError(
                "Interactions are a file, a table (a frame, a dict of columns), a sparse matrix, a list of (user, "
                f"item) or (user, item, weight), or an array of those, got {type(source).__name__}."
            ) from None
    if len(columns) not in (2, 3) or len({len(column) for column in columns}) != 1 or not columns[0]:
        raise DataError("Interactions are rows of user and item, or of user, item and weight, one at least.")
    texts = [[text_of(key) for key in column] for column in columns[:2]]
    if any(not text for column in texts for text in column):
        raise DataError("Users and items are strings that are not empty, or integers.")
    integers = tuple(not any(isinstance(key, str) for key in column) for column in columns[:2])
    weights = checked_weights(np.asarray(columns[2], np.float64), "The list") if len(columns) == 3 else None
    users, items = (pa.array(column, pa.large_string()) for column in texts)
    return Columns(users, items, weights, integers)  # type: ignore[arg-type]


def checked_weights(weight_M: np.ndarray, where: str) -> np.ndarray:
    """float32. Raises DataError for one that is not above 0, or no finite number."""
    found = weight_M.astype(np.float32)
    wrong = ~(np.isfinite(found) & (found > 0))
    if wrong.any():
        raise DataError(f"{where} has the weight {weight_M[np.argmax(wrong)]:g}; weights are finite and above 0.")
    return found


def _check_no_times(weight_M: np.ndarray, where: str, options: InteractionOptions) -> None:
    """DataError where weights that nobody asked for by name are seconds since 1970."""
    if options.use_columns is None and len(weight_M) and (time := float(weight_M.min())) >= 1e8:  # March 1973
        raise DataError(
            f"{where} has {time:.0f} and more in its third column, which are times rather than weights; choose the "
            "columns: use_columns of two leaves the weights out, of three reads them."
        )


def _check_full(columns: Iterable[Any], where: str) -> None:
    from any2vec.data.io.arrow import pc

    for column, noun in zip(columns, ("user", "item", "weight"), strict=False):
        if column.null_count or pc.any(pc.equal(pc.utf8_length(column), 0)).as_py():
            raise DataError(f"{where} has a row with an empty {noun}; fill it or drop the row.")

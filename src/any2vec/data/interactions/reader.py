"""Interactions from files, tables in memory, matrices and lists: pieces of users, items and weights as columns.

Letters: M interactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from any2vec.data.graph.edge_list import first_lines, text_blocks
from any2vec.data.interactions.form import Form, are_times, columns_by_name, form_of_text, interaction_notes
from any2vec.data.interactions.options import InteractionOptions
from any2vec.data.io.files import (
    TABLES,
    check_no_objects,
    display,
    expand_inputs,
    is_table,
    table_form,
    whole_lines,
    without_comments,
)
from any2vec.data.options import ProgressCall, columns_there
from any2vec.data.vocab.user_keys import text_of
from any2vec.errors import DataError, InputError

USERS = {"user", "user_id", "userid", "uid", "u", "customer", "customer_id", "visitor", "visitorid", "session"}
ITEMS = {"item", "item_id", "itemid", "iid", "i", "product", "product_id", "movie", "movie_id", "movieid", "article",
         "article_id", "track", "artist", "book", "book_id", "isbn", "business_id", "asin", "parent_asin"}  # fmt: skip
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
    header: str = ""
    """the first line, where it is one"""
    notes: tuple[str, ...] = ()
    """on how they were read, for the user"""


def columns_of(
    source: Any, options: InteractionOptions, progress: ProgressCall | None, is_of_training: bool = False,
    pairs_only: bool = False,
) -> Iterator[Columns]:  # fmt: skip
    """The interactions of any source but a matrix, piece by piece. Arguments and errors as of `read_interactions`."""
    is_files = isinstance(source, list) and bool(source) and all(isinstance(one, str | Path) for one in source)
    if isinstance(source, str | Path) or is_files:
        texts = _Texts(options, progress, pairs_only)
        for name in expand_inputs(source):
            form = table_form(name)
            if form in TABLES:
                yield from _of_table(name, form, options, is_of_training, pairs_only)
            elif form == "array":
                raise InputError(f"{name} is an array; interactions in arrays are given in Python.")
            else:
                yield from texts.read(name)
    elif is_table(source):
        yield from _of_table(source, None, options, is_of_training, pairs_only)
    else:
        yield _of_rows(source)


# ---- text ---------------------------------------------------------------------------------------------------------


class _Texts:
    """Reads texts, one after the other; those without a header have the columns of the last one that has."""

    def __init__(self, options: InteractionOptions, progress: ProgressCall | None, pairs_only: bool) -> None:
        self.options, self.progress, self.pairs_only = options, progress, pairs_only
        self._with_header: Form | None = None

    def read(self, name: str) -> Iterator[Columns]:
        lines = comments = 0
        form, header, marks = None, "", _COMMENT if self.options.comment is None else self.options.comment
        for whole in whole_lines(display(name), text_blocks(name, self.progress, _PIECE)):
            text, left_out = without_comments(whole, marks)
            comments, is_first = comments + left_out, form is None
            if form is None and (said := first_lines(np.frombuffer(text, np.uint8), "")):
                check_no_objects(said[0], name)
                form = form_of_text(
                    said, display(name), self.options, (USERS, ITEMS, WEIGHTS), self._with_header, self.pairs_only
                )  # fmt: skip
                if form.has_header:
                    self._with_header, header = form, said[0].decode("utf-8", "replace").strip()[:_SHOWN]
            if form is not None:
                lists = self.options.lists
                found = _of_lists(text, name, form.mark) if lists else _of_lines(text, name, form, lines, is_first)
                yield found._replace(comments=comments, header=header, notes=form.notes)
                comments = 0
            lines += text.count(b"\n")
        if form is None:
            raise DataError(f"{display(name)} holds no interactions; give at least one.")


def _of_lines(text: bytes, name: str, form: Form, lines: int, is_first: bool) -> Columns:
    from any2vec.data.io.arrow import FieldCountError, arrow_errors, check_utf8, pa, pc, split_lines

    check_utf8(text, name)
    where, num_columns = display(name), len(form.names)
    if form.mark == " ":
        text = b"\n".join(b" ".join(line.split()) for line in text.split(b"\n"))
    try:
        with arrow_errors(f"{where} cannot be read from line {lines + 1:,} on"):
            columns = split_lines(
                text, form.mark, num_columns, list(form.chosen), pa.large_string(), quotes=form.mark in ",;"
            )  # fmt: skip
    except FieldCountError as wrong:
        raise DataError(
            f"{where}: line {lines + wrong.line(text) + 1} has {wrong.num_fields} columns, not {num_columns}: "
            f"{wrong.text[:_SHOWN]!r}."
        ) from wrong
    if form.mark in ",;" and b'"' in text and len(columns[0]) != sum(1 for line in text.split(b"\n") if line.strip()):
        raise DataError(
            f"{where} holds a quote without its end, or a quoted value with a line end in it; write each row on one "
            'line, and a quote within a value as "".'
        )
    if form.has_header and is_first:
        columns = [column.slice(1) for column in columns]
    _check_full(columns[:2], where)
    weights = None
    if len(columns) > 2:
        advice = _of_three() if form.by_place else "choose other columns, use_columns."
        with arrow_errors(f"{where} has weights that are no numbers", advice=advice):
            weights = checked_weights(
                pc.cast(columns[2], pa.float64()).to_numpy(), where, advice if form.by_place else ""
            )
        if form.by_place:
            _check_no_times(weights, where)
    return Columns(columns[0], columns[1], weights, ignored_columns=num_columns - len(form.chosen))


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


def _of_table(
    source: Any, form: str | None, options: InteractionOptions, is_of_training: bool, pairs_only: bool
) -> Iterator[Columns]:
    from any2vec.data.io.arrow import TableReader, pa

    if options.lists and not is_of_training:
        raise InputError("lists are lines of text; a table has a row for each user and item: leave it out.")
    table = TableReader(source, form)
    asked = columns_there(options.use_columns, table.names) if is_of_training else options.use_columns
    chosen = columns_by_name(table.names, table.name, (USERS, ITEMS, WEIGHTS), asked)
    by_place = not asked and len(table.names) == 3 and all(name.isdecimal() for name in table.names)
    if by_place and _is_of_numbers(table.schema.field(2).type):
        chosen = table.names
    chosen = chosen[:2] if pairs_only else chosen
    notes = interaction_notes(table.names, chosen, (USERS, ITEMS, WEIGHTS), asked)
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
            if by_place:
                _check_no_times(weights, table.name)
        integers = pa.types.is_integer(kinds[0]), pa.types.is_integer(kinds[1])
        yield Columns(users, items, weights, integers, len(table.names) - len(chosen), notes=notes)


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


def checked_weights(weight_M: np.ndarray, where: str, advice: str = "") -> np.ndarray:
    """float32. Raises DataError for one that is not above 0, or no finite number."""
    with np.errstate(over="ignore", under="ignore"):  # which are wrong, and told
        found = weight_M.astype(np.float32)
    wrong = ~(np.isfinite(found) & (found > 0))
    if wrong.any():
        said = f"{where} has the weight {weight_M[np.argmax(wrong)]:g}; weights are finite and above 0, as float32."
        raise DataError(f"{said} {advice[:1].upper()}{advice[1:]}".rstrip())
    return found


def _of_three() -> str:
    return "the third of three columns without names is the weight: use_columns of the first two leaves it out."


def _check_no_times(weight_M: np.ndarray, where: str) -> None:
    """DataError where weights that nobody asked for by name are times."""
    if len(weight_M) and are_times(time := float(weight_M.min())):
        raise DataError(
            f"{where} has {time:.0f} and more in its third column, times rather than weights; {_of_three()}"
        )


def _is_of_numbers(kind: Any) -> bool:
    from any2vec.data.io.arrow import pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _check_full(columns: Iterable[Any], where: str) -> None:
    from any2vec.data.io.arrow import pc

    for column, noun in zip(columns, ("user", "item"), strict=False):
        if column.null_count or pc.any(pc.equal(pc.utf8_length(column), 0)).as_py():
            raise DataError(f"{where} has a row with an empty {noun}; fill it or drop the row.")

"""Values of one column ranked for a context by a model of clicks: which product for user 547?

Letters: N rows of data, V candidate values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from any2vec.checks import check_whole, did_you_mean
from any2vec.data.clicks.encoder import ClickEncoder
from any2vec.data.clicks.encoding import texts_of
from any2vec.data.clicks.reader import RawRows, read_rows
from any2vec.data.clicks.schema import ClickColumn, ClickSchema
from any2vec.data.io.arrow import columns_of
from any2vec.data.io.files import display
from any2vec.embeddings import Neighbors
from any2vec.errors import InputError, UnknownKeyError
from any2vec.models.clicks.scorer import ClickScorer


def rank_values(
    scorer: ClickScorer, context: Mapping[str, Any], column: str, k: int = 10, seen: Any = None, *,
    values: Sequence[str] | None = None, exclude: Collection[str] = (), check: Callable[[], object] = lambda: None,
) -> Neighbors:  # fmt: skip
    """The k values of a column that are most likely clicked in a context, best first: (value, probability).

    Each candidate is scored as a row of data: with the context's values, and nothing in all other columns.

    Args:
        context: column -> value, of the schema's columns; text as in a file, or what a column in memory holds: a
            number, a list of a multi-valued one, None for what is missing.
        column: a categorical one. Its candidates are the values of training where the schema keeps them (ids =
            "vocabulary"), else those in `seen`.
        seen: data like those of training: values that stand there with the first column of the context are left out.
        values: the candidates, in place of these. exclude: values that are left out, too.
        check: called before each 4,096 candidates; what it raises ends the ranking.

    Raises:
        InputError: a column is not in the schema or cannot be ranked, or there are no candidates.
        UnknownKeyError: training has not seen the context's value, or one of `values`.
        DataError: `seen` cannot be read, or a value is no number.
    """
    check_whole("k", k, 1, 2**31 - 1)
    schema, ranked = scorer.encoder.schema, _ranked(scorer.encoder.schema, column)
    sources = {one.name: one.source for one in schema.columns} | {name: name for name in schema.dense}
    for name in context:
        if name not in sources or name == column:
            others = [other for other in sources if other != column]
            raise InputError(f"The context has no column {name!r} to give; {did_you_mean(name, others)}")
    _check_known(scorer, context)
    _check_cells(sources, context)
    seen_texts = [] if seen is None else _seen(seen, schema, ranked, next(iter(context.items()), None))
    encoder, source = _of_counted(scorer.encoder, ranked)
    cells: Sequence[Any]
    if values is not None:
        encoder, source = scorer.encoder, ranked.source
        shown = [*dict.fromkeys(values)]
        for value in shown:
            _check_known(scorer, {column: value})
        cells, candidates = shown, _counted(shown, ranked)
    else:
        is_kept = ranked.ids == "vocabulary"
        kept_values = scorer.encoder.vocabularies[column].keys.stored() if is_kept else ()
        cells = candidates = [*kept_values] if is_kept else sorted({value for value, _ in seen_texts if value})
        shown = [text.decode("utf-8", "replace") for text in candidates]
    own = {value for value, is_own in seen_texts if is_own}
    own |= {*_counted([*exclude], ranked), *(value.encode() for value in exclude)}  # as in data, and as they are ranked
    kept = [place for place, text in enumerate(candidates) if text not in own]
    if not kept:
        keeps_none = not candidates  # hashed, and neither values nor data were given
        raise InputError(
            f"There are no values of {column} to rank: its rows are hashed, which keeps no values, so give them "
            f'(values), or data that hold them (seen, --exclude-seen), or train with ids = "vocabulary".'
            if keeps_none else f"No values of {column} are left to rank: all are seen in this context, or left out."
        )  # fmt: skip
    given = {sources[name]: "" if value is None else value for name, value in context.items()}
    table = {name: [given.get(name, "")] * len(kept) for name in encoder.schema.needed}
    table[source] = [cells[place] for place in kept]
    found = []
    for batch in encoder.encode(table):
        check()
        found.append(scorer.predict(batch))
    score_V = np.concatenate(found)
    order = np.argsort(-score_V, kind="stable")[:k]
    return [(shown[kept[place]], float(score_V[place])) for place in order.tolist()]


def _counted(values: Sequence[Any], column: ClickColumn) -> list[bytes]:
    """What counts of values of a column, as in rows of data. DataError: one is no category."""
    if not values:
        return []
    found = columns_of({column.source: values})[column.source]
    return texts_of(found, column, RawRows("The context", {}, len(values), 0)).to_pylist()


def _ranked(schema: ClickSchema, column: str) -> ClickColumn:
    found = next((one for one in schema.columns if one.name == column and not one.is_multi_valued), None)
    if found is None:
        raise InputError(
            f"Values of {column!r} cannot be ranked: columns of one category a row can; "
            f"{did_you_mean(column, schema.categorical)}"
        )
    return found


def _check_known(scorer: ClickScorer, context: Mapping[str, Any]) -> None:
    """Raise UnknownKeyError for a value of a single category that training has not seen, as far as that is known."""
    for column in scorer.encoder.schema.columns:
        value, vocabulary = context.get(column.name), scorer.encoder.vocabularies.get(column.name)
        if value is None or vocabulary is None or column.is_multi_valued:
            continue
        if _counted([value], column)[0].decode("utf-8", "replace") not in vocabulary:
            raise UnknownKeyError(
                f"{column.name} {str(value)!r} is not among the {len(vocabulary):,} values of training."
            )


def _check_cells(sources: Mapping[str, str], context: Mapping[str, Any]) -> None:
    """InputError for two columns that come from one cell, whose values differ."""
    first: dict[str, str] = {}
    for name, value in context.items():
        other = first.setdefault(sources[name], name)
        if context[other] != value:
            raise InputError(
                f"{other} and {name} come from the same cell, {sources[name]!r}; give its whole value for one of them."
            )


def _of_counted(encoder: ClickEncoder, column: ClickColumn) -> tuple[ClickEncoder, str]:
    """(encoder of what counts of a column's values, name of their cell): a cell of its own, for what else the cells of
    data held, from which other columns may come, is not known."""
    schema, source = encoder.schema, column.name
    while source in (*schema.needed, schema.label, *schema.column_names):
        source += "_"
    own = {name: option for name, option in schema.column.get(column.name, {}).items() if name != "characters"}
    names = (*schema.column_names, source) if schema.column_names else ()
    whole = replace(schema, column={**schema.column, column.name: own | {"source": source}}, column_names=names)
    return ClickEncoder(whole, encoder.vocabularies, encoder.mean_X, encoder.std_X), source


def _seen(
    data: Any, schema: ClickSchema, ranked: ClickColumn, first: tuple[str, Any] | None
) -> list[tuple[bytes, bool]]:
    """Of each row what counts of the value of a column, and whether the row has the first value of the context."""
    name, value = first or ("", None)
    of = next((one for one in schema.columns if one.name == name), None)
    is_one = of is not None and not of.is_multi_valued
    source = name if of is None else of.source
    wanted = _counted([value], of)[0] if of is not None and is_one else str(value).encode("utf-8", "replace")
    found = []
    for block in read_rows(data, schema, needs_label=False):
        texts = texts_of(block.columns[ranked.source], ranked, block).to_pylist()
        if value is None:
            found += [(text, False) for text in texts]
            continue
        others = block.columns[source]
        others = texts_of(others, of, block) if of is not None and is_one else _as_text(others, data)
        found += [(text, other == wanted) for text, other in zip(texts, others.to_pylist(), strict=True)]
    return found


def _as_text(values: Any, data: Any) -> Any:
    """large_binary of numbers, or of several values in one text."""
    from any2vec.data.io.arrow import arrow_errors, pa

    with arrow_errors(f"{display(data)} cannot be read as text"):
        return values.cast(pa.large_string()).cast(pa.large_binary())

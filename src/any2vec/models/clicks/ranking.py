"""Values of one column ranked for a context by a model of clicks: which product for user 547?

Letters: N rows of data, V candidate values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from any2vec.checks import check_whole, did_you_mean
from any2vec.data.clicks.reader import read_rows
from any2vec.data.clicks.schema import ClickColumn, ClickSchema
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
    pairs = [] if seen is None else list(_pairs(seen, schema, ranked.source, sources[next(iter(context), column)]))
    if values is not None:
        candidates = [*dict.fromkeys(values)]
        for value in candidates:
            _check_known(scorer, {column: value})
    elif ranked.ids == "vocabulary":
        candidates = [*scorer.encoder.vocabularies[column].keys]
    else:
        candidates = sorted({value for value, _ in pairs})
    first = next(iter(context.values()), None)
    own = {value for value, of in pairs if first is not None and of == str(first)}.union(exclude)
    candidates = [value for value in candidates if value not in own]
    if not candidates:
        keeps_none = ranked.ids != "vocabulary" and values is None
        raise InputError(
            f"There are no values of {column} to rank: its rows are hashed, which keeps no values, so give them "
            f'(values), or data that hold them (seen, --exclude-seen), or train with ids = "vocabulary".'
            if keeps_none else f"No values of {column} are left to rank: all are seen in this context, or left out."
        )  # fmt: skip
    given = {sources[name]: "" if value is None else value for name, value in context.items()}
    table = {name: [given.get(name, "")] * len(candidates) for name in schema.needed} | {ranked.source: candidates}
    found = []
    for batch in scorer.encoder.encode(table):
        check()
        found.append(scorer.predict(batch))
    score_V = np.concatenate(found)
    order = np.argsort(-score_V, kind="stable")[:k]
    return [(candidates[place], float(score_V[place])) for place in order.tolist()]


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
        if _counted(value, column) not in vocabulary:
            raise UnknownKeyError(
                f"{column.name} {str(value)!r} is not among the {len(vocabulary):,} values of training."
            )


def _counted(value: Any, column: ClickColumn) -> str:
    """What counts of a value, as in a row of data."""
    text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    return text if column.characters is None else text.encode()[slice(*column.characters)].decode("utf-8", "replace")


def _pairs(data: Any, schema: ClickSchema, column: str, given: str) -> Iterable[tuple[str, str]]:
    """(value of `column`, value of `given`) of each row."""
    for block in read_rows(data, schema, needs_label=False):
        yield from zip(_texts(block.columns[column], data), _texts(block.columns[given], data), strict=True)


def _texts(values: Any, data: Any) -> list[str]:
    from any2vec.data.io.arrow import arrow_errors, pa

    with arrow_errors(f"{display(data)} cannot be read as text"):
        return [text or "" for text in values.cast(pa.large_string()).to_pylist()]

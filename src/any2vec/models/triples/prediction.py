"""The missing part of triples: of queries with two names, the k best answers, known ones left out.

Letters: V entities, R relations, M triples that are left out, B queries of a block, N candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from any2vec.data.io.files import display, is_table
from any2vec.data.options import TripleOptions, usual_columns
from any2vec.data.triples.text import HEADS, RELATIONS, TAILS
from any2vec.data.triples.triples import Triples, read_triples, triple_columns
from any2vec.data.vocab.user_keys import Key, text_of
from any2vec.embeddings import Neighbors
from any2vec.errors import DataError, InputError, UnknownKeyError
from any2vec.evaluate.triples import Known, answering, named

if TYPE_CHECKING:
    from any2vec.models.triples.scorer import TripleScorer

MISSING = "?"
"""stands for the part of a triple that is asked for, in a file of queries"""
PARTS = ("head", "relation", "tail")
_BLOCK_NUMBERS = 1 << 23
"""scores of a block"""
_TABLE_ROWS = 1 << 16
"""of a table that are read at a time"""


class Query(NamedTuple):
    """A triple with one part missing."""

    head: Key | None
    relation: Key | None
    tail: Key | None

    @property
    def missing(self) -> int:
        """The place of the part that is asked for. InputError unless it is one."""
        places = [place for place, name in enumerate(self) if name is None]
        if len(places) != 1:
            given = ", ".join(part for part, name in zip(PARTS, self, strict=True) if name is not None) or "none"
            raise InputError(f"A query gives two of head, relation and tail, and asks for the third; got {given}.")
        return places[0]


def queries_of(given: Any, options: TripleOptions) -> list[Query]:
    """Queries as `TripleScorer.predict_many` takes them. options: how the triples of training were read.

    Raises:
        InputError: it is neither a file, a table, nor rows of three; else as `read_queries`.
    """
    if isinstance(given, str | Path):
        return read_queries(given, options)
    found = []
    try:
        for row in _table_rows(given, options) if is_table(given) else given:
            query = None if text_of(row) is not None else Query(*row)
            if query is None or not all(name is None or text_of(name) is not None for name in query):
                raise TypeError
            found.append(query)
    except TypeError:
        raise InputError(
            f"Query {len(found) + 1:,} is none; queries are a file or a table with columns of head, relation and tail, "
            "or a list of (head, relation, tail), with None for what is asked: ('paris', 'capital_of', None)."
        ) from None
    return found


def _table_rows(table: Any, options: TripleOptions) -> Iterator[list[Any]]:
    """Names of head, relation and tail by row: None where a value, or the column, is missing or ?."""
    from any2vec.data.io.arrow import TableReader

    reader = TableReader(table, None)
    trained = (options.use_columns or "").split(",")
    usual = [name if name in reader.names else "" for name in trained]
    if len(usual) < 3 or sum(map(bool, usual)) < 2:
        usual = usual_columns(reader.names, HEADS, RELATIONS, TAILS)
    if sum(map(bool, usual)) < 2:
        if len(reader.names) < 3:
            raise DataError(f"{reader.name} has no columns of head, relation and tail; name two of them at least.")
        usual = reader.names[:3]
    for batch in reader.batches([name for name in usual if name], _TABLE_ROWS):
        columns = {name: [name_of(value) for value in values.to_pylist()] for name, values in batch.items()}
        size = len(next(iter(columns.values())))
        yield from map(list, zip(*(columns.get(name, [None] * size) for name in usual), strict=True))


def name_of(value: Any) -> Any:
    """A name as it stands in a table: pandas turns integers beside missing ones into floats."""
    value = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    if isinstance(value, float):
        return None if value != value else int(value) if value.is_integer() else value
    return None if value == MISSING else value


def rows_of_triples(scorer: TripleScorer, given: Any) -> np.ndarray:
    """Rows int64 (M, 3) of triples by name, in any form that `read_triples` takes.

    Raises:
        InputError: they are no triples. UnknownKeyError: a name has no row. DataError: as `read_triples`.
    """
    given = list(given) if isinstance(given, Iterator) else given
    if isinstance(given, list | np.ndarray) and not len(given):
        return np.empty((0, 3), np.int64)
    triples = read_triples(given, scorer.options, known=named(scorer), is_of_training=True)
    row_M3 = triples.rows()
    if (row_M3 < 0).any():
        number, part = divmod(int(np.argmax(row_M3.ravel() < 0)), 3)
        name = given[number][part] if isinstance(given, list) else None
        shown = "" if name is None else f", {name!r},"
        known = scorer.relations if part == 1 else scorer.entities
        raise UnknownKeyError(
            f"The {PARTS[part]} of triple {number + 1:,}{shown} is not among the names of training, such as "
            f"{known[0]!r}; `score_rows` takes triples by row."
        )
    return row_M3


def checked_rows(scorer: TripleScorer, given: Any) -> np.ndarray:
    """Triples by row, int64 (M, 3). InputError: they are none, or a row is none of the model's: kernels check none."""
    row_M3 = np.asarray(given) if len(given) else np.empty((0, 3), np.int64)
    if row_M3.dtype.kind not in "iu" or row_M3.shape[1:] != (3,):
        raise InputError(f"score_rows takes rows, integers (M, 3); got {given!r:.80}; `score` takes names.")
    entities, relations = len(scorer.entities), len(scorer.relations)
    is_wrong_M = ((row_M3 < 0) | (row_M3 >= [entities, relations, entities])).any(axis=1)
    if is_wrong_M.any():
        number = int(np.argmax(is_wrong_M))
        raise InputError(
            f"Triple {number + 1:,}, {tuple(row_M3[number].tolist())}, has a row that the model lacks: rows of heads "
            f"and tails are 0..{entities - 1:,}, of relations 0..{relations - 1:,}; `score` takes names."
        )
    return row_M3.astype(np.int64, copy=False)


def read_queries(path: Path | str, options: TripleOptions) -> list[Query]:
    """Queries of a file of triples (whatever `read_triples` reads as text or table) with ? for the missing part.

    options: how the triples of training were read.

    Raises:
        DataError: it cannot be read, has no three columns, or a row does not have exactly one ?: which one.
    """
    found: list[Query] = []
    for piece in triple_columns(path, options, None, is_of_training=True):
        if len(piece.columns) != 3:
            raise DataError(f"{path} has two columns; a query has head, relation and tail, one of them {MISSING}.")
        for row in zip(*(column.to_pylist() for column in piece.columns), strict=True):
            found.append(Query(*(None if name == MISSING else name for name in row)))
            if row.count(MISSING) != 1:
                raise DataError(
                    f"Row {len(found):,} of {path} has {row.count(MISSING)} of its names missing ({' '.join(row)}); "
                    f"a query has one {MISSING}, for what is asked."
                )
    return found


def predict(
    scorer: TripleScorer, queries: Sequence[Query], k: int, exclude: Any, exclude_training: bool
) -> list[Neighbors]:
    """As `TripleScorer.predict_many`."""
    if not isinstance(k, int | np.integer) or k < 1:
        raise InputError(f"k must be a whole number of at least 1, not {k!r}.")
    row_Q3 = np.array(_rows_of_all(scorer, queries), np.int64).reshape(-1, 3)
    missing_Q = np.array([query.missing for query in queries], np.int64)
    if (missing_Q == 1).any() and not scorer.model.has_relations:
        raise InputError(f"{scorer.model.name} does not tell relations apart, so none is likelier; give the relation.")
    left_out = _left_out(scorer, exclude, exclude_training)
    found: list[Neighbors] = [[] for _ in queries]
    most = max(len(scorer.entities), len(scorer.relations))
    for place in np.unique(missing_Q).tolist():
        names = scorer.relations if place == 1 else scorer.entities
        one, other = (part for part in range(3) if part != place)
        place_Q = np.flatnonzero(missing_Q == place)
        true_M3 = np.concatenate([answering(triple_M3, row_Q3[place_Q], place) for triple_M3 in left_out])
        true_M3 = true_M3[(true_M3 >= 0).all(axis=1)]
        known = Known(true_M3[:, one], true_M3[:, other], true_M3[:, place], most)
        for part in _blocks(place_Q, len(names)):
            asked_B3 = row_Q3[part]
            score_BN = _scores(scorer, asked_B3, place)
            if np.isnan(score_BN).any():
                raise DataError("The model scores a triple with no number: its training has diverged.")
            score_BN[known.pairs(asked_B3[:, one], asked_B3[:, other])] = -np.inf
            for query, score_N in zip(part.tolist(), score_BN, strict=True):
                found[query] = [(names[row], float(score_N[row])) for row in _best(score_N, k)]
    return found


def _rows_of_all(scorer: TripleScorer, queries: Sequence[Query]) -> list[list[int]]:
    found: list[list[int]] = []
    for query in queries:
        try:
            found.append(_rows_of(scorer, query))
        except UnknownKeyError as error:
            if len(queries) == 1:
                raise
            raise UnknownKeyError(f"Query {len(found) + 1:,}: {error}") from error
    return found


def _rows_of(scorer: TripleScorer, query: Query) -> list[int]:
    return [-1 if name is None else row_of(scorer, part, name) for part, name in zip(PARTS, query, strict=True)]


def row_of(scorer: TripleScorer, part: str, name: Key) -> int:
    """The row of the name of a head, relation or tail. UnknownKeyError: it has none."""
    known, what = (scorer.relations, part) if part == "relation" else (scorer.entities, "entity")
    row = known.find(name)
    if row is None:
        raise UnknownKeyError(f"{what} {name!r} is not among the {len(known):,} of the training triples.")
    return row


def _left_out(scorer: TripleScorer, exclude: Any, exclude_training: bool) -> list[np.ndarray]:
    """Sets of triples that are no answers, integers (M, 3); names that the model lacks are -1."""
    known = named(scorer) if (sets := _sets(exclude)) else None
    found = [read_triples(one, scorer.options, known=known, is_of_training=True).rows() for one in sets]
    for one, row_M3 in zip(sets, found, strict=True):
        _check_any_known(scorer, one, row_M3)
    return [np.empty((0, 3), np.int64), *found, *([scorer.triples] if exclude_training else [])]


def _check_any_known(scorer: TripleScorer, given: Any, row_M3: np.ndarray) -> None:
    """Raise where a set, but for a list of triples, has no triple of the model's names: then it leaves out nothing."""
    is_list = isinstance(given, list | tuple) and not _is_columns(given)
    if is_list or not len(row_M3) or (row_M3 >= 0).all(axis=1).any():
        return
    is_array = getattr(given, "ndim", 0) == 2 or _is_columns(given)
    first = given[0][0] if is_array else ""
    if not isinstance(first, str) and text_of(first) is not None and isinstance(scorer.entities[0], str):
        raise InputError(
            f"exclude takes triples by name, and integers are rows; give names, such as {scorer.entities[0]!r} and "
            f"{scorer.relations[0]!r}."
        )
    origin = f" of {display(given)}" if isinstance(given, str | Path) or is_table(given) else ""
    raise DataError(
        f"None of the {len(row_M3):,} excluded triples{origin} has the names of training; give head, relation and tail "
        "as there."
    )


def _is_columns(given: Any) -> bool:
    return isinstance(given, tuple) and any(getattr(part, "ndim", 0) == 1 for part in given)


def _sets(exclude: Any) -> list[Any]:
    """What is excluded as sets that `read_triples` takes: one given alone is a list of one, as are triples together."""
    is_array = getattr(exclude, "ndim", 0) == 2
    if isinstance(exclude, str | Path | Triples) or is_table(exclude) or is_array or _is_columns(exclude):
        return [exclude]
    if not isinstance(exclude, Iterable):
        raise InputError(f"exclude takes triples: a file, a table, a list of triples, or several; got {exclude!r:.80}.")
    given = list(exclude)
    triples = [one for one in given if _is_triple(one)]
    return [one for one in given if not _is_triple(one)] + ([triples] if triples else [])


def _is_triple(given: Any) -> bool:
    """Whether it is one triple, or edge, rather than a set of them."""
    return isinstance(given, tuple | list) and len(given) in (2, 3) and all(text_of(key) is not None for key in given)


def _blocks(place_Q: np.ndarray, num_candidates: int) -> Iterator[np.ndarray]:
    size = max(1, _BLOCK_NUMBERS // max(1, num_candidates))
    return (place_Q[start : start + size] for start in range(0, len(place_Q), size))


def _scores(scorer: TripleScorer, asked_B3: np.ndarray, place: int) -> np.ndarray:
    """Of all candidates, float32 (B, N); relations as answers to their queries for the tail."""
    head_B, relation_B, tail_B = asked_B3.T
    if place == 0:
        return scorer.head_scores(tail_B, relation_B)
    if place == 2:
        return scorer.tail_scores(head_B, relation_B)
    size = len(scorer.relations)
    triple_M3 = np.repeat(asked_B3, size, axis=0)
    triple_M3[:, 1] = np.tile(np.arange(size), len(asked_B3))
    return scorer.score_rows(triple_M3).reshape(-1, size)


def _best(score_N: np.ndarray, k: int) -> list[int]:
    """The k best that are left, best first, ties by row."""
    least = -np.inf
    if k < len(score_N):
        least = np.partition(score_N, len(score_N) - k)[len(score_N) - k]
    row_C = np.flatnonzero((score_N >= least) & (score_N > -np.inf))
    best: list[int] = row_C[np.argsort(-score_N[row_C], kind="stable")][:k].tolist()
    return best

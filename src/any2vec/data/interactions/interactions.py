"""Who has bought, watched, visited what: the items of each user, with the users' names of both beside them.

Letters: U users, I items, E pairs of a user and an item.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from any2vec.data.interactions.options import InteractionOptions
from any2vec.data.interactions.reader import Columns, checked_weights, columns_of
from any2vec.data.options import ProgressCall
from any2vec.data.triples.rows import KnownRows
from any2vec.data.vocab.found_texts import FoundTexts, integer_keys
from any2vec.data.vocab.vocabulary import Keys
from any2vec.errors import DataError, InputError
from any2vec.kernels.common.ranges import positions_in


@dataclass(frozen=True, kw_only=True)
class InteractionReport:
    """What was found while reading interactions."""

    num_users: int
    num_items: int
    num_interactions: int
    """different pairs of a user and an item"""
    repeated: int = 0
    """rows whose pair stands there before: their weights are added up"""
    unknown: int = 0
    """rows with a user or an item that `known` lacks, left out"""
    ignored_columns: int = 0
    comments: int = 0
    """lines of comments, left out"""
    weighted: bool = False
    header: str = ""
    """the first line of a text that was taken as one"""
    notes: list[str] = field(default_factory=list)
    """sentences for the user on how they were read"""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Interactions:
    """User u has the items item_E[indptr[u] : indptr[u + 1]], ascending; a user may have none.

    Attributes:
        indptr: int64 (U + 1,). item_E: int32 (E,). weight_E: float32 (E,), or (0,) where all are 1.
        users, items: their keys, by row. report: what was found.
    """

    def __init__(
        self, indptr: np.ndarray, item_E: np.ndarray, weight_E: np.ndarray, users: Keys, items: Keys,
        report: InteractionReport,
    ) -> None:  # fmt: skip
        self.indptr, self.item_E, self.weight_E = indptr, item_E, weight_E
        self.users, self.items, self.report = users, items, report

    def __repr__(self) -> str:
        return f"Interactions({len(self):,} of {len(self.users):,} users and {len(self.items):,} items)"

    def __len__(self) -> int:
        return len(self.item_E)

    def __getitem__(self, place: Any) -> Any:
        """The pair at a place, (user, item), or (user, item, weight) of weighted ones; of a slice or many places a
        list of them, as scikit-learn folds rows."""
        from any2vec.data.vocab.user_keys import UserKeys

        are_many = getattr(place, "ndim", 0) or isinstance(place, slice | list)
        row_B = np.arange(len(self))[place] if are_many else np.array([range(len(self))[place]])
        user_B = np.searchsorted(self.indptr, row_B, "right") - 1
        named = ((UserKeys(self.users), user_B), (UserKeys(self.items), self.item_E[row_B]))
        parts: list[Any] = [[keys[row] for row in rows.tolist()] for keys, rows in named]
        found = list(zip(*parts, *([self.weight_E[row_B].tolist()] if self.weight_E.size else []), strict=True))
        return found if are_many else found[0]

    def __iter__(self) -> Any:
        return iter(self[:])

    def users_of_pairs(self) -> np.ndarray:
        """int32 (E,): the user of each pair."""
        return np.repeat(np.arange(len(self.users), dtype=np.int32), np.diff(self.indptr))

    def of_users(self, user_B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(indptr int64 (B + 1,), items int32) of some users by row, user_B, as `indptr` and `item_E` are of all."""
        start_B, stop_B = self.indptr[user_B], self.indptr[user_B + 1]
        indptr_B = np.concatenate([np.zeros(1, np.int64), np.cumsum(stop_B - start_B)])
        return indptr_B, self.item_E[positions_in(start_B, stop_B)]

    def counts(self) -> np.ndarray:
        """Users of each item, int64 (I,)."""
        return np.bincount(self.item_E, minlength=len(self.items))

    def turned(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(indptr int64 (I + 1,), users int32 (E,), weights float32 (E,) or (0,)) of each item."""
        order = np.argsort(self.item_E, kind="stable")
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.counts())])
        return indptr, self.users_of_pairs()[order], self.weight_E[order] if self.weight_E.size else self.weight_E

    def split(self, share: float = 0.2, seed: int = 0) -> tuple[Interactions, Interactions]:
        """(train, test): of each user `share` of its items, rounded down, are drawn for the test; all rows stay.

        share: in (0, 1). Deterministic by seed.

        Raises:
            InputError: it is not.
        """
        if not 0 < share < 1:
            raise InputError(f"share must lie between 0 and 1, got {share!r}.")
        user_E, count_U = self.users_of_pairs(), np.diff(self.indptr)
        order = np.lexsort((np.random.default_rng(seed).random(len(self)), user_E))
        place_E = np.arange(len(self)) - self.indptr[user_E]  # of the shuffled items within their user
        is_test = np.zeros(len(self), bool)
        is_test[order] = place_E < np.floor(share * count_U)[user_E]
        return self._part(~is_test), self._part(is_test)

    def _part(self, is_kept_E: np.ndarray) -> Interactions:
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(is_kept_E)])[self.indptr]
        weight_E = self.weight_E[is_kept_E] if self.weight_E.size else self.weight_E
        report = InteractionReport(
            num_users=len(self.users), num_items=len(self.items), num_interactions=int(is_kept_E.sum()),
            weighted=self.report.weighted,
        )  # fmt: skip
        return Interactions(indptr, self.item_E[is_kept_E], weight_E, self.users, self.items, report)


def read_interactions(
    source: Any, options: InteractionOptions | None = None, *, known: Interactions | tuple[Any, Any] | None = None,
    progress: ProgressCall | None = None, is_of_training: bool = False, pairs_only: bool = False,
) -> Interactions:  # fmt: skip
    """Read interactions.

    source: files of text (plain, gz, zst, xz; `-`: standard input) with a row for each user and item, or with a line
    for each user (`lists`); Parquet, Arrow, JSON Lines; a table in memory (pandas, Polars, Arrow, a dict of columns); a
    SciPy sparse matrix (users, items), whose values are weights; a list of (user, item) or (user, item, weight), an
    array or tensor of those. Pairs that come more than once are merged, their weights added up: 1 each by default.

    Args:
        known: take the rows of these, interactions or (keys of users, keys of items); rows with others are left out.
        progress: called with (bytes read, bytes in all or None).
        is_of_training: options are those of the data of training, which others follow: text in all, a table by the
            columns, where it has them.
        pairs_only: weights are not read.

    Raises:
        DataError: the source is missing, empty or damaged, or a row is none: file and line.
        InputError: the source is of no known kind.
    """
    options = options or InteractionOptions()
    if isinstance(source, Interactions) and known is None:
        return source
    if hasattr(source, "tocoo"):
        source = source.tocoo()
        if known is None:
            return _of_matrix(source)
        source = (*source.coords, source.data) if hasattr(source, "coords") else (source.row, source.col, source.data)
    sides = (known.users, known.items) if isinstance(known, Interactions) else known
    names: list[Any] = [FoundTexts(f"A column of {noun}", "give other names") for noun in ("users", "items")]
    if sides is not None:
        names = [KnownRows(Keys.of(side)) for side in sides]
    rows: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    weights: list[np.ndarray] = []
    ignored, comments, integers, is_weighted, header = 0, 0, np.ones(2, bool), False, ""
    notes: dict[str, None] = {}
    for found in _columns(source, options, progress, is_of_training, pairs_only):
        for side, texts in enumerate((found.users, found.items)):
            rows[side].append(names[side].rows_of(texts))
        is_weighted |= found.weight_M is not None
        weights.append(np.ones(len(found.items), np.float32) if found.weight_M is None else found.weight_M)
        integers &= found.are_integers
        ignored, comments = max(ignored, found.ignored_columns), comments + found.comments
        header = header or found.header
        notes |= dict.fromkeys(found.notes)
    if not weights:
        raise DataError("There are no interactions; give at least one.")
    user_M, item_M, weight_M = (np.concatenate(part) for part in (*rows, weights))
    keys = [one.keys() for one in names]
    if sides is None:
        for side, is_integer in zip(keys, integers.tolist(), strict=True):
            side.are_integers = is_integer
    is_known = (user_M >= 0) & (item_M >= 0)
    return _built(
        user_M[is_known], item_M[is_known], weight_M[is_known], keys[0], keys[1], is_weighted,
        unknown=int((~is_known).sum()), ignored_columns=ignored, comments=comments, header=header, notes=[*notes],
    )  # fmt: skip


def _columns(
    source: Any, options: InteractionOptions, progress: ProgressCall | None, is_of_training: bool, pairs_only: bool
) -> Iterable[Columns]:
    if not isinstance(source, Interactions):
        return columns_of(source, options, progress, is_of_training, pairs_only)
    from any2vec.data.io.arrow import pa, packed

    users, items = (packed(keys.offsets, keys.arena) for keys in (source.users, source.items))
    weights = source.weight_E if source.weight_E.size else None
    return [Columns(users.take(pa.array(source.users_of_pairs())), items.take(pa.array(source.item_E)), weights)]


def _of_matrix(found: Any) -> Interactions:
    """Of a SciPy matrix in coordinates, entries of one place added up: keys are the numbers of its rows and columns."""
    found = found.copy()
    found.sum_duplicates()
    user_M, item_M = found.coords if hasattr(found, "coords") else (found.row, found.col)
    users, items = (integer_keys(np.arange(size)) for size in found.shape)
    weight_M = checked_weights(np.asarray(found.data, np.float64), "The matrix")
    return _built(user_M, item_M, weight_M, users, items, bool((weight_M != 1).any()))


def _built(
    user_M: np.ndarray, item_M: np.ndarray, weight_M: np.ndarray, users: Keys, items: Keys, is_weighted: bool,
    **report: Any,
) -> Interactions:  # fmt: skip
    if not len(user_M) and not report.get("unknown"):
        beside = f" below the header {report['header']!r}" if report.get("header") else ""
        raise DataError(f"There are no interactions{beside}; give at least one.")
    order = np.lexsort((item_M, user_M))
    user_M, item_M, weight_M = user_M[order], item_M[order], weight_M[order]
    is_first = np.ones(len(order), bool)
    is_first[1:] = (np.diff(user_M) != 0) | (np.diff(item_M) != 0)
    weight_E = np.add.reduceat(weight_M, np.flatnonzero(is_first)) if len(order) else weight_M
    is_weighted |= bool((weight_E != 1).any())
    weight_E = weight_E if is_weighted else weight_E[:0]
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(user_M[is_first], minlength=len(users)))])
    found = InteractionReport(
        num_users=len(users), num_items=len(items), num_interactions=int(is_first.sum()),
        repeated=int((~is_first).sum()), weighted=is_weighted, **report,
    )  # fmt: skip
    return Interactions(indptr, item_M[is_first].astype(np.int32), weight_E.astype(np.float32), users, items, found)

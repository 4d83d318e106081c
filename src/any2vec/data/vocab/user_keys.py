"""The keys of a table as its user knows them: strings, or integers, which are kept as their decimal text."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterable, Iterator, Mapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from any2vec.data.io.files import is_table
from any2vec.errors import FormatError, InputError

Key = str | int
INTEGERS = "integer_keys"
"""true in the metadata of a table whose keys are integers"""


def text_of(key: Any) -> str | None:
    """The text that a key is kept as: a string itself, an integer of any library in decimal; None: it is neither."""
    if isinstance(key, str):
        return key
    if isinstance(key, bool | np.bool_) or getattr(key, "ndim", None):
        return None
    try:
        return str(operator.index(key))
    except TypeError:
        return None


def key_meta(keys: Sequence[Any]) -> dict[str, Any]:
    """What the metadata of a table say of the type of its keys."""
    return {INTEGERS: True} if getattr(keys, "are_integers", False) else {}


_WALKED = (MutableSequence, str, bytes, memoryview, range)
"""sequences that are no lazily decoded keys"""


class UserKeys(Sequence[Key]):
    """N distinct keys, by row. Asked for a key, 5 and "5" are the same; given out, they are of the source's type.

    Args:
        keys: strings, or integers of int64, in any ordered collection (a list, an array, a column). Those
            that a sequence decodes lazily are walked by nothing before the first look-up.
        are_integers: whether strings are the decimal text of integers; None: as the keys say themselves.

    Raises:
        InputError: they are neither strings nor integers, or some of both; a set, whose order nobody knows.
    """

    def __init__(self, keys: Iterable[Any], are_integers: bool | None = None) -> None:
        self.names: Sequence[str]
        """as they are kept"""
        self.are_integers = bool(getattr(keys, "are_integers", False) if are_integers is None else are_integers)
        self._rows: dict[str, int] | None = None
        if isinstance(keys, set | frozenset):
            raise InputError("keys are rows in order, which a set has not; give a list, such as sorted(keys).")
        if isinstance(keys, Mapping):
            keys = keys.keys()
        if not isinstance(keys, Sequence) or (isinstance(keys, _WALKED) and not isinstance(keys, list)):
            keys = listed(keys)
        if isinstance(keys, UserKeys):
            self.names, self._rows = keys.names, keys._rows
        elif not isinstance(keys, list | tuple) or all(isinstance(key, str) for key in keys):
            self.names = keys
        else:
            self.names, self.are_integers = _digits(keys), True

    def __call__(self) -> UserKeys:
        """Themselves: `keys()` of a mapping, by which `dict(embeddings)` goes."""
        return self

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, row):  # type: ignore[no-untyped-def]  # int -> key, slice -> list of keys
        found = self.names[row]
        if not self.are_integers:
            return found
        return [_integer(name) for name in found] if isinstance(row, slice) else _integer(found)

    def __iter__(self) -> Iterator[Any]:
        return map(_integer, self.names) if self.are_integers else iter(self.names)

    def __contains__(self, key: object) -> bool:
        return text_of(key) in self.by_name()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str) or len(self) != len(other):
            return False
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3]))
        return f"[{shown}{', ...' if len(self) > 3 else ''}]"

    def by_name(self) -> dict[str, int]:
        """Rows by name; the first call builds it, O(N). FormatError where a key comes twice."""
        if self._rows is None:
            rows = {name: row for row, name in enumerate(self.names)}
            if len(rows) != len(self.names):
                raise FormatError(f"{len(self.names) - len(rows):,} keys come twice; keys must be distinct.")
            self._rows = rows
        return self._rows

    def find(self, key: Any) -> int | None:
        """The row of a key; None: it is not there. InputError for what can be no key."""
        name = text_of(key)
        if name is None:
            raise InputError(f"a key is a string or an integer, got {key!r:.80}.")
        return self.by_name().get(name)

    def rows(self, keys: Iterable[Any]) -> np.ndarray:
        """Rows of many keys (a list, an array, a column of a frame, a tensor), int64; -1: it is not there."""
        known = self.by_name()
        return np.fromiter((known.get(text_of(key), -1) for key in listed(keys)), dtype=np.int64)  # type: ignore[arg-type]


def listed(keys: Iterable[Any]) -> list[Any]:
    """Keys of any collection (an array, a column of pandas, Polars or Arrow, a table of one column, a tensor) as
    Python's own values.

    Raises:
        InputError: it is one value, such as a string, or bytes; a dict, or a table of several columns.
    """
    if isinstance(keys, Mapping):
        raise InputError(f"keys are a list, an array or a column; of a dict give its keys() or values(): {keys!r:.80}.")
    if not isinstance(getattr(keys, "keys", None), UserKeys):  # of embeddings, which are a table, too
        keys = column_of(keys)
    own = next((getattr(keys, name) for name in ("tolist", "to_pylist", "to_list") if hasattr(keys, name)), None)
    found = keys if own is None else own()
    if isinstance(found, str | bytes | bytearray) or not isinstance(found, Iterable):
        raise InputError(f"keys are a list, an array or a column of strings or of integers; got {keys!r:.80}.")
    return list(found)


def column_of(keys: Any) -> Any:
    """The values of a table of one column, or of an array (N, 1); what is neither table nor matrix as it is.

    Raises:
        InputError: there are several columns.
    """
    table = None
    if is_table(keys):
        from any2vec.data.io.arrow import TableReader

        table = TableReader(keys, None)
    elif getattr(keys, "ndim", 1) != 2:
        return keys
    names = table.names if table else [str(column) for column in range(keys.shape[1])]
    if len(names) != 1:
        raise InputError(f"keys are one column, got {len(names)} ({shown(names)}); give that of the keys alone.")
    if table is None:
        return keys.reshape(-1)
    values = (key for batch in table.batches(names, 8192) for key in batch[names[0]].to_pylist())
    return [key.decode() if isinstance(key, bytes) else key for key in values]


def shown(keys: Sequence[Any]) -> str:
    """The first five, for a message."""
    return f"{', '.join(map(repr, keys[:5]))}{', ...' if len(keys) > 5 else ''}"


def warn_missing(noun: str, keys: Sequence[Any], is_there: np.ndarray, known: str, so: str, stacklevel: int) -> None:
    """Warn that some of the keys are not among those known, and what becomes of them (so): one warning for all.

    stacklevel: as of `warnings.warn`, from who calls this.
    """
    missing = [keys[place] for place in np.flatnonzero(~is_there).tolist()]
    told = f"{len(missing):,} of {len(keys):,} {noun} are not among the {known}, and {so}: {shown(missing)}."
    warnings.warn(told, stacklevel=stacklevel + 1)


def _integer(name: str) -> int:
    try:
        return int(name)
    except ValueError:
        raise FormatError(f"the key {name!r:.80} is no integer, where the metadata say that all are.") from None


def _digits(keys: Sequence[Any]) -> list[str]:
    texts = [None if isinstance(key, str) else text_of(key) for key in keys]
    if any(text is None for text in texts):
        raise InputError("keys must all be strings, or all integers.")
    names = [text for text in texts if text is not None]
    if any(len(name) > 18 and not -(1 << 63) <= int(name) < 1 << 63 for name in names):
        raise InputError("integer keys must lie within int64; write larger ones as strings.")
    return names

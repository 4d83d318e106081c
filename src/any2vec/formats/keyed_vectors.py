"""gensim's KeyedVectors, there and back: the one module that knows gensim."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from any2vec.data.vocab.user_keys import INTEGERS, UserKeys, key_meta
from any2vec.errors import FormatError, InputError
from any2vec.formats.table import Table


def _keyed_vectors() -> Any:
    try:
        from gensim.models import KeyedVectors
    except ImportError as error:
        raise InputError("gensim is not installed; install it by pip install gensim.") from error
    return KeyedVectors


def to_keyed_vectors(table: Table) -> Any:
    """A KeyedVectors over a copy of the rows, with the counts as attribute "count"."""
    vectors = _keyed_vectors()(table.vectors.shape[1])
    keys = list(UserKeys(table.keys, table.meta.get(INTEGERS) is True))
    vectors.add_vectors(keys, np.array(table.vectors, dtype=np.float32))
    if table.counts is not None:
        for key, count in zip(keys, table.counts.tolist(), strict=True):
            vectors.set_vecattr(key, "count", count)
    return vectors


def from_keyed_vectors(vectors: Any) -> Table:
    """Keys, rows and counts of a KeyedVectors, or of a model's `.wv`. InputError for anything else."""
    vectors = getattr(vectors, "wv", vectors)
    keys, rows = getattr(vectors, "index_to_key", None), getattr(vectors, "vectors", None)
    if keys is None or not isinstance(rows, np.ndarray):
        raise InputError(f"expected a gensim KeyedVectors (or a model that has one), got {type(vectors).__name__}.")
    counts = getattr(vectors, "expandos", {}).get("count")
    if counts is not None and len(counts) != len(rows):
        counts = None
    known = UserKeys(list(keys))
    return Table(
        known.names,
        rows.astype(np.float32, copy=False),
        None,
        None if counts is None else np.asarray(counts, dtype=np.int64),
        key_meta(known),
    )


def write(path: Path, table: Table, dtype: str) -> None:
    """gensim's own file (one pickle, the matrix within)."""
    with path.open("wb") as file:
        to_keyed_vectors(table).save(file)


def read(path: Path, mmap: bool) -> Table:
    """Load gensim's own file. It is a pickle, and reading a pickle can run code: open only files that you trust."""
    try:
        vectors = _keyed_vectors().load(str(path))
    except InputError:
        raise
    except Exception as error:  # unpickling damaged bytes raises anything
        raise FormatError(f"{path.name}: not a readable KeyedVectors file ({type(error).__name__}).") from None
    try:
        return from_keyed_vectors(vectors)
    except InputError as error:
        raise FormatError(f"{path.name}: {error}") from None

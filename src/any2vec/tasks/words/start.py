"""Where training starts: word2vec's start values, or rows taken over from given vectors by key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from any2vec.data.io.files import fingerprint
from any2vec.data.vocab.vocabulary import Keys
from any2vec.embeddings import Embeddings
from any2vec.errors import InputError
from any2vec.kernels.common.rng import PURPOSE_INIT, stream_key
from any2vec.kernels.common.scalar import BOUND
from any2vec.kernels.rows.rows import fill_uniform
from any2vec.models.words.config import SequenceModel

TABLES = ("input", "output")


def fresh_tables(num_rows: int, model: SequenceModel, seed: int) -> dict[str, np.ndarray]:
    """Input rows uniform in [-spread, spread) / dim, the spread the model's; output rows 0 (word2vec)."""
    return {name: fresh_rows(name, np.arange(num_rows), model, seed) for name in TABLES}


def fresh_rows(name: str, ids: np.ndarray, model: SequenceModel, seed: int) -> np.ndarray:
    """float32 (K, dim): the rows `ids`, int64 (K,), of one of `fresh_tables`, whichever host has them."""
    if name == "output":
        return np.zeros((len(ids), model.dim), np.float32)
    rows = np.empty((len(ids), model.dim), np.float32)
    fill_uniform(rows, ids, stream_key(seed, PURPOSE_INIT), model.start_spread)
    return rows


def start_digest(init: Embeddings) -> str:
    """Fingerprint of all that a run takes over from given vectors."""
    keys = np.frombuffer("\n".join(init.keys.names).encode(), np.uint8)
    rest = (array for array in (init.vectors, init.output, init.counts) if array is not None)
    return fingerprint(keys, *rest)


def carry_over(
    init: Embeddings, keys: Sequence[str], counts: np.ndarray, model: SequenceModel, seed: int
) -> tuple[dict[str, np.ndarray], Keys, np.ndarray]:
    """Tables that hold `init`'s rows at the rows of its keys, and fresh rows for new keys.

    Keys of `init` that the data do not hold are kept, below the others, so that training on new text forgets no word.
    Returns (tables, all keys, counts: those of `init` and of the data added up).

    Raises:
        InputError: the dim differs, or a number is NaN or beyond the kernels' bound.
    """
    dim = model.dim
    if init.dim != dim:
        raise InputError(f"The given vectors have dim {init.dim} and the model has {dim}; set --dim {init.dim}.")
    for rows in (init.vectors, init.output):
        if rows is not None and rows.size and not max(float(rows.max()), -float(rows.min())) <= float(BOUND):
            raise InputError(f"The given vectors hold NaN or numbers beyond {BOUND:g}; clean or scale them first.")
    row_of = {key: row for row, key in enumerate(keys)}
    targets = np.empty(len(init), np.int64)
    extra: list[str] = []
    for row, key in enumerate(init.keys.names):
        target = row_of.get(key)
        if target is None:
            target = len(row_of) + len(extra)
            extra.append(key)
        targets[row] = target
    all_keys = Keys.of([*keys, *extra])
    all_keys.are_integers = init.keys.are_integers and getattr(keys, "are_integers", False)
    tables = fresh_tables(len(all_keys), model, seed)
    tables["input"][targets] = init.vectors
    if init.output is not None and model.objective == "negative":
        tables["output"][targets] = init.output
    total = np.zeros(len(all_keys), np.int64)
    total[: len(counts)] = counts
    if init.counts is not None:
        total[targets] += init.counts
    return tables, all_keys, total

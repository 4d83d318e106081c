"""Planted clicks as a file of text with its schema beside it, as a user's file would be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from any2vec.data.clicks.rows import ClickBatch
from any2vec.data.clicks.schema import ClickSchema
from any2vec.data.io.storage import atomic_file
from any2vec.errors import InputError
from any2vec.testing.planted_clicks import PlantedClicks, chunks


def write_tsv(clicks: PlantedClicks, path: str | Path, start: int = 0, stop: int | None = None) -> Path:
    """Write examples [start, stop) as text with a header, and a schema beside it (same name, `.toml`).

    Columns: label, I1.. (dense, float32 in full), C1.. (categorical), T1.. (multi-valued, `|` between values).
    A value is the number of its row within the column, so that a vocabulary finds as many values as occur.

    Returns:
        The path of the schema.

    Raises:
        InputError: the range is not within the stream.
        StorageError: a file cannot be written.
    """
    path, stop = Path(path), clicks.num_examples if stop is None else stop
    clicks.check_range(start, stop)
    if path.suffix == ".toml":
        raise InputError(f"{path}: the schema is written with that suffix; name the file of clicks .tsv, say.")
    with atomic_file(path) as temporary, temporary.open("w", encoding="ascii", newline="\n") as file:
        file.write("\t".join([clicks.schema.label, *clicks.dense_names, *clicks.columns]) + "\n")
        for begin, end in chunks(start, stop):
            file.writelines(_lines(clicks.batch(begin, end), clicks.offset_F))
    schema_path = path.with_suffix(".toml")
    with atomic_file(schema_path) as temporary:
        temporary.write_text(_toml(clicks.schema), encoding="ascii")
    return schema_path


def _lines(batch: ClickBatch, offset_F: np.ndarray) -> Iterator[str]:
    F = len(offset_F) - 1
    column_P = np.tile(np.arange(F), len(batch.label_B))
    own_M = batch.id_M - np.repeat(offset_F[column_P], np.diff(batch.start_P))
    value_M, end_P, dense_BX = own_M.astype(str).tolist(), batch.start_P.tolist(), batch.dense_BX.astype(str).tolist()
    for b, label in enumerate(batch.label_B.astype(np.int64).tolist()):
        bags = ("|".join(value_M[end_P[p] : end_P[p + 1]]) for p in range(b * F, (b + 1) * F))
        yield "\t".join((str(label), *dense_BX[b], *bags)) + "\n"


def _toml(schema: ClickSchema) -> str:
    """The fields that differ from their defaults; Python's text of names and lists of names is TOML's."""
    lines = ["# Planted clicks: each value its own row, dense numbers as they are."]
    default = ClickSchema(categorical=("any",)).to_dict()
    for name, value in schema.to_dict().items():
        if value != default[name]:
            text = str(value).lower() if isinstance(value, bool) else repr(value)
            lines.append(f"{name} = {text}")
    return "\n".join(lines) + "\n"

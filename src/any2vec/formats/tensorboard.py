"""The files of TensorBoard's projector: tensors.tsv, metadata.tsv and projector_config.pbtxt in one folder.

metadata.tsv has a header only when it has more than one column: the projector's own rule.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import numpy as np

from any2vec.data.io.storage import atomic_file
from any2vec.errors import FormatError
from any2vec.formats.table import Table, row_blocks
from any2vec.formats.vocabulary import parse_vocabulary, write_vocabulary
from any2vec.formats.word2vec import MOST_COLUMNS, GrowingMatrix, format_rows, parse_numbers, read_lines

_CONFIG = """embeddings {
  tensor_name: "any2vec"
  tensor_path: "tensors.tsv"
  metadata_path: "metadata.tsv"
}
"""
_HEADER = b"key\tcount\n"


def write(folder: Path, table: Table, dtype: str) -> None:
    """Write the three files into `folder`, all or none; other files there are left alone."""
    names = ("projector_config.pbtxt", "metadata.tsv", "tensors.tsv")
    with ExitStack() as stack:
        config, metadata, tensors = (stack.enter_context(atomic_file(folder / name)) for name in names)
        with tensors.open("wb") as file:
            for block in row_blocks(table.vectors, 1 << 21):
                file.write("".join(row + "\n" for row in format_rows(table.vectors[block], "\t")).encode())
        with metadata.open("wb") as file:
            if table.counts is not None:
                file.write(_HEADER)
            write_vocabulary(file, table.keys, table.counts)
        config.write_text(_CONFIG, encoding="utf-8")


def read(folder: Path, mmap: bool) -> Table:
    """Read tensors.tsv and metadata.tsv (`key`, or `key<TAB>count` below a header). FormatError for what is damaged."""
    for name in ("tensors.tsv", "metadata.tsv"):
        if not (folder / name).is_file():
            raise FormatError(f"{folder.name}: {name} is missing; not a TensorBoard projector folder.")
    data = np.fromfile(folder / "metadata.tsv", dtype=np.uint8)
    if data[: len(_HEADER)].tobytes() == _HEADER:
        data = data[len(_HEADER) :]
    keys, counts = parse_vocabulary(data, "metadata.tsv")
    return Table(keys, _read_tensors(folder / "tensors.tsv"), None, counts)


def _read_tensors(path: Path) -> np.ndarray:
    matrix: GrowingMatrix | None = None
    line_number = 1
    for lines in read_lines(path):
        rows = [line.split() for line in lines]
        if rows and matrix is None:
            if not 1 <= len(rows[0]) <= MOST_COLUMNS:
                raise FormatError(f"{path.name}, line 1: expected numbers, got {lines[0][:40]!r}.")
            matrix = GrowingMatrix(len(rows[0]))
        if matrix is None:
            continue
        for offset, row in enumerate(rows):
            if len(row) != matrix.dim:
                raise FormatError(
                    f"{path.name}, line {line_number + offset:,}: expected {matrix.dim:,} numbers, got {len(row):,}."
                )
        matrix.append(parse_numbers([number for row in rows for number in row], matrix.dim, path.name, line_number))
        line_number += len(lines)
    if matrix is None:
        raise FormatError(f"{path.name}: there are no rows in it.")
    return matrix.finish()

"""Indexes for neighbors by cosine, of usearch and of FAISS: unit rows in a graph (HNSW), labeled by row.

The keys stand beside, a line a row, as those of a matrix do. An index is written, not read: its rows are of length 1.
Written by several threads, as from some thousand rows on, the graph is not the same twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from any2vec.errors import FormatError, InputError
from any2vec.formats.norms import unit_rows
from any2vec.formats.table import Table, row_blocks

CONNECTIVITY, EXPANSION_ADD, EXPANSION_SEARCH = 16, 64, 128
"""of the graph: neighbors of a row, and candidates while it is built and searched"""
_SMALL = 4096
"""rows below which one thread builds: threads that begin a graph together miss each other's rows"""
_HALF = {"float32": "f32", "float16": "f16"}


def build_index(matrix_ND: Any, dtype: str = "float16", threads: int = 0) -> Any:
    """usearch's index of all rows; in float16 half the memory and a third of the time of float32, at the same recall.

    Raises:
        InputError: usearch is not installed.
    """
    try:
        from usearch.index import Index
    except ImportError as error:
        raise InputError("approximate neighbors need usearch: install it (pip install usearch).") from error
    index = Index(
        ndim=matrix_ND.shape[1], metric="cos", dtype=_HALF[dtype], connectivity=CONNECTIVITY,
        expansion_add=EXPANSION_ADD, expansion_search=EXPANSION_SEARCH,
    )  # fmt: skip
    threads = 1 if len(matrix_ND) < _SMALL else threads
    for block in row_blocks(matrix_ND):
        try:
            index.add(np.arange(block.start, block.stop), unit_rows(matrix_ND[block]), threads=threads)
        except RuntimeError as error:
            if "terminated" in str(error):  # usearch's word for a signal that came meanwhile
                raise KeyboardInterrupt from error
            raise
    return index


def write_usearch(path: Path, table: Table, dtype: str) -> None:
    """`usearch.index.Index.restore(path)` opens it."""
    build_index(table.vectors, dtype).save(str(path))


def write_faiss(path: Path, table: Table, dtype: str) -> None:
    """`faiss.read_index(path)` opens it: inner products, so that queries of length 1 find cosines.

    Raises:
        InputError: FAISS is not installed.
    """
    try:
        import faiss
    except ImportError as error:
        raise InputError("FAISS is not installed; install it by pip install faiss-cpu.") from error
    index = faiss.IndexHNSWFlat(table.vectors.shape[1], CONNECTIVITY, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction, index.hnsw.efSearch = EXPANSION_ADD, EXPANSION_SEARCH
    for block in row_blocks(table.vectors):
        index.add(unit_rows(table.vectors[block]))
    faiss.write_index(index, str(path))


def read(path: Path, mmap: bool) -> Table:
    """Raises FormatError."""
    raise FormatError(f"{path.name} is an index for neighbors; give the vectors that it was made of.")

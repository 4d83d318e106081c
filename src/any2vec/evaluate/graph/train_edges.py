"""The training edges of a split as lines of text, which any reader of edge lists takes for just these edges.

Letters: N nodes, E edges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from any2vec.data.graph.edge_list import WORDS_OF_DST, WORDS_OF_SRC, guess_form, is_number
from any2vec.data.options import GraphOptions
from any2vec.errors import DataError, InputError

if TYPE_CHECKING:
    from any2vec.evaluate.graph.split import Split

_SAMPLE_LINES, _BLOCK_LINES = 100, 65536


def edge_lines(
    names: Sequence[str], src_E: np.ndarray, dst_E: np.ndarray, weight_E: np.ndarray | None
) -> Iterator[bytes]:
    """`src<TAB>dst[<TAB>weight]` a line, in order, but that another comes first where the first looks like a header.

    Raises:
        InputError: a node's name cannot stand in such a line.
    """
    keys = list(names)
    bad = next((key for key in keys if not _stands_in_a_line(key)), None)
    if bad is not None:
        raise InputError(
            f"node {bad!r} cannot stand in an edge list (empty, a tab, a line end, or # or % or a quote in front); "
            "rename it."
        )
    row_E = np.arange(len(src_E))
    if _looks_like_a_header(_lines(keys, src_E, dst_E, weight_E, row_E[:_SAMPLE_LINES])):
        first = _plain_edge(keys, src_E, dst_E)
        row_E[[0, first]] = row_E[[first, 0]]
    for start in range(0, len(row_E), _BLOCK_LINES):
        yield _lines(keys, src_E, dst_E, weight_E, row_E[start : start + _BLOCK_LINES])


def _stands_in_a_line(key: str) -> bool:
    return (
        bool(key)
        and key == key.strip()
        and key[0] not in GraphOptions.comment + '"'
        and not any(mark in key for mark in "\t\n\r")
    )


def _lines(
    keys: list[str], src_E: np.ndarray, dst_E: np.ndarray, weight_E: np.ndarray | None, rows: np.ndarray
) -> bytes:
    columns = [[keys[row] for row in side[rows].tolist()] for side in (src_E, dst_E)]
    if weight_E is not None:
        columns.append([f"{weight:.9g}" for weight in weight_E[rows].tolist()])
    return "".join("\t".join(line) + "\n" for line in zip(*columns, strict=True)).encode()


def _looks_like_a_header(lines: bytes) -> bool:
    try:
        return bool(lines) and bool(guess_form(np.frombuffer(lines, np.uint8), "train.edges", GraphOptions()).header)
    except DataError:  # a header alone
        return True


def _plain_edge(keys: list[str], src_E: np.ndarray, dst_E: np.ndarray) -> int:
    """The first edge that is no header before any others: it has a number; where none has, its ends are no names of
    columns."""
    is_number_N = np.array([is_number(key.encode()) for key in keys])
    is_plain_E = is_number_N[src_E] | is_number_N[dst_E]
    if not is_plain_E.any():
        is_word_N = np.array([key.strip('"').lower() in WORDS_OF_SRC | WORDS_OF_DST for key in keys])
        is_plain_E = ~(is_word_N[src_E] & is_word_N[dst_E])
    if not is_plain_E.any():
        raise InputError(
            f"node {keys[src_E[0]]!r} and others are all named as columns are, so that an edge would be taken for a "
            "header; rename them."
        )
    return int(np.argmax(is_plain_E))


def read_train_pairs(split: Split) -> np.ndarray:
    """The training edges as rows of nodes.tsv, int64 (E, 2). DataError for a line that names another node."""
    row = {key: index for index, key in enumerate(split.keys)}
    pairs = []
    with split.train_edges.open(encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file, 1):
            fields = line.rstrip("\n").split("\t")
            if len(fields) < 2 or fields[0] not in row or fields[1] not in row:
                raise DataError(f"train.edges, line {number:,}: not an edge between nodes of nodes.tsv.")
            pairs.append((row[fields[0]], row[fields[1]]))
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)

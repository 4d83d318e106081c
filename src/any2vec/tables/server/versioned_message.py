"""Messages between a cache of trained rows and the owner of rows: one request a step, one reply.

Request: control int64 [pull bound, pushes N, requests A, flags: 1 where fresh rows are not wanted, 2 where the bound is
          less for young rows],
          ids: slots of the pushes, as differences, how many updates each push holds, slots of the requests, versions
          known + 1, 0 for none; all as varints, rows (N, C): changes
Answer: ids (a bit for each request: the row comes along; then the versions of the rows that come), rows (S, C)

Everything of kind "ids" is metadata, what HET adds to the rows themselves: it is sent for every key, on hits, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from any2vec.cluster.message import Part
from any2vec.errors import MessageError
from any2vec.kernels.common.varint import read_varints, varint_size, write_varints

UNKNOWN = -1
"""version of a row that the asker does not have"""
FRESH = 0
"""version of a row that is as everybody can make it"""


class RowQuery(NamedTuple):
    """Changes to take, and then rows to look after. Slots are places in the owner's block."""

    pull_bound: int
    """a row comes along where more updates than these are not in the version that is known"""
    push_N: np.ndarray
    """int64 slots, ascending; one may come again"""
    updates_N: np.ndarray
    """int64: updates whose changes were added up, 1 or more"""
    change_NC: np.ndarray
    """float32"""
    ask_A: np.ndarray
    """int64 slots, ascending, none twice"""
    known_A: np.ndarray
    """int64: versions known, UNKNOWN where the row is not"""
    makes_fresh: bool = False
    """rows that nobody has changed need not be sent: the asker makes them"""
    spares_young: bool = False
    """the bound is less for rows that are young (tables.freshness)"""


class Answer(NamedTuple):
    """The rows that were too old."""

    is_sent_A: np.ndarray
    """bool"""
    version_S: np.ndarray
    """int64"""
    row_SC: np.ndarray
    """float32"""


def pack_query(query: RowQuery) -> list[Part]:
    flags = query.makes_fresh + 2 * query.spares_young
    sizes = np.array([query.pull_bound, len(query.push_N), len(query.ask_A), flags], np.int64)
    push, ask = _steps(query.push_N), _steps(query.ask_A)
    metadata = _pack(np.concatenate([push, query.updates_N, ask, query.known_A + 1]))
    return [Part("control", sizes), Part("ids", metadata), Part("rows", query.change_NC)]


def unpack_query(parts: Sequence[Part], num_rows: int, num_columns: int) -> RowQuery:
    """Of a block of so many rows and columns.

    Raises:
        MessageError: it is not a valid request.
    """
    sizes = parts[0].array.reshape(-1).tolist() if len(parts) == 3 and parts[0].array.dtype == np.int64 else []
    if len(sizes) != 4 or min(sizes) < 0 or sizes[3] > 3 or not _is_list(parts[1].array, 2 * (sizes[1] + sizes[2])):
        raise MessageError(f"{len(parts)} parts that begin with {sizes} are not a request of a cache.")
    bound, pushes, asked, flags = sizes
    change_NC = parts[2].array
    if change_NC.shape != (pushes, num_columns) or change_NC.dtype != np.float32:
        raise MessageError(
            f"Changes of {pushes} rows of {num_columns} numbers came as {change_NC.dtype} {change_NC.shape}."
        )
    numbers = _unpack(parts[1].array, 2 * (pushes + asked))
    push, updates, ask, known = np.split(numbers, np.cumsum([pushes, pushes, asked]))
    push_N, ask_A = np.cumsum(push), np.cumsum(ask)
    if not (_are_rows(push_N, num_rows) and _are_rows(ask_A, num_rows)) or (ask[1:] == 0).any() or (updates == 0).any():
        raise MessageError(f"A cache speaks of rows that are not ascending, or not of a block of {num_rows} rows.")
    return RowQuery(bound, push_N, updates, change_NC, ask_A, known - 1, bool(flags & 1), bool(flags & 2))


def pack_answer(answer: Answer) -> list[Part]:
    metadata = np.concatenate([np.packbits(answer.is_sent_A), _pack(answer.version_S)])
    return [Part("ids", metadata), Part("rows", answer.row_SC)]


def unpack_answer(parts: Sequence[Part], asked: int, num_columns: int) -> Answer:
    """To a request about so many rows.

    Raises:
        MessageError: that is no answer to it.
    """
    bits = -(-asked // 8)
    if len(parts) != 2 or not _is_list(parts[0].array, bits):
        raise MessageError(f"{len(parts)} parts are no answer about {asked} rows.")
    is_sent_A = np.unpackbits(parts[0].array[:bits], count=asked).astype(bool)
    row_SC = parts[1].array
    if row_SC.shape != (is_sent_A.sum(), num_columns) or row_SC.dtype != np.float32:
        raise MessageError(
            f"{is_sent_A.sum()} rows of {num_columns} numbers were expected, and {row_SC.dtype} {row_SC.shape} came."
        )
    return Answer(is_sent_A, _unpack(parts[0].array[bits:], len(row_SC)), row_SC)


def bytes_of(parts: Sequence[Part]) -> tuple[int, int]:
    """(bytes of rows, bytes of everything else) of a request or an answer."""
    rows = sum(part.array.nbytes for part in parts if part.kind == "rows")
    return rows, sum(part.array.nbytes for part in parts) - rows


def _steps(slots: np.ndarray) -> np.ndarray:
    return np.diff(slots, prepend=0)


def _are_rows(slots: np.ndarray, num_rows: int) -> bool:
    """Ascending, in [0, num_rows): sums of steps that ran over are neither."""
    return not slots.size or bool(slots[0] >= 0 and slots[-1] < num_rows and (np.diff(slots) >= 0).all())


def _is_list(array: np.ndarray, least: int) -> bool:
    return array.dtype == np.uint8 and array.ndim == 1 and array.size >= least


def _pack(numbers: np.ndarray) -> np.ndarray:
    packed = np.empty(varint_size(numbers), np.uint8)
    write_varints(numbers, packed)
    return packed


def _unpack(packed: np.ndarray, count: int) -> np.ndarray:
    numbers = np.empty(count, np.int64)
    if not read_varints(packed, numbers):
        raise MessageError(f"{packed.size} bytes came where {count} whole numbers were to come.")
    return numbers

"""Keys beside a matrix: a text file with one `key` or `key<TAB>count` a line, row r of the matrix on line r.

Backslash, tab, newline and carriage return within a key are written as \\\\, \\t, \\n, \\r.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np

from any2vec.errors import FormatError

_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_UNESCAPES = {value: key for key, value in _ESCAPES.items()}
_SPECIAL = re.compile(r"[\\\t\n\r]")
_ESCAPED = re.compile(r"\\.?", re.DOTALL)
_BLOCK = 65536
_BYTES = 1 << 22
"""of a file that are looked through at a time"""
_END = ord("\n")


class LineKeys(Sequence[str]):
    """Keys of a file, decoded when asked for: UTF-8 bytes and the offsets at which keys start and stop.

    arena: uint8 (bytes,). starts, stops: int64 (N,). is_escaped: whether a backslash stands for an escape.
    """

    def __init__(self, arena: np.ndarray, starts: np.ndarray, stops: np.ndarray, is_escaped: bool = False) -> None:
        self._arena, self._starts, self._stops, self.is_escaped = arena, starts, stops, is_escaped

    def __len__(self) -> int:
        return len(self._starts)

    def _decode(self, start: int, stop: int) -> str:
        key = self._arena[start:stop].tobytes().decode()
        return unescape(key) if self.is_escaped else key

    def __getitem__(self, row):  # type: ignore[no-untyped-def]  # int -> str, slice -> list[str]
        if isinstance(row, slice):
            return [self[index] for index in range(*row.indices(len(self)))]
        return self._decode(int(self._starts[row]), int(self._stops[row]))

    def __iter__(self) -> Iterator[str]:
        for stored in self.stored():
            key = stored.decode()
            yield unescape(key) if self.is_escaped else key

    def stored(self) -> Iterator[bytes]:
        """Each key as it stands in the file: equal bytes, equal keys."""
        for block in range(0, len(self), _BLOCK):
            starts, stops = self._starts[block : block + _BLOCK], self._stops[block : block + _BLOCK]
            base = int(starts[0])
            data = self._arena[base : int(stops[-1])].tobytes()
            for start, stop in zip((starts - base).tolist(), (stops - base).tolist(), strict=True):
                yield data[start:stop]


def escape(key: str) -> str:
    return _SPECIAL.sub(lambda match: _ESCAPES[match[0]], key)


def unescape(key: str) -> str:
    """Undo `escape`; an escape that it never writes raises FormatError."""
    if "\\" not in key:
        return key
    try:
        return _ESCAPED.sub(lambda match: _UNESCAPES[match[0]], key)
    except KeyError as error:
        raise FormatError(f"vocabulary: key {key!r} holds the unknown escape {error.args[0]!r}.") from None


def write_vocabulary(file: IO[bytes], keys: Sequence[str], counts: np.ndarray | None) -> None:
    """Write the lines; memory O(block)."""
    position = 0
    block: list[str] = []

    def flush() -> None:
        nonlocal position
        lines = [escape(key) for key in block] if _SPECIAL.search("".join(block)) else block
        if counts is not None:
            numbers = counts[position : position + len(block)].tolist()
            lines = [f"{key}\t{number}" for key, number in zip(lines, numbers, strict=True)]
        file.write(("\n".join(lines) + "\n").encode())
        position += len(block)
        block.clear()

    for key in keys:
        block.append(key)
        if len(block) == _BLOCK:
            flush()
    if block:
        flush()


def _read_numbers(arena: np.ndarray, starts: np.ndarray, stops: np.ndarray, where: str) -> np.ndarray:
    """Decimal numbers at [start, stop) of the bytes, vectorized over lines, one digit place at a time -> int64 (N,)."""
    lengths = stops - starts
    if len(lengths) and (lengths.min() < 1 or lengths.max() > 18):
        raise FormatError(f"{where}: a count is missing or has more than 18 digits.")
    numbers = np.zeros(len(starts), dtype=np.int64)
    for place in range(int(lengths.max(initial=0))):
        inside = lengths > place
        digits = arena[np.where(inside, starts + place, 0)].astype(np.int64) - ord("0")
        if ((digits < 0) | (digits > 9))[inside].any():
            raise FormatError(f"{where}: a count is not a whole number.")
        numbers = np.where(inside, numbers * 10 + digits, numbers)
    return numbers


def read_vocabulary(path: Path) -> tuple[LineKeys, np.ndarray | None]:
    """Keys and counts (None where the file has none). FormatError for bytes that are not UTF-8 or lines that differ."""
    return parse_vocabulary(np.fromfile(path, dtype=np.uint8), path.name)


def parse_vocabulary(arena: np.ndarray, where: str) -> tuple[LineKeys, np.ndarray | None]:
    """`read_vocabulary` of bytes in memory, uint8 (bytes,); `where` names them in messages.

    Memory: O(block) beside the bytes and 24 bytes a key.
    """
    bounds = _line_blocks(arena)
    size = sum(int(np.count_nonzero(arena[first:stop] == _END)) for first, stop in bounds)
    size += bool(len(arena)) and arena[-1] != _END
    starts, stops, numbers, has_counts = (
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(0, np.int64),
        False,
    )
    done = 0
    for first, stop in bounds:
        begins, ends, tabs = _lines(arena[first:stop], first, where)
        own = slice(done, done + len(begins))
        starts[own], stops[own] = begins + first, ends + first
        if not done and len(tabs):
            numbers, has_counts = np.empty(size, np.int64), True
        if (
            len(tabs) != len(begins) * has_counts
            or (tabs < begins[: len(tabs)]).any()
            or (tabs >= ends[: len(tabs)]).any()
        ):
            raise FormatError(f"{where}: expected `key<TAB>count` on each line, or `key` on each line.")
        if has_counts:
            stops[own] = tabs + first
            numbers[own] = _read_numbers(arena[first:stop], tabs + 1, ends, where)
        done += len(begins)
    is_escaped = any(bool((arena[first:stop] == ord("\\")).any()) for first, stop in bounds)
    return _checked(LineKeys(arena, starts, stops, is_escaped)), numbers if has_counts else None


def _line_blocks(arena: np.ndarray) -> list[tuple[int, int]]:
    """Whole lines, about _BYTES of them: [first, stop), ascending."""
    found, first = [], 0
    while first < len(arena):
        stop = min(first + _BYTES, len(arena))
        while stop < len(arena) and arena[stop - 1] != _END:
            ends = np.flatnonzero(arena[stop : stop + _BYTES] == _END)
            stop = stop + int(ends[0]) + 1 if len(ends) else min(stop + _BYTES, len(arena))
        found.append((first, stop))
        first = stop
    return found


def _lines(text: np.ndarray, first: int, where: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where lines begin and end within a block, int64, and where its tabs are; first: byte of the file it begins at."""
    try:
        text.tobytes().decode()
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{where}: byte {first + error.start:,} is not UTF-8; the file is damaged or not a vocabulary."
        ) from None
    ends = np.flatnonzero(text == _END).astype(np.int64)
    if text[-1] != _END:
        ends = np.append(ends, len(text))
    begins = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1])
    ends -= (ends > begins) & (text[np.maximum(ends - 1, 0)] == ord("\r"))  # lines that end in CR LF
    return begins, ends, np.flatnonzero(text == ord("\t")).astype(np.int64)


def _checked(keys: LineKeys) -> LineKeys:
    """The keys, every escape among them a known one."""
    if keys.is_escaped:
        for _ in keys:
            pass
    return keys


def beside(path: Path) -> Path:
    """Where the keys of a matrix file stand: `vectors.safetensors` -> `vectors.vocabulary.tsv`."""
    return path.with_name(path.stem + ".vocabulary.tsv")

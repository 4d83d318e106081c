"""Text of JSON Lines, an object on each line, in pieces. Memory O(piece)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from any2vec.checks import MOST_LEVELS, parse_json
from any2vec.data.io.files import display, read_blocks, whole_lines
from any2vec.errors import Any2VecError

_PIECE = 1 << 24
"""bytes of text that are read at a time"""
_BY_COLUMN = re.compile(rb'\{\s*"[^"]*"\s*:\s*\{\s*"0"\s*:')
"""how the only object begins that pandas writes of a frame by default"""


def pieces_of(file: str, error: type[Any2VecError]) -> Iterator[tuple[int, bytes]]:
    """(lines before them, whole lines) of a file, plain or packed."""
    lines = 0
    blocks = read_blocks(file, block_bytes=_PIECE)
    for piece in whole_lines(display(file), blocks, error=error):
        if piece.strip():
            yield lines, piece
        lines += piece.count(b"\n")


def check_objects(piece: bytes, lines: int, name: str, error: type[Any2VecError]) -> None:
    """An object on each line, and none so deep that a parser's stack would not hold it; lines: before the piece."""
    for number, line in enumerate(map(bytes.strip, piece.split(b"\n")), lines + 1):
        is_object, why = not line or (line.startswith(b"{") and line.endswith(b"}")), "is no JSON object"
        if number == 1 and _BY_COLUMN.match(line):
            is_object, why = False, "holds columns"
        if is_object and line.count(b"{") + line.count(b"[") >= MOST_LEVELS:
            try:
                parse_json(line)
            except ValueError as found:
                is_object, why = False, f"is no JSON ({found})"
        if not is_object:
            shown = line[:60].decode("utf-8", "replace")
            raise error(
                f"{name}, line {number:,} {why}: {shown!r}; write each row as an object on its own line "
                '(pandas: to_json(file, orient="records", lines=True)).'
            )

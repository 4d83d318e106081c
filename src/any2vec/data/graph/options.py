"""How a graph is read. Light to import: the command line makes its flags from `GraphOptions` without a compiler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from any2vec.errors import InputError

DELIMITERS = {"tab": "\t", "comma": ",", "semicolon": ";", "space": " "}
ProgressCall = Callable[[int, int | None], None]
"""is told how far reading is: (bytes done, bytes in all or None)"""


@dataclass(frozen=True, kw_only=True)
class GraphOptions:
    """How a graph is read."""

    directed: bool = False
    """edges go from the first to the second node only"""
    weighted: bool | None = None
    """whether the third column is the edge's weight; by default yes where there is one"""
    delimiter: str | None = None
    """between columns: tab, comma, semicolon, space (any run of spaces and tabs) or one character; by default
    guessed"""
    header: bool | None = None
    """whether the first line names the columns; by default guessed"""
    comment: str = "#%"
    """characters that begin a comment line; empty: there are none (for ids such as #tag)"""

    def __post_init__(self) -> None:
        for name, allowed in (("directed", (True, False)), ("weighted", (True, False, None))):
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} must be one of {allowed}, got {getattr(self, name)!r}.")
        if self.delimiter is not None:
            mark = DELIMITERS.get(self.delimiter, self.delimiter)
            if len(mark) != 1 or not mark.isascii() or mark.isalnum() or mark in '"\r\n\0':
                raise InputError(
                    f"delimiter must be {', '.join(DELIMITERS)} or one character (no letter, digit, quote or line end)"
                    f", got {self.delimiter!r}."
                )
        if not self.comment.isascii() or any(mark in self.comment for mark in " \t\r\n\0"):
            raise InputError(f"comment must hold ASCII characters other than white space, got {self.comment!r}.")

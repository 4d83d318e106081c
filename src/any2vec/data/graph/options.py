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
    """How a graph is read.

    Edges of a directed graph go from the first to the second node only. delimiter space: any run of spaces and tabs. No
    comment characters: for ids such as #tag.
    """

    directed: bool = False
    """edges have a direction"""
    weighted: bool | None = None
    """the third column is a weight; by default if present"""
    delimiter: str | None = None
    """tab, comma, semicolon, space or one character; by default guessed"""
    header: bool | None = None
    """the first line names the columns; by default guessed"""
    comment: str = "#%"
    """characters that start a comment line"""

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

"""The options of reading triples. Light: the command line makes its flags from them without loading a compiler."""

from __future__ import annotations

from dataclasses import dataclass

from any2vec.data.graph.options import DELIMITERS
from any2vec.errors import InputError


@dataclass(frozen=True, kw_only=True)
class TripleOptions:
    """How triples are read. A first line with names such as head and tail is taken as a header."""

    delimiter: str | None = None
    """tab, comma, semicolon, space or one character; by default guessed"""
    header: bool | None = None
    """the first line names the columns; by default guessed"""

    def __post_init__(self) -> None:
        if self.delimiter is not None and len(DELIMITERS.get(self.delimiter, self.delimiter)) != 1:
            raise InputError(f"delimiter must be {', '.join(DELIMITERS)} or one character, got {self.delimiter!r}.")

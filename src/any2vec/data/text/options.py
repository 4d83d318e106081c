"""The options of reading text. Light: the command line makes its flags from them without loading a compiler."""

from __future__ import annotations

import re
from dataclasses import dataclass

from any2vec.errors import InputError

BAD_BYTES = ("error", "replace", "skip")


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """How text becomes words.

    The matches of a token pattern (or of its one group) are the words, instead of splitting at white space. It sees one
    line at a time, after lower-casing (`str.lower`), and a line of more than 1 MiB in pieces cut at white space; white
    space inside a match still splits it. Sentences that are split into words already do not use it. Bad bytes are
    replaced by U+FFFD, as `bytes.decode` does. A column holds strings, lists of strings or lists of integers.
    """

    lowercase: bool = False
    """convert to lower case"""
    token_pattern: str | None = None
    """regular expression of a word; by default \\S+"""
    bad_bytes: str = "replace"
    """invalid UTF-8: error, replace or skip"""
    column: str | None = None
    """column of Parquet or Arrow; by default the only one"""

    def __post_init__(self) -> None:
        if self.bad_bytes not in BAD_BYTES:
            raise InputError(f"bad_bytes must be one of {', '.join(BAD_BYTES)}, got {self.bad_bytes!r}.")
        if self.token_pattern is not None and self.compiled().groups > 1:
            raise InputError(
                f"token_pattern may have one group at most, got {self.compiled().groups} in {self.token_pattern!r}; "
                "write (?:...) for the others."
            )

    def compiled(self) -> re.Pattern[str]:
        """The token pattern, compiled."""
        try:
            return re.compile(self.token_pattern or r"\S+")
        except (re.error, OverflowError, RecursionError) as error:
            raise InputError(f"token_pattern {self.token_pattern!r} is not a regular expression: {error}.") from error

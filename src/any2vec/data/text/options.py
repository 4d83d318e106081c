"""The options of reading text. Light: the command line makes its flags from them without loading a compiler."""

from __future__ import annotations

import re
from dataclasses import dataclass

from any2vec.errors import InputError

BAD_BYTES = ("error", "replace", "skip")


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """How text becomes words."""

    lowercase: bool = False
    """fold to lower case, as `str.lower` does"""
    token_pattern: str | None = None
    """regular expression whose matches (or its one group's) are the words, instead of splitting at white space. It sees
    one line at a time, after lower-casing, and a line of more than 1 MiB in pieces cut at white space; white space
    inside a match still splits it. For sentences that come already split into words it is not used"""
    bad_bytes: str = "replace"
    """what to do with bytes that are not UTF-8: error, replace (by U+FFFD, as `bytes.decode`) or skip"""
    column: str | None = None
    """the column of a Parquet or Arrow file: string, list of strings or list of integers; by default the only
    such column"""

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

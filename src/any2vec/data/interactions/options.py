"""How interactions are read. Light: flags are made of it."""

from __future__ import annotations

from dataclasses import dataclass

from any2vec.checks import plain_fields
from any2vec.data.options import check_comment, check_delimiter, joined_columns
from any2vec.errors import InputError


@dataclass(frozen=True, kw_only=True)
class InteractionOptions:
    """How interactions are read: rows of user and item, or lines of a user and its items (`lists`).

    A weight says how much an interaction counts to als: times bought, minutes watched. A first line with names such as
    user and item, or with words over numbers, is taken as a header. Columns of text without a header are called 1, 2, 3
    ..., and of three the third is a weight if it has numbers. Texts without a header that come behind one with it have
    its columns. No comment characters: for users and items such as #tag.

    Raises:
        InputError: the delimiter or a comment character is none of those allowed, or the columns are not two or three.
    """

    lists: bool = False
    """each line of text is a user and then all its items"""
    delimiter: str | None = None
    """tab, comma, semicolon, pipe, space or one character; by default guessed"""
    header: bool | None = None
    """the first line names the columns; by default guessed"""
    comment: str | None = None
    """characters that start a comment line; by default #"""
    use_columns: str | None = None
    """user,item[,weight], names or numbers from 1; by default by name, else the first of four at most"""

    def __post_init__(self) -> None:
        plain_fields(self)
        check_delimiter(self.delimiter)
        check_comment(self.comment)
        object.__setattr__(self, "use_columns", joined_columns(self.use_columns, "user,item or user,item,weight"))
        if self.lists and (self.header or self.use_columns):
            raise InputError("lists have no columns: a line is a user and its items; leave out header and use_columns.")

"""How data are read, by kind. Light: no NumPy, for flags are made of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, fields
from numbers import Integral
from pathlib import Path
from typing import Any, Literal

from any2vec.checks import MAX_SEED, check_choice, check_number, check_whole, did_you_mean, is_unicode, plain_fields
from any2vec.errors import DataError, InputError

BAD_BYTES = ("error", "replace", "skip")


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """How text becomes words.

    The matches of a token pattern (or of its one group) are the words, instead of splitting at white space. It sees one
    line at a time, after lower-casing (`str.lower`), and a line of more than 1 MiB in pieces cut at white space; white
    space inside a match still splits it. Sentences that are split into words already do not use it. Bad bytes are
    replaced by U+FFFD, as `bytes.decode` does. A column holds strings, lists of strings or lists of integers.

    Raises:
        InputError: a choice is none of those allowed, or the pattern is no regular expression.
    """

    lowercase: bool = False
    """convert to lower case"""
    token_pattern: str | None = None
    """regular expression of a word; by default \\S+"""
    bad_bytes: str = "replace"
    """invalid UTF-8: error, replace or skip"""
    column: str | None = None
    """column of a table, Parquet, Arrow, CSV, TSV or JSON Lines; of the first three by default the only one"""

    def __post_init__(self) -> None:
        plain_fields(self)
        if self.bad_bytes not in BAD_BYTES:
            raise InputError(f"bad_bytes must be one of {', '.join(BAD_BYTES)}, got {self.bad_bytes!r}.")
        if not isinstance(self.token_pattern, str | None):
            raise InputError(f"token_pattern must be a regular expression as a string, got {self.token_pattern!r}.")
        if not is_unicode(self.token_pattern or ""):
            raise InputError(f"token_pattern {self.token_pattern!r} is not valid Unicode; no text holds such bytes.")
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

    def words(self, sentence: str | Iterable[Any]) -> list[str]:
        """The words of a sentence as reading makes them.

        A string is one line, lower-cased and cut by the pattern and within its matches at white space; a list of words
        is only lower-cased.

        InputError: it is neither.
        """
        if isinstance(sentence, str):
            line = sentence.replace("\n", " ").removesuffix("\r")
            return " ".join(self.compiled().findall(line.lower() if self.lowercase else line)).split()
        words = list(sentence) if isinstance(sentence, Iterable) else [sentence]
        if not all(isinstance(word, str | Integral) for word in words):
            raise InputError(f"a sentence is a string or its words, got {sentence!r:.80}.")
        return [str(word).lower() if self.lowercase else str(word) for word in words]


@dataclass(frozen=True, kw_only=True)
class PairOptions:
    """What a trainer of skip-gram counts as a pair: its window, its subsampling, its vocabulary."""

    window: int = 5
    """furthest context on either side, in kept words, 1..100; nearer ones weigh more, as each center of training draws
    its own from 1..window"""
    subsample: float = 1e-4
    """frequency above which words are dropped at random (word2vec's t), in [0, 1]; 0 keeps all"""
    min_count: int = 5
    """words seen less often are left out, 1 or more"""
    max_vocab: int | None = None
    """keep only the most frequent words, 2 or more"""
    seed: int = 1
    """seed of the training whose subsampling is followed"""
    passes: int = 1
    """epochs of that training whose subsampling is followed, each with draws of its own, 1..1,000"""

    def __post_init__(self) -> None:
        plain_fields(self)
        check_whole("window", self.window, 1, 100)
        check_number("subsample", self.subsample, 0, 1)
        check_whole("min_count", self.min_count, 1, 2**62)
        if self.max_vocab is not None:
            check_whole("max_vocab", self.max_vocab, 2, 2**28)
        check_whole("seed", self.seed, 0, MAX_SEED)
        check_whole("passes", self.passes, 1, 1000)


DELIMITERS = {"tab": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
"""name of a delimiter of columns -> the character"""
ProgressCall = Callable[[int, int | None], None]
"""is called with the progress of reading: (bytes done, bytes in all or None)"""


def check_delimiter(delimiter: str | None) -> None:
    """InputError unless it is a name of DELIMITERS, one character that may be one, or None: to be guessed."""
    mark = "\t" if delimiter is None else DELIMITERS.get(delimiter, delimiter)
    if len(mark) != 1 or not mark.isascii() or mark.isalnum() or mark in '"\r\n\0':
        raise InputError(
            f"delimiter must be {', '.join(DELIMITERS)} or one character (no letter, digit, quote or line end), got "
            f"{delimiter!r}."
        )


def check_comment(comment: Any) -> None:
    """InputError unless it is characters that may start a comment line, an empty string, or None: the usual ones."""
    if comment is None:
        return
    if not isinstance(comment, str) or not comment.isascii() or any(mark in comment for mark in " \t\r\n\0"):
        raise InputError(f"comment must hold ASCII characters other than white space, got {comment!r}.")


def check_unset(options: Any, names: Collection[str], where: str) -> None:
    """InputError where one of these options of text is not its default. where: what has no use for it."""
    for item in fields(options):
        if item.name in names and getattr(options, item.name) != item.default:
            raise InputError(f"{item.name} says how text is read, and {where}; leave it out.")


def joined_columns(columns: Any, names: str) -> str | None:
    """Names of columns as options keep them, split by commas; a list or tuple is joined. names: what they are of.

    Raises:
        InputError: they are too few or too many.
    """
    joined = ",".join(columns) if isinstance(columns, list | tuple) else columns
    if joined is not None and not (1 <= joined.count(",") <= 2 and all(joined.split(","))):
        raise InputError(f"use_columns must be {names}, got {columns!r}.")
    return joined


def chosen_columns(use_columns: str | None, names: list[str], where: str) -> list[str]:
    """The columns that options name, none where they name none.

    Raises:
        DataError: the table has not got one.
    """
    chosen = use_columns.split(",") if use_columns else []
    if missing := [column for column in chosen if column not in names]:
        raise DataError(f"{where} has no column {missing[0]!r}; {did_you_mean(missing[0], names)}")
    return chosen


def columns_there(use_columns: str | None, names: list[str]) -> str | None:
    """The columns by which other data were read, where a table has all of them; None: by default."""
    return use_columns if {*(use_columns or "").split(",")} <= {*names} else None


def usual_columns(names: list[str], *words: Collection[str]) -> list[str]:
    """For each set of words, in small letters, the first column that bears one; "": none does."""
    return [next((one for one in names if one.lower() in usual), "") for usual in words]


LINE_OPTIONS = ("delimiter", "header", "comment")
"""options of a graph that are for lines of text alone"""


@dataclass(frozen=True, kw_only=True)
class GraphOptions:
    """How a graph is read.

    Edges of a directed graph go from the first to the second node only. By default the delimiter is guessed; space: any
    run of spaces and tabs. No comment characters: for ids such as #tag.

    Raises:
        InputError: the delimiter is none of those allowed, or the columns are not two or three names.
    """

    directed: bool = False
    """edges have a direction"""
    weighted: bool | None = None
    """the third column is a weight; by default if present"""
    delimiter: str | None = None
    """tab, comma, semicolon, pipe, space or one character"""
    header: bool | None = None
    """the first line names the columns; by default guessed"""
    comment: str = "#%"
    """characters that start a comment line"""
    use_columns: str | None = None
    """by their header: src,dst[,weight]; by default by name"""

    def __post_init__(self) -> None:
        plain_fields(self)
        for name, allowed in (("directed", (True, False)), ("weighted", (True, False, None))):
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} must be one of {allowed}, got {getattr(self, name)!r}.")
        check_delimiter(self.delimiter)
        check_comment(self.comment)
        object.__setattr__(self, "use_columns", joined_columns(self.use_columns, "src,dst or src,dst,weight"))


@dataclass(frozen=True, kw_only=True)
class NodeOptions:
    """Features and classes of nodes, and features of edges: files or objects in memory.

    In Python features are also an array (N, D), a SciPy sparse one (.npz holds one, too), a table, or `Embeddings`;
    labels also int (N,), -1 where a node has no class, names of classes, None for none, a table, or a dict of node ->
    class (of graph networks also several classes: a dict of node -> list, or 0 and 1 (N, C)); split also a table, or a
    dict of name -> rows. A column of tables that is named node, id or key, or an index of pandas that is not the
    default one, says of which node a row is; else rows go by place. edge_features also an array (M, K), a SciPy sparse
    one, or the name of an attribute of NetworkX's edges. The linear model has the same augmented features, its penalty
    chosen on the val nodes.

    Raises (when they are read):
        DataError: a file is missing or damaged, or shapes do not fit the graph.
    """

    features: str | Path | None = None
    """node features: .npy, .npz, table, or vectors by node id"""
    labels: str | Path | None = None
    """file of lines `node class`"""
    split: str | Path | None = None
    """file of lines `node train|val|test`; default train"""
    edge_features: str | Path | None = None
    """.npy or .npz: a row an edge, in the order of the edges"""
    linear_probe: bool = False
    """report the accuracy of a linear model, too"""
    psi: Callable[..., Any] | None = field(default=None, metadata={"flag": False})
    """in Python: what stands beside a node's features instead of the model's psi, see `data.graph.augment.UserPsi`"""

    def __post_init__(self) -> None:
        plain_fields(self)


@dataclass(frozen=True, kw_only=True)
class TripleOptions:
    """How triples are read. A first line with names such as head and tail is taken as a header.

    By default the delimiter is guessed; space: any run of spaces and tabs. No comment characters: for names such as
    #tag.

    Raises:
        InputError: the delimiter or a comment character is none of those allowed, or the columns are not two or three.
    """

    delimiter: str | None = None
    """tab, comma, semicolon, pipe, space or one character"""
    header: bool | None = None
    """the first line names the columns; by default guessed"""
    comment: str | None = None
    """characters that start a comment line; by default #"""
    use_columns: str | None = None
    """head,relation,tail by their header; default: by name"""

    def __post_init__(self) -> None:
        plain_fields(self)
        check_delimiter(self.delimiter)
        check_comment(self.comment)
        object.__setattr__(self, "use_columns", joined_columns(self.use_columns, "head,relation,tail or head,tail"))


ENGLISH_CONNECTORS = [
    "a",
    "an",
    "the",
    "for",
    "of",
    "with",
    "without",
    "at",
    "from",
    "to",
    "in",
    "on",
    "by",
    "and",
    "or",
]
"""articles, prepositions and conjunctions, as gensim's ENGLISH_CONNECTOR_WORDS"""


@dataclass(frozen=True, kw_only=True)
class PhraseOptions:
    """Which words that stand next to each other are a phrase (Mikolov et al. 2013, arXiv 1310.4546, section 4).

    Scores, of words a and b that occur #a and #b times and #ab times as neighbors, among V different words and pairs
    and N words: default, (#ab - min_count) V / (#a #b), as gensim's and, with N for V, the original tool's; npmi, the
    pointwise mutual information log(#ab N / (#a #b)) over -log(#ab / N), in [-1, 1] (Bouma 2009).
    """

    min_count: int = 5
    """pairs seen less often are no phrases, 1 or more"""
    threshold: float = 10.0
    """the score that a phrase is above: 0 or more; of npmi -1..1"""
    scoring: Literal["default", "npmi"] = "default"
    """how pairs are scored"""
    passes: int = 1
    """times that phrases are sought among the words and phrases before: 2 finds up to four words, 1..8"""
    delimiter: str = "_"
    """what stands between the words of a phrase"""
    connectors: str = ""
    """words that may stand within a phrase and not at its ends, by commas, such as of,the; english: the usual ones"""

    def __post_init__(self) -> None:
        plain_fields(self)
        check_whole("min_count", self.min_count, 1, 2**62)
        low, high = (-1, 1) if self.scoring == "npmi" else (0, float("1e300"))
        check_number("threshold", self.threshold, low, high)
        check_choice("scoring", self.scoring, ("default", "npmi"))
        check_whole("passes", self.passes, 1, 8)
        if not isinstance(self.delimiter, str) or self.delimiter.split() != [self.delimiter]:
            raise InputError(f"delimiter must be characters other than white space, got {self.delimiter!r}.")
        if not isinstance(self.connectors, str):
            try:
                object.__setattr__(self, "connectors", ",".join(self.connectors))
            except TypeError:
                wanted = "words, or a text of them by commas"
                raise InputError(f"connectors must be {wanted}, got {self.connectors!r}.") from None
        others = "arabic chinese czech danish dutch french german greek italian latin polish portuguese russian spanish"
        if self.connectors.lower() in others.split():
            raise InputError(
                f"connectors of {self.connectors} are not known, only those of english; give the words themselves, by "
                "commas, such as of,the."
            )

    def connector_words(self) -> frozenset[str]:
        """The connectors, one by one."""
        words = ENGLISH_CONNECTORS if self.connectors == "english" else self.connectors.split(",")
        return frozenset(filter(None, words))

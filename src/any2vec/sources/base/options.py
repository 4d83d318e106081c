"""How sources are read. Light: flags are made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from any2vec.checks import MAX_SEED, check_choice, check_number, check_whole, is_unicode, plain_fields
from any2vec.errors import InputError

DEDUP = ("id", "text", "none")
FORMS = ("auto", "lines", "ndjson")
MOST_LINE = 1 << 20
"""bytes of a line at most; a longer one is skipped"""
MOST_LINES = 1 << 16
"""lines of a batch at most"""


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Options of sources: they apply to every source of a run.

    form auto depends on a file's name (of CSV, TSV, Parquet and Arrow a column is read), or an HTTP server's content
    type and first bytes; a message of Kafka or a text of Redis is one line. field and id_field are also names in an
    entry of Redis; without an id, the position in the source is the id, or over HTTP the text. Lines with the same id
    in the same source (dedup id), or the same text in any source (dedup text), are trained once. patience: a file and
    standard input may be silent forever, and so may a socket or stream with an open connection. When a source is given
    up, the others continue. poll is for HTTP answers that end, such as feeds.
    """

    follow: bool = False
    """wait for more at the end of a source"""
    form: Literal["auto", "lines", "ndjson"] = "auto"
    """format of lines"""
    field: str = "text"
    """name of a JSON object's text, like a.b"""
    id_field: str = "id"
    """name of a JSON object's id"""
    dedup: Literal["id", "text", "none"] = "id"
    """what makes duplicates"""
    rate: float | None = None
    """lines per second and source, 0.001 or more"""
    patience: float = 30.0
    """seconds to wait for a server, 0.1..86,400"""
    retries: int = 10
    """attempts at a source, 0..1,000,000"""
    poll: float = 10.0
    """seconds between requests, 0.01..86,400"""

    def __post_init__(self) -> None:
        plain_fields(self)
        check_choice("form", self.form, FORMS)
        check_choice("dedup", self.dedup, DEDUP)
        for name in ("field", "id_field"):
            found: str = getattr(self, name)
            if not all(found.split(".")) or not is_unicode(found):
                raise InputError(f"{name} must be a name such as text or message.text, got {found!r}.")
        if self.rate is not None:
            check_number("rate", self.rate, 0.001, 1e9)
        check_number("patience", self.patience, 0.1, 86_400)
        check_whole("retries", self.retries, 0, 1_000_000)
        check_number("poll", self.poll, 0.01, 86_400)

    @property
    def most_lines(self) -> int:
        """Lines of a batch at most: a fifth of a second's worth, so that a rate is kept evenly."""
        return MOST_LINES if self.rate is None else max(1, min(MOST_LINES, int(self.rate / 5)))


def check_seed(seed: int) -> None:
    """InputError unless it is a legal seed (of the jitter between attempts)."""
    check_whole("seed", seed, 0, MAX_SEED)

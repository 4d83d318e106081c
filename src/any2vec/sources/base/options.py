"""How sources are read. Light: flags are made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from any2vec.checks import MAX_SEED, check_choice, check_number, check_whole
from any2vec.errors import InputError

DEDUP = ("id", "text", "none")
FORMS = ("auto", "lines", "ndjson")
MOST_LINE = 1 << 20
"""bytes of a line at most; a longer one is skipped"""
MOST_LINES = 1 << 16
"""lines of a batch at most"""


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Options of sources: they hold for each of a run."""

    follow: bool = False
    """wait for more where a file, a feed or a stream has come to its end; else that ends the source"""
    form: Literal["auto", "lines", "ndjson"] = "auto"
    """what a source holds: lines (each a text), or ndjson (each a JSON object); auto goes by a file's name, or an HTTP
    server's content type and first bytes; a message of Kafka or a text of Redis is one line"""
    field: str = "text"
    """of a JSON object or a Redis entry, the name of its text; dots lead into objects"""
    id_field: str = "id"
    """of a JSON object or a Redis entry, the name of its id; where it has none, its place in the source is its id, or
    over HTTP its text"""
    dedup: Literal["id", "text", "none"] = "id"
    """what makes two lines the same, so that one is trained: the same id of the same source, the same text of any
    source, or nothing"""
    rate: float | None = None
    """lines a second of each source at most; by default as many as come"""
    patience: float = 30.0
    """seconds a server may be silent before it is asked again, 0.1..86,400; a file and standard input may be silent for
    ever, and so may a socket or stream whose connection stands"""
    retries: int = 10
    """attempts in a row that may fail before a source is given up, 0..1,000,000; the others go on"""
    poll: float = 10.0
    """seconds between questions to an HTTP server whose answer has an end, such as a feed, 0.01..86,400"""

    def __post_init__(self) -> None:
        check_choice("form", self.form, FORMS)
        check_choice("dedup", self.dedup, DEDUP)
        for name in ("field", "id_field"):
            if not all(getattr(self, name).split(".")):
                raise InputError(f"{name} must be a name such as text or message.text, got {getattr(self, name)!r}.")
        if self.rate is not None:
            check_number("rate", self.rate, 0, 1e9, open_low=True)
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

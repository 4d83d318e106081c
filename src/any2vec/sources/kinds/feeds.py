"""RSS and Atom: a document becomes its entries, as texts."""

from __future__ import annotations

import io
from html.parser import HTMLParser
from typing import NamedTuple

MOST_FEED = 4 << 20
"""bytes of a document at most"""


class Entry(NamedTuple):
    """One of a feed."""

    id: str | None
    """what its publisher calls it, else its link, if it has one"""
    text: str
    """title and content, without mark-up"""


class BadFeedError(ValueError):
    """A document cannot be taken; the message is what `Tally.bad` counts it as."""


def read_feed(document: bytes) -> list[Entry]:
    """The entries of a feed, the oldest first, those without text left out.

    A document that declares XML entities is refused: a few of them can stand for gigabytes.

    Raises:
        BadFeedError: it is no feed, or refused.
    """
    import feedparser

    if b"<!ENTITY" in document.replace(b"\0", b"").upper():  # without its NULs UTF-16 is read too
        raise BadFeedError("feed with XML entities")
    try:
        found = feedparser.parse(io.BytesIO(document), sanitize_html=False, resolve_relative_uris=False)
    except Exception as error:  # whatever a document provokes in the parser
        raise BadFeedError("not a feed") from error
    if not found.get("version") and not found.entries:
        raise BadFeedError("HTML, not a feed" if b"<html" in document[:4096].lower() else "not a feed")
    entries = []
    for item in reversed(found.entries):
        contents = [part.get("value") for part in item.get("content", ())] or [item.get("summary")]
        text = " ".join(_plain(part) for part in (item.get("title"), *contents) if isinstance(part, str)).strip()
        id = item.get("id") or item.get("link")
        if text:
            entries.append(Entry(id if isinstance(id, str) else None, text))
    return entries


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._is_hidden = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._is_hidden = tag in ("script", "style")
        self.parts.append(" ")

    def handle_endtag(self, tag: str) -> None:
        self._is_hidden = False
        self.parts.append(" ")

    def handle_data(self, data: str) -> None:
        if not self._is_hidden:
            self.parts.append(data)


def _plain(text: str) -> str:
    """Without mark-up, white space as single spaces."""
    if "<" in text or "&" in text:
        parser = _Text()
        parser.feed(text)
        parser.close()
        text = "".join(parser.parts)
    return " ".join(text.split())

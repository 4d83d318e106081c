"""RSS and Atom: a document becomes its entries, as texts."""

from __future__ import annotations

import codecs
import html
import io
import re
import string
from contextlib import suppress
from typing import NamedTuple

MOST_FEED = 4 << 20
"""bytes of a document at most"""
_MARKS = (
    (codecs.BOM_UTF32_BE, "utf-32-be"), (codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_BE, "utf-16-be"), (codecs.BOM_UTF16_LE, "utf-16-le"),
    (b"\0\0\0<", "utf-32-be"), (b"<\0\0\0", "utf-32-le"), (b"\0<", "utf-16-be"), (b"<\0", "utf-16-le"),
)  # fmt: skip
_DECLARED = re.compile(rb"""\s*<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")
_ASCII = string.printable.replace("\\", "")
_INSIDE = r"""(?:[^>=]++|=\s*+(?:"[^"]*+"|'[^']*+')?+)*+"""
_MARKUP = re.compile(
    rf"""<(?: !(?=--).*?(?:-->|\Z) | !\[CDATA\[.*?(?:\]\]>|\Z)
    | (?P<hidden>script|style)(?=[\s>]){_INSIDE}(?<!/)>.*?(?:(?=</(?P=hidden)[\s/>])|\Z)
    | (?P<tag>/?[a-z]){_INSIDE}>? | [!?/][^>]*+>?)""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
"""What is not closed goes on to the end of the text: so no character is looked at more than a few times."""
_TOO_LONG = re.compile(r"&#[0-9]{8,}")


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

    text = _decoded(document)
    if "<!ENTITY" in text.replace("\0", "").upper():
        raise BadFeedError("feed with XML entities")
    try:
        found = feedparser.parse(
            io.BytesIO(text.encode()), sanitize_html=False, resolve_relative_uris=False,
            response_headers={"content-type": "application/xml; charset=utf-8"},  # so it is read as what was looked at
        )  # fmt: skip
    except Exception as error:  # whatever a document provokes in the parser
        raise BadFeedError("not a feed") from error
    if not found.get("version") and not found.entries:
        raise BadFeedError("HTML, not a feed" if "<html" in text[:4096].lower() else "not a feed")
    entries = []
    for item in reversed(found.entries):
        contents = [part.get("value") for part in item.get("content", ())] or [item.get("summary")]
        text = " ".join(_plain(part) for part in (item.get("title"), *contents) if isinstance(part, str)).strip()
        id = item.get("id") or item.get("link")
        if text:
            entries.append(Entry(id if isinstance(id, str) else None, text))
    return entries


def _decoded(document: bytes) -> str:
    """By its first bytes, or the encoding that it declares in ASCII, if that knows ASCII; else by what is usual."""
    names = [name for mark, name in _MARKS if document.startswith(mark)][:1]
    declared = _DECLARED.match(document)
    if declared is not None and _knows_ascii(declared[1].decode()):
        names.append(declared[1].decode().lower().replace("gb2312", "gb18030"))  # the larger one, which is meant
    for name in (*names, "utf-8", "windows-1252"):
        with suppress(UnicodeError):
            return document.decode(name).removeprefix("\ufeff")
    return document.decode("iso-8859-2")


def _knows_ascii(encoding: str) -> bool:
    try:
        return _ASCII.encode().decode(encoding) == _ASCII
    except (LookupError, UnicodeError):
        return False


def _plain(text: str) -> str:
    """Without mark-up, white space as single spaces; a tag that is not closed is text."""
    if "<" in text or "&" in text:
        text = html.unescape(_TOO_LONG.sub("\ufffd", _MARKUP.sub(_left, text)))
    return " ".join(text.split())


def _left(found: re.Match[str]) -> str:
    """What stays of mark-up: tags part words, comments do not."""
    if found["hidden"]:
        return " "
    if found[0].startswith(("<!--", "<![")):
        return ""
    return found[0] if found[0][-1] != ">" else " " if found["tag"] else ""

"""A page as text without its boilerplate, and its links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from any2vec.sources.crawl.robots import ROBOT

DEEPEST = 500
"""elements within each other; extraction takes time by the square of it, and pages made by people have some dozens"""
MOST_NODES = 300_000
"""elements and texts of a page"""
MOST_LINKS = 10_000
"""of a page; those behind them are not followed"""
_BOILERPLATE = ["body > header", "[role=banner]", "[role=navigation]", "[role=contentinfo]"]
_ELEMENT = 1
"""NodeType.ELEMENT"""
_WITH_VALUES = ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")
"""wishes with a colon"""
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)


class BadPageError(ValueError):
    """A page cannot be taken; the message is what `Tally.bad` counts it as."""


@dataclass(frozen=True)
class Page:
    """What is read of a page."""

    text: str
    """"" where the page asks not to be taken (noindex)"""
    links: tuple[str, ...]
    """as they stand; none where the page asks not to follow them (nofollow)"""
    base: str | None = None
    """what they are relative to, where it is not the page's own URL"""


def read_page(body: bytes, content_type: str, robots_tag: str = "") -> Page:
    """The text and links of an HTML page; all of a plain text.

    content_type, robots_tag: the headers Content-Type and X-Robots-Tag; the latter's, one a line.

    Raises:
        BadPageError: it is made to take long.
    """
    from resiliparse.parse.encoding import bytes_to_str, detect_encoding

    named = _CHARSET.search(content_type)
    encoding = named[1] if named else detect_encoding(body, from_html_meta=True) or "utf-8"
    try:
        text = bytes_to_str(body, encoding, errors="replace")
    except LookupError:
        text = bytes_to_str(body, "utf-8", errors="replace")
    wishes = _wishes_of(robots_tag)
    if content_type.partition(";")[0].strip().lower() == "text/plain":
        return Page("" if wishes & {"none", "noindex"} else text.replace("\0", " "), ())
    return _read_html(text, wishes)


def _wishes_of(robots_tag: str) -> set[str]:
    """What is asked of all robots, and of us: `ROBOT: WISH, WISH`."""
    found = set()
    for line in robots_tag.lower().splitlines():
        is_ours = True
        for part in line.split(","):
            robot, colon, wish = (piece.strip() for piece in part.partition(":"))
            if colon and robot not in _WITH_VALUES and " " not in robot:  # which a date has before its colon
                is_ours = robot in (ROBOT, "*")
            if is_ours:
                found.add(wish if colon else robot)
    return found


def _read_html(html: str, wishes: set[str]) -> Page:
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree, traverse_dom

    tree, walk = HTMLTree.parse(html), _Walk(wishes)
    document: Any = tree.document
    traverse_dom(document, walk)  # lists of elements that the library makes take time by the square of them
    links = () if wishes & {"none", "nofollow"} else tuple(walk.links)
    if wishes & {"none", "noindex"}:
        return Page("", links, walk.base)
    text = extract_plain_text(
        tree, preserve_formatting=False, main_content=True, list_bullets=False, alt_texts=False,
        skip_elements=_BOILERPLATE,
    )  # fmt: skip
    return Page(text.replace("\0", " "), links, walk.base)


class _Walk:
    """Sees each node of a page once."""

    def __init__(self, wishes: set[str]) -> None:
        self.links: dict[str, None] = {}
        self.base: str | None = None
        self._wishes, self._nodes = wishes, 0

    def __call__(self, context: Any) -> None:
        self._nodes += 1
        if context.depth > DEEPEST or self._nodes > MOST_NODES:
            raise BadPageError("page of too many elements")
        node = context.node
        if node.type != _ELEMENT:
            return
        tag = node.tag
        if tag in ("a", "area") and len(self.links) < MOST_LINKS:
            if (link := node.getattr("href")) is not None:
                self.links[link] = None
        elif tag == "base" and self.base is None:
            self.base = node.getattr("href")
        elif tag == "meta" and (node.getattr("name") or "").strip().lower() in ("robots", ROBOT):
            self._wishes |= {word.strip().lower() for word in (node.getattr("content") or "").split(",")}

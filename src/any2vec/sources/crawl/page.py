"""A page as text without its furniture, and its links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

DEEPEST = 500
"""elements within each other; extraction takes time by the square of it, and pages made by people have some dozens"""
MOST_LINKS = 10_000
"""of a page; those behind them are not followed"""
_FURNITURE = ["body > header", "[role=banner]", "[role=navigation]", "[role=contentinfo]"]
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

    content_type, robots_tag: the headers Content-Type and X-Robots-Tag.

    Raises:
        BadPageError: it is made to take long.
    """
    from resiliparse.parse.encoding import bytes_to_str, detect_encoding

    named = _CHARSET.search(content_type)
    encoding = detect_encoding(body, from_html_meta=True) if named is None else named[1]
    try:
        text = bytes_to_str(body, encoding, errors="replace")
    except LookupError:
        text = bytes_to_str(body, "utf-8", errors="replace")
    wishes = {word.strip().lower() for word in robots_tag.split(",")}
    if content_type.partition(";")[0].strip().lower() == "text/plain":
        return Page("" if wishes & {"none", "noindex"} else text.replace("\0", " "), ())
    return _read_html(text, wishes)


def _read_html(html: str, wishes: set[str]) -> Page:
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree, traverse_dom

    tree = HTMLTree.parse(html)
    if html.count("<") > DEEPEST:
        traverse_dom(tree.document, _check_depth)
    for meta in tree.document.query_selector_all("meta[name][content]"):
        if meta.getattr("name").strip().lower() in ("robots", "any2vec"):
            wishes |= {word.strip().lower() for word in meta.getattr("content").split(",")}
    base = tree.document.query_selector("base[href]")
    links: tuple[str, ...] = ()
    if not wishes & {"none", "nofollow"}:
        anchors = tree.document.query_selector_all("a[href], area[href]")
        links = tuple(dict.fromkeys(anchor.getattr("href") for anchor in anchors))[:MOST_LINKS]
    if wishes & {"none", "noindex"}:
        return Page("", links, base and base.getattr("href"))
    text = extract_plain_text(
        tree, preserve_formatting=False, main_content=True, list_bullets=False, alt_texts=False,
        skip_elements=_FURNITURE,
    )  # fmt: skip
    return Page(text.replace("\0", " "), links, base and base.getattr("href"))


def _check_depth(context: Any) -> None:
    if context.depth > DEEPEST:
        raise BadPageError("page of elements too deep")

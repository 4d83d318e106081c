"""Feeds: which encodings are read, and what is text in them."""

from __future__ import annotations

import random
from html.parser import HTMLParser

import pytest

from any2vec.sources.kinds import feeds
from any2vec.sources.kinds.feeds import BadFeedError, read_feed

pytest.importorskip("feedparser", reason="feeds need pip install 'any2vec[streams]'")


def feed(coding: str, title: str) -> str:
    return (
        f"<?xml version='1.0' encoding='{coding}'?><rss version='2.0'><channel><title>c</title>"
        f"<item><title>{title}</title></item></channel></rss>"
    )


@pytest.mark.parametrize("coding", ["utf-8", "utf-16-le", "utf-32", "iso2022_jp", "cp037", "cp500"])
def test_entities_are_seen_in_every_encoding_that_is_read(coding: str) -> None:
    entities = "".join(f"<!ENTITY e{n} '{f'&e{n - 1};' * 10 if n else 'a' * 99}'>" for n in range(3))
    document = feed(coding, "&e2;").replace("<rss", f"<!DOCTYPE rss [{entities}]><rss").encode(coding)
    if coding == "iso2022_jp":  # a shift to ASCII, where it is ASCII already, parts the letters
        document = document.replace(b"<!ENTITY", b"<!EN\x1b(BTITY")
    with pytest.raises(BadFeedError):
        read_feed(document)


@pytest.mark.parametrize("coding", ["iso-8859-1", "windows-1252", "gb2312", "shift_jis", "koi8-r", "utf-32", "utf-16"])
def test_a_feed_is_read_in_the_encoding_that_it_declares(coding: str) -> None:
    word = {"gb2312": "茶", "shift_jis": "茶", "koi8-r": "чай"}.get(coding, "Tée")
    assert [entry.text for entry in read_feed(feed(coding, word).encode(coding))] == [word]
    assert [entry.text for entry in read_feed(feed("utf-16", word).encode())] == [word]  # declared wrongly


class _Parsed(HTMLParser):
    """The same as `feeds._plain`, by Python's parser: right for HTML that is closed, and quadratic for other text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.is_hidden = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.is_hidden = tag in ("script", "style")
        self.parts.append(" ")

    def handle_endtag(self, tag: str) -> None:
        self.is_hidden = False
        self.parts.append(" ")

    def handle_data(self, data: str) -> None:
        if not self.is_hidden:
            self.parts.append(data)


def test_ordinary_html_becomes_the_text_that_a_parser_finds() -> None:
    pieces = [
        "<p>", "</p>", "<BR/>", "<a title=\"a > b\" href='x'>", "</a>", "text", "&amp;", "&lt;b&gt;", "&eacute;", "é",
        "<!-- a > b -->", " ", "1 < 2 > 1", "I <3", "<script>if (a<b) '<p>'</script>", "<STYLE type=a>p {}</STYLE>",
        "<script src='x'/>", "<!DOCTYPE html>", "<?php 1 ?>", "\n",
    ]  # fmt: skip
    for seed in range(2000):
        drawn = random.Random(seed)
        text = "".join(drawn.choices(pieces, k=drawn.randint(1, 12)))
        assert feeds._plain(text) == " ".join("".join(_Parsed(text).parts).split()), text
    assert feeds._plain("if a<b then &c") == "if a<b then &c" and feeds._plain("x<!-- open <b>y") == "x"
    assert feeds._plain("&#" + "9" * 5000 + ";") == "\ufffd;"


@pytest.mark.parametrize(
    "piece", ["<a ", "<!", "</", "<?", "<!--", "<![CDATA[", "<script>", '<a b="', "<a b='", "<a ="]
)
def test_mark_up_that_is_not_closed_is_looked_at_once(piece: str) -> None:
    text = piece * 2000
    found = list(feeds._MARKUP.finditer(text))
    assert len(found) == 1 and found[0].end() == len(text)  # and not again from the next piece on
    assert feeds._plain(text) in (text.strip(), "")

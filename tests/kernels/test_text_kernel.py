"""The compiled encoder equals its plain twin on generated text, whatever the blocks."""

from __future__ import annotations

import codecs
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any2vec.data.text import encoder
from any2vec.data.text.normalize import Normalizer, TextOptions
from any2vec.data.text.sequences import exact_piece
from any2vec.errors import DataError
from naive.text import tokens as naive
from text_cases import WHITE, MemoryWriter, garbage, texts


def encode(blocks: list[bytes], **options: Any) -> tuple[Any, int]:
    words = encoder.WordEncoder(MemoryWriter(), encoder.text_classes())  # type: ignore[arg-type]
    text = Normalizer("The text", TextOptions(**options))
    for piece in text.pieces(blocks):
        words.feed(piece)
    return words.finish({}), text.bad_bytes


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    blocks = []
    for size in sizes:
        blocks.append(data[:size])
        data = data[size:]
    return [*blocks, data]


sizes = st.lists(st.integers(0, 40), max_size=20)
patterns = st.sampled_from([None, r"\w+", r"[a-z]+", r"(\w)\w*", r"\S\S", r".+", r"x*", r"\b\w\w+\b"])


@settings(max_examples=250, deadline=None)
@given(data=garbage, sizes=sizes, lowercase=st.booleans(), bad_bytes=st.sampled_from(["error", "replace", "skip"]))
def test_bytes_equal_twin(data: bytes, sizes: list[int], lowercase: bool, bad_bytes: str) -> None:
    check(data, sizes, lowercase=lowercase, bad_bytes=bad_bytes)


@settings(max_examples=250, deadline=None)
@given(text=texts, sizes=sizes, lowercase=st.booleans(), token_pattern=patterns, bom=st.booleans())
def test_text_equals_twin(text: str, sizes: list[int], lowercase: bool, token_pattern: str | None, bom: bool) -> None:
    data = codecs.BOM_UTF8 * bom + text.encode()
    check(data, sizes, lowercase=lowercase, token_pattern=token_pattern)


@settings(max_examples=250, deadline=None)
@given(text=texts, lowercase=st.booleans(), token_pattern=patterns | st.sampled_from([r"\w*", r"\w+ \w+", r"\w+$"]))
def test_words_of_one_sentence_are_those_of_reading(text: str, lowercase: bool, token_pattern: str | None) -> None:
    options: dict[str, Any] = {"lowercase": lowercase, "token_pattern": token_pattern}
    read = naive.sentences_of(f"{text} x".replace("\n", " ").encode() + b"\r\n", **options)
    assert [TextOptions(**options).words(f"{text} x\r")] == (read or [[]])


def check(data: bytes, sizes: list[int], **options: Any) -> None:
    bad = naive.count_bad_bytes(data)
    is_refused = (
        b"\0" in data
        or data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        or 2 * bad > len(data)
        or (bad and options.get("bad_bytes") == "error")
    )
    if is_refused:
        with pytest.raises(DataError):
            encode(cut(data, sizes), **options)
        return
    sentences = naive.sentences_of(data, **options)
    found, num_bad = encode(cut(data, sizes), **options) if sentences else (([], [], []), bad)
    assert found == naive.encode(sentences)
    assert num_bad == bad


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=20), min_size=1), min_size=1)
)
def test_split_words_equal_twin(sentences: list[list[str]]) -> None:
    """Words that come already split may hold anything but NUL: spaces and line ends too."""
    sentences = [[word.encode("utf-8", "replace").decode() for word in sentence] for sentence in sentences]
    words = encoder.WordEncoder(MemoryWriter(), encoder.exact_classes())  # type: ignore[arg-type]
    piece, num_bad = exact_piece(["\0".join(sentence).encode() for sentence in sentences], False, "replace", "x")
    words.feed(piece)
    assert words.finish({}) == naive.encode(sentences)
    assert num_bad == 0


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.one_of(st.integers(0, 20), st.integers(0, 2**63 - 2)), min_size=1), min_size=1))
def test_ids_equal_twin(sentences: list[list[int]]) -> None:
    ids = encoder.IdEncoder(MemoryWriter())  # type: ignore[arg-type]
    for sentence in sentences:
        ids.feed(np.array([*sentence, -1, -1], np.int64))
    assert ids.finish({}) == naive.encode([[str(item) for item in sentence] for sentence in sentences])


def test_every_white_character_splits() -> None:
    for white in WHITE:
        (_, keys, _), _ = encode([f"a{white}bb".encode()])
        assert keys == ["a", "bb"], hex(ord(white))
    others = [chr(code) for code in range(1, 0x3100) if not chr(code).isspace()]
    data = "b a".join(others).encode()
    assert encode([data])[0] == naive.encode(naive.sentences_of(data))


def test_many_types_grow_every_table() -> None:
    random = np.random.default_rng(0)
    words = [f"word{number}" * int(random.integers(1, 4)) for number in random.integers(0, 150_000, 300_000)]
    data = " ".join(words).encode()
    (tokens, keys, counts), _ = encode(cut(data, [70_001] * (len(data) // 70_001)))
    assert (tokens, keys, counts) == naive.encode([words])
    ids = encoder.IdEncoder(MemoryWriter())  # type: ignore[arg-type]
    numbers = random.integers(0, 1 << 62, 100_000)
    ids.feed(numbers)
    ids.end_sentence()
    assert ids.finish({}) == naive.encode([[str(number) for number in numbers.tolist()]])


def test_word_limit() -> None:
    limit = encoder.MAX_WORD_BYTES
    (_, keys, _), _ = encode(cut(b"a " + b"x" * limit + b" b", [1 << 19] * 4))
    assert sorted(map(len, keys)) == [1, 1, limit]
    for data in (b"a " + b"x" * (limit + 1) + b" b", b"x" * (3 * limit), "\u3000".encode() + b"x" * (2 * limit)):
        with pytest.raises(DataError, match="a word of more than 1 MiB"):
            encode(cut(data, [1 << 20] * 4))


@pytest.mark.parametrize("white", [" ", "\t", "\r", "\u3000", "\xa0"])
def test_one_long_line(white: str) -> None:
    """A line of many blocks is one sentence, whatever white space it has."""
    data = white.join(["word", "näher"] * 300_000).encode()
    (tokens, keys, counts), _ = encode(cut(data, [1 << 20] * 8), token_pattern=r"\w+")
    assert keys == ["word", "näher"] and counts == [300_000] * 2
    assert tokens == [0, 1] * 300_000 + [-1]

"""What all sources are made of: cutting lines, remembering keys, waiting, and the inflow of several."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any2vec.sources.base.cutter import BLOCK, LineCutter, Tally
from any2vec.sources.base.options import MOST_LINE, SourceOptions
from any2vec.sources.base.records import SeenLines
from naive.text import lines as naive
from source_reading import texts_of

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # uint64 that wraps, uncompiled


def cut(pieces: list[bytes], options: SourceOptions | None = None) -> tuple[list[tuple[int, bytes]], Tally]:
    """(number, text) of each line of the stream."""
    tally, found = Tally(), []
    cutter = LineCutter(0, options or SourceOptions(follow=True), tally)

    def take() -> None:
        while (batch := cutter.cut(lambda: {"offset": cutter.offset})) is not None:
            found.extend(zip(batch.offset_N.tolist(), (text + b"\n" for text in texts_of(batch)), strict=True))
            assert batch.position["offset"] >= batch.offset_N[-1] + 1

    for piece in pieces:
        for start in range(0, len(piece), BLOCK):
            cutter.feed(piece[start : start + BLOCK])
            take()
    cutter.finish()
    take()
    assert cutter.offset == sum(map(len, pieces))
    assert cutter.tail == b"".join(pieces)[-64:]
    return found, tally


PIECES = st.lists(st.text(alphabet="ab \n\r\0é", max_size=12).map(str.encode) | st.binary(max_size=8), max_size=12)


@settings(max_examples=200, deadline=None)
@given(pieces=PIECES)
def test_lines_do_not_depend_on_the_pieces_they_come_in(pieces: list[bytes]) -> None:
    text = b"".join(pieces)
    found, tally = cut(pieces)
    mark = 3 if text.startswith(b"\xef\xbb\xbf") else 0  # of byte order, which is no part of the first line
    assert found == [(number + mark, line) for number, line in naive.cut(text[mark:])]
    assert tally.metrics()["bytes"] == len(text)
    assert tally.metrics()["bad_by"].get("NUL bytes", 0) == sum(b"\0" in line for line in text.split(b"\n"))


@settings(max_examples=100, deadline=None)
@given(line=st.binary(min_size=1, max_size=6).filter(lambda line: not set(line) & {0, 10, 13} and line.strip()))
def test_what_is_not_utf8_is_what_python_says(line: bytes) -> None:
    try:
        line.decode()
        is_right = True
    except UnicodeDecodeError:
        is_right = False
    _, tally = cut([line + b"\n"])
    assert tally.metrics()["bad_by"] == ({} if is_right else {"not UTF-8": 1})


def test_a_line_that_does_not_end_is_skipped_in_bounded_memory() -> None:
    tally = Tally()
    cutter = LineCutter(0, SourceOptions(follow=True), tally)
    for _ in range(200):  # 12.5 MiB
        cutter.feed(b"x" * BLOCK)
        assert cutter.cut(dict) is None
        assert cutter.held <= MOST_LINE + BLOCK
    cutter.feed(b"tail\nnext\n")
    batch = cutter.cut(dict)
    assert batch is not None
    assert texts_of(batch) == [b"next"]
    assert batch.offset_N.tolist() == [200 * BLOCK + 5]
    assert tally.metrics()["bad_by"] == {"line too long": 1}
    assert tally.bytes == 200 * BLOCK + 10


def test_the_longest_line_is_kept_and_a_longer_one_not() -> None:
    longest = b"y" * MOST_LINE
    assert cut([longest + b"\nz\n"])[0] == [(0, longest + b"\n"), (MOST_LINE + 1, b"z\n")]


@pytest.mark.parametrize("size", [BLOCK, BLOCK // 2 + 7, 40_001])
@pytest.mark.parametrize("more", [1, 40_000, BLOCK, BLOCK + 1])
def test_a_line_is_too_long_however_its_bytes_come(size: int, more: int) -> None:
    text = b"a b\n" + b"y" * (MOST_LINE + more - 1) + b"\r\n" + b"c\n"
    found, tally = cut([text[start : start + size] for start in range(0, len(text), size)])
    assert found == naive.cut(text) == [(0, b"a b\n"), (len(text) - 2, b"c\n")]
    assert tally.metrics()["bad_by"] == {"line too long": 1}


def test_no_position_lies_within_a_line_that_is_too_long() -> None:
    text = b"first\n" + b"x" * (2 * MOST_LINE) + b" tail\nlast\n"
    cutter, positions = LineCutter(0, SourceOptions(follow=True), Tally()), set()
    for start in range(0, len(text), BLOCK):
        cutter.feed(text[start : start + BLOCK])
        while cutter.cut(dict) is not None:
            pass
        positions.add(cutter.offset)
        assert cutter.tail == text[: cutter.offset][-64:]
    assert positions == {6, len(text)}


def test_a_line_that_is_too_long_may_be_the_last() -> None:
    assert cut([b"first\n", *[b"x" * BLOCK] * 20])[0] == [(0, b"first\n")]


def test_a_rate_cuts_smaller_batches() -> None:
    cutter = LineCutter(0, SourceOptions(follow=True, rate=10.0), Tally())
    cutter.feed(b"a\nb\nc\nd\ne\n")
    batches = []
    while (batch := cutter.cut(lambda: {"offset": cutter.offset})) is not None:
        batches.append((texts_of(batch), batch.position["offset"]))
    assert batches == [([b"a", b"b"], 4), ([b"c", b"d"], 8), ([b"e"], 10)]


@settings(max_examples=100, deadline=None)
@given(window=st.integers(1, 9), numbers=st.lists(st.integers(0, 14), max_size=120), cuts=st.integers(1, 30))
def test_seen_lines_equal_an_ordered_dictionary(window: int, numbers: list[int], cuts: int) -> None:
    keys = (np.array(numbers, np.uint64) * np.uint64(0x9E3779B97F4A7C15)) if numbers else np.empty(0, np.uint64)
    known: OrderedDict[int, None] = OrderedDict()
    expected = naive.fresh(keys.tolist(), window, known)
    seen, found = SeenLines(window), []
    for start in range(0, len(keys), cuts):
        found += seen.fresh(keys[start : start + cuts]).tolist()
        state = seen.state_dict()
        seen = SeenLines(window)
        seen.load_state_dict(state)
    assert found == expected
    assert seen.state_dict()["keys"].tolist() == list(known)


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(
        st.binary(min_size=1, max_size=20).filter(lambda text: not set(text) & {0, 10, 13, 239} and text.strip())
    )
)
def test_keys_of_texts_are_hashes_of_their_bytes(texts: list[bytes]) -> None:
    cutter = LineCutter(0, SourceOptions(follow=True, dedup="text"), Tally())
    cutter.feed(b"".join(text + b"\n" for text in texts))
    batch = cutter.cut(dict)
    assert ([] if batch is None else batch.key_N.tolist()) == [naive.hash_text(text) for text in texts]

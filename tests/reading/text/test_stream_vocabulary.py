"""The vocabulary of a stream equals its plain twin for any cut, keeps its bounds, and goes on as if never stopped."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from any2vec.data.options import TextOptions
from any2vec.data.stream.vocabulary import LEAST_WORDS, MAX_WORD_BYTES, WORDS_PER_ROW, StreamVocabulary
from any2vec.data.text.encoder import WordEncoder, text_classes
from any2vec.data.vocab.vocabulary import keep_probabilities
from any2vec.errors import FormatError, InputError
from naive.common.rng import draw, draw_alias
from naive.text import stream_vocabulary as naive
from naive.text.tokens import count_bad_bytes
from text_cases import MemoryWriter, garbage

# Without the compiler, wrapping uint64 arithmetic makes NumPy warn; it is meant to wrap.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")


def encode(vocabulary: StreamVocabulary, text: bytes) -> list[int]:
    text_B = np.frombuffer(text, np.uint8)
    return vocabulary.encode(text_B, np.flatnonzero(text_B == 10) + 1).tolist()


def encode_cut(vocabulary: StreamVocabulary, text: bytes, seed: int) -> list[int]:
    """In batches of random numbers of lines."""
    random, lines, tokens = np.random.default_rng(seed), text.split(b"\n")[:-1], []
    while lines:
        size = int(random.integers(1, 6))
        batch = b"".join(line + b"\n" for line in lines[:size])
        while len(batch) > 2 * vocabulary.rest and size > 1:
            size -= 1
            batch = b"".join(line + b"\n" for line in lines[:size])
        tokens += encode(vocabulary, batch)
        lines = lines[size:]
    return tokens


def zipf_text(seed: int, lines: int, drift: int = 0) -> bytes:
    """Lines of 1 to 8 words of Zipf's law; with drift, the words change for others after so many lines."""
    random, found = np.random.default_rng(seed), []
    for line in range(lines):
        words = random.zipf(1.4, int(random.integers(1, 9)))
        shift = line // drift if drift else 0
        found.append(b" ".join(b"w%d" % word + b"_%d" % shift * (word > 3) for word in words.tolist()))
    return b"\n".join([*found, b""])


def check_like_twin(vocabulary: StreamVocabulary, twin: naive.StreamVocabulary) -> None:
    assert vocabulary.position == twin.position and vocabulary.num_types == len(twin.words)
    assert vocabulary.births == len(twin.births) and vocabulary.long_words == twin.long_words
    # sums and products of doubles in the same order: equal to the bit
    assert vocabulary.total == twin.total / twin.unit
    assert vocabulary.missed == twin.missed / twin.unit
    count_V, key_V = np.zeros(twin.max_rows), {}
    for word, found in twin.words.items():
        if found.row >= 0:
            count_V[found.row], key_V[found.row] = found.count / twin.unit, word
    np.testing.assert_array_equal(vocabulary.counts_V, count_V)
    assert dict(zip(vocabulary.rows().tolist(), vocabulary.keys(vocabulary.rows()), strict=True)) == key_V
    assert vocabulary.num_rows == len(key_V)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    lines=st.integers(1, 120),
    drift=st.sampled_from([0, 3, 40]),
    max_types=st.integers(8, 60),
    max_rows=st.integers(1, 8),
    min_count=st.integers(1, 4),
    half_life=st.sampled_from([None, 1, 7, 100, 10_000]),
    rest=st.sampled_from([50, 200, 5000]),
)
def test_tokens_equal_the_twin_for_any_cut(seed, lines, drift, max_types, max_rows, min_count, half_life, rest) -> None:
    text = zipf_text(seed, lines, drift)
    twin = naive.StreamVocabulary(max_types, max_rows, min_count, half_life, rest)
    expected = twin.encode(text)
    for cut in range(2):
        vocabulary = StreamVocabulary(
            max_types=max_types, max_rows=max_rows, min_count=min_count, half_life=half_life, rest=rest
        )
        assert encode_cut(vocabulary, text, cut) == expected
        check_like_twin(vocabulary, twin)
        np.testing.assert_array_equal(vocabulary.born(), sorted(set(twin.births)))
        assert len(vocabulary.born()) == 0
        for word in [*list(twin.words)[:3], "never", "", "x" * 2000]:
            assert vocabulary.row_of(word) == (twin.words[word].row if word in twin.words else -1)


def test_the_longest_word_has_a_row() -> None:
    vocabulary = StreamVocabulary(max_types=64, max_rows=8, min_count=1)
    longest = "x" * MAX_WORD_BYTES
    encode(vocabulary, f"{longest} {longest} b\n".encode())
    row = vocabulary.row_of(longest)
    assert row >= 0 and list(vocabulary.keys(np.array([row]))) == [longest]
    assert vocabulary.row_of(longest + "x") == -1


@settings(max_examples=150, deadline=None)
@given(data=garbage, lowercase=st.booleans(), bad_bytes=st.sampled_from(["replace", "skip"]))
def test_any_bytes_are_legal(data: bytes, lowercase: bool, bad_bytes: str) -> None:
    text = data.replace(b"\xef\xbb\xbf", b"") + b"\n"
    twin = naive.StreamVocabulary(40, 10, 1, None, 1000)
    options = TextOptions(lowercase=lowercase, bad_bytes=bad_bytes)
    vocabulary = StreamVocabulary(max_types=40, max_rows=10, min_count=1, rest=1000, text=options)
    assert encode(vocabulary, text) == twin.encode(text, lowercase=lowercase, bad_bytes=bad_bytes)
    check_like_twin(vocabulary, twin)
    assert vocabulary.bad_bytes == count_bad_bytes(text) + text.count(0)


def test_tokens_are_those_of_a_file() -> None:
    """With room for all, the only difference is that rows come in the order in which words reach min_count."""
    text = zipf_text(1, 3000)
    vocabulary = StreamVocabulary(max_types=10_000, max_rows=10_000, min_count=1)
    words = WordEncoder(MemoryWriter(), text_classes())  # type: ignore[arg-type]
    words.feed(text)
    tokens, keys, counts = words.finish({})
    found = encode(vocabulary, text)
    of_row = list(vocabulary.keys(vocabulary.rows()))
    assert [of_row[row] if row >= 0 else None for row in found] == [keys[row] if row >= 0 else None for row in tokens]
    assert dict(zip(of_row, vocabulary.counts_V[: len(of_row)], strict=True)) == dict(zip(keys, counts, strict=True))


def test_long_words_are_cut_out_and_counted() -> None:
    vocabulary = StreamVocabulary(max_types=8, max_rows=8, min_count=1)
    text = b"a " + b"x" * MAX_WORD_BYTES + b" b " + b"y" * (MAX_WORD_BYTES + 1) + b" a\n" + b"z" * 9999 + b"\na\n"
    assert encode(vocabulary, text) == [0, 1, 2, 0, -1, 0, -1]
    assert vocabulary.long_words == 2
    many = b"".join(b"%d" % number + b"q" * 1020 + b"\n" for number in range(500))  # more than the arena holds
    tokens = encode(vocabulary, many)
    assert len(tokens) == 1000 and vocabulary.position == 505


@pytest.mark.parametrize("half_life", [None, 700])
def test_what_a_count_lacks_is_bounded(half_life: int | None) -> None:
    """Misra and Gries's bound, on decayed counts: no count too high, none lacks more, no frequent word is missing."""
    max_types = 32
    vocabulary = StreamVocabulary(max_types=max_types, max_rows=max_types, min_count=1, half_life=half_life, rest=2000)
    true: Counter[str] = Counter()
    total, dropped = 0.0, 0
    for line in zipf_text(5, 700, 100).decode().splitlines():
        words = line.split()
        for word in words:
            true[word] += 1
        total += len(words)
        encode(vocabulary, line.encode() + b"\n")
        fade = 2.0 ** (-len(words) / half_life) if half_life else 1.0
        # the twin's counts fade behind each line, to the moment of which the vocabulary's are
        true = Counter({word: count * fade for word, count in true.items()})
        total *= fade
        size = vocabulary.num_types
        unit = vocabulary._value[0]
        count_T = dict(zip(vocabulary._words(np.arange(size)), vocabulary._count_T[:size] / unit, strict=True))
        late_T = dict(zip(count_T, vocabulary._late_T[:size] / unit, strict=True))
        slack = 1e-9 * total
        assert vocabulary.total == pytest.approx(total)
        assert vocabulary.missed <= total / (0.75 * max_types) + slack
        for word, count in true.items():
            if word not in count_T:
                dropped += 1
                assert count <= vocabulary.missed + slack
            else:
                assert count_T[word] - slack <= count <= count_T[word] + late_T[word] + slack
                assert late_T[word] <= vocabulary.missed + slack
    assert dropped > 0


@pytest.mark.parametrize("half_life", [None, 500])
def test_a_frequent_word_gets_a_row(half_life: int | None) -> None:
    """One above N / (7/8 V) and min_count, after at most `rest` more words: planted among words that come and go."""
    max_rows, rest, random = 8, 100, np.random.default_rng(2)
    vocabulary = StreamVocabulary(max_types=64, max_rows=max_rows, min_count=2, half_life=half_life, rest=rest)
    for number in range(600):
        encode(vocabulary, b"a%d a%d b c d e f g h\n" % (number, random.integers(number + 1)))
        assert vocabulary._value[2] <= vocabulary.total * vocabulary._value[0] / (7 / 8 * max_rows) * (1 + 1e-9)
    assert vocabulary.rowless > 0 and vocabulary.births > max_rows
    uses = 0
    while uses < 2 or uses <= vocabulary.total / (7 / 8 * max_rows):
        encode(vocabulary, b"new " * 20 + b"\n")
        uses += 20
    for _ in range(rest // 10 + 1):
        encode(vocabulary, b"new " * 10 + b"\n")
    assert vocabulary.row_of("new") >= 0


def test_a_freed_row_rests() -> None:
    """No row means two words within `rest` words, so none does within a batch."""
    vocabulary = StreamVocabulary(max_types=40, max_rows=4, min_count=1, half_life=60, rest=100)
    last: dict[int, tuple[str, int]] = {}
    position = changes = 0
    for line in zipf_text(3, 2000, 20).split(b"\n"):
        tokens = encode(vocabulary, line + b"\n")
        for word, row in zip(line.decode().split(), tokens, strict=False):
            if row < 4:
                before, when = last.get(row, (word, 0))
                changes += before != word
                assert before == word or position - when >= 100
                last[row] = word, position
            position += 1
    assert changes > 20
    with pytest.raises(InputError, match="A batch may have 200 bytes"):
        encode(vocabulary, b"a" * 200 + b"\n")


def counts_behind_lines(vocabulary: StreamVocabulary, text: bytes) -> list[tuple[int, np.ndarray, Any]]:
    """(position, counts, table of noise) behind each line."""
    found = []
    for line in text.split(b"\n")[:-1]:
        encode(vocabulary, line + b"\n")
        found.append((vocabulary.position, vocabulary.counts_V, vocabulary.noise()))
    return found


def shares(threshold: np.ndarray, alias: np.ndarray) -> np.ndarray:
    """The distribution that an alias table draws from."""
    own = (threshold.astype(np.float64) + (threshold == 0xFFFFFFFF)) / 2.0**32 / len(threshold)
    share_V = own.copy()
    np.add.at(share_V, alias, 1 / len(threshold) - own)
    return share_V


def test_noise_is_that_of_recent_counts() -> None:
    """Never staler than stated, and renewed no more often: so making tables costs O(1) a word."""
    vocabulary = StreamVocabulary(max_types=3000, max_rows=800, min_count=1, half_life=4000)
    history = counts_behind_lines(vocabulary, zipf_text(7, 4000, 500))
    tables = [noise[0] for _, _, noise in history]
    renewed = [at for at in range(1, len(tables)) if tables[at] is not tables[at - 1]]
    assert len(renewed) > 5
    for before, at in pairwise(renewed):
        rows = len(tables[before])
        assert history[at][0] - history[before][0] >= max(LEAST_WORDS, WORDS_PER_ROW * rows)
        assert history[at - 1][0] - history[before][0] < max(LEAST_WORDS, WORDS_PER_ROW * rows)
        counts = history[at][1][: len(tables[at])]
        np.testing.assert_allclose(shares(*history[at][2]), counts**0.75 / (counts**0.75).sum(), atol=1e-8)
    keep = vocabulary.keep(1e-3)
    counts = history[renewed[-1]][1][: len(tables[-1])]
    np.testing.assert_array_equal(keep[: len(counts)], keep_probabilities(counts, 1e-3))
    assert (keep[len(counts) :] == 1).all() and len(keep) == 800
    assert vocabulary.keep(1e-3) is keep


def test_draws_fit_the_counts() -> None:
    """Chi-square of draws against the current counts to the power 0.75 (p of a right table: uniform)."""
    vocabulary = StreamVocabulary(max_types=50, max_rows=20, min_count=2, half_life=3000, rest=40)
    history = counts_behind_lines(vocabulary, zipf_text(9, 1500, 400))
    last = max(at for at in range(1, len(history)) if history[at][2] is not history[at - 1][2])
    counts, draws = history[last][1], 20_000
    threshold, alias = (table.tolist() for table in history[last][2])
    drawn = [draw_alias(draw(4, i), threshold, alias) for i in range(draws)]
    expected = counts**0.75 / (counts**0.75).sum() * draws
    used = expected > 0
    assert (np.bincount(drawn, minlength=20)[~used] == 0).all()
    assert chisquare(np.bincount(drawn, minlength=20)[used], expected[used]).pvalue > 1e-3


def test_before_the_first_row_all_is_defined() -> None:
    vocabulary = StreamVocabulary(max_types=10, max_rows=5)
    for text in (b"", b"\n", b"a b\n"):
        assert 5 not in encode(vocabulary, text) or text == b"a b\n"
        assert vocabulary.num_rows == 0 and len(vocabulary.born()) == 0
        assert len(vocabulary.noise()[0]) == 1 and (vocabulary.keep(1e-3) == 1).all()
        assert (vocabulary.counts_V == 0).all() and list(vocabulary.keys(vocabulary.rows())) == []


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1 << 30), stop=st.integers(0, 150), half_life=st.sampled_from([None, 5, 300]))
def test_a_recalled_vocabulary_goes_on_alike(seed: int, stop: int, half_life: int | None) -> None:
    options: dict[str, Any] = {"max_types": 30, "max_rows": 6, "min_count": 2, "half_life": half_life, "rest": 100}
    lines = zipf_text(seed, 250, 25).split(b"\n")[:-1]
    one, other = StreamVocabulary(**options), StreamVocabulary(**options)
    for line in lines[:stop]:
        encode(one, line + b"\n")
    other.load_state_dict(one.state_dict())
    for line in lines[stop:]:
        assert encode(one, line + b"\n") == encode(other, line + b"\n")
        for mine, its in zip(one.noise(), other.noise(), strict=True):
            np.testing.assert_array_equal(mine, its)
    np.testing.assert_array_equal(one.born(), other.born())
    states = one.state_dict(), other.state_dict()
    assert states[0].keys() == states[1].keys()
    for name, array in states[0].items():
        assert array.dtype == states[1][name].dtype
        np.testing.assert_array_equal(array, states[1][name])


def test_the_state_knows_what_was_skipped_and_its_settings() -> None:
    one, other = (StreamVocabulary(max_types=10, max_rows=5) for _ in range(2))
    encode(one, b"\xff a\0b " + b"x" * (MAX_WORD_BYTES + 1) + b"\n")
    other.load_state_dict(one.state_dict())
    assert (other.bad_bytes, other.long_words, other.position) == (2, 1, 3)
    with pytest.raises(FormatError, match=r"\[10, 5, 5, 0, 1048576\]"):
        StreamVocabulary(max_types=10, max_rows=4).load_state_dict(one.state_dict())


def test_memory_is_that_of_the_start() -> None:
    vocabulary = StreamVocabulary(max_types=500, max_rows=100, min_count=1, half_life=1000)
    before = vocabulary.nbytes
    encode(vocabulary, zipf_text(11, 5000, 50))
    assert vocabulary.births > 0
    assert vocabulary.nbytes <= before + 8 * 100  # the counts of which tables are made


@pytest.mark.parametrize(
    "wrong",
    [{"max_types": 7}, {"max_rows": 0}, {"max_rows": 11}, {"min_count": 0}, {"half_life": 0}, {"rest": 0}],
)
def test_options_that_are_not_legal(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        StreamVocabulary(**{"max_types": 10, "max_rows": 5, **wrong})
    with pytest.raises(InputError, match="bad_bytes"):
        StreamVocabulary(max_types=10, max_rows=5, text=TextOptions(bad_bytes="error"))
    with pytest.raises(InputError, match="line end"):
        StreamVocabulary(max_types=10, max_rows=5).encode(np.frombuffer(b"a\nb", np.uint8), np.array([2]))

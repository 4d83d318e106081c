"""A planted stream is what it says: pure, with the types, topics, forms, drifts and repeats that it is asked for."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from any2vec.errors import InputError
from any2vec.testing.planted_stream import SUFFIXES, PlantedSource, PlantedStream

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # uint64 that wraps, uncompiled

EVERYTHING: dict[str, Any] = {
    "words_per_line": 10, "topics": 12, "topic_words": 9, "topic_share": 0.4, "stems": 30, "form_share": 0.2,
    "drifters": 5, "drift_at": 600, "drift_share": 0.2, "repeat_share": 0.25, "repeat_distance": 100,
}  # fmt: skip


def lines_of(stream: PlantedStream, start: int, stop: int) -> list[list[str]]:
    return [line.split() for line in stream.text(start, stop).decode().splitlines()]


def test_any_cut_gives_the_same_lines_and_another_seed_others() -> None:
    stream = PlantedStream(**EVERYTHING)
    whole = stream.batch(0, 1200)
    parts = [stream.batch(start, min(start + 77, 1200)) for start in range(0, 1200, 77)]
    assert np.array_equal(np.concatenate([part.text_B for part in parts]), whole.text_B)
    assert np.array_equal(np.concatenate([part.key_N for part in parts]), whole.key_N)
    assert PlantedStream(**EVERYTHING).text(0, 1200) == whole.text_B.tobytes()
    assert PlantedStream(**EVERYTHING, seed=2).text(0, 1200) != whole.text_B.tobytes()
    assert whole.position == {"line": 1200}
    assert whole.text_B[whole.stop_N - 1].tolist() == [10] * 1200
    assert {len(line) for line in lines_of(stream, 0, 1200)} == {10}


def test_types_never_stop_as_heaps_says() -> None:
    """Expected types of n draws: the sum over ranks of 1 - (1 - p)**n; the variance is below the mean."""
    stream = PlantedStream(topic_share=0.0, words_per_line=50, zipf=1.7, head=20.0)
    rank = np.arange(1, 4_000_001, dtype=np.float64)
    tail = ((rank + 20.0) / 21.0) ** -0.7
    chance = tail - np.append(tail[1:], 0.0)
    for lines in (400, 4000):
        words = stream.text(0, lines).split()
        expected = -np.expm1(50 * lines * np.log1p(-chance)).sum()
        assert abs(len(set(words)) - expected) < 5 * np.sqrt(expected)
    counts = Counter(words)
    for place in (1, 2, 30):
        expected = len(words) * chance[place - 1]
        assert abs(counts[stream.general_word(place).encode()] - expected) < 5 * np.sqrt(expected)


def test_a_line_has_one_topic_and_its_share_of_words() -> None:
    stream = PlantedStream(words_per_line=20, topics=7, topic_words=11, topic_share=0.5)
    topic_of = {word: topic for topic in range(7) for word in stream.topic_words(topic)}
    assert len(topic_of) == 77
    own = [[topic_of[word] for word in line if word in topic_of] for line in lines_of(stream, 0, 3000)]
    assert {len(set(topics)) for topics in own} <= {0, 1}
    share = sum(map(len, own)) / (3000 * 20)
    assert abs(share - 0.5) < 5 * np.sqrt(0.25 / 60_000)
    lines = Counter(topics[0] for topics in own if topics)
    assert max(abs(count - 3000 / 7) for count in lines.values()) < 5 * np.sqrt(3000 / 7)
    first = sum(line.count(stream.topic_words(topic)[0]) for line in lines_of(stream, 0, 3000) for topic in range(7))
    expected = 30_000 * np.sqrt(1 / 11)
    assert abs(first - expected) < 6 * np.sqrt(expected)


def test_a_drifter_changes_its_company_at_its_line() -> None:
    stream = PlantedStream(words_per_line=20, topics=8, drifters=3, drift_at=2000, drift_share=0.1)
    topic_of = {word: topic for topic in range(8) for word in stream.topic_words(topic)}
    for start, stop in ((0, 2000), (2000, 4000)):
        for drifter in range(3):
            word = stream.drifter(drifter)
            company = {
                topic_of[w] for line in lines_of(stream, start, stop) if word in line for w in line if w in topic_of
            }
            assert company == {stream.topic_of_drifter(drifter, start)}
    assert stream.topic_of_drifter(1, 1999) == 1
    assert stream.topic_of_drifter(1, 2000) == 5


def test_every_form_is_seen_but_one_of_each_stem() -> None:
    stream = PlantedStream(topics=10, stems=25, form_share=0.3)
    words = {word for line in lines_of(stream, 0, 6000) for word in line}
    assert len(set(stream.stems)) == 25
    for number, (form, stem) in enumerate(stream.unseen()):
        assert stem == stream.stems[number]
        assert form not in words
        assert set(stream.forms(number)) <= words
        assert {*stream.forms(number), form} == {stem + suffix for suffix in SUFFIXES}


def test_repeats_have_the_keys_and_texts_of_what_they_repeat() -> None:
    stream = PlantedStream(**EVERYTHING)
    batch, lines = stream.batch(0, 4000), lines_of(stream, 0, 4000)
    first: dict[int, int] = {}
    repeats = 0
    for place, key in enumerate(batch.key_N.tolist()):
        before = first.setdefault(key, place)
        if before != place:
            repeats += 1
            assert place - before == 100
            assert lines[place] == lines[before]
    # A repeat whose original is a repeat itself is the first with its content: a quarter of three quarters are told.
    expected = 3900 * 0.25 * 0.75
    assert abs(repeats - expected) < 5 * np.sqrt(expected)


def test_what_is_not_legal_is_said() -> None:
    with pytest.raises(InputError, match="together"):
        PlantedStream(topic_share=0.6, form_share=0.5)
    with pytest.raises(InputError, match="drifters"):
        PlantedStream(topics=3, drifters=4)
    with pytest.raises(InputError, match="start"):
        PlantedStream().batch(5, 4)


def test_a_source_of_it_stalls_flows_and_goes_on_at_a_position() -> None:
    stream = PlantedStream()
    source = PlantedSource(stream, stop=1000, lines=300)
    batches = source.batches(None)
    first = next(batches)
    assert first is not None
    source.stall()
    assert next(batches) is None
    assert source.metrics()["state"] == "waiting"
    source.flow()
    rest = [batch for batch in source.batches(first.position) if batch is not None]
    assert b"".join(batch.text_B.tobytes() for batch in [first, *rest]) == stream.text(0, 1000)
    assert source.metrics()["state"] == "ended"

"""Whether subsampling leaves enough to learn from: the edge, whom it blames, and what the summaries of runs say."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import any2vec
from any2vec.models.words.too_little import LEAST_TRAINING, too_little

TOPICS = [[f"{topic}{word}" for word in range(5)] for topic in "ab"]
LONG: dict[str, Any] = {"subsample": 1e-4, "window": 5, "rate": 0.0125, "epochs": 5}


def planted(num: int, seed: int = 1) -> list[str]:
    """Lines of eight words, all of one of two topics."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(draw.choice(TOPICS), k=8)) for _ in range(num)]


def test_the_pairs_are_counted() -> None:
    # 10 words of a tenth each: sqrt(1e-3) + 1e-3 of the 24,000 tokens are kept, 0.261 a line, so 0.261 squared pairs a
    # line, 5 x 3,000 lines, shared by 10 words; without, 8 x (5 + 1) pairs a line.
    said = too_little(np.full(10, 2400), 3000, **LONG)
    assert said is not None and "left 3.3% of the tokens, about 102 pairs" in said and "there are 72,000" in said
    assert "--subsample 0.001 (subsample=0.001 in Python), or on more data" in said


def test_the_edge() -> None:
    """Pairs grow as the lines do, where all else is alike."""
    pairs_of_a_line = 5 * (8 * (np.sqrt(1e-3) + 1e-3)) ** 2 / 10
    lines = LEAST_TRAINING / (0.0125 * pairs_of_a_line)
    for num, is_too_little in ((int(lines), True), (int(lines) + 1, False)):
        assert (too_little(np.full(10, 0.8 * num), num, **LONG) is not None) == is_too_little


def test_data_that_are_small_anyway_are_not_blamed_on_subsampling() -> None:
    counts = np.full(1000, 2)  # of which all is kept: t = 1e-3 is as frequent as they are
    assert too_little(counts, 200, **LONG | {"subsample": 1e-3}) is None
    assert too_little(counts, 200, **LONG | {"subsample": 0.0}) is None
    said = too_little(counts, 200, **LONG)
    assert said is not None and "--subsample 0.0" not in said and said.endswith("and on more data.")


@pytest.mark.parametrize("window", [1, 5])
def test_no_pair_is_farther_than_the_window(window: int) -> None:
    """In one long sentence it is the window that bounds the pairs."""
    said = too_little(np.full(10, 100), 1, **LONG | {"window": window})
    kept = 1000 * (np.sqrt(1e-3) + 1e-3)
    assert said is not None and f"about {5 * kept * (window + 1) / 10:,.0f} pairs" in said


def test_runs_say_it_where_their_vectors_are_useless_and_what_they_name_mends_it() -> None:
    text = planted(3000)
    default = any2vec.fit(any2vec.SkipGram(dim=16), text, threads=1)
    (said,) = default.summary["warnings"]
    assert "--subsample 0.001" in said and of_its_topic(default.embeddings) < 0.9
    mended = any2vec.fit(any2vec.SkipGram(dim=16, subsample=1e-3), text, threads=1)
    assert mended.summary["warnings"] == [] and of_its_topic(mended.embeddings) == 1
    longer = any2vec.fit(any2vec.SkipGram(dim=16), text[:50], epochs=1, threads=1, init=mended.embeddings)
    assert longer.summary["warnings"] == []  # the vectors were learned before


def test_walks_say_it_if_they_are_subsampled() -> None:
    edges = [(node, (node + 1) % 10) for node in range(10)]
    run: dict[str, Any] = {"epochs": 1, "threads": 1}
    assert any2vec.fit(any2vec.DeepWalk(dim=4), edges, **run).summary["warnings"] == []
    (said,) = any2vec.fit(any2vec.DeepWalk(dim=4, subsample=1e-5), edges, **run).summary["warnings"]
    assert said.startswith("Subsampling with 1e-05 left ")


def test_streams_say_it() -> None:
    def warnings(lines: list[str], **options: Any) -> list[str]:
        found = any2vec.stream(any2vec.StreamSkipGram(dim=16, **options), lines, storage="50MB").summary["warnings"]
        assert isinstance(found, list)
        return found

    assert warnings(planted(3000), subsample=1e-3) == []
    (said,) = warnings(planted(3000))
    assert "left 3.3% of the tokens" in said and "--subsample 0.001" in said


@pytest.mark.parametrize("name", ["skipgram", "cbow", "ngram"])
def test_runs_say_that_each_line_has_one_word(name: str) -> None:
    def warnings(lines: list[str]) -> list[str]:
        found = any2vec.fit(name, lines, epochs=1, threads=1).summary["warnings"]
        assert isinstance(found, list)
        return found

    (said,) = warnings(["red", "green", "blue", ""] * 50)
    assert said.startswith("Each of the 150 lines has one word alone, so no pair was trained") and "--column" in said
    assert not any("one word alone" in one for one in warnings(["red", "green", "blue"] * 50 + ["red blue"]))


def test_streams_say_that_each_line_has_one_word() -> None:
    lines = iter(["red", "green", "blue", ""] * 50)
    (said,) = any2vec.stream(any2vec.StreamSkipGram(dim=4), lines, storage="50MB").summary["warnings"]
    assert said.startswith("Each of the 150 lines has one word alone")


def of_its_topic(embeddings: any2vec.Embeddings) -> float:
    """The share of the four nearest of each word that are of its topic."""
    near = [(word, other) for word in embeddings.keys for other, _ in embeddings.nearest(word, 4)]
    return float(np.mean([word[0] == other[0] for word, other in near]))

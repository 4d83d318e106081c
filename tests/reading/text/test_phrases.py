"""Phrases equal their plain twin and gensim's, for any cut, budget and number of threads."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import any2vec as a2v
from any2vec.data.io import direct
from any2vec.data.text.pairs import phrase_counts, sorted_runs
from any2vec.data.text.pairs.phrases import Phrases
from any2vec.errors import DataError, FormatError, InputError, StorageError
from cli_runs import done, refused
from naive.text import phrases as naive

# Without the compiler, wrapping uint64 arithmetic makes NumPy warn; it is meant to wrap.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

WORDS = ["new", "york", "times", "of", "the", "big", "apple", "pie", "city", "hall"]


def text_of(seed: int, sentences: int = 400) -> list[list[str]]:
    """Zipf's words, in which some pairs come far too often."""
    draw = random.Random(seed)
    weights = [1 / (rank + 1) for rank in range(len(WORDS) + 20)]
    names = [*WORDS, *(f"w{number}" for number in range(20))]
    made = []
    for _ in range(sentences):
        sentence = draw.choices(names, weights, k=draw.randrange(1, 14))
        if draw.random() < 0.4:
            place = draw.randrange(len(sentence) + 1)
            sentence[place:place] = draw.choice(
                [["new", "york", "times"], ["city", "of", "the", "apple"], ["big", "pie"]]
            )
        made.append(sentence)
    return made


def passes_of(sentences: list[list[str]], passes: int, **options: object) -> tuple[list[naive.Found], list[list[str]]]:
    """Of the twin: the phrases of each pass, and the joined sentences."""
    connectors = frozenset(options.pop("connectors", ()))  # type: ignore[call-overload]
    found = []
    for _ in range(passes):
        found.append(naive.find(sentences, connectors, **options))  # type: ignore[arg-type]
        sentences = [naive.join(one, found[-1], connectors, "_") for one in sentences]
    return found, sentences


@settings(max_examples=40, deadline=None)
@given(
    sentences=st.lists(st.lists(st.sampled_from("abcdof"), min_size=1, max_size=12), min_size=1, max_size=30),
    passes=st.integers(1, 3),
    scoring=st.sampled_from(["default", "npmi"]),
    connectors=st.sampled_from([(), ("o",), ("o", "f"), ("not there",)]),
    min_count=st.integers(1, 3),
    cut=st.integers(1, 9),
)
def test_phrases_equal_their_twin(
    sentences: list[list[str]], passes: int, scoring: str, connectors: tuple[str, ...], min_count: int, cut: int,
    monkeypatch_module: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if scoring == "npmi" and sum(map(len, sentences)) == 1:
        return
    options = {"min_count": min_count, "threshold": 0.1, "scoring": scoring, "connectors": connectors}
    expected, joined = passes_of(sentences, passes, **options)
    monkeypatch_module.setattr(phrase_counts, "_BLOCK_TOKENS", cut)
    monkeypatch_module.setattr(phrase_counts, "_BUFFER_KEYS", 3)
    found = Phrases.fit(sentences, passes=passes, threads=2, **options)
    expected = [one for number, one in enumerate(expected) if number == 0 or all(expected[:number])]
    assert [one.keys() for one in found.passes] == [one.keys() for one in expected]
    for one, other in zip(found.passes, expected, strict=True):
        assert all(one[phrase] == pytest.approx(score, rel=1e-12) for phrase, score in other.items())
    assert list(found.apply(sentences)) == joined


@pytest.fixture(scope="module")
def monkeypatch_module() -> pytest.MonkeyPatch:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.mark.parametrize("scoring, threshold", [("default", 0.8), ("npmi", 0.2)])
@pytest.mark.parametrize("connectors", [[], ["of", "the"]])
def test_phrases_equal_gensims(scoring: str, threshold: float, connectors: list[str]) -> None:
    phrases = pytest.importorskip("gensim.models.phrases", reason="compares with gensim")
    sentences = text_of(1)
    peer = phrases.Phrases(
        sentences, min_count=3, threshold=threshold, scoring=scoring, connector_words=frozenset(connectors)
    )
    found = Phrases.fit(sentences, min_count=3, threshold=threshold, scoring=scoring, connectors=connectors)
    expected = peer.export_phrases()
    assert len(expected) >= 3 and found.scores.keys() == expected.keys()
    assert all(found.scores[name] == pytest.approx(score, rel=1e-12) for name, score in expected.items())
    assert list(found.apply(sentences)) == [peer[sentence] for sentence in sentences]


def test_more_than_the_budget_goes_to_files_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = text_of(2)
    options = {"min_count": 2, "threshold": 1.0, "passes": 2, "connectors": "of,the"}
    whole = Phrases.fit(sentences, **options)
    stored = []
    store = direct.Spill.store
    monkeypatch.setattr(direct.Spill, "store", lambda self, *arrays: stored.append(1) or store(self, *arrays))
    monkeypatch.setattr("any2vec.data.text.pairs.phrases.Spill", lambda: direct.Spill(64))
    monkeypatch.setattr(phrase_counts, "_BLOCK_TOKENS", 100)
    assert Phrases.fit(sentences, **options, threads=3).passes == whole.passes and len(stored) > 4


def test_written_text_is_what_apply_gives(tmp_path: Path) -> None:
    sentences = text_of(3)
    found = Phrases.fit(sentences, min_count=2, threshold=0.8, passes=2, connectors=["of", "the"])
    found.write(sentences, tmp_path / "out.txt")
    assert [line.split() for line in (tmp_path / "out.txt").read_text().splitlines()] == list(found.apply(sentences))
    found.save(tmp_path / "phrases.json")
    again = Phrases.load(tmp_path / "phrases.json")
    assert again.passes == found.passes and again.options == found.options
    other = text_of(4)
    again.write([" ".join(sentence) for sentence in other], tmp_path / "other.txt")
    assert [line.split() for line in (tmp_path / "other.txt").read_text().splitlines()] == list(found.apply(other))
    with pytest.raises(StorageError, match="exists"):
        found.save(tmp_path / "phrases.json")
    with pytest.raises(InputError, match="white space"):
        found.write([["new york", "times"]], tmp_path / "blank.txt")


def test_strings_are_cut_as_the_text_was() -> None:
    found = Phrases.fit(
        ["New York, again!"] * 9, text=a2v.TextOptions(lowercase=True, token_pattern=r"[a-z]+"), threshold=0.1
    )
    assert found["In NEW YORK."][-1] == "new_york" and found[["In", "NEW", "YORK"]][-1] == "new_york"


@pytest.mark.parametrize(
    "options, said",
    [({"threshold": -1}, "threshold"), ({"threshold": 2, "scoring": "npmi"}, "threshold"), ({"passes": 0}, "passes"),
     ({"min_count": 0}, "min_count"), ({"delimiter": " "}, "delimiter"), ({"scoring": "none"}, "scoring"),
     ({"delimiter": ["_"]}, "delimiter"), ({"delimiter": True}, "delimiter"), ({"connectors": 5}, "connectors"),
     ({"connectors": ["of", 5]}, "connectors")],
)  # fmt: skip
def test_illegal_options_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Phrases.fit([["a", "b"]], **options)


@pytest.mark.parametrize("content", ["", "{}", "[1", '{"format": "any2vec-phrases", "version": 9}',
    '{"format": "any2vec-phrases", "version": 1, "options": {}, "text": {}, "passes": [[["a", 1]]]}',
    '{"format": "any2vec-phrases", "version": 1, "options": {}, "text": {}, "passes": [[[["a", "b"], 1e999]]]}',
    '{"format": "any2vec-phrases", "version": 1, "options": {}, "text": {}, "passes": [[[["a", "\\ud800"], 1]]]}',
    '{"format": "any2vec-phrases", "version": 1, "options": {"delimiter": true}, "text": {}, "passes": []}',
    '{"format": "any2vec-phrases", "version": 1, "options": {}, "text": {"token_pattern": true}, "passes": []}',
    '{"format": "any2vec-phrases", "version": 1, "options": {}, "text": {"lowercase": 1}, "passes": []}',
    '{"format": "any2vec-phrases", "version": 1, "options": {}, "text": ["lowercase"], "passes": []}',
])  # fmt: skip
def test_a_damaged_file_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "phrases.json").write_text(content)
    with pytest.raises(FormatError):
        Phrases.load(tmp_path / "phrases.json")


def test_a_pair_of_runs_is_cut_into_blocks_without_a_gap() -> None:
    with direct.Spill(0) as spill:
        runs = sorted_runs.SortedRuns(spill, 1)
        for first in (0, 5, 0):
            pair_N = np.arange(first, first + 20, 2).astype(np.uint64)
            runs.add(sorted_runs.Run(pair_N, np.ones((10, 1), np.int64)))
        blocks = [sorted_runs.Run(*map(np.array, block)) for block in runs.blocks(3)]
    assert len(blocks) > 3
    pairs = np.concatenate([block.pair_N for block in blocks])
    assert (np.diff(pairs.astype(np.int64)) > 0).all() and sum(int(block.weight_NC.sum()) for block in blocks) == 30


def test_the_command(tmp_path: Path) -> None:
    lines = [" ".join(sentence) for sentence in text_of(5)]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    text, kept = str(tmp_path / "text.txt"), str(tmp_path / "kept.json")
    first = done("phrases", text, "--out", str(tmp_path / "a.txt"), "--save", kept, "--threshold", "0.8",
                 "--passes", "2", "--connectors", "of,the", "--json")  # fmt: skip
    said = json.loads(first)
    assert said["phrases"][0] > 1 and "city_of_the_apple" in (tmp_path / "a.txt").read_text()
    done("phrases", text, "--out", str(tmp_path / "b.txt"), "--phrases", kept)
    assert "--passes is of finding" in refused(
        "phrases", text, "--out", str(tmp_path / "c"), "--phrases", kept, "--passes", "2"
    )
    assert (tmp_path / "a.txt").read_text() == (tmp_path / "b.txt").read_text()


@pytest.mark.parametrize("given", ["text.txt", Path("phrases.json"), b"text.txt"])
def test_a_file_is_no_passes(given: str | Path | bytes) -> None:
    with pytest.raises(InputError, match=r"text\.txt|phrases\.json") as refused:
        Phrases(given)  # type: ignore[arg-type]
    assert "Phrases.load(path)" in str(refused.value) and "Phrases.fit(path)" in str(refused.value)


def test_connectors_of_a_language_that_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a b\n")
    said = refused("phrases", str(tmp_path / "text"), "--out", str(tmp_path / "out"), "--connectors", "german")
    assert "connectors of german are not known, only those of english" in said
    assert a2v.Phrases.fit([["a", "b"]], connectors="von").options.connector_words() == {"von"}  # a word by itself


def test_a_table_is_read_by_its_column_of_text() -> None:
    phrases, joined = Phrases([{("new", "york"): 9.0}]), [["in", "new_york"], ["a", "b"]]
    kinds = pytest.importorskip("pandas").DataFrame, pytest.importorskip("polars").DataFrame, pa.table
    for table in (kind({"id": [1, 2], "text": ["in new york", "a b"]}) for kind in kinds):
        assert list(phrases.apply(table)) == list(phrases.apply(table, column="text")) == joined
    table = {"id": ["x", "y"], "text": ["in new york", "a b"]}
    assert list(phrases.apply(table, column="text")) == joined
    assert list(Phrases(phrases.passes, text=a2v.TextOptions(column="text")).apply(table)) == joined
    with pytest.raises(DataError, match=r"needs a column to be named .*column=.*its columns are: id \(string\), text"):
        phrases.apply(table)
    with pytest.raises(InputError, match="documents are a list of strings"):
        phrases.apply("in new york")

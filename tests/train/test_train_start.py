"""Start values taken over from given vectors: by key, and only numbers that the kernels can bear."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import any2vec
from any2vec import DeepWalk, Embeddings, InputError, SkipGram
from any2vec.tasks.words.start import carry_over


def given(**changes: np.ndarray) -> Embeddings:
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    return Embeddings(["a", "b"], changes.get("vectors", rows), changes.get("output", -rows), np.array([5, 4]))


def test_rows_go_to_their_keys_and_unknown_keys_are_kept() -> None:
    tables, keys, counts = carry_over(given(), ["b", "c"], np.array([7, 3]), SkipGram(dim=3), seed=1)
    assert keys == ["b", "c", "a"] and counts.tolist() == [11, 3, 5]
    assert tables["input"][[0, 2]].tolist() == [[3, 4, 5], [0, 1, 2]]
    assert tables["output"].tolist() == [[-3, -4, -5], [0, 0, 0], [0, -1, -2]]


@pytest.mark.parametrize("side", ["vectors", "output"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -2e4])
def test_numbers_beyond_the_bound_are_refused(side: str, bad: float) -> None:
    rows = np.zeros((2, 3), np.float32)
    rows[1, 2] = bad
    with pytest.raises(InputError, match="beyond 10000"):
        carry_over(given(**{side: rows}), ["b"], np.array([1]), SkipGram(dim=3), seed=1)


def test_output_rows_of_a_huffman_tree_belong_to_no_key() -> None:
    """They are inner nodes, which another vocabulary numbers anew: not given out, not taken over."""
    sentences = [["a", "b", "c", "d"], ["b", "a", "d", "c"]] * 50
    model = SkipGram(dim=3, objective="hierarchical", min_count=1, subsample=0)
    result = any2vec.fit(model, sentences, epochs=1, threads=1)
    assert result.embeddings.output is None
    tables, _, _ = carry_over(given(), ["a", "b"], np.array([5, 4]), model, seed=1)
    assert tables["input"].tolist() == [[0, 1, 2], [3, 4, 5]] and not tables["output"].any()


def test_numbers_of_numpy_are_options_too() -> None:
    model = SkipGram(dim=np.int64(4), learning_rate=np.float32(0.5), min_count=np.int32(1))
    assert model == SkipGram(dim=4, learning_rate=0.5, min_count=1) and type(model.dim) is int
    with pytest.raises(InputError, match="dim"):
        SkipGram(dim=np.bool_(True))


def test_a_small_learning_rate_is_also_the_last_one() -> None:
    sentences = [["a", "b", "c", "d"]] * 50
    model = SkipGram(dim=3, learning_rate=1e-5, min_count=1)
    result = any2vec.fit(model, sentences, epochs=1, threads=1)
    assert result.progress[-1].learning_rate == pytest.approx(1e-5)


def test_an_edge_alone_is_a_graph() -> None:
    assert sorted(any2vec.fit(DeepWalk(dim=2), [("a", "b")], threads=1).embeddings.keys) == ["a", "b"]


def test_weights_that_look_like_times_are_said(tmp_path: Path) -> None:
    def warnings(*weights: int, **graph: Any) -> list[str]:
        rows = (f"{node} {node + 1} {weight}\n" for node, weight in enumerate(weights))
        (tmp_path / "edges").write_text("".join(rows))
        options = any2vec.GraphOptions(**graph)
        found = any2vec.fit(DeepWalk(dim=2), tmp_path / "edges", threads=1, graph=options).summary["warnings"]
        assert isinstance(found, list)
        return found

    (said,) = warnings(1082040961, 100_000_000)
    assert "the third column was read as weights" in said and "--no-weighted" in said
    assert warnings(1082040961, 99_999_900) == [] == warnings(1, 3)
    assert warnings(1082040961, 1082040962, weighted=False) == []


def test_what_was_mended_is_said(tmp_path: Path) -> None:
    (tmp_path / "edges").write_text("a b\nb a\na a\nb c\n")
    said = any2vec.fit(DeepWalk(dim=2), tmp_path / "edges", threads=1).summary["warnings"]
    assert said == ["edges given more than once, merged: 1", "self-loops, kept: 1"]
    (tmp_path / "text").write_bytes(b"caf\xe9 au lait et au caf\xe9\n" * 10)
    model = SkipGram(dim=2, min_count=1, subsample=0)
    said = any2vec.fit(model, tmp_path / "text", threads=1, epochs=1).summary["warnings"]
    assert said == ["invalid bytes in the text, treated as --bad-bytes says: 20"]


@pytest.mark.parametrize("name", ["num_negatives", "kernel"])
def test_options_of_the_other_objective_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="hierarchical"):
        SkipGram(objective="hierarchical", **{name: {"num_negatives": 7, "kernel": "classic"}[name]})


def test_a_result_is_trained_on_with_more_words() -> None:
    first = any2vec.fit(SkipGram(dim=4, min_count=1, subsample=0), [["a", "b", "c"]] * 60, epochs=2, threads=1)
    model = SkipGram(dim=4, min_count=1, subsample=0, learning_rate=0.01)
    later = any2vec.fit(model, [["a", "new"]] * 40, epochs=2, threads=1, init=first).embeddings
    assert sorted(later) == ["a", "b", "c", "new"]
    assert dict(zip(later, later.counts.tolist(), strict=True)) == {"a": 100, "b": 60, "c": 60, "new": 40}
    assert np.array_equal(later[["b", "c"]], first.embeddings[["b", "c"]]) and not np.array_equal(
        later["a"], first.embeddings["a"]
    )
    same = any2vec.fit(model, [["a", "new"]] * 40, epochs=2, threads=1, init=first.embeddings).embeddings
    assert np.array_equal(same.vectors, later.vectors)

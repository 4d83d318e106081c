"""Similarity and analogies against answers that were planted or worked out by hand."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from any2vec.embeddings import Embeddings
from any2vec.errors import Any2VecError, DataError, InputError
from any2vec.evaluate import (
    compare_embeddings,
    evaluate_analogy,
    evaluate_links,
    evaluate_nodes,
    evaluate_pip,
    evaluate_recommend,
    evaluate_similarity,
)
from any2vec.evaluate.words.similarity import SimilarityResult, pairs_of, read_pairs, spearman
from cli_runs import done


def data_folder(name: str) -> Path:
    root = os.environ.get("ANY2VEC_DATA")
    if not root or not (Path(root) / name).is_dir():
        pytest.skip(f"ANY2VEC_DATA names no folder with {name}: this check of real data was left out")
    return Path(root) / name


@pytest.mark.parametrize(
    "evaluate",
    [
        compare_embeddings, evaluate_analogy, evaluate_links, evaluate_nodes, evaluate_pip, evaluate_recommend,
        evaluate_similarity,
    ],
)  # fmt: skip
def test_what_has_no_vectors_is_told_what_to_give(evaluate: Any) -> None:
    result = SimpleNamespace(embeddings=Embeddings(["a"], np.ones((1, 2))), scorer="one")
    for value, fix in ((result, r"give its \.(embeddings|scorer)"), ([1.0], r"\.load\(path\)")):
        with pytest.raises(InputError, match=rf"evaluated here, got {type(value).__name__}; .*{fix}"):
            evaluate(value, result.embeddings)
    with pytest.raises(InputError, match="got str"):
        compare_embeddings(result.embeddings, "vectors")  # type: ignore[arg-type]


# ---- similarity


def test_spearman_by_hand() -> None:
    # ranks 1 2.5 2.5 4 against 1 2 3 4: covariance 4.5, variances 4.5 and 5, so 4.5 / sqrt(22.5)
    assert spearman(np.array([10.0, 20, 20, 30]), np.array([1.0, 2, 3, 4])) == pytest.approx(4.5 / 22.5**0.5)
    assert spearman(np.array([1.0, 2, 3]), np.array([9.0, 8, 1])) == pytest.approx(-1.0)
    assert spearman(np.array([1.0, 1]), np.array([1.0, 2])) is None
    assert spearman(np.array([1.0]), np.array([1.0])) is None


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=2, max_size=30))
def test_spearman_agrees_with_scipy(pairs: list[tuple[int, int]]) -> None:
    from scipy.stats import spearmanr

    a, b = np.array(pairs, dtype=float).T
    if len(set(a)) > 1 and len(set(b)) > 1:
        assert spearman(a, b) == pytest.approx(float(spearmanr(a, b).statistic), abs=1e-9)
    else:
        assert spearman(a, b) is None


def fan() -> Embeddings:
    """Words at angles 0, 10, 30, 60, 90 degrees: `a` is most alike b, then c, d, e. Lengths differ."""
    angles = np.radians([0, 10, 30, 60, 90])
    lengths = np.array([1, 5, 0.2, 3, 1])
    return Embeddings(list("abcde"), np.stack([np.cos(angles), np.sin(angles)], axis=1) * lengths[:, None])


def test_similarity_of_a_planted_order(tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text("a\tb\t9\na\tc\t8\na\td\t7\na\te\t6\nb\tzzz\t1\n")
    (tmp_path / "bad.txt").write_text("word1\tword2\tscore\nA\tb\t1\na\tC\t2\na\td\t3\na\te\t4\n")
    (tmp_path / "questions.txt").write_text(": section\na b c d\n")
    good = evaluate_similarity(fan(), tmp_path / "good.txt")
    (one,) = good.sets
    assert (one.name, one.pairs, one.covered) == ("good", 5, 4)
    assert one.spearman == pytest.approx(1.0) and good.mean == one.spearman
    both = evaluate_similarity(fan(), tmp_path)
    assert [(s.name, round(s.spearman or 0)) for s in both.sets] == [("bad", -1), ("good", 1)]
    assert both.mean == pytest.approx(0.0)
    listed = evaluate_similarity(fan(), [tmp_path / "good.txt", tmp_path / "bad.txt"])
    assert [s.name for s in listed.sets] == ["good", "bad"]
    parsed = json.loads(json.dumps(both.as_dict()))
    assert parsed["task"] == "similarity" and "cosine" in parsed["protocol"]


def test_judged_pairs_of_tables_and_lists(tmp_path: Path) -> None:
    rows = [("a", "b", 9.0), ("a", "c", 8.0), ("a", "e", 1.0), ("b", "zzz", 1.0)]
    columns = dict(zip(("first", "second", "score"), map(list, zip(*rows, strict=True)), strict=True))
    frame, polars = pytest.importorskip("pandas").DataFrame(columns), pytest.importorskip("polars").DataFrame(columns)
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\t{score}\n" for a, b, score in rows))
    expected = evaluate_similarity(fan(), tmp_path / "pairs.tsv")
    assert expected.sets[0].covered == 3 and expected.mean == pytest.approx(1.0)
    for given_pairs in (rows, iter(rows), columns, frame, polars, pa.table(columns)):
        assert evaluate_similarity(fan(), given_pairs) == expected
    assert evaluate_similarity(fan(), tmp_path.glob("*.tsv")) == expected
    for wrong in (5, None, [("a", "b")], frame[["first"]], [("a", "b", "c")], [("a", "b", np.nan)], ["a", 1]):
        with pytest.raises(DataError, match=r"^Judged pairs are two words and a finite score each"):
            evaluate_similarity(fan(), wrong)


def test_quotes_and_a_header_behind_comments(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text('# judged\n# again\nfirst,second,score\n"New York, NY",a,"3"\n"b","c",2\n')
    first, second, scores = read_pairs(tmp_path / "s.csv")
    assert (first, second, scores.tolist()) == (["New York, NY", "b"], ["a", "c"], [3.0, 2.0])
    (tmp_path / "s.csv").write_text("# judged\nfirst,second,score\nonce,more,score\na,b,3\n")
    with pytest.raises(DataError, match="line 3: expected"):
        read_pairs(tmp_path / "s.csv")


def test_nothing_covered_is_no_score(tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_text("x y 1\ny z 2\n")
    result = evaluate_similarity(fan(), tmp_path / "s.txt")
    assert result.sets[0].spearman is None and result.sets[0].covered == 0 and result.mean is None


def test_a_list_without_files_or_pairs_is_refused() -> None:
    for call in (pairs_of, lambda pairs: evaluate_similarity(fan(), pairs)):
        with pytest.raises(DataError, match="two words and a finite score each; there are none"):
            call([])
    with pytest.raises(DataError, match="two words and a finite score"):
        pairs_of([1, 2])
    (one,) = pairs_of(pair for pair in [("a", "b", 2), ("b", "c", 1)])
    assert one[1:3] == (["a", "b"], ["b", "c"]) and SimilarityResult(()).mean is None


@pytest.mark.parametrize("text", ["", "a\tb\n", "a\tb\t1\na\tb\tx\n", "a\tb\tnan\n", "a b\0c 1\n"])
def test_broken_similarity_files(tmp_path: Path, text: str) -> None:
    (tmp_path / "s.txt").write_text(text)
    with pytest.raises(DataError):
        evaluate_similarity(fan(), tmp_path / "s.txt")
    with pytest.raises(DataError):
        evaluate_similarity(fan(), tmp_path / "missing.txt")


# ---- analogies


def capitals(pairs: int = 8) -> tuple[Embeddings, str]:
    """`cK` - `lK` is one offset for all K; every question has its one right answer. In 40 dims nothing else is near."""
    rng = np.random.default_rng(5)
    land, offset = rng.standard_normal((pairs, 40)), rng.standard_normal(40)
    keys = [f"l{k}" for k in range(pairs)] + [f"c{k}" for k in range(pairs)]
    lines = [f"L{i} C{i} L{j} C{j}" for i in range(pairs) for j in range(pairs) if i != j]
    text = ": capital\n" + "\n".join(lines) + "\n: gram1-nonsense\n" + "l0 c0 c1 l1\nl0 c0 l1 unknown\n"
    return Embeddings(keys, np.concatenate([land, land + offset])), text


@pytest.mark.parametrize("method", ["add", "mul"])
def test_planted_analogies_are_all_right(tmp_path: Path, method: str) -> None:
    embeddings, text = capitals()
    (tmp_path / "q.txt").write_text(text)
    result = evaluate_analogy(embeddings, tmp_path / "q.txt", method=method)  # type: ignore[arg-type]
    capital, gram = result.sections
    assert (capital.name, capital.questions, capital.covered, capital.correct) == ("capital", 56, 56, 56)
    assert (gram.questions, gram.covered, gram.correct) == (2, 1, 0)
    assert result.semantic.accuracy == 1.0 and result.syntactic.accuracy == 0.0
    assert (result.total.correct, result.total.covered, result.total.questions) == (56, 57, 58)
    parsed = json.loads(json.dumps(result.as_dict()))
    assert parsed["accuracy"] == pytest.approx(56 / 57) and parsed["sections"][0]["accuracy"] == 1.0


def test_words_are_looked_up_lower_cased_first() -> None:
    """Or as given, where that is asked for: then the answer of these is the farthest row."""
    axes = np.eye(7)
    lower, upper = [axes[0], axes[0] + axes[1], axes[2], axes[2] + axes[1]], [axes[4], axes[5], axes[6], -axes[5]]
    found = Embeddings([*"abcd", *"ABCD"], np.stack([*lower, *upper]).astype(np.float32))
    assert evaluate_analogy(found, [("A", "B", "C", "D")]).total.correct == 1
    assert evaluate_analogy(found, [("A", "B", "C", "D")], lowercase=False).total.correct == 0


def test_questions_without_sections_are_neither_semantic_nor_syntactic(tmp_path: Path) -> None:
    embeddings, text = capitals()
    (tmp_path / "q.txt").write_text("\n".join(line for line in text.splitlines() if not line.startswith(":")))
    result = evaluate_analogy(embeddings, tmp_path / "q.txt")
    assert result.semantic.questions == result.syntactic.questions == 0 and result.total.questions == 58
    embeddings.save(tmp_path / "run")
    shown = done("evaluate", str(tmp_path / "run"), "--task", "analogy", "--data", str(tmp_path / "q.txt"))
    assert "total" in shown and "semantic" not in shown and "syntactic" not in shown


def test_questions_of_tables_and_lists() -> None:
    embeddings, text = capitals()
    rows = [tuple(line.split()) for line in text.splitlines() if not line.startswith(":")]
    columns = dict(zip("abcd", map(list, zip(*rows, strict=True)), strict=True))
    for given_rows in (rows, np.array(rows), columns, pa.table(columns)):
        result = evaluate_analogy(embeddings, given_rows)
        assert (result.total.correct, result.total.covered, result.total.questions) == (56, 57, 58)
        assert [one.name for one in result.sections] == ["all"] and not result.semantic.questions
    for wrong in (5, [], ["a b c d"], [("a", "b", "c")], pa.table({"a": ["a"]})):
        with pytest.raises(DataError, match=r"^Analogy questions are a file, or rows of four words"):
            evaluate_analogy(embeddings, wrong)


@pytest.mark.parametrize("method", ["add", "mul"])
def test_analogies_agree_with_the_embeddings_own(tmp_path: Path, method, monkeypatch) -> None:
    from any2vec.evaluate.words import analogy

    monkeypatch.setattr(analogy, "_BLOCK_SCORES", 300)
    rng = np.random.default_rng(2)
    embeddings = Embeddings([f"w{i}" for i in range(60)], rng.standard_normal((60, 6)))
    words = [[f"w{i}" for i in rng.choice(60, 4, replace=False)] for _ in range(200)]
    (tmp_path / "q.txt").write_text("\n".join(" ".join(line) for line in words))
    right = sum(embeddings.most_similar([b, c], [a], 1, method)[0][0] == d for a, b, c, d in words)
    result = evaluate_analogy(embeddings, tmp_path / "q.txt", method=method)
    assert result.total.correct == right and result.total.covered == 200


def test_only_the_most_frequent_rows_are_candidates(tmp_path: Path) -> None:
    embeddings, text = capitals()
    (tmp_path / "q.txt").write_text(text)
    counts = np.array([10, 9, 8, 1, 1, 1, 1, 1, 10, 9, 8, 1, 1, 1, 1, 1])
    counted = Embeddings(embeddings.keys, embeddings.vectors, counts=counts)
    result = evaluate_analogy(counted, tmp_path / "q.txt", max_vocab=6)
    assert (result.sections[0].covered, result.sections[0].correct) == (6, 6)  # 3 pairs, in either order
    assert "the 6 most frequent" in result.protocol


def test_case_falls_back(tmp_path: Path) -> None:
    embeddings, _ = capitals()
    cased = Embeddings([key.upper() for key in embeddings.keys], embeddings.vectors)
    (tmp_path / "q.txt").write_text("L0 C0 L1 C1\n")
    assert evaluate_analogy(cased, tmp_path / "q.txt").total.correct == 1
    (tmp_path / "low.txt").write_text("l0 c0 l1 c1\n")
    assert evaluate_analogy(cased, tmp_path / "low.txt").total.covered == 0


@pytest.mark.parametrize("options", [{"method": "x"}, {"max_vocab": 3}])
def test_illegal_options(tmp_path: Path, options: dict) -> None:
    with pytest.raises(InputError):
        evaluate_analogy(capitals()[0], tmp_path / "q.txt", **options)


@pytest.mark.parametrize("text", ["", ": only\n", "a b c\n", ": s\na b c d e\n"])
def test_broken_query_files(tmp_path: Path, text: str) -> None:
    (tmp_path / "q.txt").write_text(text)
    with pytest.raises(DataError):
        evaluate_analogy(capitals()[0], tmp_path / "q.txt")


@given(st.binary(max_size=200))
def test_any_bytes_give_a_score_or_one_sentence(tmp_path_factory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "f.txt"
    path.write_bytes(data)
    for evaluate in (evaluate_similarity, evaluate_analogy):
        try:
            evaluate(fan(), path)
        except Any2VecError as error:
            assert str(error)


def test_gensim_scores_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    words = [f"w{i}" for i in range(150)]
    vectors = rng.standard_normal((150, 12))
    vectors[75:] = vectors[:75] + rng.standard_normal(12) + 0.7 * rng.standard_normal((75, 12))  # some analogies hold
    embeddings = Embeddings(words, vectors)
    pairs = rng.integers(0, 160, (300, 2))
    (tmp_path / "s.tsv").write_text("".join(f"w{a}\tw{b}\t{rng.integers(0, 9)}\n" for a, b in pairs))
    drawn = rng.integers(0, 76, (200, 2))
    lines = [f"w{a} w{a + 75} w{b} w{b + 75}" for a, b in drawn if a != b]
    (tmp_path / "q.txt").write_text(": one\n" + "\n".join(lines[:100]) + "\n: gram2\n" + "\n".join(lines[100:]) + "\n")
    theirs = embeddings.to_gensim()
    (ours,) = evaluate_similarity(embeddings, tmp_path / "s.tsv").sets
    assert ours.spearman == pytest.approx(theirs.evaluate_word_pairs(str(tmp_path / "s.tsv"))[1][0], abs=1e-6)
    score, sections = theirs.evaluate_word_analogies(str(tmp_path / "q.txt"), restrict_vocab=140)
    result = evaluate_analogy(embeddings, tmp_path / "q.txt", max_vocab=140)
    assert result.total.accuracy == pytest.approx(score) and 0.1 < score < 0.95
    assert [s.correct for s in result.sections] == [len(section["correct"]) for section in sections[:2]]


# ---- the real files


@pytest.mark.data
def test_counts_of_the_real_files() -> None:
    folder = data_folder("wordeval")
    words = {w for line in (folder / "questions-words.txt").read_text().splitlines() for w in line.lower().split()}
    keys = sorted(words)
    embeddings = Embeddings(keys, np.random.default_rng(0).standard_normal((len(keys), 10)))
    result = evaluate_analogy(embeddings, folder / "questions-words.txt")
    assert result.total.questions == result.total.covered == 19544
    assert len(result.sections) == 14 and result.semantic.questions == 8869 and result.syntactic.questions == 10675
    sets = {one.name: one.pairs for one in evaluate_similarity(embeddings, folder).sets}
    assert sets == {
        "EN-MEN-TR-3k": 3000,
        "EN-MTurk-771": 771,
        "EN-RG-65": 65,
        "EN-RW-STANFORD": 2034,
        "EN-SIMLEX-999": 999,
        "EN-WS-353-ALL": 353,
        "EN-WS-353-REL": 252,
        "EN-WS-353-SIM": 203,
    }


@pytest.mark.data
def test_all_queries_against_30000_rows_are_scored_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many products of matrices as blocks of 8 million scores: no loop over questions."""
    blocks: list[int] = []
    put = np.put_along_axis

    def counted(scores_QV: np.ndarray, *arguments: Any, **options: Any) -> None:
        blocks.append(len(scores_QV))
        put(scores_QV, *arguments, **options)

    monkeypatch.setattr(np, "put_along_axis", counted)
    folder = data_folder("wordeval")
    words = {w for line in (folder / "questions-words.txt").read_text().splitlines() for w in line.lower().split()}
    keys = sorted(words) + [f"filler{i}" for i in range(30_000 - len(words))]
    embeddings = Embeddings(keys, np.random.default_rng(0).standard_normal((30_000, 100)))
    assert evaluate_analogy(embeddings, folder / "questions-words.txt").total.covered == 19544
    assert sum(blocks) == 19544 and set(blocks[:-1]) == {8_000_000 // 30_000}

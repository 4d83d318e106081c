"""Scores that a run folder keeps: one of each test, the newest; and names that tell tests apart."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from any2vec.data.io import kept_scores
from any2vec.data.io.kept_scores import keep_scores, told_apart
from any2vec.report.compare import compare_runs
from any2vec.report.scores import headlines


def links(score: str, auc: float, data: str = "split/test.tsv") -> dict[str, Any]:
    return {"task": "links", "data": data, "score": score, "auc": auc}


def folder(place: Path, *found: dict[str, Any]) -> Path:
    """A run folder, whose scores came one after the other."""
    place.mkdir()
    (place / "run.json").write_text("{}")
    for one in found:
        keep_scores(place, [one])
    return place


def kept(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "evaluation.jsonl").read_text().splitlines()]


def test_names_that_are_no_utf8_are_kept(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    for data in ("p\udcff.tsv", "line\u2028s.tsv", "p\udcff.tsv"):
        keep_scores(tmp_path, [{"task": "similarity", "data": data, "spearman": 0.5}])
    kept = [json.loads(line)["data"] for line in (tmp_path / "evaluation.jsonl").read_text().split("\n") if line]
    assert kept == ["line\u2028s.tsv", "p\udcff.tsv"]


def test_the_newer_score_of_a_test_stays_and_is_the_last(tmp_path: Path) -> None:
    run = folder(tmp_path / "run", links("dot", 0.5), links("cosine", 0.9), links("dot", 0.6))
    assert kept(run) == [links("cosine", 0.9), links("dot", 0.6)]


def test_who_keeps_scores_at_the_same_time_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, replace = folder(tmp_path / "run"), kept_scores.atomic_file

    @contextmanager
    def slowly(path: Path) -> Iterator[Path]:
        time.sleep(0.05)  # in which the others would read what is not replaced yet
        with replace(path) as temporary:
            yield temporary

    monkeypatch.setattr(kept_scores, "atomic_file", slowly)
    threads = [threading.Thread(target=keep_scores, args=(run, [links("dot", 0.5, str(at))])) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert {one["data"] for one in kept(run)} == {str(at) for at in range(8)}


def test_other_vectors_and_folders_that_cannot_be_written_keep_none(tmp_path: Path) -> None:
    keep_scores(tmp_path, [links("dot", 0.5)])
    assert not list(tmp_path.iterdir())
    run = folder(tmp_path / "run")
    (run / "evaluation.jsonl").mkdir()
    keep_scores(run, [links("dot", 0.5)])
    assert not list((run / "evaluation.jsonl").iterdir())


def test_different_tests_have_different_rows_whatever_their_order(tmp_path: Path) -> None:
    one = folder(tmp_path / "one", links("dot", 0.6), links("cosine", 0.9))
    other = folder(tmp_path / "other", links("cosine", 0.8), links("dot", 0.5))
    found = compare_runs([one, other]).scores
    assert found == {"links test.tsv dot auc": [0.6, 0.5], "links test.tsv cosine auc": [0.9, 0.8]}
    third = folder(tmp_path / "third", links("cosine", 0.7))
    only = folder(tmp_path / "only", links("dot", 0.4))
    assert compare_runs([third, only]).scores == {
        "links test.tsv cosine auc": [0.7, None], "links test.tsv dot auc": [None, 0.4],
    }  # fmt: skip


def test_data_of_one_name_have_rows_of_their_own(tmp_path: Path) -> None:
    runs = [
        folder(tmp_path / name, {"task": "triples", "data": f"/sets/{name}/test.tsv", "mrr": mrr})
        for name, mrr in (("fb", 0.3), ("wn", 0.9))
    ]
    assert compare_runs(runs).scores == {
        "triples fb/test.tsv mrr": [0.3, None], "triples wn/test.tsv mrr": [None, 0.9],
    }  # fmt: skip


def test_names_are_short_where_they_can_be() -> None:
    listed = [{"task": "clicks", "data": data} for data in ("a/x.csv, a/y.csv", "a/y.csv", "b/y.csv", "z.csv")]
    assert told_apart(listed) == ["x.csv, y.csv", "a/y.csv", "b/y.csv", "z.csv"]
    ranked = [{"task": "recommend", "data": "t.tsv", "k": k} for k in (10, 20)]
    assert told_apart(ranked) == ["t.tsv k 10", "t.tsv k 20"] and told_apart(ranked[:1]) == ["t.tsv"]


def test_figures_of_a_report_are_told_apart() -> None:
    found = headlines({}, [links("dot", 0.6), links("cosine", 0.9)])
    assert found == [("AUC, test.tsv dot", "0.600"), ("AUC, test.tsv cosine", "0.900")]


def test_what_is_left_out_of_the_ranking_makes_another_test(tmp_path: Path) -> None:
    def ranked(exclude: str | None, ndcg: float) -> dict[str, Any]:
        about = {} if exclude is None else {"exclude": exclude}
        return {"task": "recommend", "data": "likes.tsv", "ndcg": ndcg} | about

    run = folder(tmp_path / "run", ranked(None, 0.8), ranked("likes.tsv", 0.1), ranked("other.tsv", 0.2))
    assert [one["ndcg"] for one in kept(run)] == [0.8, 0.1, 0.2]
    assert told_apart(kept(run)) == ["likes.tsv", "likes.tsv exclude likes.tsv", "likes.tsv exclude other.tsv"]

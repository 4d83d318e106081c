"""Runs side by side: what differs, what was measured, on the terminal, as JSON, as a page."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import any2vec
from any2vec.errors import StorageError
from any2vec.report import figures, write_report
from any2vec.report.compare import compare_runs, write_comparison
from any2vec.testing.planted_triples import PlantedTriples
from cli_runs import done, refused

ROWS = [(f"e{h}", f"r{r}", f"e{t}") for h, r, t in PlantedTriples(entities=50, group=10).triples(0, 600).tolist()]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    for name, dim, seed in (("small", 4, 1), ("large", 8, 1)):
        any2vec.fit(
            any2vec.DistMult(dim=dim, batch_size=100), ROWS[:500], epochs=4, threads=1, seed=seed,
            validate=ROWS[500:], out=folder / name,
        )  # fmt: skip
    (folder / "small" / "evaluation.jsonl").write_text('{"task": "triples", "data": "/x/test.tsv", "mrr": 0.25}\n')
    return [folder / "small", folder / "large"]


def test_what_differs_and_what_was_measured(runs: list[Path]) -> None:
    found = compare_runs(runs)
    assert found.runs == ["small", "large"] and found.settings == {"dim": [4, 8]}
    summaries = [json.loads((run / "run.json").read_text())["summary"] for run in runs]
    assert found.figures["loss"] == [one["loss"] for one in summaries]
    best = [one["validation"][one["best_epoch"] - 1]["mrr"] for one in summaries]
    assert found.scores["validation mrr"] == best
    assert found.scores["triples test.tsv mrr"] == [0.25, None]
    points = found.curves["validation mrr by epoch"]["large"]
    assert points == [(one["epoch"], one["mrr"]) for one in summaries[1]["validation"]]
    assert {len(lines) for lines in found.curves.values()} == {2}


def test_how_runs_were_trained_is_a_setting(runs: list[Path], tmp_path: Path) -> None:
    for name, how in (("one", {}), ("four", {"hosts": 4, "sync": "spectral", "rounds_per_epoch": 6})):
        shutil.copytree(runs[0], tmp_path / name)
        about = json.loads((tmp_path / name / "run.json").read_text())
        about["summary"] |= how
        (tmp_path / name / "run.json").write_text(json.dumps(about))
    found = compare_runs([tmp_path / "one", tmp_path / "four"]).settings
    assert found == {"hosts": [None, 4], "sync": [None, "spectral"], "rounds_per_epoch": [None, 6]}


def test_other_data_are_a_difference(runs: list[Path], tmp_path: Path) -> None:
    any2vec.fit(any2vec.DistMult(dim=4, batch_size=100), ROWS[1:], epochs=1, threads=1, seed=1, out=tmp_path / "other")
    first, other = compare_runs([runs[0], tmp_path / "other"]).settings["data.digest"]
    assert first != other


def test_tests_of_runs_stand_side_by_side(runs: list[Path], tmp_path: Path) -> None:
    for name, share in (("a", 0.5), ("b", 0.75)):
        shutil.copytree(runs[0], tmp_path / name)
        about = json.loads((tmp_path / name / "run.json").read_text())
        about["summary"]["test_accuracy"] = share
        (tmp_path / name / "run.json").write_text(json.dumps(about))
        nodes = {"task": "nodes", "data": "y.tsv", "scores": [{"micro_f1": 0.1}, {"micro_f1": share, "macro_f1": 0.2}]}
        (tmp_path / name / "evaluation.jsonl").write_text(json.dumps(nodes) + "\n")
    found = compare_runs([tmp_path / "a", tmp_path / "b"])
    assert found.scores["accuracy, test nodes"] == found.scores["nodes y.tsv micro_f1"] == [0.5, 0.75]


def test_names_of_runs_and_of_data_stand_as_they_are(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["_old", "dim_64_bytes"]
    for name in names:
        shutil.copytree(runs[0], tmp_path / name)
        score = {"task": "nodes", "data": "a_bytes bytes.tsv", "log_loss": 0.25}
        (tmp_path / name / "evaluation.jsonl").write_text(json.dumps(score) + "\n")
    found = compare_runs([tmp_path / name for name in names])
    text = write_comparison(found, tmp_path / "page.html").read_text()
    assert "<th>_old</th><th>dim_64_bytes</th>" in text
    assert "<td>nodes a_bytes bytes.tsv log loss</td><td>0.25</td><td>0.25</td>" in text
    said = done("compare", *(str(tmp_path / name) for name in names))
    assert re.search(r"a_bytes bytes.tsv log loss +0\.2500 +0\.2500", said)
    drawn: list[Any] = []
    monkeypatch.setattr(figures, "_png", lambda figure: (drawn.append(figure), b"")[-1])
    figures.draw_runs(list(found.curves.items()), figures.LIGHT)
    assert [text.get_text() for text in drawn[0].axes[0].get_legend().get_texts()] == names


def test_the_command(runs: list[Path], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    names = [str(run) for run in runs]
    said = done("compare", *names, "--out", str(page))
    assert "Settings that differ" in said and "small" in said and "validation MRR" in said
    assert re.search(r"peak memory with mapped files +[\d.,]+ [MG]B +[\d.,]+ [MG]B", said)
    text = page.read_text()
    assert text.count("<img") == 1 and "validation MRR" in text and "http://" not in text and "https://" not in text
    assert json.loads(done("compare", *names, "--json"))["settings"] == {"dim": [4, 8]}
    done("compare", *names, "--out", str(page))
    page.write_text("mine")
    assert "is not of a report" in refused("compare", *names, "--out", str(page))
    assert page.read_text() == "mine"


def test_what_cannot_be_compared_is_refused(runs: list[Path], tmp_path: Path) -> None:
    assert "Give 2 to 24 run folders" in refused("compare", str(runs[0]))
    assert "named twice" in refused("compare", str(runs[0]), str(runs[0]))
    assert "is not a folder that" in refused("compare", str(runs[0]), str(tmp_path))


def test_runs_of_one_name_are_told_apart_and_one_under_way_has_its_last_record(
    runs: list[Path], tmp_path: Path
) -> None:
    under_way = tmp_path / "other" / "small"
    under_way.mkdir(parents=True)
    about = json.loads((runs[0] / "run.json").read_text())
    (under_way / "run.json").write_text(json.dumps({"settings": about["settings"]}))
    (under_way / "progress.jsonl").write_text('{"epoch": 0, "loss": 2.5, "items": 7, "seconds": 1}\n{"epoch"')
    found = compare_runs([runs[0], under_way])
    assert found.runs[1] == "other/small" and found.figures["loss"][1] == 2.5
    assert found.settings == {"threads": [1, None]}  # it says so when it ends


def test_small_settings_are_told_apart(runs: list[Path], tmp_path: Path) -> None:
    for name, subsample in (("a", 1e-5), ("b", 3e-5)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(json.dumps({"settings": {"model": {"subsample": subsample}}}))
    said = done("compare", str(tmp_path / "a"), str(tmp_path / "b"))
    assert "1e-05" in said and "3e-05" in said


def test_a_stream_without_news_says_nothing_of_its_speed(runs: list[Path], tmp_path: Path) -> None:
    summary = {"words": 9, "words_per_s": 0.0, "loss": 2.5}
    (tmp_path / "stream.json").write_text(json.dumps({"settings": {}, "summary": summary}))
    figures = compare_runs([runs[0], tmp_path]).figures
    assert "words_per_s" not in figures and figures["words"][1] == 9 and figures["items_per_s"][1] is None


def test_the_speed_of_a_stream_is_that_of_all_its_processes(runs: list[Path], tmp_path: Path) -> None:
    summary = {"words": 900, "words_per_s": 5.0, "train_seconds": 3.0}
    (tmp_path / "stream.json").write_text(json.dumps({"settings": {}, "summary": summary}))
    assert compare_runs([runs[0], tmp_path]).figures["words_per_s"][1] == 300.0


def test_pictures_beside_the_page_of_a_comparison_are_not_of_a_report(runs: list[Path], tmp_path: Path) -> None:
    page, mine = tmp_path / "page.html", tmp_path / "page-curves.png"
    mine.write_text("mine")
    write_comparison(compare_runs(runs), page)
    for name in ("page-curves.png", "page-stages.png"):  # one that a report would replace, one that it would remove
        mine = mine.replace(tmp_path / name)
        with pytest.raises(StorageError, match=f"{name} exists and is not of a report"):
            write_report(runs[0], page)
        assert mine.read_text() == "mine"
    mine.unlink()
    write_report(runs[0], page)
    write_report(runs[0], page)

"""Verdicts, rendering and history of the benchmarks, on planted numbers."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks import bench as workbench
from benchmarks import kept, pages, results, run, source_code
from benchmarks.bench import Bench
from benchmarks.clicks import curves as clicks_curves
from benchmarks.hosts import curves
from benchmarks.source_file import SourceFile, source_file
from benchmarks.streams import pip
from benchmarks.table import (
    Measure,
    NotMeasuredError,
    Reading,
    Row,
    RowError,
    Table,
    exit_code,
    failed,
    figures,
    markdown,
    missing,
    plain,
    quality_readings,
    ratio_reading,
    standard_error,
)
from benchmarks.tuning import best_from_zero, best_inside
from benchmarks.versions import table as versions
from benchmarks.versions.size import code_lines
from benchmarks.words import halves
from benchmarks.words.memory import write_planted
from benchmarks.words.roofline import count_work

from any2vec.errors import InputError

SPEED = Measure(name="words/s over gensim", relation=">=", target=8, unit="x")
MEMORY = Measure(name="peak over gensim's", relation="<=", target=1.25, unit="x")


def row_of(*measures: Measure, readings: tuple[Reading, ...] = ()) -> Row:
    return Row(name="planted", measures=measures, run=lambda bench: list(readings), minutes=1)


@pytest.mark.parametrize(
    ("measure", "value", "expected"),
    [
        (SPEED, 8.0, "pass"),
        (SPEED, 7.99, "short"),
        (SPEED, math.nan, "short"),
        (MEMORY, 1.25, "pass"),
        (MEMORY, 1.26, "short"),
        (MEMORY, math.inf, "short"),
        (Measure(name="share", relation="", wording="reported"), 0.1, "reported"),
        (Measure(name="share", relation="", wording="reported"), math.nan, "short"),
    ],
)
def test_verdict_compares_with_the_target(measure: Measure, value: float, expected: str) -> None:
    (line,) = figures(row_of(measure), [Reading(value=value, text="x")])
    assert line.verdict == expected
    assert exit_code([line]) == (1 if expected == "short" else 0)


@pytest.mark.parametrize(
    ("measure", "value", "interval", "expected"),
    [
        (SPEED, 9.0, (8.5, 9.5), "pass"),
        (SPEED, 9.0, (7.5, 9.5), "not resolved"),
        (SPEED, 7.0, (6.0, 8.1), "not resolved"),
        (SPEED, 7.0, (6.0, 7.9), "short"),
        (MEMORY, 1.2, (1.1, 1.3), "not resolved"),
        (Measure(name="share", relation="", wording="reported"), 0.1, (-1.0, 1.0), "reported"),
    ],
)
def test_an_interval_that_holds_the_target_resolves_nothing(
    measure: Measure, value: float, interval: tuple[float, float], expected: str
) -> None:
    (line,) = figures(row_of(measure), [Reading(value=value, text="x", interval=interval)])
    assert line.verdict == expected
    assert exit_code([line]) == (0 if expected in ("pass", "reported") else 1)


@pytest.mark.parametrize(
    ("differences", "expected"),
    [([0.0, -0.1, 0.1], "pass"), ([-0.4, -0.6, -0.2], "not resolved"), ([-0.8, -0.9, -0.85], "short"),
     ([0.5, 0.6], "not resolved")],
)  # fmt: skip
def test_accuracy_is_judged_by_three_seeds_and_two_standard_errors(differences: list[float], expected: str) -> None:
    accuracy = Measure(name="points", relation=">=", target=-0.5, is_accuracy=True)
    (line,) = figures(row_of(accuracy), [Reading.of_seeds(differences, "x")])
    assert line.verdict == expected
    assert f"{len(differences)} seeds" in line.figure


@pytest.mark.parametrize(
    ("differences", "expected"),
    [([0.1, -0.1, 0.05], "pass"), ([0.3, 0.5, 0.4], "not resolved"), ([-0.3, -0.5, -0.4], "not resolved"),
     ([0.8, 0.9, 0.85], "short"), ([-0.8, -0.9, -0.85], "short"), ([0.0, 0.0], "not resolved")],
)  # fmt: skip
def test_what_must_be_near_is_judged_to_both_sides(differences: list[float], expected: str) -> None:
    near = Measure(name="points", relation="<=", target=0.5, is_accuracy=True)
    (line,) = figures(row_of(near), [Reading.within(differences, "x")])
    assert line.verdict == expected


def test_a_grid_grows_until_its_best_is_inside() -> None:
    asked: list[float] = []

    def score(rate: float) -> float:
        asked.append(rate)
        return -abs(rate - 8)

    best, scores = best_inside([0.5, 1], score)
    assert (best, asked) == (8, [0.5, 1, 2, 4, 8, 16, 5.7, 11]) and scores[16] == -8
    assert best_inside([1, 4, 16], lambda rate: -abs(rate - 7.5))[0] == 8
    assert best_inside([4, 16], lambda rate: -abs(rate - 4))[0] == 4
    with pytest.raises(RowError, match="edge of its grid, 1, 2, 4"):
        best_inside([1, 2], lambda rate: rate)


@pytest.mark.parametrize(
    ("score", "best"),
    [
        (lambda value: -value, 0.0),
        (lambda value: -abs(value - 0.0036), 0.0036),
        (lambda value: -abs(math.log(value / 0.16)) if value else -99, 0.16),
    ],
)
def test_a_setting_that_may_be_zero_is_chosen_between_zero_and_the_upper_edge(
    score: Callable[[float], float], best: float
) -> None:
    assert best_from_zero((0.01, 0.02, 0.04), score)[0] == pytest.approx(best, rel=0.3)


def test_a_setting_that_may_be_zero_does_not_lie_on_the_upper_edge() -> None:
    with pytest.raises(RowError, match="edge of its grid"):
        best_from_zero((0.01, 0.02, 0.04), lambda value: value)


def test_runs_of_the_same_code_are_judged_by_their_median(tmp_path: Path) -> None:
    """Of an even number the one nearer to falling short; what other code gave does not count."""
    table = Table(name="t", title="", rows=(row_of(SPEED),))
    history = []
    for value, code in ((1.0, "other"), (9.0, "same"), (7.5, "same"), (10.0, "same"), (8.5, "same")):
        lines = figures(row_of(SPEED), [Reading(value=value, text=f"{value}×")])
        history.append(results.entry(lines, {}, 1.0, 0.1, code={"src/any2vec/gone.py": code}))

    def shown(count: int) -> tuple[str, str]:
        (line,) = results.latest(table, {"rows": {"planted": history[:count]}})
        return line.figure, line.verdict.removesuffix(" †")

    assert shown(1) == ("1.0×", "short")
    assert shown(2) == ("9.0×", "pass")
    assert shown(3) == ("7.5×; median of 2 runs", "short")
    assert shown(4) == ("9.0×; median of 3 runs", "pass")
    assert shown(5) == ("8.5×; median of 4 runs", "pass")


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ([0.96, 0.97, 0.98], "pass"),
        ([0.951, 0.955, 0.96, 0.96, 0.965, 0.97, 0.99, 1.01, 1.02], "pass"),
        ([0.90, 0.93, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99, 1.02], "not resolved"),
        ([0.90, 0.91, 0.92, 0.93, 0.94, 0.95, 0.955, 0.96, 0.98], "short"),
    ],
)
def test_a_version_is_no_slower_by_its_median_or_by_an_interval_that_holds_1(
    ratios: list[float], expected: str
) -> None:
    (line,) = figures(row_of(versions.CASES[0].row().measures[0]), [versions.ratio(ratios)])
    assert line.verdict == expected


def test_the_interval_of_a_median_of_nine_leaves_out_one_at_each_side() -> None:
    """2 / 512 + 18 / 512 = 3.9 % lie outside; three values hold it with 75 % at most, so all of them are named."""
    assert versions.interval([9, 1, 8, 2, 7, 3, 6, 4, 5]) == (2, 8)
    assert versions.interval([3, 1, 2]) == (1, 3)


def test_every_measure_needs_a_reading() -> None:
    with pytest.raises(ValueError, match="zip"):
        figures(row_of(SPEED, MEMORY), [Reading(value=9, text="9")])


def test_quick_lines_are_not_judged_and_missing_ones_fail() -> None:
    quick = figures(row_of(SPEED), [Reading(value=0.1, text="0.1×")], quick=True)
    assert [line.verdict for line in quick] == ["quick"]
    assert exit_code(quick) == 0
    absent = missing(row_of(SPEED, MEMORY), "pip could not\n make it")
    assert [line.verdict for line in absent] == ["not measured: pip could not make it"] * 2
    assert exit_code(quick + absent) == 1
    assert exit_code([]) == 1


def test_ratio_is_the_median_of_pairs() -> None:
    reading = ratio_reading([30.0, 10.0, 80.0], [10.0, 10.0, 10.0], "words/s")
    assert reading.value == 3.0
    assert "(1–8, 3 pairs)" in reading.text


def test_quality_targets_follow_the_rule() -> None:
    ours = {"a": [50.0, 50.0, 50.0], "b": [60.0, 60.0, 60.0]}
    theirs = {"a": [50.4, 50.4, 50.4], "b": [59.0, 61.0, 63.0]}
    mean, a, b = quality_readings(ours, theirs, ["a", "b"])
    assert mean.value == 55.0
    assert mean.target == pytest.approx((50.4 + 61) / 2 - 0.3)
    assert a.target == pytest.approx(50.4 - 0.5)  # no spread: half a point
    error = math.sqrt(4 / 3)  # variance 4 over 3 seeds, ours has none
    assert standard_error(ours["b"], theirs["b"]) == pytest.approx(error)
    assert b.target == pytest.approx(61 - 2 * error)
    row = row_of(*(Measure(name=name, relation=">=", wording="rule") for name in ("mean", "a", "b")))
    assert mean.interval == pytest.approx((55 - 2 * math.sqrt(1 / 3), 55 + 2 * math.sqrt(1 / 3)))  # it holds 55.4
    assert [line.verdict for line in figures(row, [mean, a, b])] == ["not resolved", "pass", "pass"]


def test_tables_show_every_line() -> None:
    lines = figures(row_of(SPEED, MEMORY), [Reading(value=9, text="9×"), Reading(value=2, text="2×|3×")])
    text = plain(lines)
    assert text.splitlines()[0].split() == ["row", "measure", "target", "settings", "figure", "verdict"]
    assert "≥ 8×" in text and "≤ 1.25×" in text
    marked = markdown(lines, ["Measured here."]).splitlines()
    assert marked[2] == "| planted | words/s over gensim | ≥ 8× | as named | 9× | pass |"
    assert "2×\\|3×" in marked[3]
    assert marked[-1] == "Measured here."


def test_the_order_of_pip() -> None:
    scaled = {"optimum": 0.9, "trained": 0.95, "zero": 1.0}
    sides = {name: pip.Judged(2 * value, value, {}) for name, value in scaled.items()}
    order, as_is = pip._orders(sides)
    assert order.value == 1.0 and as_is.value == 1.9 and "optimum 1.8" in as_is.text
    sides["zero"] = pip.Judged(1.0, 0.94, {})
    assert pip._orders(sides)[0].value == 0.0


def test_history_merges_by_row(tmp_path: Path) -> None:
    table = Table(
        name="planted", title="", rows=(row_of(SPEED), Row(name="b", measures=(MEMORY,), run=list, minutes=1))
    )
    good, better = (figures(table.rows[0], [Reading(value=value, text=f"{value}×")]) for value in (9, 10))
    stored = results.load("planted", tmp_path)
    for lines in (good, better):
        stored = results.merged(stored, {"planted": results.entry(lines, {"raw": [1.0]}, 3.0, 0.1)})
        results.save("planted", stored, tmp_path)
    stored = results.load("planted", tmp_path)
    assert len(stored["rows"]["planted"]) == 2
    shown = results.latest(table, stored)
    assert [line.figure for line in shown] == ["10×", "–"]
    assert shown[1].verdict == "not measured: not yet run"
    sentence, older = results.provenance(table, stored)
    assert older.startswith("† ") and older.endswith("code not known).")
    assert sentence.endswith(": planted.")
    assert str(Path.home()) not in (tmp_path / "planted.json").read_text()


def test_figures_of_a_row_that_measured_something_else_are_not_shown(tmp_path: Path) -> None:
    before, now = row_of(SPEED), row_of(SPEED, MEMORY)
    lines = figures(before, [Reading(value=9, text="9×")])
    stored = results.merged(
        results.load("planted", tmp_path), {"planted": results.entry(lines, {"raw": [1.0]}, 3.0, 0.1)}
    )
    table = Table(name="planted", title="", rows=(now,))
    assert [line.verdict for line in results.latest(table, stored)] == ["not measured: not yet run"] * 2
    assert not results.provenance(table, stored)


def raising(error: Exception) -> Callable[[Bench], list[Reading]]:
    """What a row runs that ends with an error."""

    def ends(bench: Bench) -> list[Reading]:
        raise error

    return ends


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (NotMeasuredError("no peer"), "not measured: no peer"),
        (RowError("peer.py ended with code 1: TypeError"), "failed: peer.py ended with code 1: TypeError"),
        (KeyError("steps"), "failed: KeyError: 'steps'"),
        (InputError("METIS is missing: pip install it"), "not measured: METIS is missing: pip install it"),
        (ImportError("No module named 'torch'"), "not measured: No module named 'torch'"),
        (ImportError("No module named 'any2vec.gone'"), "failed: ImportError: No module named 'any2vec.gone'"),
    ],
)
def test_a_row_without_figures_says_why(error: Exception, verdict: str) -> None:
    lines, entry = run.measure(Row(name="x", measures=(SPEED,), run=raising(error), minutes=1), Bench(quick=True))
    assert [line.verdict for line in lines] == [verdict]
    assert entry["figures"][0]["verdict"] == verdict


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs a table `words-and-graphs` of one row that reads 9x or ends with an error; results go into a folder."""
    results_of = {name: functools.partial(getattr(results, name), folder=tmp_path) for name in ("load", "save")}
    for name, function in results_of.items():
        monkeypatch.setattr(results, name, function)
    monkeypatch.setattr(results, "commit", lambda: "0" * 40)
    monkeypatch.setattr(pages, "CHOICE", {"words-and-graphs": [("words-and-graphs", "planted", 0)]})

    def command(error: Exception | None, *options: str) -> int:
        row = row_of(SPEED, readings=(Reading(value=9, text="9×"),))
        if error is not None:
            row = dataclasses.replace(row, run=raising(error))
        table = Table(name="words-and-graphs", title="", rows=(row,))
        monkeypatch.setattr("benchmarks.words.table.TABLE", table)
        return run.main(["words-and-graphs", *options])

    return command


PAGE = "\n".join(
    f"<!-- {kind} words-and-graphs: begin -->\n<!-- {kind} words-and-graphs: end -->" for kind in ("figures", "choice")
)


def test_pages_show_a_failure_in_place_of_older_figures(planted: Callable[..., int]) -> None:
    assert planted(None) == 0
    assert pages.filled(PAGE).count("9×") == 2
    assert planted(RowError("peer.py ended with code 1")) == 1
    text = pages.filled(PAGE)
    (entry,) = results.load("words-and-graphs")["rows"]["planted"][1:]
    shown = f"| – | failed: peer.py ended with code 1 ({entry['date'][:10]}, commit {entry['commit'][:10]}"
    assert text.count(shown) == 2 and "9×" not in text and "Measured at" not in text
    assert planted(None, "--show") == 1
    assert planted(None) == 0
    assert pages.filled(PAGE).count("9×") == 2 and "failed" not in pages.filled(PAGE)


def test_what_a_machine_lacks_leaves_figures_as_they_are(planted: Callable[..., int]) -> None:
    assert planted(NotMeasuredError("no peer")) == 1
    assert pages.filled(PAGE).count("not measured: no peer") == 2
    assert planted(None) == 0
    assert planted(NotMeasuredError("no peer")) == 1
    assert pages.filled(PAGE).count("9×") == 2
    assert planted(RowError("broken")) == planted(NotMeasuredError("no peer")) == 1
    assert pages.filled(PAGE).count("failed: broken") == 2


@pytest.mark.parametrize("size", ["--quick", "--tiny"])
def test_small_runs_write_nothing(size: str, planted: Callable[..., int], tmp_path: Path) -> None:
    assert planted(None, size) == 0
    assert planted(RowError("broken"), size) == 1
    assert not list(tmp_path.iterdir())


def test_pictures_are_not_drawn_of_a_failure(planted: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((curves, "early-epochs"), (clicks_curves, "shadow-quality")):
        entry = results.entry(failed(row_of(SPEED), "broken"), {}, 1.0, 0.1)
        monkeypatch.setattr(module, "load", lambda table, name=name, entry=entry: {"rows": {name: [entry]}})
        with pytest.raises(SystemExit, match=f"--row {name}"):
            module.main(["anywhere"])


def test_kept_runs_keep_the_commit_at_which_they_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "commit", lambda: "first")
    bench = Bench(folder=tmp_path)
    assert bench.kept("a", ["asked"], lambda: {"score": 1}) == {"score": 1}
    monkeypatch.setattr(results, "commit", lambda: "second")

    def reads(*names: str) -> dict[str, object]:
        row = Row(
            name="kept", measures=(SPEED,), minutes=1, keeps_runs=True,
            run=lambda bench: [Reading(value=bench.kept(name, ["asked"], dict)["score"], text="") for name in names],
        )  # fmt: skip
        return run.measure(row, bench)[1]

    assert (reads("a")["commit"], reads("a")["ran_at"]) == ("second", ["first"])
    assert reads("a")["ran_on"] == [results.machine()["cpu"]]
    table = Table(name="t", title="", rows=(dataclasses.replace(row_of(SPEED), name="kept", keeps_runs=True),))

    def sentence(entry: dict[str, object]) -> str:
        return results.provenance(table, {"rows": {"kept": [entry]}})[0]

    assert sentence(reads("a")).startswith("Measured at commit first (read at second), ")
    older = {name: value for name, value in reads("a").items() if name != "ran_at"}
    assert sentence(older).startswith("Measured at an unknown commit (read at second), ")


def test_a_kept_run_runs_again_when_its_code_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    bench = Bench(folder=tmp_path)

    def score(request: str) -> object:
        return bench.kept("run", [request], lambda: asked.append(request) or {"score": len(asked)})["score"]

    assert [score(request) for request in ("a", "b", "a")] == [1, 2, 1]
    file = next(path for path in tmp_path.glob("run-*.json") if json.loads(path.read_text())["request"] == ["a"])
    stored = json.loads(file.read_text())
    file.write_text(json.dumps(stored | {"code": dict.fromkeys(stored["code"], "other")}))
    assert score("a") == 3 and score("b") == 2


def test_kept_runs_that_are_committed_serve_another_machine(tmp_path: Path) -> None:
    """Their folder stands in the repository, and names no folder of the machine that made them."""
    first, second = (Bench(folder=tmp_path / name, keep=tmp_path / "kept") for name in ("first", "second"))
    assert first.kept("run", "asked", lambda: {"score": 1, "out": str(tmp_path / "x")})["score"] == 1
    assert second.kept("run", "asked", dict) == {"score": 1, "out": "x"}
    (file,) = (tmp_path / "kept").iterdir()
    assert str(tmp_path) not in file.read_text() and not list((tmp_path / "first").iterdir())
    for flags, keep in (((), results.RESULTS / "kept"), (("--quick",), None)):
        with run._bench(run._parser().parse_args(["clicks", *flags])) as bench:
            assert bench.keep == keep


def test_a_kept_run_stands_where_it_goes_as_it_went(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code has changed, so it is begun again: only where it goes otherwise it is made anew."""
    code = {"any.py": "before"}
    monkeypatch.setattr(kept, "changed_since", lambda known: [name for name in known if known[name] != code[name]])
    monkeypatch.setattr(Bench, "_code", lambda self, ran: {})
    monkeypatch.setattr(results, "commit", lambda: code["any.py"] * 8)
    made = []

    def score(goes: bool) -> dict[str, Any]:
        def make() -> dict[str, Any]:
            made.append(len(made))
            return {"score": len(made)}

        with bench.row():
            run_ = bench.kept("run", 1, make, lambda before: goes and before == {"score": len(made)})
        (file,) = tmp_path.glob("run-*.json")
        file.write_text(json.dumps(json.loads(file.read_text()) | {"code": dict(code)}))
        return run_

    bench = Bench(folder=tmp_path)
    assert score(True) == score(False) == {"score": 1} and not bench.confirmed
    code["any.py"] = "after"
    assert score(True) == {"score": 1} and bench.confirmed == {"after" * 8} and bench.commits == {"before" * 8}
    assert score(False) == {"score": 1} and bench.confirmed == {"after" * 8}
    (file,) = tmp_path.glob("run-*.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | {"code": {}}))
    assert score(True) == {"score": 2} and not bench.confirmed, "whose code nobody knows is made anew"
    code["any.py"] = "later"
    assert score(False) == {"score": 3} and not bench.confirmed and bench.commits == {"later" * 8}


def test_jobs_run_side_by_side_and_answer_in_order(tmp_path: Path) -> None:
    together = threading.Barrier(3, timeout=60)

    def make(number: int) -> dict[str, Any]:
        together.wait()  # no run ends before three have begun
        return {"number": number, "commit": "its own"}

    bench = Bench(folder=tmp_path, jobs=3)
    found = bench.each(lambda number: bench.kept("run", number, lambda: make(number)), range(3))
    assert found == [{"number": number, "commit": "its own"} for number in range(3)]
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json"] * 3
    assert bench.each(str, []) == []


def test_a_kept_run_counts_only_where_its_code_stayed_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbench, "ROOT", tmp_path)
    monkeypatch.setattr(workbench, "code_of", lambda paths: {"edited.py": "hash"})

    def make() -> dict[str, Any]:
        (tmp_path / "edited.py").touch()
        return {}

    with pytest.raises(RowError, match="changed while it ran"):
        Bench(folder=tmp_path / "bench").kept("run", 1, make)
    assert not list((tmp_path / "bench").iterdir())


def test_results_name_no_folder_and_no_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.node", lambda: "box-7")
    out = tmp_path / "runs" / "out" / "vectors"
    reported = {
        "out": str(out),
        str(out): [f"“{out}” on box-7 at https://a.example/b/c, 3/4 of /proc/self/status, box-71"],
    }
    results.save("planted", {"table": "planted", "rows": {"a": [{"runs": reported}]}}, tmp_path)
    (entry,) = results.load("planted", tmp_path)["rows"]["a"]
    assert entry["runs"] == {
        "out": "vectors",
        "vectors": ["“vectors” on HOST at https://a.example/b/c, 3/4 of /proc/self/status, box-71"],
    }


def test_command_lists_rows_and_rejects_unknown_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["words-and-graphs", "--list"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == [
        "skipgram-speed", "skipgram-quality", "whole-command", "cbow-speed", "cbow-quality", "encode",
        "phrases", "node2vec-job", "walks", "two-threads", "deepwalk-blogcatalog", "memory", "estimate",
        "serve", "roofline",
    ]  # fmt: skip
    assert run.main(["words-and-graphs", "--row", "nonsense"]) == 2
    assert "known are" in capsys.readouterr().err


def test_json_is_one_object(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(name="words-and-graphs", title="", rows=(row_of(SPEED, readings=(Reading(value=1, text="1×"),)),))
    monkeypatch.setattr("benchmarks.words.table.TABLE", table)
    assert run.main(["words-and-graphs", "--quick", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [line["verdict"] for line in shown["figures"]] == ["quick"]


def test_work_of_the_block_kernel_is_counted() -> None:
    # Everything is kept, window 1: one sentence of 8 words, blocks of 4 positions with 2 shared negatives.
    work = count_work([[1.0] * 8], window=1, dim=10, block=4, num_shared=2)
    assert work.positives == 3 * 10 * 14 / 8  # 7 neighboring pairs, both ways
    assert work.negatives == 3 * 10 * (5 + 5) * 2 / 8  # each block meets its 4 centers and one word beyond
    dropped = count_work([[0.0] * 8, [-1.0] * 4], window=1, dim=10, block=4, num_shared=2)
    assert dropped.total == 0


def test_planted_text_keeps_every_word(tmp_path: Path) -> None:
    write_planted(tmp_path / "text.txt", 50, 5)
    words = (tmp_path / "text.txt").read_text().split()
    uses = [words.count(f"word{row}") for row in range(50)]
    assert len(words) == 300
    assert min(uses) >= 5 and uses[0] == max(uses)


def test_each_table_has_a_page() -> None:
    assert {page.stem for page in pages.FIGURES.glob("*.md")} == {"index", *run.TABLES}
    listed = re.findall(r"^[\w-]+$", (pages.FIGURES / "index.md").read_text().split("```{toctree}")[1], re.M)
    assert sorted(listed) == sorted(run.TABLES)  # the navigation has them, too


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.name)
def test_pages_show_the_committed_figures(page: Path) -> None:
    """Nobody edits them by hand; `python benchmarks/pages.py` writes them."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^<!-- \w+ ([\w-]+): begin \(python benchmarks/pages\.py\) -->$", text, re.M)
    by_system = {*pages.CHOICE} - {"readme"}
    elsewhere = {"README.md": {"readme"}, "systems.md": by_system, "index.md": {"figures"}}
    assert {*blocks} == elsewhere.get(page.name, {page.stem})
    assert len(blocks) == len({*blocks})
    assert results.unmarked(pages.filled(text)) == results.unmarked(text)


def test_no_side_is_held_to_the_kernels_of_another_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("ANY2VEC_PLANTED", "kept")
    program = "import json, os; print(json.dumps(dict(os.environ)))"
    found = workbench.run([sys.executable, "-c", program], {"OMP_NUM_THREADS": "1"}).result
    assert "OPENBLAS_CORETYPE" not in found
    assert found["ANY2VEC_PLANTED"] == "kept" and found["OMP_NUM_THREADS"] == "1"


def test_an_entry_knows_the_code_that_its_processes_imported(tmp_path: Path) -> None:
    """That of the measured process, not of this one; the command line and reports are no part of it."""

    def reading(bench: Bench) -> list[Reading]:
        return [Reading(value=bench.any2vec("doctor").seconds, text="")]

    entry = run.measure(dataclasses.replace(row_of(SPEED), run=reading), Bench(folder=tmp_path))[1]
    assert "src/any2vec/doctor.py" in entry["code"] and not any("/cli/" in path for path in entry["code"])
    assert "benchmarks/words/roofline.py" not in entry["code"] and not results.is_stale(entry)
    assert results.is_stale(entry | {"code": entry["code"] | {"src/any2vec/doctor.py": "other"}})
    assert results.is_stale({name: value for name, value in entry.items() if name != "code"})
    assert "ANY2VEC_BENCH_TRACE" not in os.environ


def test_comments_change_no_code(tmp_path: Path) -> None:
    texts = ("x = 1\n", '"""Text."""\n# and\nx = 1  # more\n', "x = 2\n")
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.py").write_text(text)
    first, commented, other = (SourceFile(tmp_path / f"{number}.py").digest() for number in range(3))
    assert first == commented != other and source_file(tmp_path / "none.py") is None


PARTS = """
from a import b
from c import d, e as f

SIZE = 1

class Table:
    width: int = 2

    @property
    def rows(self): return b(SIZE, Size)

    def columns(self): return d()

def idle(): return f

class Unused:
    depth: int = 2

    def begin(self): pass

class Size:
    height: int = 2
"""


@pytest.mark.parametrize(
    ("old", "new", "counts"),
    [
        ("from a import b", "from other import b", True),
        ("import d, e", "import e", False),
        ("from c", "from other", False),
        ("SIZE = 1", "SIZE = 2", True),
        ("width: int = 2", "width: int = 3", True),
        ("depth: int = 2", "depth: int = 3", False),
        ("height: int = 2", "height: int = 3", True),
        ("return b(SIZE, Size)", "return b(SIZE)", True),
        ("@property\n", "@cached_property\n", True),
        ("return d()", "return d() + 1", False),
        ("def idle(): return f", "def begin(): return e", False),
        ("def columns", "def begin(self): pass\n\n    def columns", True),
        ("def columns", "def end(self): pass\n\n    def columns", False),
    ],
)
def test_code_that_ran_is_what_counts(old: str, new: str, counts: bool, tmp_path: Path) -> None:
    """Of `Table` the rows were asked for, and elsewhere something that is called `begin`."""
    found = []
    for number, text in enumerate((PARTS, PARTS.replace(old, new))):
        (tmp_path / f"{number}.py").write_text(text)
        file = SourceFile(tmp_path / f"{number}.py")
        found.append(file.digest({"Table.rows"}, {"rows", "begin"}, file.uses({"Table.rows"}, ())))
    assert PARTS.count(old) == 1 and (found[0] != found[1]) == counts


CALLS = """
import threading
from any2vec.kernels.common.rng import draw, np
from any2vec.units import size
draw(np.uint64(1), np.uint64(2))
thread = threading.Thread(target=size, args=(10,))
thread.start()
thread.join()
"""


def test_calls_are_noted_in_all_threads_and_with_what_kernels_call(tmp_path: Path) -> None:
    noted = {source_code.FUNCTIONS: "1"} | source_code.tracing(tmp_path)
    subprocess.run([sys.executable, "-c", CALLS], env=os.environ | noted, check=True, timeout=300)
    ran = source_code.traced(tmp_path)
    assert ran["src/any2vec/kernels/common/rng.py"] == {"draw", "mix64"}
    assert "size" in (ran["src/any2vec/units.py"] or ()) and not list(tmp_path.iterdir())


def test_a_row_is_as_old_as_the_functions_that_it_calls(tmp_path: Path) -> None:
    """What is measured runs as ever, kept or not; a quick run before it notes the calls."""

    def reading(bench: Bench) -> list[Reading]:
        return [Reading(value=bench.any2vec("doctor").seconds, text="")]

    def keeping(bench: Bench) -> list[Reading]:
        return [Reading(value=1, text=str(bench.kept("doctor", bench.quick, lambda: bench.any2vec("doctor").result)))]

    for read in (reading, keeping):
        entry: Any = run.measure(dataclasses.replace(row_of(SPEED), run=read), Bench(folder=tmp_path))[1]
        code = entry["code"]
        assert not source_code.changed_since(code) and not any(isinstance(known, str) for known in code.values())
        _, *names = code["src/any2vec/doctor.py"]
        assert {"diagnose", "_hardware"} <= set(names)
        assert source_code.changed_since(code | {"src/any2vec/doctor.py": ["other", *names]})


def test_files_of_rows_that_came_along_count_where_something_of_them_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {
        "benchmarks/rows.py": "from other import SIZE\nROWS = 1\ndef call(): return SIZE + ROWS\n",
        "benchmarks/other.py": "SIZE = FEW\nROWS = 2\ndef idle(): return 1\n",
        "benchmarks/few.py": "FEW = 1\n",
        "benchmarks/along.py": "ROWS = 3\ndef call(): return MUCH\nMUCH = 4\n",
        "benchmarks/peers/script.py": "print(1)\n",
        "src/any2vec/along.py": "ROWS = 3\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(source_code, "ROOT", tmp_path)
    ran: source_code.Ran = {name: {"call"} if name == "benchmarks/rows.py" else set() for name in texts}
    found = source_code.code_of(ran)
    assert sorted(found) == sorted(texts.keys() - {"benchmarks/along.py"})
    assert source_code.code_of(ran | {"benchmarks/along.py": {"call"}}).keys() == texts.keys()
    assert source_code.code_of(ran | {"benchmarks/along.py": None}).keys() == texts.keys()
    before = json.loads(json.dumps(found | {"benchmarks/along.py": ["as it was"]}))
    source_code._now.cache_clear()
    assert source_code.changed_since(before) == []


def test_lines_of_code_are_those_that_do_something(tmp_path: Path) -> None:
    text = '"""Text.\n\nMore.\n"""\n\nimport os\nfrom a import (\n    b,\n)\n\n# why\nx = (\n    1,  # one\n)\n'
    (tmp_path / "module.py").write_text(text)
    assert code_lines(tmp_path / "module.py") == 3


def test_kept_runs_keep_their_code(tmp_path: Path) -> None:
    def reading(bench: Bench) -> list[Reading]:
        return [Reading(value=bench.kept("one", [], lambda: bench.any2vec("doctor").result)["cores"] * 0, text="")]

    row = dataclasses.replace(row_of(SPEED), run=reading, keeps_runs=True)
    first, again = (run.measure(row, Bench(folder=tmp_path))[1]["code"] for _ in range(2))
    assert first == again and "src/any2vec/doctor.py" in again


def test_a_full_run_needs_a_tree_without_changes(
    planted: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(results, "commit", lambda: "0123" + results.CHANGED)
    assert planted(None) == 2 and "commit them" in capsys.readouterr().err
    assert planted(None, "--quick") == 0 and planted(None, "--show") == 1


def test_halves_of_word_sets_share_no_question_and_lose_none(tmp_path: Path) -> None:
    for name in halves.SETS:
        (tmp_path / name).write_text(f": {name}\na b 1\n\nc d 2\n: more\ne f 3\n", encoding="utf-8")
    halves.cut_sets(tmp_path, tmp_path / "cut")
    for name in halves.SETS:
        tune, judge = ((tmp_path / "cut" / half / name).read_text().splitlines() for half in halves.HALVES)
        assert tune == [f": {name}", "a b 1", ": more", "e f 3"]
        assert judge == [f": {name}", "c d 2", ": more"]

"""Rows about accuracy go on where they were cut short: each run of a side and a seed is kept by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from benchmarks import environments, source_code
from benchmarks.bench import ROOT, Bench, Done, script_of
from benchmarks.graphs.learned.runs import Asked, Graph, beside, kept_runs, of_any2vec, of_script, points
from benchmarks.graphs.table import TABLE
from benchmarks.hosts import word_runs
from benchmarks.table import RowError

from marks import needs_linux

ROW = """
import sys, time
from pathlib import Path
from benchmarks.machine import quotas
quotas._JANITOR = quotas._JANITOR.replace("rmdir", "rm -r")
folder = Path(sys.argv[1])
with quotas.control_groups({folder: {}}):
    process = quotas.subprocess.Popen(["sleep", "100"])
    (folder / "cgroup.procs").write_text(str(process.pid))
    print("runs", flush=True)
    time.sleep(100)
"""


def graph_at(folder: Path, checksum: str) -> Graph:
    folder.mkdir(exist_ok=True)
    (folder / "meta.json").write_text(json.dumps({"arrays": checksum}))
    return Graph("planted", folder)


def runs_that_note(asked: list[object], graph: Graph, failing: object = None) -> dict[str, list[Asked]]:
    """Of two sides and two seeds; one fails."""

    def run(*given: object) -> Done:
        asked.append(given)
        if given == failing:
            raise RowError("cut short")
        return Done({"test_accuracy": len(asked) / 8, "loss": 1.0}, 0.0, 0)

    bench: Any = SimpleNamespace(peer=lambda environment, *given: run(*given))
    return {side: [of_script(bench, "pyg", side, graph, seed) for seed in (1, 2)] for side in ("ours", "theirs")}


def test_a_row_that_was_cut_short_goes_on(tmp_path: Path) -> None:
    """In another folder, as on another machine; a graph with other arrays is another run."""
    asked: list[object] = []
    first, second = (Bench(folder=tmp_path / name, keep=tmp_path / "kept") for name in ("first", "second"))
    graph = graph_at(tmp_path / "graph", "a")
    with pytest.raises(RowError, match="cut short"):
        kept_runs(first, runs_that_note(asked, graph, failing=("theirs", graph.folder, 1)))
    assert [run[0] for run in asked] == ["ours", "ours", "theirs"]  # type: ignore[index]
    del asked[:]
    other = graph_at(tmp_path / "the same elsewhere", "a")
    found = kept_runs(second, runs_that_note(asked, other))
    assert asked == [("theirs", other.folder, 1), ("theirs", other.folder, 2)]
    assert {side: points(runs) for side, runs in found.items()} == {"ours": [12.5, 25.0], "theirs": [12.5, 25.0]}
    assert found["ours"][0] == {"test_accuracy": 0.125}, "no more than rows read"
    del asked[:]
    kept_runs(second, runs_that_note(asked, graph_at(tmp_path / "another", "b")))
    assert len(asked) == 4


def test_a_request_names_flags_and_seed_and_no_folder(tmp_path: Path) -> None:
    graph = graph_at(tmp_path / "graph", "a")
    runs = [
        of_any2vec(Bench(), graph, model, seed, "--epochs", epochs)
        for model, seed, epochs in (("gcn", 1, 2), ("gat", 1, 2), ("gcn", 2, 2), ("gcn", 1, 3))
    ]
    assert len({run.request for run in runs}) == 4 and str(tmp_path) not in str(runs)


def test_a_script_that_ran_is_code_that_ran(tmp_path: Path) -> None:
    """And what any2vec runs is none of a peer's run, though the row has noted both."""
    script = script_of("rounds.py")
    noted = os.environ | source_code.tracing(tmp_path)
    subprocess.run([sys.executable, str(script), "1"], env=noted, check=True, timeout=100)
    path = script.relative_to(ROOT).as_posix()
    code = source_code.code_of(source_code.traced(tmp_path))
    assert list(code) == [path]
    called = source_code.code_of({path: None, "src/any2vec/units.py": {"size"}})
    assert list(source_code.narrowed(code, called)) == [path]


def test_a_peers_versions_are_part_of_what_it_was_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, bench = graph_at(tmp_path / "graph", "a"), Bench()
    before = of_script(bench, "pyg", "pyg_module.py", graph, 1).request
    monkeypatch.setitem(environments.PINS, "pyg", ("torch_geometric==0.1",))
    assert of_script(bench, "pyg", "pyg_module.py", graph, 1).request != before


def test_points_are_compared_seed_by_seed() -> None:
    found = beside([80.0, 82.0, 84.0], [80.0, 81.0, 82.0], "; more")
    assert found.text == "+1.00: 82.00 / PyG 81.00; more (± 0.58, 3 seeds)" and found.value == 1


def test_rows_of_seeds_keep_their_runs() -> None:
    """All that say how many seeds or graphs they took, but what measures times beside."""
    learned = [row for row in TABLE.rows if any(measure.is_accuracy for measure in row.measures)]
    assert len(learned) >= 12 and [row.name for row in learned if not row.keeps_runs] == []


@needs_linux
def test_a_group_goes_with_what_outlives_its_row(tmp_path: Path) -> None:
    """The kernel's folder is stood in for by a plain one; the row is killed, and its output ends with its run."""
    row = subprocess.Popen([sys.executable, "-c", ROW, str(tmp_path / "group")], stdout=subprocess.PIPE, cwd=ROOT)
    assert row.stdout is not None and row.stdout.readline() == b"runs\n"
    row.kill()
    row.communicate(timeout=50)
    for _ in range(500):
        if not (tmp_path / "group").exists():
            return
        time.sleep(0.05)
    pytest.fail("the group stayed behind")


def test_a_row_counts_by_the_functions_of_all_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is as old as the code of none of them: what one has called is a part of the hash of what another has."""
    path = "src/any2vec/units.py"
    codes = iter([source_code.code_of({path: {"size"}}), source_code.code_of({path: {"number"}})])
    monkeypatch.setattr(Bench, "_code", lambda self, ran: next(codes, {}))
    bench = Bench(folder=tmp_path)
    with bench.row():
        for number in range(2):
            bench.kept("run", number, lambda: {"score": 1})
    _, *names = bench.code[path]
    assert names == ["number", "size"] and not source_code.changed_since(bench.code)


@pytest.mark.parametrize(("peak", "best"), [(0.3, 0.28), (0.5, 0.57), (5.0, 1.0)])
def test_rates_end_where_programs_take_none_above(
    peak: float, best: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule that learns better the higher its rate is stays at the largest there is."""
    asked: list[float] = []

    def run(bench: Bench, side: str, rate: float, *more: object) -> dict[str, Any]:
        asked.append(rate)
        return {"curve": [{word_runs.TUNE: {"points": -abs(rate - peak)}}]}

    monkeypatch.setattr(word_runs, "_run", run)
    monkeypatch.setattr(word_runs, "first_words", lambda bench: tmp_path)
    bench = Bench(folder=tmp_path)
    assert word_runs.best_rate(bench, word_runs.Setting(epochs=1, rounds=1, words=None), "leader") == best
    assert max(asked) <= 1 and max(bench.runs["leader by learning rate"]) <= 1

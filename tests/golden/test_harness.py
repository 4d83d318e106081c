"""The harness of golden runs itself: what counts as a difference, and how a run ends that crashes or hangs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden import make, record
from golden.arrays import contents, hash_all, hash_one
from golden.bench import ROOT, Runner, differences
from golden.child import exact
from golden.machine import PROCESSOR, environment, key_of, kind_of, missing

CHILD = """
import json, os, sys, time
for line in sys.stdin:
    name = line.strip()
    if name == "crash": os._exit(9)
    if name == "hang": time.sleep(60)
    runs = {name: {"needs": [], "is_alone": name == "alone", "seconds": 5 if name != "hang" else 0.2}
            for name in ("well", "crash", "hang", "alone")}
    about = {"runs": runs, "left_out": {}, "machine": {"versions": {}}, "package": sys.path[1] + "/any2vec"}
    print(json.dumps(about if name == "?" else {"name": name, "pid": os.getpid()}), flush=True)
"""


@pytest.fixture
def runner(tmp_path: Path) -> Any:
    """Runs of a child that crashes or hangs when it is asked to."""
    (tmp_path / "tests" / "golden").mkdir(parents=True)
    (tmp_path / "tests" / "golden" / "__init__.py").touch()
    (tmp_path / "tests" / "golden" / "child.py").write_text(CHILD)
    with Runner(tmp_path, tmp_path / "tests") as found:
        yield found


def test_a_crash_names_its_run_and_the_next_one_has_another_process(runner: Runner) -> None:
    first = runner.run("well")["pid"]
    assert "crash ended its process with 9" in runner.run("crash")["error"]
    then = runner.run("well")["pid"]
    assert then != first and runner.run("well")["pid"] == then


def test_a_run_that_hangs_is_given_up(runner: Runner) -> None:
    assert "hang did not end within 0 s" in runner.run("hang")["error"]
    assert "pid" in runner.run("well")


def test_a_run_alone_has_a_process_for_itself(runner: Runner) -> None:
    pids = [runner.run(name)["pid"] for name in ("well", "alone", "well")]
    assert len(set(pids)) == 3


def test_the_package_of_another_tree_is_no_witness(tmp_path: Path) -> None:
    (tmp_path / "golden").mkdir()
    (tmp_path / "golden" / "__init__.py").touch()
    (tmp_path / "golden" / "child.py").write_text(CHILD.replace("sys.path[1]", "'/elsewhere'"))
    with pytest.raises(RuntimeError, match="would import any2vec from /elsewhere"):
        Runner(tmp_path, tmp_path)


@pytest.mark.parametrize("name", ["dtype", "shape", "bits", "order"])
def test_a_hash_is_of_type_shape_and_bytes(name: str) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    other: Any = {
        "dtype": array.view(np.int32), "shape": array.reshape(3, 2), "bits": np.nextafter(array, 9),
        "order": array[::-1],
    }[name]  # fmt: skip
    assert hash_one(array) == hash_one(array.copy(order="F")) != hash_one(other)
    assert hash_one(np.zeros((0, 3))) != hash_one(np.zeros((0, 4)))


def test_all_arrays_of_a_folder_are_found(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"a": np.ones(2), "b": np.zeros((1, 2))}, tmp_path / "x.safetensors")
    np.save(tmp_path / "y.npy", np.arange(3))
    (tmp_path / "keys.tsv").write_text("one\t1\n")
    (tmp_path / "run.json").write_text("{}")
    names = [name for name, _ in contents(tmp_path)]
    assert names == ["keys.tsv", "x.safetensors:a", "x.safetensors:b", "y.npy"]
    assert hash_all(tmp_path, {"keys": ["one"]}).keys() == {*names, "returned:keys"}
    assert hash_all(None, {"keys": ["one"]}) != hash_all(None, {"keys": ["on", "e"]})


def test_what_differs_is_named() -> None:
    former = {"arrays": {"a": "1", "b": "2", "c": "3"}, "counts": {"loss": (0.5).hex(), "rows": 3, "gone": 1}}
    now = {"arrays": {"a": "1", "b": "9", "d": "3"}, "counts": {"loss": (0.25).hex(), "rows": 3}}
    lines = differences(former, now)
    assert lines[:2] == ["array b differs", "array c is missing but as d"] and lines[2] == "array d is new"
    assert lines[3:] == ["gone: 1 -> absent", f"loss: 0.5 ({(0.5).hex()}) -> 0.25 ({(0.25).hex()})"]
    assert differences(former, former) == [] and differences(former, {"error": "no"}) == ["it fails: no"]


def test_counts_lose_no_bit() -> None:
    assert exact({2: 0.1, 1: [1, None]}) == {"1": [1, None], "2": (0.1).hex()}
    ends = [float(number) for number in range(40)]
    assert exact(ends) != exact([*ends[:-1], np.nextafter(ends[-1], 99).item()])


def test_the_kind_of_a_machine_has_what_a_run_needs() -> None:
    machine = {"cpu": "one", "versions": {"numpy": "2"}}
    assert key_of(kind_of(machine, ())) != key_of(kind_of(machine, ("pytest",)))
    assert kind_of(machine, ("linux",)) == machine
    assert missing(("numpy", "no_such_module")) == "no_such_module" and missing(("numpy",)) is None


def test_variables_that_change_numbers_are_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    found = environment(Path("src"))
    assert "NUMBA_DISABLE_JIT" not in found and found["OMP_NUM_THREADS"] == "1"
    assert found["PYTHONPATH"].split(os.pathsep) == ["src", str(PROCESSOR)]


def test_a_process_of_a_golden_run_has_no_more_than_the_one_processor() -> None:
    code = (
        "import json, llvmlite.binding as llvm; from numba.core.registry import cpu_target; "
        "from any2vec.kernels.common import vectors; target = cpu_target.target_context.codegen().magic_tuple(); "
        "print(json.dumps([target[1], [name for name, has in llvm.get_host_cpu_features().items() if has], "
        "vectors.WIDTH]))"
    )
    command = [sys.executable, "-c", code]
    printed = subprocess.run(command, env=environment(ROOT / "src"), capture_output=True, check=True, timeout=120)
    name, features, width = json.loads(printed.stdout)
    assert not [feature for feature in features if feature.startswith("avx512")] and width <= 8
    assert name == "x86-64-v3" or "avx2" not in features


# ---- the golden file


def answer(text: str) -> dict[str, Any]:
    return {"arrays": {"a": text}, "counts": {}, "seconds": 0.1}


def test_a_changed_run_is_out_of_date_on_other_machines() -> None:
    kinds = {name: {"cpu": "here"} for name in ("one", "two", "new")}
    stale = {"runs": {"one": answer("1"), "two": answer("2")}}
    here = {"runs": {"one": answer("1"), "two": answer("2"), "gone": answer("3")}}
    content = {"kinds": {key_of({"cpu": "here"}): here, "other": stale}, "history": []}
    found = {"one": answer("1"), "two": answer("changed"), "new": answer("4")}
    assert make.taken(content, found, kinds) == (["two"], ["new"])
    assert stale["runs"].keys() == {"one"} and here["runs"]["two"]["arrays"] == {"a": "changed"}
    assert make.removed(content, {"one", "two", "new"}) == {"gone"} and "gone" not in here["runs"]


class Fake:
    """A runner whose answers are given."""

    def __init__(self, answers: dict[str, dict[str, Any]]) -> None:
        self.answers = answers
        self.runs = {name: {"needs": ()} for name in answers}
        self.machine = {"cpu": "here", "versions": {}}

    def run(self, name: str) -> dict[str, Any]:
        return self.answers[name]


def judge_of(here: dict[str, Any], known: dict[str, Any], base: Any, machine: str = "here") -> record.Judge:
    judge = object.__new__(record.Judge)
    kind = key_of({"cpu": machine, "versions": {}})
    judge.content, judge.here, judge._against, judge._base = {"kinds": {kind: {"runs": known}}}, Fake(here), None, base
    return judge


def test_verdicts_by_the_golden_file() -> None:
    here = {"one": answer("1"), "two": answer("2"), "bad": {"error": "no"}, "summed": answer("4")}
    known = {"one": answer("1"), "two": answer("other"), "bad": answer("3"), "summed": answer("other")}
    former = Fake({"two": answer("other"), "summed": answer("4")})
    judge = judge_of(here, known, ("0123456789abcdef", former, {}))
    words = {name: judge.verdict(name).word for name in judge.here.runs}
    assert words == {"one": "equal", "two": "differs", "bad": "fails", "summed": "equal"}
    assert [name for name in words if judge.verdict(name).is_bad] == ["two", "bad"]
    judge = judge_of(here, known, "no history")
    assert judge.verdict("summed").word == "differs"  # nothing speaks against the file


def test_verdicts_by_the_commit_before() -> None:
    """An unknown kind of machine: the run is carried out at the commit before, too."""
    former = Fake({"one": answer("1"), "two": answer("2"), "again": answer("3"), "bad": {"error": "old"}})
    here = {"one": answer("1"), "two": answer("x"), "again": answer("x"), "bad": answer("4"), "late": answer("5")}
    base = ("0123456789abcdef", former, {"again": "a new draw"})
    judge = judge_of(here, {"one": answer("x")}, base, machine="another")
    found = {name: judge.verdict(name) for name in here}
    assert {name: verdict.word for name, verdict in found.items()} == {
        "one": "equal", "two": "differs", "again": "anew", "bad": "fails", "late": "new",
    }  # fmt: skip
    assert found["two"].lines == ["array a differs (since commit 0123456789ab)"]
    assert "a new draw" in found["again"].lines[0] and "old" in found["bad"].lines[0]
    skipped = judge_of(here, {}, "no history").verdict("one")
    assert skipped.word == "skipped" and skipped.lines == ["no history"] and not skipped.is_bad


def git_says(monkeypatch: pytest.MonkeyPatch, **answers: str | None) -> None:
    """Answers of git by its first argument; of rev-parse by its last."""
    monkeypatch.setattr(
        record, "git", lambda *words: answers.get({"HEAD": "head", "HEAD^": "before"}.get(words[-1]) or words[0])
    )


def test_the_commit_before_is_the_one_that_made_the_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    git_says(monkeypatch, head="h", before="b", log="made", diff="")
    assert record._last_making() == "made"
    git_says(monkeypatch, head="h", before="b", log="h", diff="")
    assert record._last_making() == "b"  # HEAD is that commit, and is not compared with itself
    git_says(monkeypatch, head="h", before="b", log="h", diff=None)
    assert record._last_making() == "h"  # with changes that are not committed it is
    git_says(monkeypatch, head="h", before=None, log="h", diff="")
    assert record._last_making() is None  # a shallow clone
    git_says(monkeypatch)
    assert record._last_making() is None


def test_the_golden_file_is_written_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "FILE", tmp_path / "hashes.json")
    assert record.load() == {"kinds": {}, "history": []}
    record.store({"kinds": {}, "history": [{"reason": "é"}]})
    assert record.load()["history"] == [{"reason": "é"}] and [path.name for path in tmp_path.iterdir()] == [
        "hashes.json"
    ]

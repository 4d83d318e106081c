"""The script that puts faults into lines: what it changes, what it leaves alone, what counts as caught."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

pytest.importorskip("coverage")

from mutants.covering import Covering
from mutants.faults import faults_of, with_fault
from mutants.run import judge_one, main, run_tests

SOURCE = '''
def share(total: int = 3, *, parts: list[int | None]) -> int:
    """The 1st of 2."""
    assert total < 4, "less than 4"
    if total <= 0 and not parts:
        raise ValueError(f"{total + 1} < 2")
    return min(total, len(parts)) - 1
'''


def test_faults_stand_in_what_is_computed_and_nowhere_else() -> None:
    found = {(fault.line, fault.after.strip()) for fault in faults_of(SOURCE)}
    assert found == {
        (2, "def share(total: int = 4, *, parts: list[int | None]) -> int:"),
        (5, "if (total <= 0 or not parts):"),
        (5, "if (total < 0) and not parts:"),
        (5, "if total <= 1 and not parts:"),
        (5, "if total <= 0 and parts:"),
        (7, "return (min(total, len(parts)) + 1)"),
        (7, "return max(total, len(parts)) - 1"),
        (7, "return min(total, len(parts)) - 2"),
    }


def test_a_fault_changes_its_line_alone_and_python_reads_it() -> None:
    source = Path(__file__).with_name("faults.py").read_text(encoding="utf-8")
    faults = faults_of(source)
    assert len(faults) > 20
    for fault in faults:
        changed = with_fault(source, fault)
        ast.parse(changed)
        pairs = list(zip(source.split("\n"), changed.split("\n"), strict=True))
        assert [number for number, (old, new) in enumerate(pairs, 1) if old != new] == [fault.line]


@pytest.mark.parametrize(("share", "verdict"), [("a + b", "survived"), ("a - b", "caught"), ("a +", "caught")])
def test_tests_that_fail_or_cannot_start_catch_a_fault(tmp_path: Path, share: str, verdict: str) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "planted_share.py").write_text(f"def share(a, b):\n    return {share}\n", encoding="utf-8")
    test = tmp_path / "test_planted_share.py"
    test.write_text(
        "from planted_share import share\n\ndef test_share():\n    assert share(1, 2) == 3\n", encoding="utf-8"
    )
    assert run_tests(tmp_path, [f"{test.name}::test_share"], 60)[0] == verdict


def test_names_that_pytest_does_not_find_catch_nothing(tmp_path: Path) -> None:
    """A name of parameters is looked for without them; a file that is not there says nothing of a fault."""
    test = tmp_path / "test_planted_name.py"
    test.write_text(
        "import pytest\n\n@pytest.mark.parametrize('a', [1])\ndef test_it(a):\n    pass\n", encoding="utf-8"
    )
    assert run_tests(tmp_path, [f"{test.name}::test_it[never]"], 60)[0] == "survived"
    covering = Covering.__new__(Covering)
    covering.tests_by_line, covering.failed = {Path("planted.py"): {1: {"test_gone.py::test_it"}}}, set()
    covering.num_covered, covering.seconds = {"test_gone.py::test_it": 1}, {}
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "planted.py").write_text("a = 1\n", encoding="utf-8")
    one = {"file": "planted.py", "line": 1, "column": 4, "kind": "constant", "before": "a = 1", "after": "a = 2"}
    with pytest.raises(RuntimeError, match="and without the fault, too"):
        judge_one(tmp_path, one, covering)


def test_tests_that_hang_catch_a_fault(tmp_path: Path) -> None:
    test = tmp_path / "test_planted_hang.py"
    test.write_text("def test_hang():\n    while True:\n        pass\n", encoding="utf-8")
    assert run_tests(tmp_path, [test.name], 3) == ("caught", "tests hang")


@pytest.mark.slow
def test_faults_of_covered_lines_are_drawn_and_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two faults of what two small files of tests run; kernels, which no tracer sees, are among what they cover."""
    coverage, out = str(tmp_path / "coverage"), tmp_path / "faults.json"

    def call(*arguments: str) -> int:
        monkeypatch.setattr("sys.argv", ["run.py", *arguments, "--coverage", coverage, "--out", str(out)])
        return main()

    test = "tests/kernels/test_permutation.py"
    assert call("record", test, "tests/plan/test_sharding.py", "-n", "0", "-p", "no:cacheprovider") == 0
    covering = Covering(Path(coverage))
    kernel = Path("any2vec", "kernels", "common", "permutation.py")
    assert any(test in name for line in range(1, 200) for name in covering.tests(kernel, line))
    assert call("draw", "--count", "2") == call("judge") == 0
    faults = json.loads(out.read_text(encoding="utf-8"))
    assert len(faults) == 2 and all(one["verdict"] in ("caught", "survived") for one in faults)
    shown = capsys.readouterr().out
    assert f"{sum(one['verdict'] == 'caught' for one in faults)} of 2 caught, 0 not judged" in shown


def test_a_test_that_fails_by_itself_catches_nothing(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "planted_double.py").write_text("def double(a):\n    return a * 2\n", encoding="utf-8")
    (tmp_path / "test_planted_broken.py").write_text(
        "import planted_gone\n\ndef test_it():\n    pass\n", encoding="utf-8"
    )
    (tmp_path / "test_planted_double.py").write_text(
        "from planted_double import double\n\ndef test_it():\n    assert double(2) == 4\n", encoding="utf-8"
    )
    covering = Covering.__new__(Covering)
    names = {"test_planted_broken.py::test_it", "test_planted_double.py::test_it"}
    covering.tests_by_line, covering.failed = {Path("planted_double.py"): {2: names}}, set()
    covering.num_covered, covering.seconds = dict.fromkeys(names, 1), {}
    for after, verdict in (("    return a + 2", "survived"), ("    return a * 3", "caught")):
        one = {
            "file": "planted_double.py",
            "line": 2,
            "column": 11,
            "kind": "operator",
            "after": after,
            "before": "    return a * 2",
        }
        assert judge_one(tmp_path, one, covering)["verdict"] == verdict
    with pytest.raises(RuntimeError, match="another line"):
        judge_one(tmp_path, one | {"before": "    return a"}, covering)

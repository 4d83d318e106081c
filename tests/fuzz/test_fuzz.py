"""Damaged inputs against every reader; and that the fuzzer sees what it looks for."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from any2vec.errors import DataError
from fuzz import processes
from fuzz.damage import damaged
from fuzz.processes import BY_COMMAND, ask, go_on, read_verdicts
from fuzz.processes import try_one as try_number
from fuzz.run import fuzz, try_one
from fuzz.samples import make_samples
from fuzz.targets import Rng, Target, command

REFUSES = "print('Error: The file is bad.', file=sys.stderr); sys.exit(2)"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="stores of partitions need Linux")


@pytest.mark.slow
def test_a_thousand_damaged_inputs_are_read_or_refused(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="models of clicks need torch")
    pytest.importorskip("feedparser", reason="feeds need the extra any2vec[streams]")
    make_samples(tmp_path)
    failures = fuzz(1000, 2, tmp_path)
    assert not failures, "\n".join(map(str, failures))


@pytest.mark.slow
def test_damaged_inputs_are_read_or_refused_by_the_command(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="models of clicks need torch")
    verdicts = [*go_on(range(0, len(BY_COMMAND), 3), 2, tmp_path, 2)]
    assert len(verdicts) > 20 and not [one for one in verdicts if one["wrong"]]


def refuses(work: Path, rng: Rng) -> None:
    raise DataError("Line 3 has no weight.")


def fails(work: Path, rng: Rng) -> None:
    raise KeyError("x")


def says_much(work: Path, rng: Rng) -> None:
    raise DataError("one\ntwo")


def never_ends(work: Path, rng: Rng) -> None:
    while True:
        try:
            time.sleep(1)
        except Exception:
            continue


def warns(work: Path, rng: Rng) -> None:
    warnings.warn("overflow", RuntimeWarning, stacklevel=1)


def leaves_a_file(work: Path, rng: Rng) -> None:
    (work / ".meta.json.1.tmp").touch()


def leaves_a_result(work: Path, rng: Rng) -> None:
    (work / "out").mkdir()
    refuses(work, rng)


def fails_aside(work: Path, rng: Rng) -> None:
    class Odd:
        def __del__(self) -> None:
            raise ValueError("aside")

    Odd()


@pytest.mark.parametrize(
    ("run", "what"),
    [
        (refuses, ""), (lambda work, rng: None, ""), (fails, "KeyError"), (says_much, "not one sentence"),
        (never_ends, "no end within 0.2 s"), (warns, "warns: RuntimeWarning"), (leaves_a_file, "left behind: .meta"),
        (leaves_a_result, "left behind: out"), (fails_aside, "unraisable: ValueError: aside"),
    ],
)  # fmt: skip
def test_what_is_looked_for_is_seen(tmp_path: Path, run: object, what: str) -> None:
    said = try_one(Target("x", (), run), tmp_path, np.random.default_rng(0), 0.2)  # type: ignore[arg-type]
    assert what in said and bool(what) == bool(said)


@pytest.mark.parametrize(
    ("program", "code", "what"),
    [
        ("print(1)", 0, ""),
        ("sys.exit('Error: The file is bad.')", 1, "ends with 1: Error: The file"), (REFUSES, 2, ""),
        (f"print(1); {REFUSES}", 2, "not one sentence"), (f"open('out.tsv', 'w').close(); {REFUSES}", 2, "out.tsv"),
        ("open('.x.tmp', 'w').close()", 0, "left behind: .x.tmp"), ("1 / 0", 1, "says: Traceback"),
        ("import tempfile; tempfile.mkdtemp(prefix='x')", 0, "left behind: tmp/x"),
        ("import warnings; warnings.warn('odd')", 0, "says: "), ("import os; os.abort()", -6, "ends with -6"),
        ("while True: pass", -9, "no end within 3 s"),
        ("subprocess.Popen(['sleep', '60'], stdin=-3, stdout=-3, stderr=-3).returncode = 0", 0, "leaves processes"),
    ],
)  # fmt: skip
def test_what_is_looked_for_in_a_process_is_seen(tmp_path: Path, program: str, code: int, what: str) -> None:
    found, said = ask([sys.executable, "-c", f"import subprocess, sys\n{program}"], tmp_path, 3.0)
    assert found == code and what in said and bool(what) == bool(said)


def test_verdicts_are_kept_and_inputs_repeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "samples").mkdir()
    (tmp_path / "samples" / "a").write_bytes(b"some words " * 20)
    monkeypatch.setattr("fuzz.processes.COMMAND", (sys.executable, "-c", "print(open('a', 'rb').read()); 1 / 0"))
    ones = [
        try_number(number, 1, tmp_path / "samples", tmp_path, [command("x", ("a",), "arg")]) for number in (3, 4, 3)
    ]
    assert [one["number"] for one in ones] == [3, 4, 3] and all("ZeroDivision" in one["wrong"] for one in ones)
    kept = [(tmp_path / f"1-command-{number}" / "a").read_bytes() for number in (3, 4)]
    assert (
        kept[0] != kept[1] and ones[0]["arguments"] == ["arg"] and ones[0] | {"seconds": 0} == ones[2] | {"seconds": 0}
    )
    path = tmp_path / "verdicts.jsonl"
    path.write_text(json.dumps(ones[0]) + "\n" + '{"number": 4, "tar')
    assert read_verdicts(path) == ones[:1] == read_verdicts(path)
    assert read_verdicts(tmp_path / "none") == []


@pytest.mark.parametrize("name", ["commit", "targets"])
def test_verdicts_of_another_state_are_asked_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[int]] = []

    def answered(numbers: list[int], seed: int, kept: Path, processes: int) -> Iterator[dict[str, Any]]:
        asked.append(numbers)
        for number in numbers:
            yield {"number": number, "target": "x", "arguments": [], "code": 0, "wrong": "", "seconds": 0}

    now = processes.state()
    assert now.keys() == {"commit", "targets"} and len(now["targets"]) == 16
    monkeypatch.setattr(processes, "go_on", answered)
    monkeypatch.setattr(processes, "state", lambda: now)
    for count in (2, 3, 3):
        assert processes.run(count, 1, tmp_path, 1) == 0
    now = now | {name: "another"}
    capsys.readouterr()
    assert processes.run(3, 1, tmp_path, 1) == 0
    assert asked == [[0, 1], [2], [0, 1, 2]] and len(read_verdicts(tmp_path / "by-command-1.jsonl")) == 6
    said = capsys.readouterr().out
    assert "3 verdicts of another commit or of other targets do not count" in said and "3 inputs by the command" in said


def test_the_same_number_is_the_same_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.run.KEPT", tmp_path / "kept")
    seen: list[bytes] = []

    def note(work: Path, rng: Rng) -> None:
        seen.append(damaged((work / "a").read_bytes(), rng))
        assert len(seen) % 4, "kept"

    (tmp_path / "a").write_bytes(b'{"a": [1, 2, {"b": "c"}]} ' * 9)
    for first in (0, 4, 0):
        failures = fuzz(4, 1, tmp_path, first=first, targets=[Target("x", ("a",), note)])
        assert [failure.number for failure in failures] == [first + 3]
    assert seen[:4] == seen[8:] and len(set(seen)) > 6
    assert (tmp_path / "kept" / "1-7" / "a").exists()

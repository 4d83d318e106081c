"""What the command line prints: numbers, JSON, errors and exit codes, the bar on a terminal and in a log."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from any2vec import units
from any2vec.cli import output, tools
from any2vec.cli.bar import Bar
from any2vec.cli.run import train
from any2vec.errors import DataError, InputError, Interrupted, StorageError
from any2vec.types import Progress


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InputError("dim must be 1 or more."), 2, "dim must be 1 or more."),
        (DataError("line 3 has no weight."), 2, "line 3"),
        (StorageError("out exists."), 2, "out exists."),
        (Interrupted("Stopped; go on with --resume."), 130, "--resume"),
        (InputError("got 'het:100:mru'."), 2, "got 'het:100:mru'."),
        (KeyboardInterrupt(), 130, "Interrupted"),
        (MemoryError(), 2, "Not enough memory"),
        (OSError(errno.ENOSPC, "No space left on device", "x"), 2, "disk is full"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "x"), 2, "x: No such file"),
        (ModuleNotFoundError("No module named 'torch'", name="torch"), 2, "PyTorch"),
        (TypeError("oops"), 1, "error of its own (TypeError: oops)"),
    ],
)
def test_errors_are_one_sentence_and_a_code(error: BaseException, code: int, said: str) -> None:
    app = typer.Typer()

    @app.command()
    @output.guarded
    def fails() -> None:
        """Fail."""
        raise error

    result = CliRunner().invoke(app, [], env={"ANY2VEC_DEBUG": "0"})
    assert result.exit_code == code
    assert said in result.stderr and "Traceback" not in result.output
    assert result.stderr.count("\n") == 1 and result.stdout == ""


def test_debug_lets_the_traceback_through() -> None:
    app = typer.Typer()

    @app.command()
    @output.guarded
    def fails() -> None:
        """Fail."""
        raise InputError("x")

    assert isinstance(CliRunner().invoke(app, [], env={"ANY2VEC_DEBUG": "1"}).exception, InputError)


def test_debug_shows_the_traceback_of_a_command_and_leaves_stops_alone() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "any2vec", "--debug", "nearest", "none", "x"], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 1 and "Traceback" in ended.stderr and "there is no none" in ended.stderr
    app = typer.Typer()

    @app.command()
    @output.guarded
    def stops() -> None:
        """Be stopped."""
        raise Interrupted("Stopped.")

    assert CliRunner().invoke(app, [], env={"ANY2VEC_DEBUG": "1"}).exit_code == 130


def test_an_output_that_is_full_is_told_once() -> None:
    for arguments in (["doctor"], ["data", "--json"]):
        with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
            ended = subprocess.run(
                [sys.executable, "-m", "any2vec", *arguments],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                timeout=60,
            )
        assert ended.returncode == 2 and ended.stderr.count("\n") == 1 and "disk is full" in ended.stderr


def test_json_is_one_plain_object(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json({"a": np.float32(1.5), "b": float("nan"), "c": np.arange(2), "d": (1, None), "e": np.int64(3)})
    assert json.loads(capsys.readouterr().out) == {"a": 1.5, "b": None, "c": [0, 1], "d": [1, None], "e": 3}


def test_what_stands_between_colons_is_no_picture(capsys: pytest.CaptureFixture[str]) -> None:
    output.show(output.details("", [("cache", "het:100:lru")]), output.columns("", ["key"], [[":tea:"]]))
    output.note(":100:")
    said = capsys.readouterr()
    assert "het:100:lru" in said.out and ":tea:" in said.out and ":100:" in said.err


STEERING = "a\x1b]52;c;eA==\x1b\\b\x07c\x9bd\u202ee\x7ff\rg\udcff"
SPELLED = r"a\x1b]52;c;eA==\x1b\b\x07c\x9bd\u202ee\x7ff\x0dg\udcff"


def test_no_text_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    for draw in (
        output.complain,
        output.note,
        lambda text: output.show(output.details(text, [])),
        lambda text: output.show(output.details("", [("name", text)])),
        lambda text: output.show(output.columns("", [text], [])),
        lambda text: output.show(output.columns("", ["key"], [[text]])),
        lambda text: output.show(output.line(text)),
    ):
        draw(STEERING)
        said = "".join(capsys.readouterr())
        assert SPELLED in said and not any(sign in said for sign in "\x1b\x9b\x07\x7f\r\u202e\udcff")


def test_signs_of_words_stay_as_they_are() -> None:
    text = "naïve\t東京 می\u200cخواهم 👩\u200d💻\n"
    assert units.visible(text) == text


def test_json_keeps_what_steers_a_terminal_as_an_escape(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json({"key": STEERING, "path": "C:\\x1b"})
    said = capsys.readouterr().out
    assert json.loads(said) == {"key": STEERING, "path": "C:\\x1b"}
    assert said.isprintable() or set(said) <= set(map(chr, range(32, 127))) | {"\n"}


def test_units() -> None:
    assert [units.size(n) for n in (0, 999, 1234, 5.6e9, None)] == ["0 B", "999 B", "1.23 kB", "5.6 GB", "unknown"]
    assert [units.size(n) for n in (999.6, 999_700, 999.4e9, 1.3e15)] == ["1 kB", "1 MB", "999 GB", "1,300 TB"]
    assert [units.number(n) for n in (999.4, 999.5, 999.6, -999_700, 999.6e9)] == ["999", "1 k", "1 k", "-1 M", "1e12"]
    assert [units.duration(s) for s in (0.12, 42.4, 185, 7385)] == ["0.1 s", "42 s", "3:05 min", "2:03:05 h"]
    assert [units.number(n) for n in (3, 12345, 1.23e6)] == ["3", "12.3 k", "1.23 M"]
    assert [units.number(n) for n in (9e11, 1.85e34)] == ["900 G", "1.85e34"]
    assert [units.fraction(n) for n in (0.12345, 4721.3, 1.85e34)] == ["0.1235", "4721.3000", "1.85e34"]
    assert output.cell(-1.85e34) == "-1.85e34"


def test_render_makes_tables_of_any_result() -> None:
    result = {"task": "analogy", "accuracy": 0.51234, "sections": [{"name": "[capital]", "total": 1234}]}
    console = Console(file=io.StringIO(), width=60)
    for table in output.render(result):
        console.print(table)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "0.5123" in text and "[capital]" in text and "1,234" in text


def record(progress: float, seconds: float, epoch: int = 0) -> Progress:
    return Progress(
        seconds=seconds,
        epoch=epoch,
        epochs=2,
        round=0,
        progress=progress,
        loss=2.5,
        learning_rate=0.02,
        items=1000,
        items_per_s=1.5e6,
        busy_cores=1.0,
        rss_bytes=1,
        mapped_bytes=1,
    )


def test_bar_in_a_log_prints_few_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    file, clock = io.StringIO(), iter(range(0, 10_000, 5))
    monkeypatch.setattr("any2vec.cli.bar.time.monotonic", lambda: next(clock) / 200)
    with Bar(console=Console(file=file, force_terminal=False)) as bar:
        bar.stage("compile", 0, 1)
        bar.stage("compile", 1, 1)
        for done in range(100):
            bar.stage("read", done + 1, 100)
            bar.record(record((done + 1) / 100, done + 1.0, epoch=done // 50))
    lines = file.getvalue().splitlines()
    assert lines[0].startswith("read  ") and lines[0].endswith(" s")  # the quick step has no line
    assert lines[1:] == ["epoch 2/2  100 %  1.5 M items/s  loss 2.5000  1:40 min"]


def test_a_step_is_reported_once_and_a_quick_one_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a log and on a terminal; also where it began long after the last line, and where hosts start again."""
    now = [0.0]
    monkeypatch.setattr("any2vec.cli.bar.time.monotonic", lambda: now[0])
    for is_terminal in (False, True):
        file = io.StringIO()
        with Bar(console=Console(file=file, force_terminal=is_terminal, width=80)) as bar:
            for _ in range(2):
                now[0] += 99.0
                for name, seconds in (("slow", 9.0), ("quick", 0.5)):
                    bar.stage(name, 0, 1)
                    now[0] += seconds
                    bar.stage(name, 1, 1)
            if bar._live is not None:
                assert [task.description for task in bar._live.tasks if task.visible] == ["slow"]
        if not is_terminal:
            assert file.getvalue() == "slow  9.0 s\n"


def test_what_hosts_that_start_again_find_done_is_not_reported_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor with the time from its first begin on."""
    now, file = [0.0], io.StringIO()
    monkeypatch.setattr("any2vec.cli.bar.time.monotonic", lambda: now[0])
    bar = Bar(console=Console(file=file, force_terminal=False))
    for done, then in ((0, 0.0), (80, 0.5), (80, 52.0)):
        now[0] = then
        bar.stage("reading", done, 80)
    assert file.getvalue() == ""


def test_bar_on_a_terminal_shows_speed_loss_and_time_left() -> None:
    file = io.StringIO()
    with Bar(console=Console(file=file, force_terminal=True, width=80)) as bar:
        bar.record(record(0.25, 10.0))
        bar.record(record(0.5, 20.0))
    assert "1.5 M items/s" in file.getvalue() and "loss 2.5000" in file.getvalue() and "20 s left" in file.getvalue()


def test_bar_of_a_resumed_run_uses_its_own_speed() -> None:
    bar = Bar(quiet=True)
    bar.record(record(0.8, 100.0))
    assert bar._left(record(0.9, 101.0)) == pytest.approx(1.0)


def test_quiet_bar_is_silent() -> None:
    file = io.StringIO()
    with Bar(quiet=True, console=Console(file=file, force_terminal=True)) as bar:
        bar.record(record(1.0, 1.0))
    assert file.getvalue() == ""


def test_the_program_is_named_as_a_shell_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    program = tmp_path / ".venv" / "bin" / "any2vec"
    program.write_text("")
    monkeypatch.setattr("sys.executable", str(program.with_name("python")))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")
    assert tools._own_name() == ".venv/bin/any2vec"
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    assert tools._own_name() == "any2vec"


def test_a_terminal_that_rewrites_no_line_has_lines_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("any2vec.cli.bar.LINE_SECONDS", 0.0)
    console = Console(file=io.StringIO(), force_terminal=True, width=80, _environ={"TERM": "dumb"})
    with Bar(console=console) as bar:
        for progress in (0.25, 1.0):
            bar.record(
                Progress(
                    seconds=1, epoch=0, epochs=1, round=0, progress=progress, loss=None, learning_rate=0.1, items=1,
                    items_per_s=1, busy_cores=1, rss_bytes=1, mapped_bytes=1,
                )
            )  # fmt: skip
    said = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(said) == 2 and "25 %" in said[0] and "100 %" in said[1]


def test_the_time_of_a_run_that_went_on() -> None:
    assert train._time({"seconds": 9.0, "train_seconds": 7.7}) == "9.0 s in all, 7.7 s of training"
    went_on = train._time({"seconds": 2.0, "train_seconds": 7.7})
    assert went_on == "2.0 s this time, 7.7 s of training since the run began"


@pytest.mark.parametrize("more", [(), ("--json",)], ids=["tables", "json"])
def test_a_run_whose_output_is_ascii_ends_well(more: tuple[str, ...], tmp_path: Path) -> None:
    """Words and paths that the output cannot spell are escaped: an hour of training does not end as an error."""
    (tmp_path / "täglich.txt").write_text("zwölf boxkämpfer jagen viktor\n" * 50, encoding="utf-8")
    command = [Path(sys.executable).with_name("any2vec"), "train", "skipgram", "täglich.txt", "--out", "läufe", *more]
    how: Any = {"cwd": tmp_path, "env": os.environ | {"PYTHONIOENCODING": "ascii"}, "capture_output": True}
    ended = subprocess.run([*command, "--dim", "4", "--epochs", "2"], **how)
    assert ended.returncode == 0, ended.stderr
    said = ended.stdout.decode("ascii")
    assert json.loads(said)["out"] == "läufe" if more else r"l\xe4ufe" in said
    assert b"error of its own" not in ended.stderr and (tmp_path / "läufe" / "meta.json").is_file()
    found = subprocess.run([command[0], "nearest", "läufe", "zwölf"], **how)
    assert found.returncode == 0 and rb"boxk\xe4mpfer" in found.stdout

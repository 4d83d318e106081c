"""Ctrl-C, SIGTERM, SIGHUP, kill -9: a checkpoint stays, never a readable result; --resume ends with the same bits."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from any2vec.cli.app import app
from any2vec.cli.output import explain
from any2vec.embeddings import Embeddings
from any2vec.errors import StorageError
from any2vec.formats.safetensors_file import read_safetensors
from any2vec.train import frame
from any2vec.train.checkpoint import FILE
from any2vec.train.monitor import Monitor

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
SETTINGS = ["--dim", "32", "--epochs", "1200", "--threads", "1", "--seed", "3", "--quiet"]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30 000 words: some seconds of training at 1200 epochs, a few hundredths of a second an epoch."""
    rng = random.Random(1)
    words = [f"w{rng.randrange(100) * rng.randrange(1, 10)}" for _ in range(30_000)]
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(" ".join(words[start : start + 15]) for start in range(0, len(words), 15)))
    return path


@pytest.fixture(scope="module")
def whole(text: Path) -> bytes:
    """The vectors of a run that nobody stopped."""
    out = text.parent / "whole"
    result = CliRunner().invoke(app, ["train", "skipgram", str(text), "--out", str(out), *SETTINGS])
    assert result.exit_code == 0, result.output
    return (out / "vectors.safetensors").read_bytes()


def start(text: Path, out: Path, *more: str) -> subprocess.Popen[str]:
    """A run in a process of its own, as soon as it has made progress."""
    command = [sys.executable, "-m", "any2vec", "train", "skipgram", str(text), "--out", str(out), *SETTINGS, *more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    log = out / "progress.jsonl"
    deadline = time.monotonic() + 60
    while not (log.exists() and log.stat().st_size and (not more or (out / FILE).exists())):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "the run did not start"
        time.sleep(0.005)
    return process


@contextmanager
def hangups(handler: signal.Handlers) -> Iterator[None]:
    """SIGHUP is as a terminal or nohup leaves it, in the children, too, however these tests were started."""
    before = signal.signal(signal.SIGHUP, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def check_resumes(text: Path, out: Path, whole: bytes) -> None:
    """What is there is no result; --resume makes it the result of the run that nobody stopped."""
    assert (out / FILE).is_file() and not (out / "meta.json").exists()
    assert CliRunner().invoke(app, ["nearest", str(out), "w1"]).exit_code == 2
    done = json.loads(read_safetensors(out / FILE, mmap=False)[1]["any2vec"])
    place = done["place"]
    assert place["epoch"] > 0 or place["rest"][0][0][0] > 0
    result = CliRunner().invoke(
        app, ["train", "skipgram", str(text), "--out", str(out), *SETTINGS, "--resume", "--json"]
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["items"] == 1200 * int(sum(Embeddings.load(out).counts))
    assert (out / "vectors.safetensors").read_bytes() == whole
    assert not (out / FILE).exists() and not list(out.glob(".*"))
    items = [json.loads(line)["items"] for line in (out / "progress.jsonl").read_text().splitlines()]
    assert items == sorted(set(items)), "records of the work that was lost are still there"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stop_leaves_a_checkpoint(text: Path, whole: bytes, tmp_path: Path, number: signal.Signals) -> None:
    with hangups(signal.SIG_DFL):
        process = start(text, tmp_path / "out")
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert stdout == "" and "--resume" in stderr and "Traceback" not in stderr and stderr.count("\n") == 1
    check_resumes(text, tmp_path / "out", whole)


def test_a_run_below_nohup_does_not_hear_the_terminal_close(text: Path, tmp_path: Path) -> None:
    with hangups(signal.SIG_IGN):
        process = start(text, tmp_path / "out")
    process.send_signal(signal.SIGHUP)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    assert len(Embeddings.load(tmp_path / "out")) > 100


def test_kill_leaves_the_last_checkpoint(text: Path, whole: bytes, tmp_path: Path) -> None:
    process = start(text, tmp_path / "out", "--checkpoint-seconds", "0.1")
    process.kill()
    process.communicate(timeout=60)
    check_resumes(text, tmp_path / "out", whole)


def test_resume_needs_the_same_settings(text: Path, tmp_path: Path) -> None:
    process = start(text, tmp_path / "out")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    arguments = ["train", "skipgram", str(text), "--out", str(tmp_path / "out"), *SETTINGS, "--resume", "--window", "3"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2 and "window" in result.stderr and "--overwrite" in result.stderr
    assert (tmp_path / "out" / FILE).is_file()


def test_a_stop_while_a_library_makes_a_class_is_a_stop() -> None:
    """Python 3.11 wraps what comes out of `__set_name__`."""
    wrapped = RuntimeError("Error calling __set_name__")
    wrapped.__cause__ = KeyboardInterrupt()
    assert explain(wrapped) == explain(KeyboardInterrupt()) and explain(KeyboardInterrupt())[0] == 130
    assert explain(RuntimeError("x"))[0] == 1


def test_interrupted_reading_leaves_nothing(tmp_path: Path) -> None:
    """Standard input that never ends: stopped while it is read."""
    command = [sys.executable, "-m", "any2vec", "train", "skipgram", "-", "--out", str(tmp_path / "out"), *SETTINGS]
    environment = os.environ | {"ANY2VEC_CACHE": str(tmp_path / "cache")}
    corpora = tmp_path / "cache" / "corpora"
    with subprocess.Popen(
        command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        deadline = time.monotonic() + 60
        while not (corpora.is_dir() and list(corpora.glob(".*"))) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130 and stdout == "", stderr
    assert "Interrupted" in stderr and "Traceback" not in stderr
    assert not (tmp_path / "out").exists() and not list(corpora.glob(".*.tmp"))


def test_resume_of_a_finished_run_gives_its_result_and_other_settings_are_refused(text: Path, tmp_path: Path) -> None:
    short = ["train", "skipgram", str(text), "--out", str(tmp_path / "out"), *SETTINGS, "--epochs", "1", "--json"]
    first = json.loads(CliRunner().invoke(app, short).stdout)
    made = (tmp_path / "out" / "vectors.safetensors").read_bytes()
    again = CliRunner().invoke(app, [*short, "--resume"])
    assert again.exit_code == 0 and json.loads(again.stdout)["loss"] == first["loss"]
    other = CliRunner().invoke(app, [*short, "--resume", "--epochs", "2"])
    assert other.exit_code == 2 and "epochs" in other.stderr and "--overwrite" in other.stderr
    assert (tmp_path / "out" / "vectors.safetensors").read_bytes() == made


def test_ctrl_c_while_the_result_is_written_loses_nothing(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = frame.write_result

    def interrupted(*arguments: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        real(*arguments)

    monkeypatch.setattr(frame, "write_result", interrupted)
    arguments = ["train", "skipgram", str(text), "--out", str(tmp_path / "out"), *SETTINGS, "--epochs", "1"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert len(Embeddings.load(tmp_path / "out")) > 100


def resumed(out: Path, *arguments: str) -> str:
    """Standard error of a resumed run that is refused."""
    result = CliRunner().invoke(app, ["train", *arguments, "--out", str(out), "--resume", "--quiet"])
    assert result.exit_code == 2, result.output
    return result.stderr


def test_resume_notices_other_edges_and_other_start_vectors(text: Path, tmp_path: Path) -> None:
    """Counts alone would not tell these graphs apart, nor the vectors that a run starts from."""
    for name, edges in (("ring", "a b\nb c\nc d\nd a\n"), ("cross", "a c\nc b\nb d\nd a\n")):
        (tmp_path / name).write_text(edges)
    nodes = ["--dim", "4", "--threads", "1"]
    made = CliRunner().invoke(
        app, ["train", "deepwalk", str(tmp_path / "ring"), "--out", str(tmp_path / "nodes"), "--quiet", *nodes]
    )
    assert made.exit_code == 0, made.output
    assert "data.digest" in resumed(tmp_path / "nodes", "deepwalk", str(tmp_path / "cross"), *nodes)
    words = ["skipgram", str(text), *SETTINGS, "--epochs", "1"]
    assert CliRunner().invoke(app, ["train", *words, "--out", str(tmp_path / "one")]).exit_code == 0
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    assert "init" in resumed(tmp_path / "one", *words, "--init", str(tmp_path / "other"))


def test_resume_starts_afresh_but_not_in_a_strange_folder(text: Path, tmp_path: Path) -> None:
    words = ["skipgram", str(text), *SETTINGS, "--epochs", "1"]
    assert CliRunner().invoke(app, ["train", *words, "--out", str(tmp_path / "new"), "--resume"]).exit_code == 0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "run.json").write_text("{}")
    assert "not an any2vec folder" in resumed(tmp_path / "mine", *words)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["run.json"]


def test_a_stop_at_the_first_work_can_be_resumed_and_overwritten(
    text: Path, whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any record of progress is written."""
    words, real = ["train", "skipgram", str(text), "--out", str(tmp_path / "out"), *SETTINGS], Monitor.on_work

    def received(self: Any, *arguments: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        real(self, *arguments)

    monkeypatch.setattr(Monitor, "on_work", received)
    assert CliRunner().invoke(app, words).exit_code == 130
    assert (tmp_path / "out" / FILE).is_file() and not (tmp_path / "out" / "progress.jsonl").exists()
    again = CliRunner().invoke(app, [*words, "--overwrite"])
    assert again.exit_code == 130 and "--resume" in again.stderr
    monkeypatch.undo()
    assert CliRunner().invoke(app, [*words, "--resume"]).exit_code == 0
    assert (tmp_path / "out" / "vectors.safetensors").read_bytes() == whole


def test_overwrite_keeps_the_old_result_when_the_new_run_is_refused(text: Path, tmp_path: Path) -> None:
    words = ["train", "skipgram", str(text), *SETTINGS, "--epochs", "1", "--overwrite"]
    for name in ("old", "start"):
        assert CliRunner().invoke(app, [*words, "--out", str(tmp_path / name)]).exit_code == 0
    made = (tmp_path / "old" / "vectors.safetensors").read_bytes()
    for start, more, said in (("start", ["--dim", "7"], "dim 32"), ("old", [], "choose another folder")):
        refused = CliRunner().invoke(
            app, [*words, "--out", str(tmp_path / "old"), "--init", str(tmp_path / start), *more]
        )
        assert refused.exit_code == 2 and said in refused.stderr
        assert (tmp_path / "old" / "vectors.safetensors").read_bytes() == made
        assert len(Embeddings.load(tmp_path / "old")) > 100


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def old(text: Path, tmp_path: Path) -> Path:
    """A finished run of another size, with a report that the next run does not write."""
    out = tmp_path / "out"
    words = ["train", "skipgram", str(text), "--out", str(out), *SETTINGS, "--dim", "16", "--epochs", "1"]
    assert CliRunner().invoke(app, words).exit_code == 0
    (out / "report.html").write_text("a page")
    return out


@pytest.mark.parametrize("moment", ["in training", "in writing"])
def test_overwrite_that_fails_leaves_the_old_result_as_it_was(
    moment: str, text: Path, old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise StorageError("The disk is full.")

    before = contents(old)
    if moment == "in training":
        monkeypatch.setattr(Monitor, "on_work", fail)
    else:
        monkeypatch.setattr(Embeddings, "save_into", fail)
    words = ["train", "skipgram", str(text), "--out", str(old), *SETTINGS, "--epochs", "1", "--overwrite"]
    assert CliRunner().invoke(app, words).exit_code == 2
    assert contents(old) == before


def test_overwrite_that_is_stopped_leaves_the_old_result_and_resume_replaces_it(
    text: Path, whole: bytes, old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, before = Monitor.on_work, contents(old)
    works = iter(range(1 << 30))

    def received(self: Any, *arguments: Any) -> None:
        if next(works) == 100:
            os.kill(os.getpid(), signal.SIGINT)
        real(self, *arguments)

    monkeypatch.setattr(Monitor, "on_work", received)
    words = ["train", "skipgram", str(text), "--out", str(old), *SETTINGS]
    assert CliRunner().invoke(app, [*words, "--overwrite"]).exit_code == 130
    monkeypatch.undo()
    after = contents(old)
    assert {name: after[name] for name in before} == before and FILE in after
    assert CliRunner().invoke(app, ["nearest", str(old), "w1"]).exit_code == 0
    assert "unfinished run" in CliRunner().invoke(app, words).stderr
    # The old run is not the one to go on with, though it is finished.
    former = CliRunner().invoke(app, [*words, "--resume", "--dim", "16", "--epochs", "1"])
    assert former.exit_code == 2 and "dim = 32" in former.stderr
    result = CliRunner().invoke(app, [*words, "--resume", "--json"])
    assert result.exit_code == 0 and json.loads(result.stdout)["dim"] == 32, result.output
    assert (old / "vectors.safetensors").read_bytes() == whole
    assert {*contents(old)} == {"meta.json", "run.json", "progress.jsonl", "vectors.safetensors", "vocabulary.tsv"}
    assert json.loads((old / "run.json").read_text())["summary"]["dim"] == 32


def test_overwrite_that_is_killed_before_a_checkpoint_is_not_the_old_run(text: Path, old: Path) -> None:
    """The old result can be read on; --resume begins the new run again."""
    begun = start_over(text, old)
    begun.kill()
    begun.communicate(timeout=60)
    assert not (old / FILE).exists() and Embeddings.load(old).dim == 16
    words = ["train", "skipgram", str(text), "--out", str(old), *SETTINGS, "--epochs", "2", "--resume", "--json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0 and json.loads(result.stdout)["epochs"] == 2, result.output
    assert Embeddings.load(old).dim == 32 and not list(old.glob("*.new*"))


def start_over(text: Path, out: Path) -> subprocess.Popen[str]:
    """A run that is to replace the result in `out`, as soon as it has made progress."""
    command = [
        sys.executable,
        "-m",
        "any2vec",
        "train",
        "skipgram",
        str(text),
        "--out",
        str(out),
        *SETTINGS,
        "--overwrite",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (out / "progress.new.jsonl").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "the run did not start"
        time.sleep(0.005)
    return process


def test_a_run_outlives_whoever_reads_its_progress(text: Path, whole: bytes, tmp_path: Path) -> None:
    """As `any2vec train ... 2>&1 | head -n 1` does, when head has its line."""
    script = "import any2vec.cli.bar as bar; bar.LINE_SECONDS = 0.05; from any2vec.cli import main; main()"
    loud = [one for one in SETTINGS if one != "--quiet"]
    arguments = ["train", "skipgram", str(text), "--out", str(tmp_path / "out"), *loud, "--json"]
    with unread() as gone:
        ended = subprocess.run([sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, stderr=gone)
    assert ended.returncode == 0 and json.loads(ended.stdout)["out"] == str(tmp_path / "out")
    assert (tmp_path / "out" / "vectors.safetensors").read_bytes() == whole


def test_a_refusal_that_nobody_reads_has_its_exit_code(tmp_path: Path) -> None:
    with unread() as gone:
        ended = subprocess.run(
            [sys.executable, "-m", "any2vec", "nearest", str(tmp_path / "none"), "x"], stdout=gone, stderr=gone
        )
    assert ended.returncode == 2


def test_fit_outlives_whoever_reads_its_line(tmp_path: Path) -> None:
    script = (
        "import any2vec\nmodel = any2vec.SkipGram(dim=4, min_count=1)\n"
        "made = any2vec.fit(model, ['a b c'] * 50, epochs=3, threads=1, progress=True)\nprint(len(made.embeddings))"
    )
    with unread() as gone:
        ended = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=gone, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, b"3\n")


@contextmanager
def unread() -> Iterator[int]:
    """A pipe that nobody reads any more."""
    read, write = os.pipe()
    os.close(read)
    try:
        yield write
    finally:
        os.close(write)


INTERRUPTED_AT = """
import signal
import time

from any2vec.cli.app import _stop
from any2vec.signals import on_stops


class Half:
    def __init__(self):
        {in_init}
        self.handle = 1

    def __del__(self):
        {in_del}
        self.handle


on_stops(_stop)
try:
    Half()
    time.sleep(20)
except KeyboardInterrupt:
    print("stopped")
"""


@pytest.mark.parametrize(
    ("in_init", "in_del"),
    [("signal.raise_signal(signal.SIGTERM)", "pass"), ("pass", "signal.raise_signal(signal.SIGTERM)")],
    ids=["half made", "in a destructor"],
)
def test_a_stop_comes_through_where_python_drops_errors(in_init: str, in_del: str) -> None:
    """A stop between an object's making and its destructor, as of LLVM's, says nothing of it, and is never lost."""
    code = INTERRUPTED_AT.format(in_init=in_init, in_del=in_del)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("stopped\n", "", 0)

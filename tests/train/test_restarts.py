"""A lost host: what is said at once, what the error advises, and what the summary counts. No process is started."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import any2vec
from any2vec.errors import HostError, JobError
from any2vec.train import launch
from any2vec.train.checkpoint import FILE
from any2vec.train.spec import RunSpec

MODEL = any2vec.SkipGram(dim=4, min_count=1)
KILLED = "Rank 1 was killed by SIGKILL, perhaps for memory."


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on the mat and the dog sat on the cat\n" * 20)
    return path


@pytest.fixture
def lose(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """lose(times, error, checkpoint): so many starts end by the error; the next one trains in this process."""

    def prepare(times: int, error: HostError | None = None, checkpoint: bool = False) -> None:
        left = [times]

        def start(spec: RunSpec, ranks: int, folder: Path, on_line: Any) -> None:
            out = spec.run.out
            if left[0]:
                left[0] -= 1
                out.mkdir(exist_ok=True)
                if checkpoint:
                    (out / FILE).touch()
                raise error or HostError(KILLED)
            (out / FILE).unlink(missing_ok=True)
            any2vec.fit(spec.model, spec.data, out=out, threads=1, epochs=1, resume=spec.run.resume)

        monkeypatch.setattr(launch, "_start", start)

    monkeypatch.setitem(sys.modules, "torch", find_torch())
    return prepare


def find_torch() -> Any:
    """PyTorch, or something that looks as if it were installed: no host is started here."""
    spec = find_spec("torch")
    stand_in = type(sys)("torch")
    stand_in.__spec__ = spec or ModuleSpec("torch", None)
    return sys.modules.get("torch", stand_in)


def run(text: Path, **options: Any) -> any2vec.FitResult:
    out = text.parent / "out" if options.pop("keep", True) else None
    return any2vec.fit(MODEL, text, out=out, threads=1, hosts=any2vec.HostOptions(hosts=2, **options))


def test_a_restart_is_reported_at_once_and_counted(
    text: Path, lose: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    lose(2, checkpoint=True)
    with caplog.at_level(logging.WARNING, "any2vec"):
        result = run(text, restarts=3)
    begin = "Rank 1 was killed by SIGKILL, perhaps for memory; starting again from the last checkpoint"
    assert caplog.messages == [f"{begin} (1 of 3).", f"{begin} (2 of 3)."]
    assert result.summary["restarts"] == 2
    assert json.loads((text.parent / "out" / "run.json").read_text())["summary"]["restarts"] == 2


def test_a_restart_without_a_checkpoint_says_so(
    text: Path, lose: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    lose(1)
    run(text, restarts=1)
    assert caplog.messages[0].endswith("; starting again from the beginning, for there is no checkpoint yet (1 of 1).")


def test_what_was_allowed_and_not_needed(text: Path, lose: Callable[..., None]) -> None:
    lose(0)
    assert run(text, restarts=1).summary["restarts"] == 0
    lose(0)
    result = any2vec.fit(MODEL, text, out=text.parent / "plain", threads=1, hosts=2)
    assert "restarts" not in result.summary


@pytest.mark.parametrize(
    ("options", "error", "checkpoint", "said"),
    [
        ({}, KILLED, False, " With --restarts the hosts are started again and go on from the last ch"),
        ({"keep": False}, KILLED, False, " With --out and --restarts the hosts are started again and go on from"),
        ({"keep": False}, KILLED, True, " With --out and --restarts the hosts are started again and go on from"),
        ({}, KILLED, True, f"/out/{FILE} holds the work so far: run again with --resume (resume=True) to go on from"),
        ({"restarts": 1}, KILLED, True, f" It was the only restart. {{out}}/{FILE} holds the work so far: run again"),
        ({"restarts": 2}, KILLED, False, " It was the last of 2 restarts."),
        ({}, "Rank 0 failed: Cannot write x: the disk is full.", False, ""),
        ({}, "No Ray cluster can be reached at 127.0.0.1:1: Connection refused; start one.", False, ""),
        ({}, "A local Ray cluster cannot be started: no memory; look at the cluster.", False, ""),
        ({}, "Ray cannot connect to auto: nobody is there; look at the cluster.", False, ""),
        ({}, "The Ray cluster auto does not answer as one within 50 s.", False, ""),
        ({}, "Rank 1 did not come within 120 s; look at its own errors.", False, ""),
    ],
)
def test_an_error_goes_on_with_what_to_do(
    text: Path, lose: Callable[..., None], options: dict[str, Any], error: str, checkpoint: bool, said: str
) -> None:
    lose(9, HostError(error), checkpoint)
    with pytest.raises(HostError) as caught:
        run(text, **options)
    expected = said.replace("{out}", str(text.parent / "out"))
    assert str(caught.value).startswith(error) and expected in str(caught.value)
    assert said or str(caught.value) == error


def test_an_error_that_would_come_again_gets_no_advice(text: Path, lose: Callable[..., None]) -> None:
    lose(9, JobError("Rank 0 failed: dim must be less."))
    with pytest.raises(JobError, match=r"^Rank 0 failed: dim must be less\.$"):
        run(text, restarts=3)


def test_torchrun_counts_for_itself(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "3")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "2")
    assert any2vec.fit(MODEL, text, threads=1, epochs=1).summary["restarts"] == 2

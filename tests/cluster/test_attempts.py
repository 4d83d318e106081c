"""Whether hosts know that torchrun has started them again, whichever agent has counted that."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import any2vec
from any2vec.cluster import attempt
from any2vec.cluster.attempt import Attempt
from any2vec.cluster.launch import join as launch
from any2vec.cluster.launch.processes import run_processes
from any2vec.tasks.stream.folder import write_stream
from any2vec.train.checkpoint import FILE
from any2vec.train.run_folder import ABOUT, write_about
from found_by_children import python_path

torch = pytest.importorskip("torch", reason="hosts as processes need torch (the extra any2vec[torch])")


def began(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows are the runs of a process that has begun none."""
    monkeypatch.setattr(attempt, "_RUNS", itertools.count())


def again(store: object, *restarts: int) -> tuple[Attempt, bool]:
    """An attempt at rank 0 and what its hosts know, whose agents have counted so often."""
    first = Attempt(store)  # type: ignore[arg-type]
    others = [Attempt().said(count) for count in restarts[1:]]
    first.agree([first.said(restarts[0]), *others])
    return first, first.is_again


def test_what_any_agent_has_counted_says_it_where_no_store_is_kept() -> None:
    assert not again(None, 0, 0)[1] and again(None, 0, 1)[1] and again(None, 2, 0, 0)[1]


def test_the_store_says_it_where_no_agent_has_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a host has come or gone: agents start theirs again and count nothing."""
    store = torch.distributed.HashStore()
    began(monkeypatch)
    first, is_again = again(store, 0, 0)
    assert not is_again
    first.begin()
    second, is_again = again(store, 0, 0)  # the next run of this process
    assert not is_again
    began(monkeypatch)
    assert again(store, 0, 0)[1]
    assert not again(store, 1, 0)[1], "the second run came, and did not begin"
    second.begin()
    began(monkeypatch)
    assert again(store, 1, 0)[1] and again(store, 1, 0)[1]


def test_an_attempt_that_never_began_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the one after it would go on from what a folder holds that it was refused, or was to replace."""
    store = torch.distributed.HashStore()
    for restarts in range(3):
        began(monkeypatch)
        last, is_again = again(store, restarts, restarts)
        assert not is_again
    last.begin()
    began(monkeypatch)
    assert again(store, 0, 3)[1]


def test_torchruns_store_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    served = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, timeout=timedelta(seconds=30))
    place(monkeypatch, MASTER_PORT=str(served.port), TORCHELASTIC_USE_AGENT_STORE="True")
    for is_again in (False, True):
        began(monkeypatch)
        with launch.join("job") as transport:
            assert transport.attempt.is_again is is_again
            transport.attempt.begin()


@pytest.mark.parametrize(("task", "write"), [("words", write_about), ("stream", write_stream)])
def test_hosts_go_on_together_whoever_was_counted(
    task: str, write: Callable[[Path, dict[str, Any]], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 1 was killed and started again; rank 0's agent has started its own again, and counted nothing."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", python_path())
    out = tmp_path / "out"
    out.mkdir()
    write(out / ABOUT if task == "words" else out, {"settings": {}})
    (out / FILE).write_bytes(b"all work so far")
    lines: list[str] = []
    run_processes(2, "host_programs", json.dumps({"program": "again", "out": str(out), "task": task}), lines.append)
    assert json.loads(lines[-1]) == [[True, False]] * 2
    assert (out / FILE).read_bytes() == b"all work so far"


def test_torchrun_starts_again_without_overwrite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, out = words(tmp_path), tmp_path / "out"
    first = trained(text, out=out)
    place(monkeypatch, TORCHELASTIC_RESTART_COUNT="1")
    assert (trained(text, out=out).embeddings.vectors == first.embeddings.vectors).all()


def test_a_run_with_restarts_does_not_take_the_former_result_for_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it is started again, that is; until then the former result stays."""
    text, out = words(tmp_path), tmp_path / "out"
    trained(text, out=out)
    place(monkeypatch, TORCHELASTIC_MAX_RESTARTS="1")
    with pytest.raises(any2vec.errors.DataError):
        trained(tmp_path / "nothing.txt", out=out, overwrite=True)
    torch.distributed.destroy_process_group()  # as by the end of the process
    assert len(any2vec.Embeddings.load(out))
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    again = trained(text, out=out, epochs=1)
    assert again.summary["epochs"] == 1 and not list(out.glob("*.new*"))


def words(folder: Path) -> Path:
    path = folder / "text.txt"
    path.write_text("".join(f"a b c d e w{line % 40}\n" for line in range(200)))
    return path


def trained(text: Path, *, epochs: int = 2, **more: object) -> any2vec.FitResult:
    model = any2vec.SkipGram(dim=8, window=3, min_count=1)
    return any2vec.fit(model, text, epochs=epochs, threads=1, seed=3, **more)  # type: ignore[arg-type]


def place(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    """Make this process the only host of a job of torchrun."""
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    for name, value in (alone | variables).items():
        monkeypatch.setenv(name, value)

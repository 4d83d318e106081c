"""Processes as hosts, over torch.distributed: the same result as logical hosts, and every fault names its rank."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from any2vec.cluster.processes import run_processes
from any2vec.cluster.threads import run_logical
from any2vec.errors import HostError
from host_programs import bsp, summary

pytest.importorskip("torch", reason="hosts as processes need torch (the extra any2vec[hosts])")
pytestmark = pytest.mark.skipif(os.name == "nt", reason="hosts as processes need POSIX")


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where each host notes (rank, error's class, message); afterwards no temporary folder may be left."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    path = tmp_path / "notes"
    path.touch()
    monkeypatch.setenv("NOTES", str(path))
    yield path
    assert not list((tmp_path / "temporary").iterdir())


def run(hosts: int, **settings: Any) -> Any:
    lines: list[str] = []
    run_processes(hosts, "host_programs", json.dumps(settings), lines.append)
    return json.loads(lines[-1])


def fail(notes: Path, hosts: int, **settings: Any) -> tuple[str, dict[int, tuple[str, str]]]:
    """(the launcher's error, rank -> what the survivor there was told) of a program that fails."""
    with pytest.raises(HostError) as caught:
        run(hosts, program="fault", **settings)
    told = [json.loads(line) for line in notes.read_text().splitlines()]
    return str(caught.value), {rank: (kind, text) for rank, kind, text in told}


def test_processes_and_logical_hosts_compute_the_same_with_the_same_bytes(notes: Path) -> None:
    expected = run_logical(3, lambda transport: summary(transport, bsp(transport)))
    assert run(3, program="bsp") == json.loads(json.dumps(expected))


def test_a_long_message_travels_in_chunks(notes: Path) -> None:
    assert run(2, program="large", size=(1 << 22) * 3 + 5) == [1]


def test_kill_9(notes: Path) -> None:
    error, told = fail(notes, 4, fault="kill")
    assert error == "Rank 2 was killed by SIGKILL, perhaps for memory."
    assert told.keys() == {0, 1, 3}
    assert all(text.startswith("Rank 2 is gone") for _, text in told.values())


def test_sigstop(notes: Path) -> None:
    error, told = fail(notes, 3, fault="stop", silence=2)
    assert error.startswith("Rank 2 has been silent for 2 s: its process is stopped")
    assert told.keys() == {0, 1}
    assert all(text.startswith("Rank 2 has been silent") for _, text in told.values())


def test_a_host_that_raises(notes: Path) -> None:
    error, told = fail(notes, 3, fault="raise")
    assert error == "Rank 2 failed: ZeroDivisionError: no more rows"
    assert told == dict.fromkeys((0, 1), ("HostError", error))


def test_a_host_that_leaves_without_a_word(notes: Path) -> None:
    error, told = fail(notes, 3, fault="leave")
    assert error.startswith("Rank 2 is gone") and told.keys() == {0, 1}


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [("head", "Rank 2 sent what is no message"), ("body", "A message from rank 2 arrived damaged")],
)
def test_a_damaged_message(notes: Path, fault: str, sentence: str) -> None:
    """MessageError where it arrived; every host learns of it, also the sender."""
    error, told = fail(notes, 3, fault=fault)
    assert sentence in error and told.keys() == {0, 1, 2}
    assert "MessageError" in {kind for kind, _ in told.values()}
    assert all(sentence in text for _, text in told.values())


@pytest.mark.parametrize("fault", ["job", "version"])
def test_hosts_that_disagree(notes: Path, fault: str) -> None:
    error, told = fail(notes, 2 + 1, fault=fault)
    assert error.startswith("Rank 2 has job 'other'" if fault == "job" else "Rank 2 has any2vec '0.0.0'")
    assert told == dict.fromkeys(range(3), ("HostError", error))


JOIN = "from any2vec.cluster import launch; launch.run_child(lambda: launch.join('job', patience=1))"


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"RANK": "0"}, "Rank 0 waited 1 s and not all of the 2 hosts came"),
        ({"RANK": "1"}, "Rank 1 could not reach rank 0 at 127.0.0.1:{port} in 1 s"),
        ({"RANK": "1", "MASTER_ADDR": "no.such.host.invalid"}, "could not reach rank 0 at no.such.host.invalid:{port}"),
        ({"RANK": "1", "MASTER_PORT": ""}, "Rank 1 has no valid meeting point"),
        ({"RANK": "0", "taken": "yes"}, "Port {port} (MASTER_PORT) is in use on the machine of rank 0"),
    ],
    ids=["alone", "nobody there", "unreachable", "no port", "port in use"],
)
def test_hosts_that_do_not_meet(variables: dict[str, str], sentence: str) -> None:
    """As under torchrun. One sentence, and no stack of C++ around it."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = str(listener.getsockname()[1])
        if "taken" in variables:
            listener.listen()
        else:
            listener.close()
        environment = os.environ | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port} | variables
        done = subprocess.run([sys.executable, "-c", JOIN], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1 and sentence.format(port=port) in done.stderr

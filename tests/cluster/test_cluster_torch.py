"""Processes as hosts, over torch.distributed: the same result as logical hosts, and every fault names its rank."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from any2vec.cluster import torch_transport
from any2vec.cluster.launch import join as launch
from any2vec.cluster.launch import rendezvous
from any2vec.cluster.launch.processes import run_processes
from any2vec.cluster.message import Message, Part
from any2vec.cluster.threads import run_logical
from any2vec.cluster.torch_transport import TorchTransport
from any2vec.errors import HostError, InputError, MessageError
from found_by_children import python_path
from host_programs import bsp, summary

torch = pytest.importorskip("torch", reason="hosts as processes need torch (the extra any2vec[torch])")
pytestmark = pytest.mark.skipif(os.name == "nt", reason="hosts as processes need POSIX")


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where each host notes (rank, error's class, message); afterwards no temporary folder may be left."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("PYTHONPATH", python_path())
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
    reported = [json.loads(line) for line in notes.read_text().splitlines()]
    return str(caught.value), {rank: (kind, text) for rank, kind, text in reported}


def test_processes_and_logical_hosts_compute_the_same_with_the_same_bytes(notes: Path) -> None:
    expected = run_logical(3, lambda transport: summary(transport, bsp(transport)))
    assert run(3, program="bsp") == json.loads(json.dumps(expected))


@pytest.mark.parametrize("size", [(1 << 22) * 3 + 5, 1 << 22, 1 << 16, (1 << 16) - 200, 1])
def test_a_long_message_travels_array_by_array_and_in_chunks(size: int, notes: Path) -> None:
    assert run(2, program="large", size=size) == [1]


def test_kill_9(notes: Path) -> None:
    error, reported = fail(notes, 4, fault="kill")
    assert error == "Rank 3 was killed by SIGKILL, perhaps for memory."
    assert reported.keys() == {0, 1, 2}
    assert all(text.startswith("Rank 3 is gone") for _, text in reported.values())


def test_sigstop(notes: Path) -> None:
    error, reported = fail(notes, 3, fault="stop", silence=2)
    assert error.startswith("Rank 2 has been silent for ") and "its process is stopped" in error
    assert reported.keys() == {0, 1}
    assert all(text.startswith("Rank 2 has been silent") for _, text in reported.values())


def test_a_host_that_raises(notes: Path) -> None:
    error, reported = fail(notes, 3, fault="raise")
    assert error == "Rank 2 failed: ZeroDivisionError: no more rows"
    assert reported == dict.fromkeys((0, 1), ("HostError", error))


def test_a_host_that_leaves_without_a_word(notes: Path) -> None:
    error, reported = fail(notes, 2, fault="leave")
    assert error.startswith("Rank 1 is gone") and reported.keys() == {0}


@pytest.mark.parametrize(
    ("hosts", "fault", "sentence"),
    [(2, "head", "Rank 1 sent what is no message"), (3, "body", "A message from rank 2 arrived damaged")],
    ids=["head", "body"],
)
def test_a_damaged_message(notes: Path, hosts: int, fault: str, sentence: str) -> None:
    """MessageError where it arrived; every host learns of it, also the sender."""
    error, reported = fail(notes, hosts, fault=fault)
    assert sentence in error and reported.keys() == set(range(hosts))
    assert "MessageError" in {kind for kind, _ in reported.values()}
    assert all(sentence in text for _, text in reported.values())


@pytest.mark.parametrize(
    ("hosts", "fault", "sentence"),
    [(3, "job", "Rank 2 has job 'other' and rank 0 has 'job'"), (2, "version", "Rank 1 has any2vec '0.0.0'")],
    ids=["job", "version"],
)
def test_hosts_that_disagree(notes: Path, hosts: int, fault: str, sentence: str) -> None:
    error, reported = fail(notes, hosts, fault=fault)
    assert error.startswith(sentence)
    assert reported == dict.fromkeys(range(hosts), ("JobError", error))


def test_a_host_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """WORLD_SIZE=1, as `torchrun --nproc-per-node 1` sets it."""
    place(monkeypatch, RANK="0", WORLD_SIZE="1")
    with launch.join("job") as transport:
        transport.barrier()
        assert transport.exchange({}, "x") == {}


@pytest.mark.parametrize(
    ("variables", "error", "sentence"),
    [
        ({"RANK": "0"}, HostError, "Rank 0 waited 1 s and not all of the 2 hosts came"),
        ({"RANK": "1"}, HostError, "Rank 1 could not reach rank 0 at 127.0.0.1:{port} in 1 s"),
        ({"RANK": "1", "MASTER_PORT": ""}, InputError, "Rank 1 has no valid rendezvous address"),
        ({"RANK": "0", "MASTER_PORT": "99999"}, InputError, "Rank 0 has no valid rendezvous address"),
        ({"RANK": "1", "MASTER_PORT": "99999"}, InputError, "Rank 1 has no valid rendezvous address"),
        ({"RANK": "0", "MASTER_PORT": "0"}, InputError, "Rank 0 has no valid rendezvous address"),
        ({"RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": "999999"}, InputError, "Rank 0 has no valid rendezvous addr"),
        ({"RANK": "0", "taken": "yes"}, InputError, "Port {port} (MASTER_PORT) is in use on the machine of rank 0"),
    ],
    ids=["alone", "nobody there", "no port", "too large", "as seen by rank 1", "none", "of one host", "port in use"],
)
def test_hosts_that_do_not_meet(
    variables: dict[str, str], error: type[Exception], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under torchrun."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = str(listener.getsockname()[1])
        if "taken" in variables:
            listener.listen()
        else:
            listener.close()
        place(monkeypatch, **({"WORLD_SIZE": "2", "MASTER_PORT": port} | variables))
        with pytest.raises(error) as caught:
            launch.join("job", patience=1)
    assert str(caught.value).startswith(sentence.format(port=port))


@pytest.mark.parametrize("parts", [(), (Part("control", np.array([255, 254], np.uint8)),)], ids=["none", "no text"])
def test_an_alarm_that_says_nothing(parts: tuple[Part, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sender is named, at once; nobody waits until it counts as silent."""
    transport = TorchTransport(0, 2)
    alarm = Message(1, torch_transport._SERVICE, 0, "alarm", parts)
    monkeypatch.setattr(transport, "_read", lambda line: alarm)
    transport._read_all(transport._lines[1])
    with pytest.raises(MessageError, match=r"^Rank 1 sent what is no message: an alarm without a text\.$"):
        transport.recv(1, timeout=0)


def test_an_unreachable_address_is_one_line() -> None:
    """No stack of C++ around it: torch's own log is off."""
    code = "from any2vec.cluster.launch import join as launch; launch.run_child(lambda: launch.join('job', patience=1))"
    place = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "no.such.host.invalid", "MASTER_PORT": "29500"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | place, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("Rank 1 could not reach rank 0 at no.such.host.invalid:29500 in 1 s")


def test_a_restarted_job_does_not_meet_its_past() -> None:
    """`torchrun --max-restarts` keeps the store: what the attempts before have written there misleads nobody.

    In the first attempt only rank 1 came, and died; in the others all came, rank 2 late.
    """
    common = torch.distributed.HashStore()
    common.set_timeout(timedelta(seconds=30))
    common.set("any2vec/call/1", "a word of the past")

    def common_word(attempt: int, rank: int) -> str:
        time.sleep(0.2 * (rank == 2))
        store = rendezvous.fresh(common, rank, 3, 30)
        assert not store.check([f"address/{rank}"])
        store.set(f"address/{rank}", "here")
        if rank == 0:
            store.set("word", f"attempt {attempt}")
        return store.get("word").decode()

    for attempt in range(2, 5):
        with ThreadPoolExecutor(3) as pool:
            assert set(pool.map(common_word, [attempt] * 3, range(3))) == {f"attempt {attempt}"}


def test_rank_0_names_who_did_not_come() -> None:
    common = torch.distributed.HashStore()
    common.set("any2vec/call/1", "a word of the past")
    with pytest.raises(HostError, match="Rank 1 did not come within"):
        rendezvous.fresh(common, 0, 3, 0.1)


def listening(port: int) -> list[str]:
    """The addresses at which somebody of this machine listens on a port, as Linux lists them: 127.0.0.1 is 0100007F."""
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            address, _, number = line.split()[1].partition(":")
            if int(number, 16) == port and line.split()[3] == "0A":
                found.append(address)
    return found


@pytest.mark.skipif(not Path("/proc/net/tcp6").exists(), reason="needs Linux's list of sockets")
@pytest.mark.parametrize(
    "variables",
    [
        {"LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "localhost"},
        {},
        {"MASTER_ADDR": "localhost"},
        {"MASTER_ADDR": "LocalHost"},
    ],
    ids=["name", "IP", "localhost", "spelled otherwise"],
)
def test_hosts_of_one_machine_meet_where_no_other_machine_can_reach(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    place(monkeypatch, RANK="0", WORLD_SIZE="1", MASTER_PORT=str(port), **variables)
    store = rendezvous._common_store(0, 1, timedelta(seconds=10))
    assert len(listening(port)) == 1 and set(listening(port)) <= {"0100007F", "00" * 12 + "01000000"}
    store.set("a", "b")
    assert store.get("a") == b"b"


@pytest.mark.parametrize(
    "variables",
    [{"TORCHELASTIC_USE_AGENT_STORE": "True"}, {"MASTER_ADDR": "head.example"}, {"MASTER_ADDR": "192.0.2.1"}],
    ids=["torchrun serves", "a name among machines", "not of this machine"],
)
def test_elsewhere_torch_listens_as_it_does(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    place(monkeypatch, RANK="0", WORLD_SIZE="2", LOCAL_WORLD_SIZE="1", **variables)
    assert rendezvous._listener() is None


def place(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    """Make this process a host."""
    for name, value in ({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"} | variables).items():
        monkeypatch.setenv(name, value)

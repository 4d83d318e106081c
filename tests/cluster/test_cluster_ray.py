"""Hosts on a Ray cluster: the contract of the launcher, faults that name the rank, and nothing that stays behind."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import any2vec
from any2vec.cluster.launch.ending import Ending, cause
from any2vec.cluster.ray import driver as ray_driver
from any2vec.cluster.ray.actor import HostActor
from any2vec.cluster.ray.address import parse_address
from any2vec.cluster.ray.hosts import run_ray
from any2vec.cluster.ray.parent import Lines
from any2vec.cluster.threads import run_logical
from any2vec.errors import HostError, InputError, Interrupted
from found_by_children import python_path
from host_programs import bsp, summary
from planted_nodes import SMALL, plant, same, trained

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Ray clusters need POSIX")
needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None or importlib.util.find_spec("torch") is None,
    reason="hosts on Ray need ray and torch (the extra any2vec[ray])",
)
TESTS = python_path()
STATE = """
import json, logging, sys
import ray
from ray._private import internal_api
from ray.experimental.internal_kv import _internal_kv_get, _internal_kv_put
ray.init(sys.argv[1], log_to_driver=False, configure_logging=False, logging_level=logging.CRITICAL)
metadata = json.loads(_internal_kv_get(b"CLUSTER_METADATA", namespace=b"cluster"))
if len(sys.argv) > 2:
    metadata["ray_version"] = sys.argv[2]
    _internal_kv_put(b"CLUSTER_METADATA", json.dumps(metadata).encode(), overwrite=True, namespace=b"cluster")
node = ray.nodes()[0]
store = internal_api.node_stats(node["NodeManagerAddress"], node["NodeManagerPort"]).store_stats
groups = [group["state"] for group in ray.util.placement_group_table().values()]
print(json.dumps([groups, store.cumulative_created_bytes, ray.cluster_resources()["CPU"], metadata["ray_version"]]))
"""


def marked(mark: str) -> list[str]:
    """What runs with this mark in its environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (path / "environ").read_bytes() and path.name != str(os.getpid()):
                found.append((path / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:100])
        except OSError:
            continue
    return found


def assert_gone(mark: str, seconds: float = 20) -> None:
    """Nothing that has the mark is left, or not for long."""
    deadline = time.monotonic() + seconds
    while left := marked(mark):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A cluster of one node with 2 CPUs, as `ray start` makes it. Nothing of it is left when the module ends."""
    port, mark = free_port(), f"A2V_TEST={uuid.uuid4()}"
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp", ignore_cleanup_errors=True) as folder:
        own = {"PYTHONPATH": TESTS, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "disabled"}
        own |= dict([mark.split("=")])
        options = f"--head --block --port={port} --num-cpus=2 --object-store-memory=80000000 --include-dashboard=false"
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", *options.split(), f"--temp-dir={folder}"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in own.items():
                patch.setenv(name, value)
            process = subprocess.Popen(command, start_new_session=True, **quiet)  # type: ignore[call-overload]
            try:
                wait_for(port, process)
                yield f"127.0.0.1:{port}"
            finally:
                process.terminate()
                process.wait(60)
        assert_gone(mark)


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("ray start did not start")


def state(address: str, *version: str) -> tuple[list[str], int, float, str]:
    """(states of the placement groups, bytes ever put into the object store, CPUs, version) of a cluster."""
    pytest.importorskip("grpc", reason="Ray tells the state of a cluster through grpcio")
    done = subprocess.run([sys.executable, "-c", STATE, address, *version], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found: tuple[list[str], int, float, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def run(address: str, program: str, module: str = "ray_programs", **settings: Any) -> list[str]:
    """The lines of a job of two hosts."""
    options = {name: settings.pop(name) for name in ("cpus_per_host", "patience") if name in settings}
    lines: list[str] = []
    on_line = settings.pop("on_line", lines.append)
    run_ray(address, 2, module, json.dumps({"program": program, **settings}), on_line, **options)
    return lines


@needs_ray
def test_hosts_over_gloo_compute_what_logical_hosts_compute(address: str) -> None:
    expected = run_logical(2, lambda transport: summary(transport, bsp(transport)))
    lines = run(address, "bsp", module="host_programs")
    assert json.loads(lines[-1]) == json.loads(json.dumps(expected))


@pytest.mark.slow
@needs_ray
def test_layers_over_ray_learn_what_one_host_learns(address: str, tmp_path: Path) -> None:
    planted, more = plant(tmp_path), {"quantize": "8"}
    spread = trained(planted, 8, SMALL | more, hosts=any2vec.HostOptions(hosts=2, ray=address))
    assert same(trained(planted, 8, SMALL | more), spread) and spread.summary["hosts"] == 2


@needs_ray
def test_lines_arrive_in_order_and_outside_the_object_store(address: str) -> None:
    before = state(address)[1]
    lines = run(address, "count", lines=3000, width=300)
    assert lines == [*(f"0 {number} {'ä' * 300}" for number in range(3000)), "0 end"]
    groups, after, _, _ = state(address)
    assert after - before < 1000  # Ray's own few bytes for each driver; the lines are 1.8 MB
    assert set(groups) == {"REMOVED"}


@needs_ray
def test_the_host_that_failed_is_named_with_its_sentence(address: str) -> None:
    with pytest.raises(HostError) as caught:
        run(address, "fail")
    assert str(caught.value) == "Rank 1 failed: The corpus is empty; give another one."
    assert caught.value.__notes__ == ["some warning", "The corpus is empty; give another one."]


@pytest.mark.slow
@needs_ray
def test_a_killed_actor_is_named_and_takes_everything_with_it(address: str, tmp_path: Path) -> None:
    def kill(_: str) -> None:
        os.kill(json.loads((tmp_path / "1.json").read_text())[0], signal.SIGKILL)

    settings = json.dumps({"program": "work", "pids": str(tmp_path)})
    with pytest.raises(HostError, match=r"^Rank 1 was lost: its Ray actor is gone"):
        run_ray(address, 2, "ray_programs", settings, kill)
    assert_ended(tmp_path)
    assert set(state(address)[0]) == {"REMOVED"}


@pytest.mark.slow
@needs_ray
def test_a_signal_reaches_the_hosts(address: str, tmp_path: Path) -> None:
    settings = json.dumps({"program": "work", "pids": str(tmp_path)})
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted, match=r"^Rank [01] stopped in good order\.$"):
        run_ray(address, 2, "ray_programs", settings, lambda _: os.kill(os.getpid(), signal.SIGTERM))
    assert signal.getsignal(signal.SIGTERM) is before
    assert_ended(tmp_path)


def test_a_stop_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 has stopped as it was asked to; rank 1 is alive and does not come to its end."""
    looks = iter(range(10_000))

    def wait(calls: list[int], timeout: float) -> tuple[list[int], list[int]]:
        assert next(looks) < 5000, "it waits for ever"
        time.sleep(1e-3)
        return calls, []

    answers = [(b"", 130, ["Stopped by SIGTERM."]), (b"", None, [])]
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(wait=wait, get=answers.__getitem__))
    monkeypatch.setattr(ray_driver, "_STOPPING", 0.05)
    parent: Any = SimpleNamespace(stops=1, beat=lambda: None, order={"patience": 60.0})
    actors: list[Any] = [
        SimpleNamespace(
            **{name: SimpleNamespace(remote=lambda _, rank=rank: rank) for name in ("follow", "send_signal")}
        )
        for rank in (0, 1)
    ]
    with pytest.raises(Interrupted, match="Stopped by SIGTERM"):
        ray_driver._watch(parent, actors, Lines(lambda _: None))


def test_a_free_port_is_looked_for_at_the_nodes_own_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not on all interfaces."""
    asked: list[Any] = []
    create = socket.create_server
    monkeypatch.setattr(socket, "create_server", lambda address: asked.append(address) or create(address))
    ray = SimpleNamespace(
        util=SimpleNamespace(get_node_ip_address=lambda: "127.0.0.1"),
        get_runtime_context=lambda: SimpleNamespace(get_node_id=lambda: "node"),
    )
    monkeypatch.setitem(sys.modules, "ray", ray)
    assert HostActor().describe()[:2] == ("node", "127.0.0.1") and asked == [("127.0.0.1", 0)]


@pytest.mark.slow
@needs_ray
def test_an_error_of_the_caller_ends_the_hosts(address: str, tmp_path: Path) -> None:
    def refuse(_: str) -> None:
        raise ZeroDivisionError

    settings = json.dumps({"program": "work", "pids": str(tmp_path)})
    with pytest.raises(ZeroDivisionError):
        run_ray(address, 2, "ray_programs", settings, refuse)
    assert_ended(tmp_path)
    assert set(state(address)[0]) == {"REMOVED"}


def assert_ended(pids: Path) -> None:
    """The processes that the hosts noted are gone (their numbers are not given away so soon)."""
    for rank in (0, 1):
        for pid in json.loads((pids / f"{rank}.json").read_text()):
            for _ in range(100):
                if not Path(f"/proc/{pid}").exists():
                    break
                time.sleep(0.1)
            else:
                raise AssertionError(f"a process of rank {rank} still runs")


@pytest.mark.slow
@needs_ray
def test_hosts_that_failed_can_be_started_again(address: str, tmp_path: Path) -> None:
    """A line that was only begun when a host failed is not told; who starts them again is `train.launch`."""
    reported: list[str] = []
    with pytest.raises(HostError, match="Rank 1"):
        run(address, "again", tries=str(tmp_path), on_line=reported.append)
    assert reported == ["round 0", "round 0"]
    assert run(address, "again", tries=str(tmp_path)) == ["round 0", "round 0", "round 1", "round 0"]


@pytest.mark.slow
@needs_ray
def test_a_signal_ends_the_wait_for_a_place(address: str) -> None:
    """Who asks for more than the cluster has need not wait until patience ends."""
    timer = threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    try:
        with pytest.raises(Interrupted, match="before all hosts had started"):
            run(address, "places", folder="", cpus_per_host=3, patience=40)
    finally:
        timer.cancel()
    assert set(state(address)[0]) == {"REMOVED"}


@pytest.mark.slow
@needs_ray
def test_too_few_cpus_is_a_sentence_with_both_numbers(address: str) -> None:
    with pytest.raises(InputError, match="2 hosts of 3 CPUs each want 6 CPUs, and the Ray cluster has 2,"):
        run(address, "places", folder="", cpus_per_host=3, patience=10)


@pytest.mark.slow
@needs_ray
def test_another_version_of_ray_is_one_sentence(address: str, capfd: pytest.CaptureFixture[str]) -> None:
    ours = state(address)[3]
    state(address, "1.2.3")
    try:
        with pytest.raises(InputError, match=rf"runs Ray 1\.2\.3 with Python .* this process Ray {ours} with"):
            run(address, "places", folder="")
    finally:
        # A driver of this version is refused now, so the truth is put back without joining the cluster.
        restore = (
            "import json, sys; from ray._raylet import GcsClient; client = GcsClient(address=sys.argv[1]);"
            "key, space = b'CLUSTER_METADATA', b'cluster';"
            "data = json.loads(client.internal_kv_get(key, namespace=space)) | {'ray_version': sys.argv[2]};"
            "client.internal_kv_put(key, json.dumps(data).encode(), overwrite=True, namespace=space)"
        )
        subprocess.run([sys.executable, "-c", restore, address, ours], check=True, timeout=60)
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
@needs_ray
def test_a_local_cluster_comes_and_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    mark = str(uuid.uuid4())
    monkeypatch.setenv("A2V_TEST_LOCAL", mark)
    monkeypatch.setenv("PYTHONPATH", TESTS)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert run("local", "places", folder=str(tmp_path)) == []
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)]
    for rank, (here, folder, program, secrets) in enumerate(found):
        port = here.pop("MASTER_PORT")
        assert port.isdecimal()
        assert port == found[0][0].get("MASTER_PORT", port)
        assert here == {
            "RANK": f"{rank}", "WORLD_SIZE": "2", "LOCAL_RANK": f"{rank}", "LOCAL_WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
        }  # fmt: skip
        assert (folder, Path(program).stem, secrets) == (str(tmp_path), "ray_programs", [])
    assert_gone(mark)
    assert not (tmp_path / ".ray").exists()
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
@needs_ray
def test_an_address_that_does_not_answer_is_one_sentence_in_time(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(HostError, match=r"^No Ray cluster can be reached at 127\.0\.0\.1:\d+: Connection refused; "):
        run(f"127.0.0.1:{free_port()}", "places", folder="")
    with socket.create_server(("127.0.0.1", 0)) as mute:  # it takes the call and says nothing
        port = mute.getsockname()[1]
        with pytest.raises(HostError, match=rf"^The Ray cluster 127\.0\.0\.1:{port} does not answer as one within 6 s"):
            run(f"127.0.0.1:{port}", "places", folder="", patience=6)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("text", ["", "local", "auto"])
def test_addresses_without_a_place(text: str) -> None:
    assert parse_address(text) is None


@pytest.mark.parametrize(
    ("text", "place"),
    [("head:6379", ("head", 6379)), ("10.0.0.1:10001", ("10.0.0.1", 10001)), ("[::1]:1", ("::1", 1))],
)
def test_addresses(text: str, place: tuple[str, int]) -> None:
    assert parse_address(text) == place


@pytest.mark.parametrize(
    "text", ["head", "head:0", "head:65536", "http://head:1", "ray://head:10001", ":6379", "a b:1"]
)
def test_wrong_addresses(text: str) -> None:
    with pytest.raises(InputError, match=r"is local, auto or HOST:PORT of its head, got "):
        parse_address(text)


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r'in a clone: pip install -e ".\[ray\]"'):
        run("local", "places")


@pytest.mark.parametrize(
    "wrong",
    [{"address": "http://head"}, {"hosts": 0}, {"cpus_per_host": 0}, {"patience": 0}, {"argument": "x" * 65537}],
)
def test_wrong_arguments(wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("any2vec.cluster.ray.hosts._Driver")  # nothing is started for them
    with pytest.raises(InputError, match=next(iter(wrong))):
        run_ray(**{"address": "local", "hosts": 1, "module": "m", "argument": "", "on_line": print} | wrong)


def test_the_cause_is_who_was_lost_then_who_was_killed_then_who_blames_nobody() -> None:
    blames = Ending(rank=0, code=2, lines=("Rank 2 was lost.",))
    alone = Ending(rank=1, code=2, lines=("The disk is full.", ""))
    killed = Ending(rank=2, code=-9)
    assert str(cause([blames])) == "Rank 2 was lost."
    assert str(cause([blames, alone])) == "Rank 1 failed: The disk is full."
    assert str(cause([blames, alone, killed])) == "Rank 2 was killed by SIGKILL, perhaps for memory."
    assert str(cause([blames, Ending(rank=3, code=None, lines=("Rank 3 was lost.",))])) == "Rank 3 was lost."
    assert str(cause([Ending(rank=1, code=7)])) == "Rank 1 ended with exit code 7 and did not say why."

"""The launcher: lines, errors, signals, and that nothing of the children stays behind. None of these needs torch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from any2vec.cluster.launch import join as launch
from any2vec.cluster.launch.processes import run_processes
from any2vec.errors import HostError, InputError, Interrupted
from found_by_children import python_path

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
HEAD = "import os, signal, subprocess, sys, time\nrank = int(os.environ['RANK'])\n"
NOTE = "open(os.path.join(sys.argv[1], str(os.getpid())), 'w').close()\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made, and children's modules are found."""
    (tmp_path / "temporary").mkdir()
    (tmp_path / "pids").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("PYTHONPATH", python_path(tmp_path))
    return tmp_path


def run(folder: Path, hosts: int, code: str, on_line: object = None) -> list[str]:
    """Run `code` as children, which all note their pids; then nothing of them may be left. Their lines."""
    (folder / "child.py").write_text(HEAD + NOTE + code)
    lines: list[str] = []
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    try:
        run_processes(hosts, "child", str(folder / "pids"), on_line or lines.append)  # type: ignore[arg-type]
    finally:
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
        assert_nothing_is_left(folder)
    return lines


def assert_nothing_is_left(folder: Path) -> None:
    """Its processes are looked at more than once: on a busy machine one that was killed needs a moment to end."""
    assert not list((folder / "temporary").iterdir())
    pids = [int(path.name) for path in (folder / "pids").iterdir()]
    latest = time.monotonic() + 10
    while (left := [pid for pid in pids if is_running(pid)]) and time.monotonic() < latest:
        time.sleep(0.05)
    assert not left


def is_running(pid: int) -> bool:
    """Whether it is a process that has not ended; one that has may wait to be reaped by whom it was left to."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def test_lines_of_rank_0_arrive_in_order_and_those_of_others_do_not(folder: Path) -> None:
    lines = run(folder, 3, "for number in range(300): print(rank, 'Zürich', number)\n")
    assert lines == [f"0 Zürich {number}" for number in range(300)]


def test_children_know_their_place(folder: Path) -> None:
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    code = f"open(sys.argv[1] + '/../place' + str(rank), 'w').write(' '.join(os.environ[n] for n in {names}))\n"
    run(folder, 3, code)
    assert [(folder / f"place{rank}").read_text() for rank in range(3)] == [f"{rank} 3 {rank} 3" for rank in range(3)]


def test_the_callers_environment_goes_before_ours(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "child.py").write_text("import os\nprint(os.environ['GLOO_SOCKET_IFNAME'], os.environ['MORE'])\n")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    lines: list[str] = []
    run_processes(1, "child", "", lines.append, {"MORE": "more"})
    assert lines == ["eth7 more"]


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        ("raise ZeroDivisionError('no more rows')", "Rank 1 failed: ZeroDivisionError: no more rows"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "Rank 1 was killed by SIGKILL, perhaps for memory."),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "Rank 1 was killed by SIGSEGV."),
        ("sys.exit(3)", "Rank 1 ended with exit code 3 and did not say why."),
        ("sys.exit('Rank 1 has numpy 1 and rank 0 has 2.')", "Rank 1 has numpy 1 and rank 0 has 2."),
    ],
    ids=["raises", "SIGKILL", "SIGSEGV", "silent", "sentence"],
)
def test_the_error_names_the_first_to_fail_and_why(folder: Path, failure: str, sentence: str) -> None:
    """The others blame rank 1, and may even end before it."""
    others = "time.sleep(0.3 * (rank == 2)); sys.exit('Rank 1 is gone.')"
    with pytest.raises(HostError) as caught:
        run(folder, 3, f"if rank == 1: {failure}\nelse: {others}\n")
    assert str(caught.value) == sentence


def test_the_last_lines_are_kept_as_notes(folder: Path) -> None:
    with pytest.raises(HostError) as caught:
        run(folder, 1, "for number in range(50): print('line', number, file=sys.stderr)\nsys.exit(2)\n")
    assert str(caught.value) == "Rank 0 failed: line 49"
    assert caught.value.__notes__ == [f"line {number}" for number in range(30, 50)]


@pytest.mark.parametrize("deaf", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n", "os.kill(os.getpid(), 19)\n"])
def test_others_are_ended_when_one_fails(folder: Path, deaf: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when they sleep, ignore SIGTERM, or are stopped; and what they have started themselves."""
    monkeypatch.setattr("any2vec.cluster.launch.processes._GRACE", 0.3)
    code = (
        "if rank == 0: time.sleep(0.5); sys.exit('bad rows')\n"
        "other = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open(os.path.join(sys.argv[1], str(other.pid)), 'w').close()\n{deaf}time.sleep(600)\n"
    )
    with pytest.raises(HostError, match="Rank 0 failed: bad rows"):
        run(folder, 2, code)


def test_what_a_child_has_started_ends_with_it(folder: Path) -> None:
    code = (
        "other = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "open(os.path.join(sys.argv[1], str(other.pid)), 'w').close()\n"
    )
    run(folder, 1, code)


def test_an_error_of_the_caller_ends_the_children(folder: Path) -> None:
    def on_line(line: str) -> None:
        raise KeyError(line)

    with pytest.raises(KeyError, match="ready"):
        run(folder, 2, "print('ready'); time.sleep(600)\n", on_line)


OBEYS = (
    "from any2vec.cluster.launch import join as launch\nlaunch.run_child(lambda: (print('ready'), time.sleep(600)))\n"
)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_are_passed_on(folder: Path, number: signal.Signals) -> None:
    with pytest.raises(Interrupted, match=number.name):
        run(folder, 2, OBEYS, lambda line: os.kill(os.getpid(), number))


def test_a_stop_does_not_wait_for_ever(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One child cannot obey: somebody has stopped it."""
    monkeypatch.setattr("any2vec.cluster.launch.processes._STOPPING", 0.3)
    monkeypatch.setattr("any2vec.cluster.launch.processes._GRACE", 0.3)
    with pytest.raises(Interrupted, match="SIGTERM"):
        run(
            folder,
            2,
            f"if rank == 1: os.kill(os.getpid(), signal.SIGSTOP)\n{OBEYS}",
            lambda line: os.kill(os.getpid(), signal.SIGTERM),
        )


def test_a_second_signal_kills(folder: Path) -> None:
    code = "signal.signal(signal.SIGINT, lambda *_: print('no'))\nprint('ready')\nwhile True: time.sleep(600)\n"
    with pytest.raises(Interrupted, match="SIGINT"):
        run(folder, 1, code, lambda line: os.kill(os.getpid(), signal.SIGINT))


@pytest.mark.parametrize("has_files", [False, True])
def test_children_end_with_a_parent_that_is_killed(folder: Path, has_files: bool) -> None:
    """kill -9 of the launcher: its children see their standard input end, and remove where they met, and its files."""
    (folder / "child.py").write_text(
        HEAD
        + NOTE
        + "from any2vec.cluster.launch import join as launch\nlaunch._watch_parent()\n"
        + OBEYS.splitlines()[1]
        + "\n"
    )
    files = "from pathlib import Path; made = Path(tempfile.mkdtemp(prefix='any2vec-')); (made / 'job.json').touch()"
    parent = (
        f"import tempfile; tempfile.tempdir = {str(folder / 'temporary')!r}\n"
        "from any2vec.cluster.launch.processes import run_processes\n"
        f"{files if has_files else 'made = None'}\n"
        f"run_processes(2, 'child', {str(folder / 'pids')!r}, lambda line: print(line, flush=True), folder=made)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.kill()
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + 30
    while list((folder / "temporary").iterdir()) or any(is_running(int(p.name)) for p in (folder / "pids").iterdir()):
        assert time.monotonic() < deadline, "children outlived their parent"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("work", "code", "last"),
    [
        ("print('done')", 0, ""),
        ("raise_(DataError('line 3 of x.txt is empty'))", 3, "line 3 of x.txt is empty"),
        ("raise_(ValueError('no'))", 2, "ValueError: no"),
        ("raise_(Interrupted('Stopped at 40 %.'))", 130, "Stopped at 40 %."),
        ("raise_(KeyboardInterrupt())", 130, "Stopped by SIGINT."),
        ("sys.exit(0)", 0, ""),
        ("sys.exit(5)", 5, ""),
        ("sys.exit('no more')", 2, "no more"),
    ],
)
def test_a_child_ends_by_the_contract(work: str, code: int, last: str) -> None:
    script = (
        "import sys, threading, time\nfrom any2vec.cluster.launch import join as launch\n"
        "from any2vec.errors import DataError, Interrupted\n"
        "def raise_(error): raise error\n"
        "threading.Thread(target=time.sleep, args=(600,)).start()  # nothing that still runs holds the process\n"
        f"launch.run_child(lambda: {work})\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == code
    assert (done.stderr.splitlines() or [""])[-1] == last
    assert done.stdout == ("done\n" if "done" in work else "")


@pytest.mark.parametrize("hosts", [0, -1, 1025, 2.5, True])
def test_a_bad_number_of_hosts(hosts: int) -> None:
    with pytest.raises(InputError, match="hosts must be a whole number from 1 to 1,024"):
        run_processes(hosts, "child", "", print)


def test_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert not launch.joined()
    monkeypatch.setenv("RANK", "0")
    assert launch.joined()


@pytest.mark.parametrize(
    ("rank", "hosts"),
    [("x", "2"), ("", "2"), ("-1", "2"), ("2", "2"), ("0", "0"), ("0", "1e3"), ("00", "2"), ("0", "02")],
)
def test_a_place_that_cannot_be(rank: str, hosts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", hosts)
    with pytest.raises(InputError, match=r"RANK|WORLD_SIZE"):
        launch.join("job")


def test_without_torch_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r'pip install -e "\.\[torch\]" -c constraints'):
        launch.join("job")


def test_hosts_that_differ_are_named_with_both_values() -> None:
    ours = launch.metadata("a job")
    assert {"any2vec", "numpy", "numba", "torch", "message format", "job"} == ours.keys()
    launch.compare([ours, ours, dict(ours)])
    for name, value in ours.items():
        with pytest.raises(HostError) as caught:
            launch.compare([ours, ours, ours | {name: "other"}, ours | {name: "third"}])
        fix = "give all hosts the same command" if name == "job" else "start all hosts"
        assert str(caught.value).startswith(f"Rank 2 has {name} 'other' and rank 0 has {value!r}; {fix}")

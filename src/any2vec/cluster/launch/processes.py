"""Local processes, started and watched by one parent: nothing of them stays behind, whatever happens."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import IO

from any2vec.checks import check_whole
from any2vec.cluster.launch.ending import Ending, cause
from any2vec.errors import InputError, Interrupted
from any2vec.signals import name_of, stops_go_to

RENDEZVOUS = "ANY2VEC_RENDEZVOUS"
"""variable: where children meet (file:///…); where it is not set, as torchrun says"""
FOLDER = "any2vec-"
"""how the names of folders begin in which a launcher leaves its children files"""
MOST_PROCESSES = 1024
_KEPT = 20  # lines of each child's standard error
_GRACE = 3.0  # seconds for the others to notice a failure by themselves, and again to obey SIGTERM
_STOPPING = 60.0  # seconds for the others to write a checkpoint, when one has stopped as it was asked to
_LOOK = 0.05


class _Child:
    """One process and its last lines."""

    def __init__(self, rank: int, process: subprocess.Popen[bytes]) -> None:
        self.rank = rank
        self.process = process
        self.lines: deque[str] = deque(maxlen=_KEPT)
        self.readers: list[threading.Thread] = []
        self.is_swept = False

    def is_running(self) -> bool:
        """Whether it has not ended; when it has, what it started is ended, too."""
        if self.process.poll() is None:
            return True
        if not self.is_swept:  # at once, for its number may be given to another process later
            self.is_swept = True
            self._announce(signal.SIGKILL)
        return False

    def signal(self, number: int) -> None:
        """To the process and what it started."""
        if self.is_running():
            self._announce(number)

    def _announce(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def ending(self) -> Ending:
        """How it ended."""
        return Ending(rank=self.rank, code=self.process.returncode, lines=tuple(self.lines))


def run_processes(
    hosts: int,
    module: str,
    argument: str,
    on_line: Callable[[str], None],
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> None:
    """Run `python -m module argument` as so many hosts on this machine, which `launch.join` each other; wait for all.

    SIGINT, SIGTERM and SIGHUP are passed on to the children, which stop in good order; a second one kills them. Call
    it from the main thread, or signals are left alone.

    Args:
        hosts: processes, 1 to 1024; each gets RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE.
        module: it keeps the contract of `launch`; it must be found by a new interpreter in this working directory.
        on_line: called in this thread with each line that rank 0 writes to standard output, without its end.
        environment: variables beside those of this process.
        folder: of files that this process leaves its children, and removes; they do, where it is killed.

    Raises:
        InputError: too many hosts, or not a POSIX system.
        HostError: a child failed: which and why. The lines that it wrote last are notes of the error.
        Interrupted: the children were asked to stop, and did.
    """
    if os.name != "posix":
        raise InputError("Hosts as processes need POSIX (Linux or macOS); here, use --logical-hosts.")
    check_whole("hosts", hosts, 1, MOST_PROCESSES)
    made = Path(tempfile.mkdtemp(prefix=FOLDER)) if folder is None else folder
    meeting = made / f"rendezvous-{uuid.uuid4().hex}"
    children = _Children()
    try:
        with children.forwarding():
            children.start(hosts, [sys.executable, "-m", module, argument], _environment(hosts, meeting, environment))
            children.watch(on_line)
            children.judge()
    finally:
        children.end()
        meeting.unlink(missing_ok=True)
        if folder is None:
            shutil.rmtree(made, ignore_errors=True)


class _Children:
    """All children."""

    def __init__(self) -> None:
        self.children: list[_Child] = []
        self.asked: int = 0
        """the signal that asked for a stop"""
        self.failed: list[_Child] = []
        """who ended by an error before we ended them, in the order in which we noticed"""
        self.output: SimpleQueue[str] = SimpleQueue()

    def start(self, hosts: int, command: list[str], environment: dict[str, str]) -> None:
        for rank in range(hosts):
            process = subprocess.Popen(
                command,
                env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdin=subprocess.PIPE,  # never written to: its end tells the child that this process is gone
                stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C in a terminal reaches the children through us alone
            )
            child = _Child(rank, process)
            self.children.append(child)
            child.readers.append(_reader(process.stderr, child.lines.append))
            if rank == 0:
                child.readers.append(_reader(process.stdout, self.output.put))

    @contextmanager
    def forwarding(self) -> Iterator[None]:
        """Within it, signals that stop go to the children."""

        def forward(number: int, _: FrameType | None) -> None:
            for child in self.children:
                child.signal(signal.SIGKILL if self.asked else number)
            self.asked = self.asked or number

        with stops_go_to(forward):
            yield

    def watch(self, on_line: Callable[[str], None]) -> None:
        """Pass on lines until every child has ended; end the others a while after one has failed."""
        deadline, last_resort = float("inf"), False
        while any(child.is_running() for child in self.children):
            with suppress(Empty):
                on_line(self.output.get(timeout=_LOOK))
            if not last_resort:
                deadline = min(deadline, time.monotonic() + self._notice())
            if time.monotonic() > deadline:
                for child in self.children:
                    child.signal(signal.SIGKILL if last_resort else signal.SIGTERM)
                deadline, last_resort = time.monotonic() + _GRACE, True
        if not last_resort:
            self._notice()
        for child in self.children:
            for reader in child.readers:
                reader.join(_GRACE)  # something that the child started may hold the other end
        while not self.output.empty():
            on_line(self.output.get())

    def judge(self) -> None:
        """Raise what the children's ends amount to."""
        codes = [child.process.returncode for child in self.children]
        if self.asked and any(codes):
            stopped = next((child for child in self.children if child.process.returncode == 130 and child.lines), None)
            raise Interrupted(stopped.lines[-1] if stopped else f"Stopped by {name_of(self.asked)}.")
        if self.failed:
            raise cause([child.ending() for child in self.failed])

    def end(self) -> None:
        """Leave nothing behind."""
        for child in self.children:
            child.signal(signal.SIGKILL)
        for child in self.children:
            child.process.wait()
            if child.process.stdin:
                child.process.stdin.close()

    def _notice(self) -> float:
        """Note who has failed; seconds that the others have to end by themselves."""
        for child in self.children:
            if not child.is_running() and child.process.returncode and child not in self.failed:
                self.failed.append(child)
        if any(not (self.asked and child.process.returncode == 130) for child in self.failed):
            return _GRACE
        return _STOPPING if self.failed else float("inf")


def _environment(hosts: int, meeting: Path, more: Mapping[str, str] | None) -> dict[str, str]:
    """What all children get: where they meet, and that they meet on this machine alone."""
    environment = os.environ | (more or {})
    environment |= {
        "WORLD_SIZE": str(hosts),
        "LOCAL_WORLD_SIZE": str(hosts),
        "PYTHONUNBUFFERED": "1",
        RENDEZVOUS: f"file://{meeting}",
    }
    loopback = [name for _, name in socket.if_nameindex() if name in ("lo", "lo0")]
    if loopback:
        environment.setdefault("GLOO_SOCKET_IFNAME", loopback[0])
    return environment


def _reader(stream: IO[bytes] | None, take: Callable[[str], None]) -> threading.Thread:
    """A thread that hands over the lines of a stream until it ends."""

    def read() -> None:
        assert stream is not None
        with stream:
            for line in stream:
                take(line.decode(errors="replace").rstrip("\r\n"))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread

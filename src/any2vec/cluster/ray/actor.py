"""What runs in a Ray actor: it starts one host as a process on its node, follows it, and ends it.

The host is a child process and not the actor itself, so that a host which hangs, is killed or leaves by os._exit never
takes Ray's worker (and the reason) with it. Only plain strings, numbers and bytes go through Ray, in answers of at
most CHUNK bytes: these travel inside the messages of Ray's calls and never enter its object store.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import IO

from any2vec._version import __version__

CHUNK = 1 << 15
"""bytes of standard output in one answer; Ray puts answers of more than 100 KiB into its object store"""
_WAITING = 1 << 20  # bytes of output that wait for the driver; a host that writes more is held up
_KEPT = 20  # lines of standard error,
_WIDTH = 1000  # and characters of each
_SIOCGIFADDR = 0x8915


class HostActor:
    """One host of a job, on the node where Ray placed this actor. Calls may overlap."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._output = bytearray()
        self._errors: deque[str] = deque(maxlen=_KEPT)
        self._ended = False
        self._changed = threading.Condition()

    def describe(self) -> tuple[str, str, str, int]:
        """(node, its address, version of any2vec, a free port): the port was free a moment ago."""
        import ray

        address = ray.util.get_node_ip_address()
        with socket.create_server((address, 0)) as free:
            port = free.getsockname()[1]
        return ray.get_runtime_context().get_node_id(), address, __version__, port

    def start(self, module: str, argument: str, folder: str, variables: list[str]) -> None:
        """Start `python -m module argument`.

        Args:
            folder: where to run it, if this node has it.
            variables: NAME=VALUE, beside those of this node; rank 0's output is kept, the others' is not read.
        """
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        environment.pop("ANY2VEC_RENDEZVOUS", None)  # of another launcher, around the driver
        interface = _interface()
        if interface:
            environment.setdefault("GLOO_SOCKET_IFNAME", interface)
        environment |= dict(variable.split("=", 1) for variable in variables) | {"PYTHONUNBUFFERED": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "any2vec.cluster.launch.guard", module, argument],
            env=environment,
            cwd=folder if Path(folder).is_dir() else None,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if environment["RANK"] == "0" else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        readers = [threading.Thread(target=self._read_errors, args=(self._process.stderr,), daemon=True)]
        if self._process.stdout:
            readers.append(threading.Thread(target=self._read_output, args=(self._process.stdout,), daemon=True))
        for reader in readers:
            reader.start()
        threading.Thread(target=self._wait, args=(self._process, readers), daemon=True).start()

    def follow(self, seconds: float) -> tuple[bytes, int | None, list[str]]:
        """(output since the last call, exit code or None, last lines of standard error once it has ended).

        Returns as soon as there is something to tell, or after `seconds`.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._output or self._ended, seconds)
            data = bytes(self._output[:CHUNK])
            del self._output[:CHUNK]
            self._changed.notify_all()
            if not self._ended or self._output or self._process is None:
                return data, None, []
            return data, self._process.returncode, list(self._errors)

    def send_signal(self, number: int) -> None:
        """Send a signal to the host and what it started."""
        if self._process and self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def end(self, grace: float) -> None:
        """Have the host stop by SIGTERM, after `grace` seconds by SIGKILL. Returns when it has, or `grace` s later."""
        if self._process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.send_signal(number)
            with self._changed:
                if self._changed.wait_for(lambda: self._ended, grace):
                    return

    def _read_output(self, stream: IO[bytes]) -> None:
        while data := os.read(stream.fileno(), CHUNK):
            with self._changed:
                self._changed.wait_for(lambda: len(self._output) < _WAITING)
                self._output += data
                self._changed.notify_all()

    def _read_errors(self, stream: IO[bytes]) -> None:
        for line in stream:
            self._errors.append(line.decode(errors="replace").rstrip()[:_WIDTH])

    def _wait(self, process: subprocess.Popen[bytes], readers: list[threading.Thread]) -> None:
        process.wait()
        with suppress(ProcessLookupError, PermissionError):  # what it started may outlive it
            os.killpg(process.pid, signal.SIGKILL)
        for reader in readers:
            reader.join(3.0)  # something that the host started may hold the other end
        with self._changed:
            self._ended = True
            self._changed.notify_all()


def _interface() -> str:
    """The network interface that has this node's address, by which the other nodes reach it; "" if unknown.

    Without it, gloo asks for the address of the node's name, which on many systems is one of the loopback.
    """
    import fcntl

    import ray

    address = ray.util.get_node_ip_address()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with suppress(OSError):
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()))
                if socket.inet_ntoa(answer[20:24]) == address:
                    return name
    return ""

"""Hosts on a Ray cluster: one actor a host, in a placement group, torch.distributed between their processes.

The contract of the child module is that of `launch`. Ray carries control alone: strings, numbers and rank 0's lines,
as arguments and answers of calls. What the hosts say to each other never goes through Ray or its object store.
"""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import IO, Any

from any2vec.checks import check_number, check_whole
from any2vec.cluster.launch.processes import MOST_PROCESSES
from any2vec.cluster.ray.address import is_local, parse_address
from any2vec.errors import HostError, InputError, Interrupted, JobError
from any2vec.signals import stops_go_to

PATIENCE = 120.0
"""seconds that the cluster, its placement and a host's start may take, and that a host may be silent"""
LONGEST_ARGUMENT = 1 << 16
"""bytes; more would not go inside a call of Ray's"""
_ENDING = 30.0  # seconds for the driver to clean up
_ERRORS: dict[str, type[BaseException]] = {
    error.__name__: error for error in (HostError, JobError, InputError, Interrupted)
}


def run_ray(
    address: str,
    hosts: int,
    module: str,
    argument: str,
    on_line: Callable[[str], None],
    *,
    cpus_per_host: int = 1,
    patience: float = PATIENCE,
) -> None:
    """Run `python -m module argument` as so many hosts on a Ray cluster, which `launch.join` each other; wait for all.

    Whatever happens, also when this process is killed, the hosts are ended, the placement group is removed, and a
    local cluster is shut down. SIGINT, SIGTERM and SIGHUP make the hosts stop in good order; a second one kills
    them. Call it from the main thread, or signals are left alone.

    Args:
        address: "" or "local": a cluster of our own on this machine, on its loopback, with as many CPUs as are asked
            for, be they there or not; "auto": the cluster that runs on this machine; HOST:PORT: the cluster with
            this head, of which this machine is a node, too.
        hosts: 1 to 1024; each gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Hosts
            are spread over the nodes; ranks of one node stand together.
        module: it keeps the contract of `launch`; it, and any2vec in this version, must be installed on every node.
        argument: at most 64 KiB, as the path of a file that every node can read. A relative path is one of this
            process's working directory, where the node has it.
        on_line: called in this thread with each line that rank 0 writes to standard output, without its end.
        cpus_per_host: CPUs of the cluster that a host reserves, 1 to 1024.
        patience: seconds (> 0) for the cluster to answer, to place the hosts and to start them; and that an actor may
            be silent.

    Raises:
        InputError: an argument is not legal, Ray is missing, the versions of Ray or Python are not the cluster's, or
            it has too few CPUs.
        HostError: the cluster cannot be reached, or a host failed or was lost: which and why.
        Interrupted: the hosts were asked to stop, and did.
    """
    check_whole("hosts", hosts, 1, MOST_PROCESSES)
    check_whole("cpus_per_host", cpus_per_host, 1, 1024)
    check_number("patience", patience, 0, 1e9, open_low=True)
    parse_address(address)
    if len(argument.encode()) > LONGEST_ARGUMENT:
        raise InputError(f"The argument of a job has {len(argument.encode()):,} bytes, at most 65,536 are allowed.")
    if importlib.util.find_spec("ray") is None:
        raise InputError('Hosts on a Ray cluster need Ray and PyTorch; in a clone: pip install -e ".[ray]".')
    order = {
        "address": address, "hosts": int(hosts), "module": module, "argument": argument, "cwd": str(Path.cwd()),
        "cpus_per_host": int(cpus_per_host), "patience": float(patience),
    }  # fmt: skip
    driver = _Driver(order)
    try:
        with driver.forwarding():
            driver.follow(on_line)
    finally:
        driver.end()


class _Driver:
    """The process that speaks to Ray, see `ray_driver`."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._patience = order["patience"]
        self._address = order["address"] or "local"
        # Ray's sockets lie deep in this folder, and a path to a socket has at most 107 characters.
        temporary = tempfile.gettempdir() if len(tempfile.gettempdir()) < 30 else "/tmp"
        self._folder = tempfile.mkdtemp(prefix="any2vec-ray-", dir=temporary)
        self._errors = (Path(self._folder) / "driver").open("w+b")  # a file: Ray's processes may keep it open
        self._process = subprocess.Popen(
            [sys.executable, "-m", "any2vec.cluster.ray.driver"],
            env=_environment(self._address),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C in a terminal reaches the hosts through us alone
        )
        self._said: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()
        self._announce(json.dumps(order | {"folder": self._folder}))

    def follow(self, on_line: Callable[[str], None]) -> None:
        """Pass on lines until the job has ended. Raises what it ended by."""
        limit = self._patience
        while True:
            try:
                what = self._said.get(timeout=limit)
            except Empty:
                self._kill()  # it hangs somewhere in Ray and would not clean up
                silent = "cannot be started" if self._address == "local" else "does not answer as one"
                raise HostError(f"The Ray cluster {self._address} {silent} within {limit:g} s.") from None
            if what is None:
                raise self._lost()
            if "line" in what:
                on_line(what["line"])
            elif "connected" in what:
                limit = max(limit, 60.0)  # from here on the driver keeps the time, and gives signs of life
            elif "error" in what:
                error = _ERRORS.get(what["error"], HostError)(what["text"])
                for note in what["notes"]:
                    error.add_note(note)
                raise error
            elif "end" in what:
                return

    @contextmanager
    def forwarding(self) -> Iterator[None]:
        """Within it, signals that stop go to the hosts."""

        def forward(number: int, _: FrameType | None) -> None:
            self._announce("stop")

        with stops_go_to(forward):
            yield

    def end(self) -> None:
        """Have the driver clean up, and leave nothing behind."""
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING)
        self._kill()
        self._process.wait()
        self._reader.join(1.0)
        self._errors.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _kill(self) -> None:
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _announce(self, text: str) -> None:
        with suppress(OSError, ValueError):  # it has ended, and `follow` will say so
            assert self._process.stdin is not None
            self._process.stdin.write(text.encode() + b"\n")
            self._process.stdin.flush()

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                self._said.put(json.loads(line))
        self._said.put(None)

    def _lost(self) -> HostError:
        """Why the driver is gone without a word."""
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").splitlines()[-20:]
        error = HostError(f"The connection to the Ray cluster {self._address} was lost (its driver ended with {code}).")
        for line in lines:
            error.add_note(line)
        return error


def _environment(address: str) -> dict[str, str]:
    """What the driver gets, and with it every process of a local cluster."""
    environment = dict(os.environ)
    environment.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    environment.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", "30")  # until a lost cluster counts as lost
    if is_local(address):
        environment.pop("RAY_ADDRESS", None)
        # Ray's name for "this cluster is of this machine alone": then it listens on the loopback, on any system.
        environment["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        if "RAY_AUTH_MODE" not in environment:  # or Ray writes a token into the user's home
            environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    return environment

"""Hosts with links of their own on one machine: namespaces, each behind a veth, joined by a bridge (Linux, root).

Bandwidth is capped by tbf at both ends of a veth, so in both directions. Latency is the kernel's: microseconds.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from benchmarks.bench import ONE_BLAS_THREAD, ROOT
from benchmarks.table import NotMeasuredError, RowError

BURST, QUEUE = "32kb", "100ms"
"""tbf's bucket, and how long a packet may wait for it"""
PORT = 29517
GOODPUT_BYTES = 8_000_000

_JANITOR = """cat >/dev/null
for n in {names}; do ip netns pids $n 2>/dev/null | xargs -r kill -9; done
for n in {names}; do ip netns del $n; done
for n in {veths}; do ip link del $n; done
ip link del {bridge}"""
_SERVE = """import socket
with socket.create_server(("{address}", {port})) as server:
    print("ready", flush=True)
    line, _ = server.accept()
    while line.recv(1 << 16):
        pass
    line.sendall(b"k")"""
_PUSH = """import socket, time
with socket.create_connection(("{address}", {port})) as line:
    began = time.monotonic()
    line.sendall(bytes({size}))
    line.shutdown(socket.SHUT_WR)
    line.recv(1)
    print(8 * {size} / (time.monotonic() - began))"""


@dataclass(frozen=True)
class Network:
    """So many hosts that can reach each other."""

    hosts: int
    stem: str
    """what all names of this network start with"""

    def name(self, host: int) -> str:
        """The namespace of a host; its end of the veth is eth0 in there."""
        return f"{self.stem}h{host}"

    def veth(self, host: int) -> str:
        """The outer end of a host's veth."""
        return f"{self.stem}v{host}"

    def address(self, host: int) -> str:
        return f"10.213.77.{host + 1}"

    def inside(self, host: int, command: Sequence[str]) -> list[str]:
        """The command that runs `command` on a host."""
        return ["ip", "netns", "exec", self.name(host), *command]

    def cut(self, host: int) -> None:
        """Unplug a host."""
        _do("ip", "link", "set", self.veth(host), "down")

    def cap(self, host: int, rate: str) -> None:
        """Cap the link of one host, in both directions, to a rate like 50mbit from here on."""
        cap = ("root", "tbf", "rate", rate, "burst", BURST, "latency", QUEUE)
        _do("tc", "qdisc", "replace", "dev", self.veth(host), *cap)
        _do("tc", "-n", self.name(host), "qdisc", "replace", "dev", "eth0", *cap)

    def sent(self) -> list[int]:
        """Bytes that each host has sent over its link, headers included, as the kernel counts them."""
        found = []
        for host in range(self.hosts):
            reported = json.loads(_do("ip", "-n", self.name(host), "-s", "-j", "link", "show", "eth0"))
            found.append(int(reported[0]["stats64"]["tx"]["bytes"]))
        return found

    def goodput(self) -> float:
        """Bits/s that arrive from host 1 at host 0 over one TCP connection."""
        where = {"address": self.address(0), "port": PORT + 1, "size": GOODPUT_BYTES}
        serve = self.inside(0, [sys.executable, "-c", _SERVE.format(**where)])
        with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                server.stdout.readline()
                return float(_do(*self.inside(1, [sys.executable, "-c", _PUSH.format(**where)])))
            finally:
                server.kill()

    def run(
        self,
        command: Sequence[object],
        environment: Mapping[str, str],
        seconds: float,
        wrap: Callable[[int, list[str]], list[str]] = lambda host, command: command,
    ) -> list[str]:
        """What a command prints on each host, by rank, once all have ended well. None of them outlives this call.

        Raises:
            RowError: one failed, or ran longer than `seconds`.
        """
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            paths = [Path(folder) / f"{host}.err" for host in range(self.hosts)]
            outs = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(self.hosts)]
            processes = []
            try:
                for host in range(self.hosts):
                    errors = stack.enter_context(paths[host].open("w"))
                    inside = wrap(host, self.inside(host, list(map(str, command))))
                    processes.append(self._popen(host, inside, outs[host], errors, environment))
                codes = wait_for(processes, seconds)
            finally:
                for process in processes:
                    process.kill()
                    process.wait()
            if any(codes):
                bad = next((host for host, code in enumerate(codes) if code), 0)
                raise RowError(f"hosts in namespaces ended with {codes}: {last_line(paths[bad])[:300]}")
            for out in outs:
                out.seek(0)
            return [out.read() for out in outs]

    def _popen(
        self, host: int, command: Sequence[str], out: IO[str] | int, errors: IO[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[str]:
        """Start a process of a host as torchrun would."""
        own = {
            "WORLD_SIZE": str(self.hosts), "RANK": str(host), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
            "GLOO_SOCKET_IFNAME": "eth0", "MASTER_ADDR": self.address(0), "MASTER_PORT": str(PORT),
        }  # fmt: skip
        return subprocess.Popen(
            command, cwd=ROOT, text=True, stdin=subprocess.DEVNULL, stdout=out, stderr=errors,
            env=os.environ | ONE_BLAS_THREAD | dict(environment) | own,
        )  # fmt: skip

    def start(
        self, arguments: Sequence[object], errors: Sequence[IO[str]], out: IO[str], environment: Mapping[str, str]
    ) -> list[subprocess.Popen[str]]:
        """Start `any2vec arguments` once on each host, as torchrun would; rank 0's standard output goes to `out`."""
        command = [sys.executable, "-m", "any2vec", *map(str, arguments)]
        return [
            self._popen(
                host, self.inside(host, command), out if host == 0 else subprocess.DEVNULL, errors[host], environment
            )
            for host in range(self.hosts)
        ]


@contextmanager
def network(hosts: int, rate: str | None = None) -> Iterator[Network]:
    """So many namespaces with links of `rate`, like 50mbit (None: uncapped). All of it is removed at the end.

    A process of its own removes it, also when this one is killed.

    Raises:
        NotMeasuredError: this is not Linux, or not root, or without iproute2.
    """
    if shutil.which("ip") is None or shutil.which("tc") is None or os.geteuid() != 0:
        raise NotMeasuredError("network namespaces need root and iproute2")
    made = Network(hosts, f"a2v{os.getpid() % 100_000}")
    bridge = f"{made.stem}b"
    rest = {
        "names": " ".join(made.name(host) for host in range(hosts)),
        "veths": " ".join(made.veth(host) for host in range(hosts)), "bridge": bridge,
    }  # fmt: skip
    janitor = subprocess.Popen(
        ["sh", "-c", _JANITOR.format(**rest)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        _do("ip", "link", "add", bridge, "type", "bridge")
        _do("ip", "link", "set", bridge, "up")
        for host in range(hosts):
            _add_host(made, host, bridge, rate)
        yield made
    finally:
        assert janitor.stdin is not None
        janitor.stdin.close()
        janitor.wait()


def _add_host(made: Network, host: int, bridge: str, rate: str | None) -> None:
    """A namespace, its veth, an address, and the caps. Packets are not joined into large ones: headers are counted."""
    name, veth = made.name(host), made.veth(host)
    _do("ip", "netns", "add", name)
    _do("ip", "link", "add", veth, "type", "veth", "peer", "name", "eth0", "netns", name)
    _do("ip", "link", "set", veth, "master", bridge, "up", "gso_max_segs", "1")
    _do("ip", "-n", name, "address", "add", f"{made.address(host)}/24", "dev", "eth0")
    _do("ip", "-n", name, "link", "set", "eth0", "up", "gso_max_segs", "1")
    _do("ip", "-n", name, "link", "set", "lo", "up")
    if rate is not None:
        made.cap(host, rate)


def wait_for(processes: Sequence[subprocess.Popen[str]], seconds: float) -> list[int | None]:
    """Exit codes by rank once all have ended, or `seconds` are over: None for who still runs."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(process.poll() is None for process in processes):
        time.sleep(0.05)
    return [process.poll() for process in processes]


def last_line(path: Path) -> str:
    """The last line of a file that says something."""
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def _do(*command: str) -> str:
    """Standard output of a command. Raises NotMeasuredError with what it complained of."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise NotMeasuredError(f"{' '.join(command[:4])} failed: {why[:200]}")
    return done.stdout

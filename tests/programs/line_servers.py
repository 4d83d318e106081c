"""Local servers that do what they are told to, faults too: for tests of sources."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

Script = Callable[[socket.socket, int], None]
"""what is done with a connection, and its number from 0; then it is closed"""


class LineServer:
    """Each connection in a thread of its own. A context."""

    def __init__(self, script: Script, path: Path | None = None) -> None:
        self._script = script
        self._listening = socket.socket(socket.AF_UNIX if path else socket.AF_INET, socket.SOCK_STREAM)
        self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listening.bind(str(path) if path else ("127.0.0.1", 0))
        self._listening.listen()
        self.port = 0 if path else self._listening.getsockname()[1]
        self._connections: list[socket.socket] = []
        self.is_over = threading.Event()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def count(self) -> int:
        """Connections so far."""
        return len(self._connections)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection, self.count - 1), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        try:
            self._script(connection, number)
        except OSError:
            pass
        finally:
            connection.close()

    def close(self) -> None:
        self.is_over.set()
        for open_socket in (self._listening, *self._connections):
            with suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)
            open_socket.close()
        for thread in self._threads:
            thread.join(10)


@contextmanager
def serving(script: Script, path: Path | None = None) -> Iterator[LineServer]:
    """A server for as long as the context is open."""
    server = LineServer(script, path)
    try:
        yield server
    finally:
        server.close()


def resumed_at(connection: socket.socket) -> int:
    """The offset that a client asks for."""
    line = connection.makefile("rb").readline()
    if not line.endswith(b"\n"):
        raise ConnectionError("the client has gone")
    assert line.startswith(b"RESUME ")
    return int(line.split()[1])


def request_of(connection: socket.socket) -> tuple[str, dict[str, str]]:
    """The path and headers (names in lower case) of an HTTP request."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(4096)
        if not more:
            raise ConnectionError
        data += more
    first, *rest = data.split(b"\r\n\r\n")[0].decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}
    return first.split()[1], headers


def answer(
    connection: socket.socket, body: bytes, kind: str = "application/x-ndjson", status: str = "200 OK", **headers: str
) -> None:
    """A whole HTTP response; headers with _ for -."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"Content-Type: {kind}"] if kind else []
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


def begin_chunks(connection: socket.socket, kind: str = "application/x-ndjson") -> None:
    """The head of an HTTP response whose body comes in chunks."""
    connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())


def chunk(connection: socket.socket, data: bytes) -> None:
    """One of them; an empty one is the last."""
    connection.sendall(b"%x\r\n%s\r\n" % (len(data), data))

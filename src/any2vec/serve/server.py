"""The server: an address, uvicorn on it, and a limit to how long the head of a request may take to come."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from any2vec.errors import InputError
from any2vec.machine import is_loopback

HEAD = 5.0
"""seconds that the head of a request may take to come"""
_GRACE = 10
"""seconds that requests under way have when the server stops"""
_MOST_CONNECTIONS = 512
_LINGER = 1.0
"""seconds for which a connection is read whose request cannot be"""
_SAID = b'{"error":"What came is no request of HTTP/1.1."}'
_NOT_HTTP = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_SAID), _SAID)
)
_LEAST_TAKEN = 1 << 14
LEAST_TOKEN = 16
"""characters"""


def check_installed() -> None:
    """InputError: the libraries of the extra are missing."""
    if missing := [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]:
        raise InputError(
            f"Serving needs {' and '.join(missing)}; in a clone: pip install -e '.[serve]' -c constraints.txt."
        )


def read_token(path: Path) -> str:
    """The first line of a file.

    Raises:
        InputError: it cannot be read, or is too short to be secret.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise InputError(
            f"The token file {path} cannot be read: {getattr(error, 'strerror', None) or error}."
        ) from error
    token = lines[0].strip() if lines else ""
    if len(token) < LEAST_TOKEN or not (token.isascii() and token.isprintable() and " " not in token):
        raise InputError(f"The first line of {path} must be a token of {LEAST_TOKEN} ASCII characters or more.")
    return token


def check_address(host: str, token: str | None) -> None:
    """InputError: others could reach the server, and it asks for no token."""
    if token is None and not is_loopback(host):
        raise InputError(f"--host {host} is reached by other machines; give a --token-file, or leave --host out.")


class Server:
    """An application on an address. `serve` answers until Ctrl-C or SIGTERM, or `stop` from another thread.

    Args:
        port: 0: any that is free.
        max_seconds: for which a client may take nothing of an answer.

    Raises:
        InputError: the address cannot be served on.
    """

    def __init__(self, app: Any, host: str, port: int, max_seconds: float = 10.0) -> None:
        import uvicorn

        try:
            self._socket = _listening(host, port)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"{host} port {port} cannot be served on ({reason}); choose another.") from error
        self.port = int(self._socket.getsockname()[1])
        self.address = f"http://{f'[{host}]' if ':' in host else host}:{self.port}"
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                http=_timed_protocol(max_seconds),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=_MOST_CONNECTIONS,
                timeout_graceful_shutdown=_GRACE,
                log_level="error",
            )
        )

    def serve(self) -> None:
        """Answer until the end; requests under way are answered first."""
        try:
            with suppress(KeyboardInterrupt):
                self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()

    def stop(self) -> None:
        """End `serve`."""
        self._server.should_exit = True

    def __enter__(self) -> Server:
        """Serve in a thread, until the block ends."""
        self._thread = threading.Thread(target=self.serve, name="serve", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._thread.join(2 * _GRACE)


def _listening(host: str, port: int) -> socket.socket:
    """OSError: it cannot be served on."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    # The protocol is named, for asyncio else leaves Nagle's algorithm on, and answers wait 40 ms for an acknowledgment.
    found = socket.socket(family, kind, protocol)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(_MOST_CONNECTIONS)
    except BaseException:
        found.close()
        raise
    return found


class WriteWatch:
    """Ends a connection whose client takes less than 16 KiB of what waits for it, and not all, in so many seconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, seconds: float) -> None:
        self._loop, self._transport, self._seconds = loop, transport, seconds
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Something waits."""
        self._waiting = self._transport.get_write_buffer_size()
        self._timer = self._loop.call_later(self._seconds, self._look)

    def end(self) -> None:
        """Nothing does."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        if self._transport.get_write_buffer_size() > self._waiting - _LEAST_TAKEN:
            self._transport.abort()
        else:
            self.begin()


def _timed_protocol(seconds: float) -> type[asyncio.Protocol]:
    """uvicorn's protocol over h11, which waits for the first head of a request, for the rest of one, and for a client
    to take its answer, for ever."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Timed(H11Protocol):
        _timer: asyncio.TimerHandle | None = None
        _is_over = False

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            transport.set_write_buffer_limits(0)  # so that all that waits is watched
            self._writing = WriteWatch(self.loop, transport, seconds)
            self._watch()

        def data_received(self, data: bytes) -> None:
            if not self._is_over:
                super().data_received(data)
                self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._forget()
            self._writing.end()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._writing.begin()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._writing.end()

        def send_400_response(self, msg: str) -> None:
            """In JSON, as all refusals are. What else comes is read for a while: closing at once would reset the
            connection before the client has the answer."""
            self._is_over = True
            if self.cycle is not None and not self.cycle.response_complete:
                self.cycle.disconnected = True
                self.cycle.message_event.set()
            if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
                self.transport.write(_NOT_HTTP)
            if self.transport.can_write_eof():
                self.transport.write_eof()
            self.loop.call_later(_LINGER, self.transport.close)

        def _watch(self) -> None:
            """A timer runs while a head is awaited, from its first byte; a request that has come stops it."""
            if self.cycle is not None and not self.cycle.response_complete:
                self._forget()
            elif self._timer is None:
                self._timer = self.loop.call_later(HEAD, self._give_up)

        def _forget(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _give_up(self) -> None:
            if self.cycle is None or self.cycle.response_complete:
                self.transport.close()

    return Timed

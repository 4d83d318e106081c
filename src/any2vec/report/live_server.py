"""A page that follows a run, served to browsers: the page, its state once a second, and neighbors of a word.

It binds to this machine's own address unless told otherwise. Then whoever asks must know the token, which is part of
the address that is printed; on the own address requests must be addressed to it by name, so that no page of another
site can have the browser ask.
"""

from __future__ import annotations

import hmac
import io
import json
import math
import secrets
import socket
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from any2vec.embeddings import Embeddings
from any2vec.errors import Any2VecError, InputError
from any2vec.machine import OWN_NAMES, is_loopback
from any2vec.models.clicks.keys import trained_keys
from any2vec.report.live import LiveRun
from any2vec.report.page import PAGE_STYLE

PATIENCE = 10.0
"""seconds that a browser may take to say what it wants, in all"""
_NEIGHBORS = 10


class LiveServer:
    """Serves until it is closed.

    Args:
        port: 0: any that is free.

    Raises:
        InputError: the address cannot be served on.
    """

    def __init__(self, live: LiveRun, host: str = "127.0.0.1", port: int = 8484) -> None:
        self.live = live
        self.is_own = is_loopback(host)
        self.token = "" if self.is_own else secrets.token_urlsafe(18)
        self._words = _Words(live)
        handler = type("Handler", (_Handler,), {"server_of_run": self})
        kind = type("Server", (_Server,), {"address_family": _Server.family(host)})
        try:
            self._server = kind((host, port), handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(
                f"{host} port {port} cannot be served on ({reason}); choose another --port or --host."
            ) from error
        self.port = int(self._server.server_address[1])
        self.host = f"[{host}]" if ":" in host else host
        self.names = {*OWN_NAMES, self.host}
        """by which requests may call a server of this machine's own address"""
        self.address = f"http://{self.host}:{self.port}/" + (f"?token={self.token}" if self.token else "")

    def __enter__(self) -> LiveServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.server_close()

    def serve(self) -> None:
        """Answer until Ctrl-C, or until `stop` is called from another thread."""
        with suppress(KeyboardInterrupt):
            self._server.serve_forever(poll_interval=0.2)

    def stop(self) -> None:
        """End `serve`."""
        self._server.shutdown()

    def state(self) -> dict[str, Any]:
        """What the page asks for once a second."""
        found: dict[str, Any] = _finite(self.live.view().as_dict())
        return found

    def nearest(self, word: str) -> dict[str, Any]:
        """Neighbors of a word in the newest snapshot; a sentence where there are none."""
        try:
            return {"word": word, "neighbors": self._words.nearest(word)}
        except (Any2VecError, OSError) as error:
            return {"word": word, "error": str(error)}


class _Words:
    """The vectors of a run's folder, opened again when they are new."""

    def __init__(self, live: LiveRun) -> None:
        self._folder = live.folder
        self._lock = threading.Lock()
        self._stamp: Any = None
        self._embeddings: Embeddings | None = None

    def nearest(self, word: str) -> list[tuple[str, float]]:
        with self._lock:
            place = (self._folder / "latest").resolve()
            stamp = (place, (place if place.exists() else self._folder).stat().st_mtime_ns)
            if self._embeddings is None or stamp != self._stamp:
                self._embeddings, self._stamp = trained_keys(Embeddings.load(self._folder)), stamp
            return self._embeddings.nearest(word, _NEIGHBORS)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    @staticmethod
    def family(host: str) -> int:
        return socket.AF_INET6 if ":" in host else socket.AF_INET

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle is no news."""


class _Handler(BaseHTTPRequestHandler):
    server_of_run: LiveServer
    server_version = "any2vec"
    sys_version = ""

    def setup(self) -> None:
        """A request that drips in keeps its thread no longer than one that does not come."""
        super().setup()
        self.rfile = io.BufferedReader(_InTime(self.connection, time.monotonic() + PATIENCE))

    def do_GET(self) -> None:
        """The page, its state, or neighbors."""
        try:
            parts = urlsplit(self.path)
            asked = parse_qs(parts.query)
        except ValueError:
            self._answer(HTTPStatus.BAD_REQUEST, "text/plain", b"That is no address of this page.")
            return
        if not self._is_allowed(asked.get("token", [""])[0]):
            self._answer(
                HTTPStatus.FORBIDDEN,
                "text/plain",
                b"The page answers at the address that was printed; open it as it is.",
            )
        elif parts.path == "/":
            nonce = secrets.token_urlsafe(18)
            self._answer(HTTPStatus.OK, "text/html; charset=utf-8", page(nonce).encode(), f"'nonce-{nonce}'")
        elif parts.path == "/state":
            self._json(self.server_of_run.state())
        elif parts.path == "/nearest":
            self._json(self.server_of_run.nearest(asked.get("word", [""])[0]))
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"There is no such page.")

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""

    def _is_allowed(self, token: str) -> bool:
        server = self.server_of_run
        if server.is_own:
            name = self.headers.get("Host", "")
            return (name.rpartition(":")[0] if not name.endswith("]") and ":" in name else name) in server.names
        return hmac.compare_digest(token.encode(), server.token.encode())

    def _json(self, value: Any) -> None:
        self._answer(HTTPStatus.OK, "application/json", json.dumps(value, allow_nan=False).encode())

    def _answer(self, status: HTTPStatus, kind: str, body: bytes, inline: str = "") -> None:
        """inline: the style and the script within the body that a browser may take, by their nonce."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        policy = f"default-src 'self' {inline}; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
        self.send_header("Content-Security-Policy", policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(body)


class _InTime(io.RawIOBase):
    """What comes over a connection until a moment of the monotonic clock. TimeoutError: not all has come by then."""

    def __init__(self, connection: socket.socket, end: float) -> None:
        self._connection, self._end = connection, end

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        self._connection.settimeout(max(0.001, self._end - time.monotonic()))
        found = self._connection.recv_into(room)
        self._connection.settimeout(PATIENCE)
        return found


def page(nonce: str) -> str:
    """The document, with the report's style; its own style and script bear the nonce."""
    text = (resources.files("any2vec.report") / "live.html").read_text(encoding="utf-8")
    for tag in ("style", "script"):
        text = text.replace(f"<{tag}>", f'<{tag} nonce="{nonce}">')
    return text.replace("/* the report's style */", PAGE_STYLE)


def _finite(value: Any) -> Any:
    """As JSON has it, with null for NaN and infinity."""
    if isinstance(value, dict):
        return {str(key): _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

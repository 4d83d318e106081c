"""A real redis-server that is started, killed and started again with what it had written down."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from source_reading import LONG


class RedisServer:
    """Keeps all that it has acknowledged in its append-only file. A context."""

    def __init__(self, folder: Path, *extra: str) -> None:
        self._program = shutil.which("redis-server") or pytest.skip("redis-server is not installed (apt: redis-server)")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._arguments = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", "", *extra]
        self._arguments += ["--appendonly", "yes", "--appendfsync", "always", "--loglevel", "warning"]
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen([self._program, *self._arguments], stdout=subprocess.DEVNULL)
        until = time.monotonic() + LONG
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.02)
        raise TimeoutError("redis-server does not answer")

    def client(self, **options: Any) -> Any:
        import redis

        return redis.Redis(port=self.port, **options)

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def __enter__(self) -> RedisServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

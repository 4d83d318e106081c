"""Messages between the driver of a Ray job and its parent: JSON lines, and heartbeats."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_BEAT = 2.0  # seconds between signs of life


class GoneError(Exception):
    """The process that ordered the job is gone."""


class Parent:
    """The process that ordered the job."""

    def __init__(self) -> None:
        # Whatever else writes to standard output of this process shall not come between the JSON lines.
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self.order: dict[str, Any] = json.loads(sys.stdin.readline())
        self.stops = 0
        """how often it asked for a stop"""
        self._gone = False
        self._spoke = 0.0
        threading.Thread(target=self._listen, daemon=True).start()

    def say(self, **what: Any) -> None:
        self._spoke = time.monotonic()
        with suppress(BrokenPipeError):
            print(json.dumps(what), file=self._out, flush=True)

    def beat(self) -> None:
        """A sign of life, now and then; GoneError if nobody is there to hear it."""
        if self._gone:
            raise GoneError
        if time.monotonic() > self._spoke + _BEAT:
            self.say(beat=True)

    def _listen(self) -> None:
        for _ in sys.stdin:
            self.stops += 1
        self._gone = True


class Lines:
    """What rank 0 writes, as it comes in pieces, passed on line by line."""

    def __init__(self, announce: Callable[[str], None]) -> None:
        self._announce = announce
        self._rest = b""

    def add(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._announce(line.decode(errors="replace").rstrip("\r"))

    def end(self) -> None:
        """The job has ended well: its last line may have no end."""
        if self._rest:
            self.add(b"\n")

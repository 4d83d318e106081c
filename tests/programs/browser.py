"""A real browser for tests: Chromium without a window, told what to do over a pipe (the DevTools protocol)."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from typing import Any

import pytest

PATIENCE = 60.0
"""seconds until a browser that says nothing is given up"""


class Browser:
    """One page; a context manager."""

    def __init__(self) -> None:
        program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if program is None:
            pytest.skip("there is no Chromium here to read the page with")
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        self._process = subprocess.Popen(  # the browser reads on descriptor 3 and writes on 4
            ["bash", "-c", f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}', program, "--headless", "--no-sandbox",
             "--disable-gpu", "--no-first-run", f"--user-data-dir={self._folder.name}", "--remote-debugging-pipe"],
            pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._number, self._rest = 0, b""
        self._session: str | None = None

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)
        self._folder.cleanup()

    def open(self, address: str) -> None:
        """Go to a page."""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._ask("Page.navigate", url=address)

    def read(self, script: str) -> Any:
        """The value of an expression of JavaScript in the page."""
        found = self._ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, script: str) -> Any:
        """The value of an expression as soon as it is true; fails after `PATIENCE`."""
        end = time.monotonic() + PATIENCE
        while not (found := self.read(script)):
            assert time.monotonic() < end, f"{script} never came true"
            time.sleep(0.05)
        return found

    def look(self, width: int, height: int, is_dark: bool = False) -> None:
        """How large the window is, and in which colors pages are asked for."""
        self._ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self._ask("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self) -> bytes:
        """What the window shows, PNG."""
        return base64.b64decode(self._ask("Page.captureScreenshot", format="png")["data"])

    def _ask(self, method: str, **options: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": options}
        os.write(
            self._write, json.dumps(message | ({"sessionId": self._session} if self._session else {})).encode() + b"\0"
        )
        end = time.monotonic() + PATIENCE
        while True:
            answer, zero, rest = self._rest.partition(b"\0")
            if zero:
                self._rest = rest
                found = json.loads(answer)
                if found.get("id") == self._number:
                    assert "result" in found, found
                    return found["result"]
                continue
            assert select.select([self._read], [], [], max(0.0, end - time.monotonic()))[0], f"{method}: no answer"
            piece = os.read(self._read, 1 << 16)
            assert piece, f"{method}: the browser has ended"
            self._rest += piece

"""Standard error, as long as there is somebody who reads it."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO


class StandardError:
    """Today's standard error, as a file that never fails: what cannot be written to it is dropped.

    A terminal closes, `head` has its line, a disk with the log is full: none of that may end a run whose progress is
    shown there. Attributes that are not here are those of the file.
    """

    def __init__(self) -> None:
        self._file: TextIO = sys.stderr or io.StringIO()  # a process may have none

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, text: str) -> int:
        with self._unbroken():
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        with self._unbroken():
            self._file.flush()

    @contextmanager
    def _unbroken(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            # What waits in buffers goes the same way; at exit the interpreter would fail on it, and change its code.
            with suppress(OSError), open(os.devnull, "wb") as nowhere:  # noqa: PTH123
                os.dup2(nowhere.fileno(), self._file.fileno())

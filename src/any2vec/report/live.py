"""A run as it stands: what the terminal's dashboard and the web page show, read from its folder alone.

So any number of people may look at a run, from any process that sees the folder, and the run does not know of them.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeGuard

from any2vec.checks import parse_json
from any2vec.data.io.folder_lock import is_locked
from any2vec.errors import InputError
from any2vec.train.progress import rotated_log
from any2vec.train.run_folder import has_unfinished_run, is_finished

LOGS = ("progress.jsonl", "progress.new.jsonl")
"""records of a run; the second of one that is to replace a result, until it does"""
SILENT = 10.0
"""seconds without a record after which a run is called silent"""
POINTS = 240
"""points of a curve"""
_TAIL = 1 << 20
"""bytes of a log's end that are read"""
_STREAM = "stream.json"
_NEW_ABOUT = "run.new.json"
_ABOUT = (_STREAM, _NEW_ABOUT, "run.json")
"""what is known of a run; the first that is there: while a run replaces a result, both are"""
_CURVES = {
    "loss": ("loss",),
    "speed": ("words_per_s", "items_per_s"),
    "vocabulary": ("vocabulary",),
    "queue": ("queue_bytes",),
    "memory": ("rss_bytes",),
}
"""curve -> fields of a record that hold it, the first that is there"""


@dataclass(frozen=True)
class View:
    """What there is to see at one moment."""

    name: str
    """of the run's folder"""
    state: str
    """waiting (no record yet), running, silent, ended, stopped (it can go on from its checkpoint), or lost: its process
    is gone, and left neither a result nor a checkpoint"""
    age: float | None
    """seconds since the last record"""
    about: dict[str, Any]
    """model and settings"""
    record: dict[str, Any]
    """the last record, as it stands in the log"""
    is_stream: bool
    """whether it is one that may never end"""
    has_vectors: bool
    """whether items can be asked for their neighbors: a stream has published, a run has ended"""
    seconds_left: float | None
    """of training, if it goes on as before; None where nobody knows, or nothing is left to do"""
    curves: dict[str, list[list[float]]]
    """loss, speed, vocabulary, queue, memory: [seconds, value] after value, oldest first"""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class LiveRun:
    """A run folder that is looked at again and again.

    Raises:
        InputError: there is no folder, or no run has ever written into it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not folder.is_dir():
            raise InputError(f"{folder} is not a folder; give the --out of a run, under way or ended.")
        if not any((folder / name).exists() for name in (*_ABOUT, *LOGS)):
            raise InputError(f"{folder} holds no run; give the --out of `any2vec stream` or `any2vec train`.")

    def view(self) -> View:
        """What the folder holds now; what is half-written there is left for the next time."""
        log = self._log()
        records = [] if log is None else _records(log)
        age = None
        if log is not None and records:
            with suppress(OSError):
                age = max(0.0, time.time() - log.stat().st_mtime)
        last = records[-1] if records else {}
        is_stream = (self.folder / _STREAM).exists()
        state = self._state(age, is_stream)
        left = None if is_stream or state not in ("running", "silent") else _seconds_left(last)
        return View(
            self.folder.resolve().name, state, age, self._about(), last, is_stream, self._has_vectors(), left,
            _curves(records),
        )  # fmt: skip

    def _log(self) -> Path | None:
        """The log that was written last; while a run replaces a result, that run's alone."""
        found = []
        for name in LOGS[1:] if (self.folder / _NEW_ABOUT).exists() else LOGS:
            with suppress(OSError):  # a log that is full is renamed, and is gone for a moment
                found.append(((self.folder / name).stat().st_mtime, self.folder / name))
        return max(found)[1] if found else None

    def _has_vectors(self) -> bool:
        return any((place / "meta.json").exists() for place in (self.folder / "latest", self.folder))

    def _state(self, age: float | None, is_stream: bool) -> str:
        if not self.folder.is_dir():  # a run that failed before its first checkpoint takes its folder away
            return "lost"
        is_held = is_locked(self.folder)
        if not is_held and self._is_finished(is_stream):
            return "ended"
        if is_held is not False:
            return "waiting" if age is None else "running" if age < SILENT else "silent"
        if has_unfinished_run(self.folder):
            return "stopped"
        return "lost" if age is None or age >= SILENT else "running"  # its hosts may be started again

    def _is_finished(self, is_stream: bool) -> bool:
        """Whether the last run here has come to its end."""
        return bool(self._written(_STREAM).get("summary")) if is_stream else is_finished(self.folder)

    def _about(self) -> dict[str, Any]:
        """Settings of the run, of whatever kind it is."""
        found = next(filter(None, map(self._written, _ABOUT)), {})
        return {key: value for key, value in found.items() if key not in ("machine", "summary", "format")}

    def _written(self, name: str) -> dict[str, Any]:
        """What a file of the folder says; nothing where it is not there, or no JSON."""
        with suppress(OSError, ValueError):
            found = parse_json((self.folder / name).read_text(encoding="utf-8"))
            if isinstance(found, dict):
                return found
        return {}


def _records(log: Path) -> list[dict[str, Any]]:
    """Those of the log's end that are whole; of a log that has just begun anew, those of the one before as well."""
    lines = _last_lines(log, _TAIL)
    room = _TAIL - sum(map(len, lines))
    found = []
    for line in [*(_last_lines(rotated_log(log), room) if room > 0 else ()), *lines]:
        with suppress(ValueError):
            record = parse_json(line)
            if isinstance(record, dict):
                found.append(record)
    return found


def _last_lines(file: Path, num_bytes: int) -> list[bytes]:
    """The whole lines within so many bytes at its end."""
    try:
        with file.open("rb") as opened:
            size = opened.seek(0, 2)
            opened.seek(max(0, size - num_bytes))
            return opened.read().split(b"\n")[1 if size > num_bytes else 0 : -1]
    except OSError:
        return []


def _seconds_left(record: dict[str, Any]) -> float | None:
    seconds, share = record.get("seconds"), record.get("progress")
    if not isinstance(seconds, int | float) or not isinstance(share, int | float) or not 0 < share < 1:
        return None
    return float(seconds * (1 - share) / share)


def _is_finite(value: Any) -> TypeGuard[float]:
    """Whether it is a number that a float can hold."""
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:
        return False


def _curves(records: list[dict[str, Any]]) -> dict[str, list[list[float]]]:
    """What has values that can be drawn, as at most `POINTS` points, the last one among them."""
    curves = {}
    for name, fields in _CURVES.items():
        pairs = (
            (record.get("seconds"), next((record[one] for one in fields if record.get(one) is not None), None))
            for record in records
        )
        points = [[float(x), float(y)] for x, y in pairs if _is_finite(x) and _is_finite(y)]
        step = -(-len(points) // POINTS) or 1
        if points:
            curves[name] = points[::-1][::step][::-1]
    return curves

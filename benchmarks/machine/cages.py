"""A process with so much memory and so fast a disk, and what it then uses: control groups (Linux, root, version 1)."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.machine.quotas import control_groups, entering

MEMORY, DISK = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup/blkio")
_LOOK = 0.1
"""seconds between two looks at what is used"""


@dataclass
class Cage:
    """Groups for one command; figures are of all that has run in them."""

    memory: Path
    disk: Path
    peaks: dict[str, int] = field(default_factory=dict)
    """bytes at most, seen now and then: `rss` (anonymous memory), `cache` (pages of files) and both together"""

    def wrap(self, command: list[str]) -> list[str]:
        """The command that runs `command` in the cage."""
        return entering(self.memory, entering(self.disk, command))

    @property
    def peak_bytes(self) -> int:
        """The most that was in use, pages of files too, as the kernel counts it."""
        return int((self.memory / "memory.max_usage_in_bytes").read_text())

    @property
    def disk_bytes(self) -> dict[str, int]:
        """Bytes from the disk ("Read") and to it ("Write"), as the kernel counts them."""
        lines = (line.split() for line in (self.disk / "blkio.throttle.io_service_bytes").read_text().splitlines())
        found = {"Read": 0, "Write": 0}
        for words in lines:
            if len(words) == 3 and words[1] in found:
                found[words[1]] += int(words[2])
        return found

    def look(self) -> None:
        """Once."""
        lines = (line.split() for line in (self.memory / "memory.stat").read_text().splitlines())
        found = {name: int(value) for name, value in lines if name in ("rss", "cache")}
        for name, value in (found | {"both": sum(found.values())}).items():
            self.peaks[name] = max(self.peaks.get(name, 0), value)


@contextmanager
def cage(folder: Path, memory_bytes: int | None = None, disk_bps: int | None = None) -> Iterator[Cage]:
    """A cage for a command that works in `folder`.

    Args:
        memory_bytes: what it may use, pages of files too; None: as much as there is.
        disk_bps: bytes/s from the disk of the folder, and as many to it, past the page cache; None: as it comes.

    Raises:
        NotMeasuredError: there are no such control groups here, or no right to make one.
    """
    name = f"a2v{os.getpid()}cage"
    found = Cage(MEMORY / name, DISK / name)
    device = folder.stat().st_dev
    limit = f"{os.major(device)}:{os.minor(device)} {disk_bps}"
    throttle = {} if disk_bps is None else {f"blkio.throttle.{way}_bps_device": limit for way in ("read", "write")}
    memory = {} if memory_bytes is None else {"memory.limit_in_bytes": memory_bytes}
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_LOOK):
            found.look()

    watcher = threading.Thread(target=watch, daemon=True)
    with control_groups({found.memory: memory, found.disk: throttle}):
        watcher.start()
        try:
            yield found
        finally:
            over.set()
            watcher.join()

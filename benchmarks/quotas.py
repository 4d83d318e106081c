"""Shares of the processor for hosts on one machine: control groups with a quota (Linux, root, version 1)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.table import NotMeasuredError

ROOT = Path("/sys/fs/cgroup/cpu")
PERIOD = 0.01
"""seconds: a host runs for its share of this, then rests; ten times as often as the kernel's default, so that what
takes some milliseconds is slowed down evenly"""
_JANITOR = """cat >/dev/null
for turn in $(seq 100); do
    left=
    for folder in "$0" "$@"; do rmdir "$folder"; [ -d "$folder" ] && left=1; done
    [ -z "$left" ] && exit
    sleep 0.05
done"""
_ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


@dataclass(frozen=True)
class Quotas:
    """A group for each host that has a share; the groups are empty until a command is started in one."""

    folders: Sequence[Path | None]

    def wrap(self, host: int, command: list[str]) -> list[str]:
        """The command that runs `command` with the host's share."""
        folder = self.folders[host]
        return command if folder is None else ["sh", "-c", _ENTER, str(folder), *command]


@contextmanager
def quotas(shares: Sequence[float | None]) -> Iterator[Quotas]:
    """Groups with these shares of a core, by host (None: as much as there is).

    A process of its own removes them, also when this one is killed, once what runs in them has ended.

    Raises:
        NotMeasuredError: there is no such control group here, or no right to make one.
    """
    folders = [None if share is None else ROOT / f"a2v{os.getpid()}h{host}" for host, share in enumerate(shares)]
    janitor = subprocess.Popen(
        ["sh", "-c", _JANITOR, *(str(folder) for folder in folders if folder is not None)],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        for folder, share in zip(folders, shares, strict=True):
            if folder is not None and share is not None:
                _make(folder, share)
        yield Quotas(folders)
    finally:
        assert janitor.stdin is not None
        janitor.stdin.close()
        janitor.wait()


def _make(folder: Path, share: float) -> None:
    try:
        folder.mkdir()
        (folder / "cpu.cfs_period_us").write_text(str(round(PERIOD * 1e6)))
        (folder / "cpu.cfs_quota_us").write_text(str(round(share * PERIOD * 1e6)))
    except OSError as error:
        raise NotMeasuredError(f"quotas need root and control groups of version 1 at {ROOT}: {error}") from error

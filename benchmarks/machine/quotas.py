"""Shares of the processor for hosts on one machine, memory and disk for a process: control groups (Linux, root,
version 1)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from benchmarks.table import NotMeasuredError

ROOT = Path("/sys/fs/cgroup/cpu")
PERIOD = 0.01
"""seconds: a host runs for its share of this, then rests; ten times as often as the kernel's default, so that what
takes some milliseconds is slowed down evenly"""
_JANITOR = """made=$(cat)
for turn in $(seq 100); do
    left=
    for folder in $made; do
        for process in $(cat "$folder/cgroup.procs"); do [ "$process" -gt 0 ] && kill -9 "$process"; done
        rmdir "$folder"
        [ -d "$folder" ] && left=1
    done
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
        return command if folder is None else entering(folder, command)


@contextmanager
def quotas(shares: Sequence[float | None]) -> Iterator[Quotas]:
    """Groups with these shares of a core, by host (None: as much as there is).

    Raises:
        NotMeasuredError: there is no such control group here, or no right to make one.
    """
    folders = [None if share is None else ROOT / f"a2v{os.getpid()}h{host}" for host, share in enumerate(shares)]
    with control_groups(
        {
            folder: {"cpu.cfs_period_us": round(PERIOD * 1e6), "cpu.cfs_quota_us": round(share * PERIOD * 1e6)}
            for folder, share in zip(folders, shares, strict=True)
            if folder is not None and share is not None
        }
    ):
        yield Quotas(folders)


def entering(folder: Path, command: list[str]) -> list[str]:
    """The command that runs `command` in a group."""
    return ["sh", "-c", _ENTER, str(folder), *command]


@contextmanager
def control_groups(wanted: Mapping[Path, Mapping[str, object]]) -> Iterator[None]:
    """New groups, and what is written into their files.

    A process of its own removes them, also when this one is killed, and ends what still runs in them then: a run may
    outlive the row that began it, and a group in which something runs cannot be removed.

    Raises:
        NotMeasuredError: there is no such control group here, or no right to make one.
    """
    janitor = subprocess.Popen(
        ["sh", "-c", _JANITOR],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    assert janitor.stdin is not None
    try:
        for folder, settings in wanted.items():
            _make(folder, settings, janitor.stdin)
        yield
    finally:
        janitor.stdin.close()
        janitor.wait()


def _make(folder: Path, settings: Mapping[str, object], janitor: IO[bytes]) -> None:
    """Make a group, and tell the janitor of it: one that was there before is another's."""
    try:
        folder.mkdir()
        janitor.write(f"{folder}\n".encode())
        janitor.flush()
        for name, value in settings.items():
            (folder / name).write_text(str(value))
    except OSError as error:
        raise NotMeasuredError(
            f"limits need root and control groups of version 1 at {folder.parent}: {error}"
        ) from error

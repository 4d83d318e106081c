"""One process at a time writes into a folder: the lock is on the folder itself.

So it leaves nothing behind, needs no permission to write, and is gone with the process that has it, however that ends.
Processes of other machines that share the folder do not see it, nor do any where the file system knows no locks.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from any2vec.errors import StorageError

_LOOK = 0.05
"""seconds between two tries"""


def lock_folder(folder: Path, what: str, patience: float = 0.0) -> int:
    """A descriptor that keeps others out until it is closed.

    Args:
        what: the folder is, with its article.
        patience: seconds that a process which has it may yet take to end.

    Raises:
        OSError: the folder cannot be opened.
        StorageError: another process has it still; which.
    """
    lock, end = os.open(folder, os.O_RDONLY | os.O_DIRECTORY), time.monotonic() + patience
    try:
        while not _is_taken(lock):
            if time.monotonic() >= end:
                raise StorageError(f"{what} {folder} is in use by {_holder(lock)}; wait for it, or stop it.")
            time.sleep(_LOOK)
    except BaseException:
        os.close(lock)
        raise
    return lock


def _is_taken(lock: int) -> bool:
    """Whether nobody else has it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # there are no locks here
        return True
    return True


def is_locked(folder: Path) -> bool | None:
    """Whether a process has it; None where the system does not say so. To try it would keep others out."""
    try:
        return next(_locks(folder.stat().st_ino), None) is not None
    except OSError:
        return None


def _holder(lock: int) -> str:
    """Who has it, as far as Linux says so."""
    with suppress(OSError):
        for process in _locks(os.fstat(lock).st_ino):
            if process > 0:
                return f"process {process}"
    return "another process"


def _locks(inode: int) -> Iterator[int]:
    """Processes that have a file locked, as Linux numbers them.

    Raises:
        OSError: the system does not list locks.
    """
    for line in Path("/proc/locks").read_text(encoding="utf-8").splitlines():
        # 1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF; one that waits has an arrow behind its number
        _, kind, _, _, process, file, *_ = line.replace("-> ", "").split()
        if kind == "FLOCK" and file.rpartition(":")[2] == str(inode):
            yield int(process)

"""One process at a time in a folder: an advisory lock (flock) on the folder itself."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from any2vec.data.io.storage import storage_errors
from any2vec.errors import StorageError

_POLL_SECONDS = 0.05
"""between two attempts"""


class FolderLock:
    """A context that keeps other processes out of a folder, or a lock to `acquire` and `release`.

    The object knows its descriptor before the folder is locked, and lets go of it when it is collected: an exception
    out of a signal handler, wherever it comes, leaves no lock that nobody can release.

    Args:
        what: the folder is, with its article.
        patience: seconds that a process which has it may yet take to end.
    """

    _descriptor = -1

    def __init__(self, folder: Path, what: str, patience: float = 0.0) -> None:
        self.folder, self.what, self.patience = folder, what, patience

    def acquire(self) -> None:
        """Lock the folder.

        Raises:
            StorageError: the folder cannot be opened, or another process has it still; which.
        """
        end = time.monotonic() + self.patience
        with storage_errors(self.folder):
            self._descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
            while not _is_taken(self._descriptor):
                if time.monotonic() >= end:
                    holder = _holder(self._descriptor)
                    self.release()
                    raise StorageError(f"{self.what} {self.folder} is in use by {holder}; wait for it, or stop it.")
                time.sleep(_POLL_SECONDS)

    def release(self) -> None:
        """Let others in; once is enough, and more do no harm."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> FolderLock:
        try:
            self.acquire()
        except BaseException:
            self.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()


def is_locked(folder: Path) -> bool | None:
    """Whether a process has it, of whichever container; None where there are no locks.

    It is tried, shared with others who look, and let go of at once: who comes for it then needs some patience.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return False


def _is_taken(lock: int) -> bool:
    """Whether nobody else has it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # there are no locks here
        return True
    return True


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

"""The folder of a stream: `stream.json` says what it is, and what a killed process left there is gone on from."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from any2vec.checks import parse_json
from any2vec.data.io.storage import fsync_path, storage_errors
from any2vec.errors import FormatError, StorageError
from any2vec.formats.snapshots import FOLDER, remove_snapshots
from any2vec.tasks.stream.progress import LOG
from any2vec.train.checkpoint import FILE, Checkpoint, remove_checkpoint
from any2vec.train.progress import rotated_log
from any2vec.train.run_folder import new_folder, own_folder, remove_files, write_about

FORMAT = "any2vec-stream"
ABOUT, IDS = "stream.json", "trained.ids"
_REST = ".*.tmp"
"""what a killed process left half-written"""


def is_stream(out: Path) -> bool:
    """Whether a folder is that of a stream."""
    try:
        return parse_json((out / ABOUT).read_text(encoding="utf-8")).get("format") == FORMAT
    except (OSError, ValueError, AttributeError):
        return False


def check_stream_folder(out: Path, resume: bool, overwrite: bool) -> None:
    """Before sources are opened, and again when the folder is this process's.

    Raises:
        StorageError: `out` holds a stream and nobody said what to do with it, or something else.
    """
    with storage_errors(out):
        if not out.is_dir() and (out.exists() or out.is_symlink()):
            raise StorageError(f"{out} is a file, not a folder; choose another path.")
        if not out.is_dir() or all(path.match(_REST) for path in out.iterdir()):
            return
    if not is_stream(out):
        raise StorageError(f"{out} holds something else than a stream, so it is left alone; choose another folder.")
    if not (resume or overwrite):
        raise StorageError(
            f"{out} holds a stream: go on with it with --resume (resume=True), begin anew with --overwrite "
            "(overwrite=True), or choose another folder."
        )


@contextmanager
def stream_folder(
    out: Path | None, about: dict[str, Any], recall: Callable[[], Checkpoint | None], *, resume: bool, overwrite: bool
) -> Iterator[Checkpoint | None]:
    """Make the folder, keep other processes out of it, and empty it unless a checkpoint in it is gone on from.

    recall: reads that checkpoint, once the folder is this process's; None where there is none.

    Raises:
        StorageError: another process has the folder, or has used it since it was free; or it cannot be written.
    """
    if out is None:
        yield None
        return
    with new_folder(out):
        check_stream_folder(out, resume, overwrite)
        checkpoint = recall()
        with storage_errors(out):
            for rest in (*out.glob(_REST), *(out / FOLDER).glob(_REST)):
                shutil.rmtree(rest) if rest.is_dir() and not rest.is_symlink() else rest.unlink()
        if checkpoint is None:  # stream.json stays: it says whose folder this is, wherever this is cut
            _clear(out, LOG, rotated_log(out / LOG).name, IDS)
        write_stream(out, about)
        yield checkpoint


def forget_former(out: Path) -> None:
    """Remove the checkpoint of the stream that is to be replaced, before hosts begin that may be started again.

    They then go on from a checkpoint, which must be their own.

    Raises:
        StorageError: another process has the folder, or it holds something else, or it cannot be written.
    """
    with own_folder(out):
        check_stream_folder(out, resume=False, overwrite=True)
        remove_checkpoint(out / FILE)


def write_stream(out: Path, about: dict[str, Any]) -> None:
    """Write stream.json: settings, sources, when this process began, and the summary when there is one."""
    write_about(out / ABOUT, {"format": FORMAT, "version": 1} | about)


def forget_stream(out: Path | None) -> None:
    """Leave nothing of a stream that has begun and come to nothing; the folder goes, if it is empty then."""
    if out is None:
        return
    _clear(out, LOG, rotated_log(out / LOG).name, IDS, ABOUT)
    with storage_errors(out):
        if not any(out.iterdir()):
            out.rmdir()


def _clear(out: Path, *names: str) -> None:
    """Remove the checkpoint, the snapshots, and these files."""
    remove_checkpoint(out / FILE)
    remove_snapshots(out)
    with storage_errors(out):
        remove_files(out, *names)


class TrainedIds:
    """`trained.ids`: a line `SOURCE ID` for each trained line, SOURCE its number; as long as the checkpoint says."""

    def __init__(self, path: Path, length: int) -> None:
        """Cut the file to what a checkpoint knows of: `length` bytes."""
        self._path = path
        with storage_errors(path):
            self._file: IO[bytes] = path.open("ab")
            if self._file.tell() < length:
                self._file.close()
                raise FormatError(
                    f"{path} has {path.stat().st_size:,} bytes where the checkpoint knows of {length:,}; put the whole "
                    "file back, or begin anew with --overwrite."
                )
            self._file.truncate(length)

    def add(self, source: int, ids: Any) -> None:
        with storage_errors(self._path):
            self._file.write("".join(f"{source} {one}\n" for one in ids).encode())

    def sync(self) -> int:
        """Force what was added to the disk; the length, in bytes."""
        with storage_errors(self._path):
            self._file.flush()
            fsync_path(self._path)
            return self._path.stat().st_size

    def close(self) -> None:
        with storage_errors(self._path):
            self._file.close()

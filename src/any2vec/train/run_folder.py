"""The folder of a run: made before training, filled after it, opened when a finished run is asked for again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from any2vec._version import __version__
from any2vec.checks import parse_json
from any2vec.data.attributed.predictions import PREDICTIONS
from any2vec.data.io.cache import digest_of
from any2vec.data.io.folder_lock import FolderLock
from any2vec.data.io.storage import (
    RESULT_FORMAT,
    atomic_file,
    check_folder_free,
    check_replaceable,
    fsync_path,
    remove_of_run,
    storage_errors,
    temporary_beside,
    write_json,
)
from any2vec.embeddings import Embeddings
from any2vec.errors import InputError, StorageError
from any2vec.machine import describe
from any2vec.models.layers.ga_mlp import CLASSIFIER
from any2vec.signals import stops_go_to
from any2vec.train.checkpoint import FILE, check_settings, forget_losses, remove_checkpoint

if TYPE_CHECKING:
    from any2vec.train.spec import RunSpec

_KNOWN = (
    "meta.json", "vectors.safetensors", "vocabulary.tsv", "dense.safetensors", "schema.json", "values.parquet",
    "relations.safetensors", "relations.tsv", "triples.npy", CLASSIFIER, PREDICTIONS, "ngrams.safetensors",
    "char_lstm.safetensors", "users.safetensors", "users.tsv", "network.safetensors",
)  # fmt: skip
"""files of results that were written before run.json listed them"""
TABLE, TRIPLES = "table", "triples"
"""folders of a run whose table is larger than memory, until its result is whole: partitions, and buckets of triples"""
_HOSTS = "host-*"
"""folders of a run of several hosts, in which each has its table and its triples"""
_WHOLE = "meta.json"
"""the result is whole where it is"""
_FILES = "files"
"""names of the files of a result, in its run.json"""
_CHECKSUM = "checksum"
"""that of the settings and the summary of a finished run, in its run.json"""
ABOUT, _LOG = "run.json", "progress.jsonl"
_NEW_ABOUT, _NEW_LOG = "run.new.json", "progress.new.jsonl"
"""those of a run that is to replace the result beside them; where the first is, the checkpoint is of that run"""
_BESIDE = (
    _LOG, "report.html", "report-map.png", "report-curves.png", "report-monitors.png", "report-stages.png",
    "report-validation.png", "evaluation.jsonl",
)  # fmt: skip
_STAGING = "result"
_GRACE = 2.0
"""seconds that a process which has been stopped may yet take to end"""


def claim_folder(spec: RunSpec, may_start_again: bool) -> None:
    """See that the run may begin in its folder, before data are read; one that may start again finds no other there.

    Raises:
        StorageError: the folder holds something else, another process has it, or it cannot be written.
        InputError: the run is to start from vectors in there.
    """
    run, folder = spec.run, spec.run.out
    check_free(folder, resume=run.resume, overwrite=run.overwrite)
    check_folder_free(folder, run.overwrite or run.resume, RESULT_FORMAT)
    _check_apart(run.start, folder)
    with own_folder(folder):  # fails before data are read if another process has it
        if not run.resume and (spec.hosts.restarts or may_start_again):
            remove_unfinished(folder)  # now, or a restart would take the former result for its own


def _check_apart(init: Any, out: Path) -> None:
    """A run replaces what stands in its folder: it cannot start from vectors in there."""
    if isinstance(init, str | Path) and Path(init).resolve().is_relative_to(out.resolve()):
        raise InputError(f"The vectors to start from lie in {out}, which the run writes; choose another folder for it.")


@contextmanager
def run_folder(
    out: Path | None, settings: dict[str, Any], *, resume: bool = False, overwrite: bool = False
) -> Iterator[Path | None]:
    """Make the run folder, and yield its log of progress; a whole result that is there stays until the new one is.

    run.json comes first: it says whose folder this is while there is nothing else. A run that fails leaves its
    checkpoint there, and without one the folder as it was. No other process writes into it meanwhile.

    Raises:
        StorageError: another process has the folder, or has used it since it was free; or it cannot be written.
    """
    if out is None:
        yield None
        return
    with new_folder(out) as is_new:
        check_free(out, resume=resume, overwrite=overwrite)  # another run may have ended in it while this one read
        if resume and is_finished(out):
            raise StorageError(f"Another process has finished the run in {out} meanwhile; run again to open it.")
        yield from _filled(out, is_new, resume, settings)


@contextmanager
def new_folder(out: Path) -> Iterator[bool]:
    """Make a folder and keep other processes out of it; whether it was not there. Raises as `own_folder`."""
    is_new = not out.exists()
    with storage_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    with own_folder(out):
        yield is_new


def own_folder(out: Path) -> AbstractContextManager[object]:
    """Keep other processes out of a run folder, if it is there.

    Raises:
        StorageError: another one has it; which.
    """
    return FolderLock(out, "The run folder", _GRACE) if out.is_dir() else nullcontext()


def _filled(out: Path, is_new: bool, resume: bool, settings: dict[str, Any]) -> Iterator[Path]:
    """What `run_folder` does with a folder that is its own."""
    try:
        with storage_errors(out):
            _remove_staging(out)
            if not (resume and has_unfinished_run(out)):
                remove_unfinished(out)
        replaces = (out / _NEW_ABOUT).exists()
        write_about(out / (_NEW_ABOUT if replaces else ABOUT), {"settings": settings})
        yield out / (_NEW_LOG if replaces else _LOG)
    except BaseException:
        with suppress(OSError):
            is_whole = (out / _WHOLE).exists()
            if not is_whole:
                remove_files(out, *_files_of_result(out))
            if not has_unfinished_run(out):
                remove_files(out, _NEW_LOG, _NEW_ABOUT)
                remove_table(out)
                if not is_whole:
                    remove_files(out, ABOUT, *_BESIDE)
                if is_new:
                    out.rmdir()
        raise


def remove_unfinished(out: Path) -> None:
    """Begin anew in `out`: what a former run has left goes, its checkpoint too; but not a result that is whole.

    That one stays until it is replaced, marked as no result of the run that begins. The caller owns the folder.

    Raises:
        StorageError: the folder cannot be written.
    """
    with storage_errors(out):
        if (out / _WHOLE).exists():
            write_about(out / _NEW_ABOUT, {})
        else:
            remove_files(out, *_files_of_result(out), ABOUT, *_BESIDE, _NEW_ABOUT)
        remove_files(out, _NEW_LOG)
        forget_losses(out)
        remove_checkpoint(out / FILE)
        remove_table(out)


def remove_table(out: Path) -> None:
    """Remove the table and the triples of a run, and what killed processes left of them; a cut leaves none of either.

    The caller owns the folder.

    Raises:
        StorageError: they cannot be removed.
    """
    with storage_errors(out):
        for folder in (out, *out.glob(_HOSTS)):
            for name in (TABLE, TRIPLES):
                remove_of_run(folder / name)
            if folder != out:
                with suppress(OSError):  # it holds what is none of ours
                    folder.rmdir()


def host_folder(out: Path, rank: int) -> Path:
    """Where one of several hosts keeps its table and its triples: below the run folder, on its own machine."""
    return out / _HOSTS.replace("*", str(rank))


def _files_of_result(out: Path) -> set[str]:
    """Names of the files that a run has left in its folder as its result, whole or not."""
    listed: Any = None
    with suppress(OSError, ValueError, AttributeError):
        listed = parse_json((out / ABOUT).read_text(encoding="utf-8")).get(_FILES)
    there = {path.name for path in out.iterdir() if path.is_file()} if out.is_dir() else set()
    return {name for name in there if name in _KNOWN or (isinstance(listed, list) and name in listed)}


def remove_files(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).unlink(missing_ok=True)


class Savable(Protocol):
    """Vectors that go into a run folder."""

    def save_into(self, folder: Path) -> None: ...


class Writable(Protocol):
    """A part of a result that is a file of its own."""

    def write(self, path: Path) -> None: ...


def write_result(
    out: Path,
    embeddings: Savable,
    summary: dict[str, Any],
    settings: dict[str, Any],
    parts: Mapping[str, Writable],
) -> None:
    """Write the result of a run, its settings and its machine; the checkpoint goes when the result is whole.

    The files are made aside and then take the place of a former result's together, for the time of some renames, in
    which nobody is stopped.

    parts: what stands beside the vectors, by file name.

    Raises:
        StorageError: the disk is full or the folder cannot be written; the checkpoint and a former result stand.
    """
    with storage_errors(out):
        aside = temporary_beside(out / _STAGING)
        aside.mkdir()
        try:
            for name, part in parts.items():
                with atomic_file(aside / name) as temporary:
                    part.write(temporary)
            embeddings.save_into(aside)
            about = {"settings": settings, "summary": summary, "threads": summary["threads"]}
            about[_CHECKSUM] = _checksum(about)
            write_about(aside / ABOUT, about | {_FILES: sorted(path.name for path in aside.iterdir())})
            with stops_go_to(lambda *_: None):
                _put_in_place(aside, out)
                forget_losses(out)
                remove_checkpoint(out / FILE)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def _put_in_place(aside: Path, out: Path) -> None:
    """Move a result to where it belongs: meta.json goes away first and comes back last, so none is half-readable."""
    names = {path.name for path in aside.iterdir()}
    kept = set() if (out / _NEW_ABOUT).exists() else {_LOG}
    remove_files(out, _WHOLE, *sorted({*_files_of_result(out), *_BESIDE} - names - kept))
    for name in (ABOUT, *sorted(names - {ABOUT, _WHOLE})):  # the list of the others comes before them
        (aside / name).replace(out / name)
    if (out / _NEW_LOG).exists():
        (out / _NEW_LOG).replace(out / _LOG)
    remove_files(out, _NEW_ABOUT)
    (aside / _WHOLE).replace(out / _WHOLE)
    fsync_path(out)


def _remove_staging(out: Path) -> None:
    """What a killed process left of writing its result."""
    for rest in out.glob(f".{_STAGING}.*.tmp"):
        shutil.rmtree(rest, ignore_errors=True)


def summary_of(file: Path) -> dict[str, Any]:
    """The summary of a finished run, from the file of its folder that has it."""
    summary: dict[str, Any] = parse_json(file.read_text(encoding="utf-8"))["summary"]
    return summary


def note_restarts(file: Path, restarts: int) -> None:
    """Add to the summary in that file how often the hosts of the run were started again."""
    about = parse_json(file.read_text(encoding="utf-8"))
    about["summary"]["restarts"] = about["summary"].get("restarts", 0) + restarts
    if _CHECKSUM in about:  # streams have none
        about[_CHECKSUM] = _checksum(about)
    with atomic_file(file) as temporary:
        write_json(temporary, about)


def _checksum(about: dict[str, Any]) -> str:
    return digest_of([about["settings"], about["summary"]])


def write_about(path: Path, metadata: dict[str, Any]) -> None:
    """What a folder is, and on which machine it was written, beside these."""
    about = {"format": RESULT_FORMAT, "any2vec": __version__, "machine": describe()} | metadata
    with atomic_file(path) as temporary:
        write_json(temporary, about)


def check_free(out: Path, *, resume: bool, overwrite: bool) -> None:
    """Raise StorageError when a run may not begin in `out`, by what it holds.

    Of a checkpoint whoever runs the same command again may not know.
    """
    if has_unfinished_run(out) and not (resume or overwrite):
        raise StorageError(
            f"{out} holds an unfinished run: go on from its checkpoint with --resume (resume=True), choose another "
            "folder, or start again with --overwrite (overwrite=True)."
        )
    with storage_errors(out):
        check_replaceable(out, resume or overwrite, RESULT_FORMAT)


def check_resumable(out: Path, settings: dict[str, Any]) -> None:
    """Raise InputError when the run in `out` had other settings than these, as far as they are given.

    Before data are read and hosts started; all settings are compared when they are known, and what cannot be read
    is told then.
    """
    if not (is_finished(out) or has_unfinished_run(out)):
        return
    about = out / _NEW_ABOUT
    try:
        former = parse_json((about if about.exists() else out / ABOUT).read_text(encoding="utf-8"))["settings"]
        known = {name: former[name] for name in settings}
    except (OSError, ValueError, KeyError, TypeError):
        return
    (_check_finished if is_finished(out) else check_settings)(out, known, settings)


def is_finished(out: Path) -> bool:
    """Whether the last run that began in `out` has left its result there."""
    return (out / _WHOLE).exists() and not (out / _NEW_ABOUT).exists()


def is_node_classifier(out: Path) -> bool:
    """Whether a run has left a classifier of nodes there."""
    return (out / CLASSIFIER).exists()


def has_unfinished_run(out: Path) -> bool:
    """Whether an unfinished run has left something in `out` to go on from."""
    return (out / FILE).exists() or has_table(out)


def has_table(out: Path) -> bool:
    """Whether `out` is of an unfinished run whose table is larger than memory."""
    return (is_table(out) or is_shared(out)) and not is_finished(out)


def is_shared(out: Path) -> bool:
    """Whether hosts have left their parts of such a table in `out`."""
    return any(map(is_table, out.glob(_HOSTS)))


def is_table(folder: Path) -> bool:
    """Whether a folder holds a table in partitions, or the part of one host."""
    return (folder / TABLE / "meta.json").exists()


def open_finished(out: Path, settings: dict[str, Any]) -> tuple[Embeddings, dict[str, Any]]:
    """(embeddings, summary) of a run that was finished before.

    Raises:
        InputError: it had other settings, or run.json cannot be read or is damaged.
    """
    try:
        about = parse_json((out / ABOUT).read_text(encoding="utf-8"))
        former, summary = about["settings"], about["summary"]
        if about.get(_CHECKSUM) != _checksum(about):
            raise ValueError("run.json is damaged, or of a version that wrote no checksum")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{out} is no run that can go on ({error}); choose another folder or --overwrite.") from error
    _check_finished(out, former, settings)
    return Embeddings.load(out), summary


def _check_finished(out: Path, former: dict[str, Any], settings: dict[str, Any]) -> None:
    """As `check_settings`; who wants more epochs is told how."""
    try:
        check_settings(out, former, settings)
    except InputError as error:
        if former.get("epochs") == settings.get("epochs"):
            raise
        raise InputError(
            f"{error} This run is finished: choose another --out for a new one, which may start from the vectors of a "
            f"run of words or nodes, --init {out} (init= in Python)."
        ) from None

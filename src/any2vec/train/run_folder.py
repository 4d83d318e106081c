"""The folder of a run: made before training, filled after it, opened when a finished run is asked for again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from any2vec._version import __version__
from any2vec.data.storage import (
    RESULT_FORMAT,
    RUN_FORMATS,
    atomic_file,
    format_of_folder,
    storage_errors,
    write_json,
)
from any2vec.embeddings import Embeddings
from any2vec.errors import InputError, StorageError
from any2vec.machine import describe
from any2vec.train.checkpoint import FILE, check_settings, remove_checkpoint
from any2vec.train.losses import forget_losses

_RESULT = (
    "meta.json", "vectors.safetensors", "vocabulary.tsv", "dense.safetensors", "schema.json", "values.parquet",
    "relations.safetensors", "relations.tsv", "triples.npy",
)  # fmt: skip
TABLE, TRIPLES = "table", "triples"
"""folders of a run whose table is larger than memory, until its result is whole: partitions, and buckets of triples"""
_ABOUT = "run.json"
_BESIDE = ("progress.jsonl", "report.html", "report-map.png", "report-curves.png", "evaluation.jsonl")


@contextmanager
def run_folder(out: Path | None, resume: bool, settings: dict[str, Any]) -> Iterator[None]:
    """Make the run folder; what a former result left goes away, meta.json first, so that none is half-readable.

    run.json comes first: it tells whose folder this is while there is nothing else. A run that fails leaves its
    checkpoint there, and without one nothing.
    """
    if out is None:
        yield
        return
    is_new = not out.exists()
    try:
        with storage_errors(out):
            out.mkdir(parents=True, exist_ok=True)
            if not (resume and is_begun(out)):
                clear_folder(out)
        _write_about(out, {"settings": settings})
        yield
    except BaseException:
        with suppress(OSError):
            _remove(out, *_RESULT)
            if not is_begun(out):
                _remove(out, _ABOUT, *_BESIDE)
                remove_table(out)
                if is_new:
                    out.rmdir()
        raise


def clear_folder(out: Path) -> None:
    """Remove what a former run has left in `out`, its checkpoint too.

    Raises:
        StorageError: it cannot be removed.
    """
    with storage_errors(out):
        _remove(out, *_RESULT, _ABOUT, *_BESIDE)
        forget_losses(out)
        remove_checkpoint(out / FILE)
        remove_table(out)


def remove_table(out: Path) -> None:
    """Remove the table and the triples of a run, and what killed processes left of them; a cut leaves none of either.

    Raises:
        StorageError: they cannot be removed.
    """
    with storage_errors(out):
        for name in (TABLE, TRIPLES):
            for rest in out.glob(f".{name}.*.tmp"):
                shutil.rmtree(rest)
            if format_of_folder(out / name) in RUN_FORMATS:
                gone = out / f".{name}.gone.tmp"
                (out / name).rename(gone)
                shutil.rmtree(gone)


def _remove(folder: Path, *names: str) -> None:
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
    """Write what a run made, its facts and its machine; the checkpoint goes when the result is whole.

    parts: what stands beside the vectors, by file name.

    Raises:
        StorageError: the disk is full or the folder cannot be written; the checkpoint stands.
    """
    _write_about(out, {"settings": settings, "summary": summary, "threads": summary["threads"]})
    for name, part in parts.items():
        with atomic_file(out / name) as temporary:
            part.write(temporary)
    embeddings.save_into(out)
    forget_losses(out)
    remove_checkpoint(out / FILE)


def summary_of(out: Path) -> dict[str, Any]:
    """The summary of the finished run in `out`."""
    summary: dict[str, Any] = json.loads((out / _ABOUT).read_text(encoding="utf-8"))["summary"]
    return summary


def note_restarts(out: Path, restarts: int) -> None:
    """Add to the summary in `out` how often the hosts of the run were started again."""
    about = json.loads((out / _ABOUT).read_text(encoding="utf-8"))
    about["summary"]["restarts"] = about["summary"].get("restarts", 0) + restarts
    with atomic_file(out / _ABOUT) as temporary:
        write_json(temporary, about)


def _write_about(out: Path, facts: dict[str, Any]) -> None:
    about = {"format": RESULT_FORMAT, "any2vec": __version__, "machine": describe()} | facts
    with atomic_file(out / _ABOUT) as temporary:
        write_json(temporary, about)


def check_not_begun(out: Path) -> None:
    """Raise StorageError when `out` holds a checkpoint: whoever runs the same command again may not know that."""
    if is_begun(out):
        raise StorageError(
            f"{out} holds an unfinished run: go on from its checkpoint with --resume (resume=True), choose another "
            "folder, or start again with --overwrite (overwrite=True)."
        )


def check_resumable(out: Path, settings: dict[str, Any]) -> None:
    """Raise InputError when the run in `out` had other settings than these, as far as they are given.

    Before data are read and hosts started; all settings are compared when they are known, and what cannot be read
    is told then.
    """
    if not (is_finished(out) or is_begun(out)):
        return
    try:
        former = json.loads((out / _ABOUT).read_text(encoding="utf-8"))["settings"]
        known = {name: former[name] for name in settings}
    except (OSError, ValueError, KeyError, TypeError):
        return
    check_settings(out, known, settings)


def is_finished(out: Path) -> bool:
    """Whether a run has left its result in `out`."""
    return (out / "meta.json").exists()


def is_begun(out: Path) -> bool:
    """Whether an unfinished run has left something in `out` to go on from."""
    return (out / FILE).exists() or has_table(out)


def has_table(out: Path) -> bool:
    """Whether `out` is of an unfinished run whose table is larger than memory."""
    return (out / TABLE / "meta.json").exists() and not is_finished(out)


def open_finished(out: Path, settings: dict[str, Any]) -> tuple[Embeddings, dict[str, Any]]:
    """(embeddings, summary) of a run that was finished before.

    Raises:
        InputError: it had other settings, or its facts cannot be read.
    """
    try:
        about = json.loads((out / _ABOUT).read_text(encoding="utf-8"))
        former, summary = about["settings"], about["summary"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{out} is no run that can go on ({error}); choose another folder or --overwrite.") from error
    check_settings(out, former, settings)
    return Embeddings.load(out), summary

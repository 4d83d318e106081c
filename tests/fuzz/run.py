"""Damaged inputs of every kind against every reader, and what may not happen.

    python tests/fuzz/run.py [--count 10000] [--seed 1] [--only NAME] [--first 0]
    python tests/fuzz/run.py --by-command [--count 500] [--seed 1]       see processes.py

An input is read, or refused by an error of any2vec's own: one sentence. A failure is another error (a traceback), a
warning, a run without an end, and what is left on the disk: temporary files, or a result of what was refused. Input N
of a seed is the same in every run; a failure says which it was, and keeps its files in runs/fuzz.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from any2vec.errors import Any2VecError
from fuzz import processes
from fuzz.leftovers import left_behind
from fuzz.samples import make_samples
from fuzz.targets import TARGETS, Target, copy

MOST_SECONDS = 120.0
"""that an input may take; those of this size take milliseconds, but may be the first that needs some kernel"""
KEPT = Path(__file__).resolve().parents[2] / "runs" / "fuzz"


class EndlessError(BaseException):
    """An input took too long; no `except Exception` on the way keeps it."""


class Failure(NamedTuple):
    """An input that was not answered as it should be."""

    number: int
    target: str
    what: str

    def __str__(self) -> str:
        return f"input {self.number} ({self.target}): {self.what}"


def fuzz(count: int, seed: int, samples: Path, *, first: int = 0, targets: Sequence[Target] = TARGETS) -> list[Failure]:
    """Try so many inputs, in turn of the targets."""
    found = []
    for number in range(first, first + count):
        target = targets[number % len(targets)]
        work = Path(tempfile.mkdtemp(prefix="fuzz-"))
        try:
            copy(samples, work, target.samples)
            what = try_one(target, work, np.random.default_rng((seed, number)))
            if what:
                found.append(Failure(number, target.name, what))
                kept = KEPT / f"{seed}-{number}"
                shutil.rmtree(kept, ignore_errors=True)
                shutil.copytree(work, kept, symlinks=True, ignore_dangling_symlinks=True)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return found


def try_one(target: Target, work: Path, rng: np.random.Generator, most_seconds: float = MOST_SECONDS) -> str:
    """What was wrong with the answer to one input; nothing: all was right."""
    (work / "tmp").mkdir()
    former, tempfile.tempdir = tempfile.tempdir, str(work / "tmp")
    unraised: list[str] = []
    is_refused = False
    try:
        with within(most_seconds), unraisable(unraised), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                target.run(work, rng)
            except (Any2VecError, *target.legal) as error:
                is_refused = True
                if isinstance(error, Any2VecError) and (not str(error).strip() or "\n" in str(error).strip()):
                    return f"not one sentence: {str(error)!r}"
            gc.collect(0)
    except EndlessError as error:
        return f"no end within {most_seconds:g} s\n" + "".join(traceback.format_tb(error.__traceback__)[-6:])
    except Exception:
        return traceback.format_exc(limit=-8)
    finally:
        tempfile.tempdir = former
    noise = [
        *unraised,
        *(f"warns: {one.category.__name__}: {one.message} ({one.filename}:{one.lineno})" for one in warned),
    ]
    return "\n".join(noise) or left_behind(work, is_refused)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """EndlessError after so many seconds; the process ends where that is not heard, within compiled code."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise EndlessError

    former = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    faulthandler.dump_traceback_later(4 * seconds, exit=True)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
        faulthandler.cancel_dump_traceback_later()


@contextmanager
def unraisable(found: list[str]) -> Iterator[None]:
    """Tracebacks that nobody can catch: of callbacks, and of threads."""

    def note(about: Any) -> None:
        found.append(f"unraisable: {about.exc_type.__name__}: {about.exc_value}")

    hooks = sys.unraisablehook, threading.excepthook
    sys.unraisablehook = threading.excepthook = note
    try:
        yield
    finally:
        sys.unraisablehook, threading.excepthook = hooks


def main() -> int:
    parser = argparse.ArgumentParser(description="Damaged inputs against every reader.")
    parser.add_argument("--count", type=int, help="10,000 when not given, 500 by the command")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--only", default="", help="targets whose name holds this")
    parser.add_argument("--by-command", action="store_true", help="by processes of the installed command; resumes")
    parser.add_argument("--processes", type=int, default=2, help="by the command: so many at a time")
    parser.add_argument("--show", action="store_true", help="by the command: what was tried so far")
    given = parser.parse_args()
    if given.by_command:
        return processes.run(0 if given.show else given.count or 500, given.seed, KEPT, given.processes)
    count = given.count or 10_000
    targets = [target for target in TARGETS if given.only in target.name]
    if not targets:
        parser.error(f"no target's name holds {given.only!r}; there are {', '.join(one.name for one in TARGETS)}")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-samples-") as folder:
        make_samples(Path(folder))
        print(f"samples of {len(targets)} targets made in {time.monotonic() - began:.0f} s", flush=True)
        failures: list[Failure] = []
        for first in range(given.first, given.first + count, 500):
            part = fuzz(min(500, given.first + count - first), given.seed, Path(folder), first=first, targets=targets)
            for failure in part:
                print(failure, flush=True)
            failures += part
            print(f"{min(first - given.first + 500, count):,} of {count:,}: {len(failures)} failures, "
                  f"{time.monotonic() - began:.0f} s", flush=True)  # fmt: skip
    for name, count in Counter(failure.target for failure in failures).most_common():
        print(f"{count:5} {name}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

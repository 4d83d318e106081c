"""The process in which golden runs are carried out: names come on standard input, results go to standard output.

`python -m golden.child` reads a name a line and answers each with a line of JSON: {"name", "arrays", "counts",
"seconds"}, or {"name", "error"}; for the line "?" with what runs there are, the machine, and the package's folder.
Two commits speak with each other by this protocol alone, so it stays as it is.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import any2vec
from golden.arrays import hash_all, hash_one
from golden.calls import BYTES, COUNTS, NAMES, Outcome, Place
from golden.data import Data
from golden.machine import describe
from golden.runs import LEFT_OUT, RUNS

FEW = 16
"""values of a list that stand in the golden file one by one"""


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a run prints is no answer
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        data = Data(Path(folder))
        for line in sys.stdin:
            name = line.strip()
            answer = listing() if name == "?" else {"name": name} | carried_out(name, data)
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


def listing() -> dict[str, Any]:
    """What runs there are."""
    runs = {
        name: {"needs": run.needs, "is_alone": run.is_alone, "seconds": run.seconds} for name, run in RUNS.items()
    }  # fmt: skip
    return {"runs": runs, "left_out": LEFT_OUT, "machine": describe(), "package": any2vec.__file__}


def carried_out(name: str, data: Data) -> dict[str, Any]:
    """The hashes and counts of a run, or the error that ended it."""
    began = time.perf_counter()
    try:
        with tempfile.TemporaryDirectory(prefix="golden-run-") as folder:
            outcome = RUNS[name].call(Place(data, Path(folder) / "out", Path(folder)))
            arrays = hash_all(outcome.folder, outcome.returned)
    except Exception:
        return {"error": traceback.format_exc()}
    seconds = round(time.perf_counter() - began, 2)
    return {"arrays": _named(arrays), "counts": _named(counts(outcome)), "seconds": seconds}


def counts(outcome: Outcome) -> dict[str, Any]:
    """What a summary says that must repeat: floats as text that loses no bit."""
    names = {"all": COUNTS + BYTES, "data": (*COUNTS, "bytes_by_kind"), "none": COUNTS}[outcome.bytes_that_repeat]
    found = {name: exact(outcome.summary[name]) for name in names if name in outcome.summary}
    if outcome.bytes_that_repeat == "data":
        found["bytes_by_kind"].pop("control", None)
    return found


def exact(value: Any) -> Any:
    """A value of a summary as JSON in which no bit is lost."""
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, dict):
        return {str(key): exact(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        found = [exact(item) for item in value]
        return found if len(found) <= FEW else f"{len(found)} values, {hash_one(found)}"
    return value


def _named(found: dict[str, Any]) -> dict[str, Any]:
    return {NAMES.get(name, name): value for name, value in found.items()}


if __name__ == "__main__":
    main()

"""Faults in single lines, and whether tests see them.

    python tests/mutants/run.py record [OPTIONS OF PYTEST]     which tests cover which line (minutes)
    python tests/mutants/run.py draw [--count 60] [--seed 1]   faults over all rooms by turns, into faults.json
    python tests/mutants/run.py judge                          each against the tests that cover its line
    python tests/mutants/run.py show                           what was caught, and what was not

A fault is judged in a copy of the tree, by the tests that cover its line, those that cover least first, for as long as
`MOST_SECONDS` of them; a set of tests that takes five times as long as it should hangs, which counts as caught.
Verdicts are kept one by one; `judge` goes on where it stopped. A fault that changes no behavior is named, with the
reason, in equivalent.json, and another is drawn in its place.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mutants.covering import ROOT, SOURCE, Covering, python_path, record
from mutants.faults import Fault, faults_of, with_fault

HERE = Path(__file__).parent
FOLDER = ROOT / "runs" / "mutants"
KEPT, EQUIVALENT = HERE / "faults.json", HERE / "equivalent.json"
MOST_SECONDS = 240.0
USAGE_ERROR = 4
"""with which pytest ends where it finds no test of a name"""
ENDED = "pytest ends with "


def draw(covering: Covering, count: int, seed: int) -> list[dict[str, Any]]:
    """Faults on covered lines, room after room, at most one a line; not those that are named equivalent.

    Each room has a generator of its own, so that a name in the list changes what is drawn in no other room.
    """
    named = {(one["file"], one["before"].strip(), one["after"].strip()) for one in read(EQUIVALENT)}
    rooms: dict[str, list[Path]] = defaultdict(list)
    for path in covering.files():
        rooms[path.parts[1] if len(path.parts) > 2 else "any2vec"].append(path)
    turns = {room: one_by_one(random.Random(f"{seed} {room}"), covering, rooms[room], named) for room in sorted(rooms)}
    drawn: list[dict[str, Any]] = []
    while turns and len(drawn) < count:
        for room in list(turns):
            found = next(turns[room], None)
            if found is None:
                del turns[room]
            elif len(drawn) < count:
                drawn.append({"room": room, "file": str(found[0]), **asdict(found[1])})
    return drawn


def one_by_one(
    rng: random.Random, covering: Covering, paths: list[Path], named: set[tuple[str, str, str]]
) -> Iterator[tuple[Path, Fault]]:
    """Faults of a room's files: one of each file that has any, in an order drawn anew each time round."""
    places: dict[Path, list[Fault]] = {}
    while True:
        has_any = False
        for path in rng.sample(paths, len(paths)):
            if path not in places:
                faults = faults_of((SOURCE / path).read_text(encoding="utf-8"))
                places[path] = [fault for fault in faults if covering.tests(path, fault.line)]
            if places[path]:
                fault = rng.choice(places[path])
                places[path] = [other for other in places[path] if other.line != fault.line]
                if (str(path), fault.before.strip(), fault.after.strip()) not in named:
                    has_any = True
                    yield path, fault
        if not has_any:
            return


def judge(covering: Covering, out: Path) -> None:
    """Fill in `verdict` of those of a file that have none, and write each at once."""
    faults = read(out)
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "tree"
        kept_out = shutil.ignore_patterns(".git", ".venv*", "runs", "__pycache__", ".*_cache")
        shutil.copytree(ROOT, copy, ignore=kept_out)
        for number, one in enumerate(faults):
            if "verdict" in one:
                continue
            one |= judge_one(copy, one, covering)
            write(out, faults)
            print(
                f"{number + 1:3} {one['verdict']:<8} {one['seconds']:6.0f} s {one['file']}:{one['line']} {one['by']}",
                flush=True,
            )


def judge_one(tree: Path, one: dict[str, Any], covering: Covering) -> dict[str, Any]:
    """verdict: caught or survived; by: the test that fails, or how else."""
    fault = Fault(one["line"], one["column"], one["kind"], one["before"], one["after"])
    path = tree / "src" / one["file"]
    source = path.read_text(encoding="utf-8")
    if source.split("\n")[fault.line - 1] != fault.before:
        raise RuntimeError(f"{one['file']}:{fault.line} is another line than when its fault was drawn; draw again.")
    names = covering.tests(Path(one["file"]), fault.line)
    tests, seconds = [], 0.0
    for name in names:
        if tests and seconds + covering.seconds.get(name, 0.0) > MOST_SECONDS:
            break
        tests.append(name)
        seconds += covering.seconds.get(name, 0.0)
    start, limit = time.monotonic(), 5 * seconds + 300
    while True:
        path.write_text(with_fault(source, fault), encoding="utf-8")
        try:
            verdict, by = run_tests(tree, tests, limit)
        finally:
            path.write_text(source, encoding="utf-8")
        alone = [test for test in tests if by and test.startswith(by)]
        if by.startswith(ENDED) and run_tests(tree, tests, limit)[0] != "survived":
            raise RuntimeError(f"{by} for {one['file']}:{fault.line}, and without the fault, too.")
        if not alone or run_tests(tree, alone, limit)[0] == "survived":
            break
        tests = [
            test for test in tests if test not in alone
        ]  # they fail without the fault, too: no word of theirs counts
    return {
        "tests": len(tests), "of": len(names), "verdict": verdict, "by": by, "seconds": round(time.monotonic() - start),
    }  # fmt: skip


def run_tests(tree: Path, tests: list[str], limit: float) -> tuple[str, str]:
    """The tests in one process, up to the first that fails."""
    log = tree / "mutant.log"
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=no", *tests]
    environment = os.environ | {"PYTHONPATH": python_path(tree)}
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=tree, env=environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            return "caught", "tests hang"
    if code == USAGE_ERROR and (whole := list(dict.fromkeys(name.partition("[")[0] for name in tests))) != tests:
        return run_tests(tree, whole, limit)  # pytest does not find every name of parameters that it has given
    text = log.read_text(encoding="utf-8", errors="replace")
    failed = [line.split(" ")[1] for line in text.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if code == 0:
        return "survived", ""
    if code < 0 or code in (1, 2, 3, 4):
        return "caught", failed[0] if failed else f"{ENDED}{code}"
    raise RuntimeError(f"pytest ended with {code}:\n{text[-2000:]}")


def read(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def write(path: Path, faults: list[dict[str, Any]]) -> None:
    path.write_text(json.dumps(faults, indent=1) + "\n", encoding="utf-8")


def show(faults: list[dict[str, Any]]) -> None:
    for one in faults:
        if one.get("verdict") == "survived":
            print(f"survived: {one['file']}:{one['line']} ({one['tests']} of {one['of']} tests)")
            print(f"  - {one['before'].strip()}\n  + {one['after'].strip()}")
    caught = sum(one.get("verdict") == "caught" for one in faults)
    judged = sum("verdict" in one for one in faults)
    print(f"{caught} of {judged} caught, {len(faults) - judged} not judged, {len(read(EQUIVALENT))} named equivalent")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("record", "draw", "judge", "show"))
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=KEPT, metavar="FILE", help="in the place of faults.json")
    parser.add_argument("--coverage", type=Path, default=FOLDER, metavar="FOLDER", help="where `record` keeps it")
    options, others = parser.parse_known_args()
    if options.what == "record":
        return record(options.coverage.absolute(), others)
    if others:
        parser.error(f"unknown options {' '.join(others)}")
    if options.what == "draw":
        kept = {(one["file"], one["before"], one["after"]): one for one in read(options.out)}
        drawn = draw(Covering(options.coverage), options.count, options.seed)
        write(options.out, [kept.get((one["file"], one["before"], one["after"]), one) for one in drawn])
    elif options.what == "judge":
        judge(Covering(options.coverage), options.out)
    show(read(options.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The code behind a figure: a hash of what its processes ran of each file of the project.

What only prints, draws or documents is left out, and so are comments and docstrings, functions that were not called,
classes and imports of names that nothing else uses, and files of rows of which nothing was called or used: they change
no figure. Where nobody noted the calls, a file counts whole.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from benchmarks.source_file import source_file
from benchmarks.traced.ran import CalledFunctions, imported

ROOT = Path(__file__).resolve().parents[1]
TRACED = Path(__file__).resolve().parent / "traced"
TRACE = "ANY2VEC_BENCH_TRACE"
"""variable that names the folder where a process says what it has imported"""
FUNCTIONS = "ANY2VEC_BENCH_FUNCTIONS"
"""variable by which it says which functions it has called, too: calls take longer then"""
_ROOMS = ("src/any2vec/", "benchmarks/")
_LEFT_OUT = (
    "src/any2vec/cli/",
    "src/any2vec/report/",
    "src/any2vec/__init__.py",  # names of public modules alone
    "src/any2vec/options/named.py",  # sentences of errors alone
    *(
        f"benchmarks/{name}"
        for name in ("traced/", "pages.py", "run.py", "results.py", "source_code.py", "source_file.py", "stand_ins.py")
    ),
)

Code = dict[str, str | list[str]]
"""path of a file below the project -> hash of what it does; with names of functions behind it: of those alone"""
Ran = dict[str, set[str] | None]
"""path -> qualified names of the functions that were called; None: they were not noted"""


def tracing(folder: Path) -> dict[str, str]:
    """Variables by which the processes of any2vec write into a folder what ran in them."""
    folder.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join(filter(None, (str(TRACED), os.environ.get("PYTHONPATH"))))
    return {TRACE: str(folder), "PYTHONPATH": path}


def traced(folder: Path) -> Ran:
    """What such processes have written there; the files go."""
    found: Ran = {}
    for file in folder.glob("*.txt"):
        for line in file.read_text().split("\n"):
            path, tab, name = line.partition("\t")
            known = found.setdefault(path, set()) if tab else None
            if known is None:
                found[path] = None
            elif name:
                known.add(name)
        file.unlink()
    return found


def ran_here(called: CalledFunctions | None = None) -> Ran:
    """The same of this process."""
    if called is None:
        return dict.fromkeys(imported())
    found: dict[str, set[str]] = {path: set() for path in imported()}
    for path, name in called.names():
        found.setdefault(path, set()).add(name)
    return dict(found)


def code_of(ran: Ran) -> Code:
    """Hashes of those of the files that can change a figure."""
    counted = {path: names for path, names in sorted(ran.items()) if _counts(path)}
    idle = _idle(counted)
    return _hashes({path: names for path, names in counted.items() if path not in idle})


def _hashes(ran: Ran) -> Code:
    called = frozenset(name.rpartition(".")[2] for names in ran.values() for name in names or ())
    named = _named(ran)
    return {path: _entry(path, names, called, named) for path, names in ran.items()}


def joined(first: Code, other: Code) -> Code:
    """The code of two runs: a file counts by the functions that either has called, and whole where one counts so."""
    ran = _ran(first)
    both = dict(ran)
    for path, names in _ran(other).items():
        known = ran.get(path, set())
        both[path] = None if names is None or known is None else known | names
    return first if both == ran else code_of(both)


def narrowed(code: Code, noted: Code) -> Code:
    """Its files, by the functions of them that were noted."""
    known = _ran(noted)
    return code_of({path: known.get(path, set()) for path in code})


def changed_since(code: Mapping[str, str | list[str]]) -> list[str]:
    """The files that do something else now, or are gone."""
    now = _now(json.dumps(code))
    return [path for path in now if now[path] != code[path]]


@cache
def _now(code: str) -> Code:
    """The same of the present files, but of idle ones; kept runs of one row mostly have the same code."""
    ran = _ran(json.loads(code))
    idle = _idle(ran)  # of entries from when such files counted
    return {path: known for path, known in _hashes(ran).items() if path not in idle}


def _ran(code: Mapping[str, str | list[str]]) -> Ran:
    """What it was made of."""
    return {path: None if isinstance(known, str) else set(known[1:]) for path, known in code.items()}


def _idle(ran: Ran) -> set[str]:
    """Files of rows that came along with their table: no function was called, and what counts of the other files of
    benchmarks/ uses no constant or class. Scripts of peers/ may do something as they are read."""
    known = {path: file for path in ran if _is_of_rows(path) and (file := source_file(ROOT / path)) is not None}
    idle, named = {path for path in known if ran[path] == set()}, _named(ran)
    while True:
        used = {
            name for path, file in known.items() if path not in idle
            for name in file.uses(ran[path], named) - file.given
        }  # fmt: skip
        more = {path for path in idle if known[path].given & used}
        if not more:
            return idle
        idle -= more


def _is_of_rows(path: str) -> bool:
    return path.startswith("benchmarks/") and not path.startswith("benchmarks/peers/")


def _named(ran: Ran) -> frozenset[str]:
    """All names that stand in what ran, and in the classes that these bring in."""
    files = [(file, names) for path, names in ran.items() if (file := source_file(ROOT / path)) is not None]
    found: frozenset[str] = frozenset()
    while True:
        more = found.union(*(file.uses(names, found) for file, names in files))
        if more == found:
            return found
        found = more


def _entry(path: str, names: set[str] | None, called: frozenset[str], named: frozenset[str]) -> str | list[str]:
    file = source_file(ROOT / path)
    found = "" if file is None else file.digest(names, called, named)
    return found if names is None else [found, *sorted(names if file is None else names & file.functions)]


def _counts(path: str) -> bool:
    """Whether a file can change a figure."""
    return path.startswith(_ROOMS) and not path.startswith(_LEFT_OUT)

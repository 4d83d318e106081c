"""The code behind a figure: a hash of each file that the measured processes imported from the project.

What only prints, draws or documents is left out, and so are comments and docstrings: they change no figure.
"""

from __future__ import annotations

import ast
import hashlib
import io
import os
import sys
import tokenize
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).resolve().parents[1]
TRACED = Path(__file__).resolve().parent / "traced"
TRACE = "ANY2VEC_BENCH_TRACE"
"""variable that names the folder where a process says what it has imported"""
_ROOMS = ("src/any2vec/", "benchmarks/")
_LEFT_OUT = (
    "src/any2vec/cli/",
    "src/any2vec/report/",
    "src/any2vec/__init__.py",  # names of public modules alone
    *(
        f"benchmarks/{name}"
        for name in ("traced/", "pages.py", "run.py", "results.py", "source_code.py", "stand_ins.py")
    ),
)

Code = dict[str, str]
"""path of a file below the project -> hash of what it does"""


def tracing(folder: Path) -> dict[str, str]:
    """Variables by which the processes of any2vec write into a folder which modules they have imported."""
    folder.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join(filter(None, (str(TRACED), os.environ.get("PYTHONPATH"))))
    return {TRACE: str(folder), "PYTHONPATH": path}


def traced(folder: Path) -> set[str]:
    """What such processes have written there; the files go."""
    found: set[str] = set()
    for file in folder.glob("*.txt"):
        found.update(file.read_text().split("\n"))
        file.unlink()
    return found


def imported_here() -> set[str]:
    """The same of this process."""
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    paths = {Path(name).resolve() for name in files if name and name.endswith(".py")}
    return {path.relative_to(ROOT).as_posix() for path in paths if path.is_relative_to(ROOT)}


def code_of(paths: Iterable[str]) -> Code:
    """Hashes of those of the files that can change a figure."""
    return {path: file_hash(ROOT / path) for path in sorted(set(paths)) if _counts(path)}


def changed_since(code: Mapping[str, str]) -> list[str]:
    """The files that do something else now, or are gone."""
    return [path for path, known in code.items() if _counts(path) and file_hash(ROOT / path) != known]


def _counts(path: str) -> bool:
    """Whether a file can change a figure."""
    return path.startswith(_ROOMS) and not path.startswith(_LEFT_OUT)


@cache
def file_hash(path: Path) -> str:
    """Twelve letters, the same by any version of Python; empty where there is no such file."""
    if not path.exists():
        return ""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):
        if _is_text(node):
            for row in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                lines[row - 1] = ""
    kept = filter(None, map(str.rstrip, lines))
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()[:12]


def _is_text(node: ast.AST) -> TypeGuard[ast.Expr]:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)

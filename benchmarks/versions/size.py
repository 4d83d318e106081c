"""How large the package is: lines of code, files a folder, the median file."""

from __future__ import annotations

import ast
import statistics
from collections import Counter
from pathlib import Path

from benchmarks.bench import ROOT, Bench
from benchmarks.table import Measure, Reading, Row

ROOMS = ("src", "tests", "benchmarks")


def size(bench: Bench) -> list[Reading]:
    """Code lines of src are those without docstrings, comments, imports and blanks."""
    modules = sorted((ROOT / "src").rglob("*.py"))
    lines = {path: path.read_text(encoding="utf-8").splitlines() for path in modules}
    code, most = sum(map(code_lines, modules)), _files_of_the_fullest()
    median = statistics.median(map(len, lines.values()))
    whole = statistics.median(len(text) for path, text in lines.items() if path.name != "__init__.py")
    return [
        Reading(value=code, text=f"{code:,}"),
        Reading(value=(total := sum(map(len, lines.values()))), text=f"{total:,} in {len(modules)} files"),
        Reading(value=most, text=str(most)),
        Reading(value=median, text=f"{median:g}, {whole:g} without __init__.py"),
    ]


def code_lines(path: Path) -> int:
    """Lines of a module that are no docstring, comment, import or blank."""
    text = path.read_text(encoding="utf-8")
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        is_text = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        if isinstance(node, ast.Import | ast.ImportFrom) or is_text:
            left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    return sum(bool(line) and not line.startswith("#") and number not in left_out for number, line in lines)


def _files_of_the_fullest() -> int:
    folders = Counter(path.parent for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    return max(folders.values())


ROW = Row(
    name="size",
    measures=(
        Measure(name="lines of code of src, without docstrings, comments, imports and blanks", relation="<=",
                target=34_500, wording="≤ 34,500"),
        Measure(name="all lines of src", relation="<=", target=57_000, wording="≤ 57,000"),
        Measure(name="modules of the fullest folder of src, tests and benchmarks", relation="<=", target=15),
        Measure(name="lines of the median module of src", relation=">=", target=150),
    ),
    run=size,
    minutes=0.1,
)  # fmt: skip
